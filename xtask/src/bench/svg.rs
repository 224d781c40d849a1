//! SVG drawing: the few shapes that plots need.

use std::fmt::Write;

/// The text anchor.
#[derive(Debug, Clone, Copy)]
pub enum Anchor {
    Start,
    Middle,
    End,
}

impl Anchor {
    fn name(self) -> &'static str {
        match self {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        }
    }
}

/// An SVG drawing under construction. Coordinates start at the upper left.
#[derive(Debug)]
pub struct Svg {
    width: f64,
    height: f64,
    body: String,
}

pub const INK: &str = "#1f2328";
pub const FAINT: &str = "#d0d7de";
pub const GREY: &str = "#8c959f";

impl Svg {
    pub fn new(width: f64, height: f64) -> Svg {
        Svg { width, height, body: String::new() }
    }

    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), colour: &str, dashed: bool) {
        let dashes = if dashed { " stroke-dasharray=\"5 4\"" } else { "" };
        let _ = writeln!(
            self.body,
            "<line x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\" stroke=\"{colour}\"{dashes}/>",
            from.0, from.1, to.0, to.1
        );
    }

    pub fn curve(&mut self, points: &[(f64, f64)], colour: &str, dashed: bool) {
        let dashes = if dashed { " stroke-dasharray=\"6 4\"" } else { "" };
        let list: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            self.body,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"{dashes}/>",
            list.join(" ")
        );
        for (x, y) in points {
            let _ = writeln!(self.body, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"{colour}\"/>");
        }
    }

    pub fn bar(&mut self, (x, y): (f64, f64), width: f64, height: f64, colour: &str) {
        let _ = writeln!(
            self.body,
            "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>",
            width.max(0.0)
        );
    }

    pub fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, size: u32, colour: &str, text: &str) {
        let _ = writeln!(
            self.body,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{}\" font-size=\"{size}\" fill=\"{colour}\">{}</text>",
            anchor.name(),
            escape(text)
        );
    }

    /// Finishes the drawing, on a white background so that it is readable on any page.
    pub fn finish(self) -> String {
        let (width, height) = (self.width, self.height);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
             height=\"{height}\" font-family=\"sans-serif\">\n<rect width=\"{width}\" height=\"{height}\" \
             fill=\"white\"/>\n{}</svg>\n",
            self.body
        )
    }
}

/// Replaces the characters that have a meaning in XML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_break_out_of_the_drawing() {
        let mut svg = Svg::new(10.0, 10.0);
        svg.text((1.0, 2.0), Anchor::Start, 12, INK, "k<<<1>>>() & more");
        let text = svg.finish();
        assert!(text.contains("k&lt;&lt;&lt;1&gt;&gt;&gt;() &amp; more"), "{text}");
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
    }
}
