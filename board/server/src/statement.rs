//! Renders problem statements from Markdown to sanitised HTML, with formulas as MathML.

use std::collections::HashSet;

use pulldown_cmark::{CowStr, Event, Options, Parser, html};
use pulldown_latex::config::{DisplayMode, RenderConfig};
use pulldown_latex::{Parser as Formulas, Storage, push_mathml};

/// Allowed MathML elements; the sanitiser's defaults cover HTML only.
const MATHML: &[&str] = &[
    "math",
    "mrow",
    "mi",
    "mn",
    "mo",
    "ms",
    "mtext",
    "mspace",
    "msup",
    "msub",
    "msubsup",
    "mfrac",
    "msqrt",
    "mroot",
    "munder",
    "mover",
    "munderover",
    "mtable",
    "mtr",
    "mtd",
    "mpadded",
    "mphantom",
    "mstyle",
    "menclose",
    "merror",
    "mmultiscripts",
    "mprescripts",
    "none",
    "semantics",
    "annotation",
];
const ATTRIBUTES: &[&str] = &[
    "display",
    "xmlns",
    "mathvariant",
    "stretchy",
    "fence",
    "form",
    "lspace",
    "rspace",
    "minsize",
    "maxsize",
    "symmetric",
    "width",
    "height",
    "depth",
    "accent",
    "accentunder",
    "linethickness",
    "columnalign",
    "rowspacing",
    "columnspacing",
    "displaystyle",
    "scriptlevel",
    "separator",
    "largeop",
    "movablelimits",
    "voffset",
    "notation",
    "encoding",
];

/// Renders a statement.
pub fn html(markdown: &str) -> String {
    let options = Options::ENABLE_MATH | Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let events = Parser::new_ext(markdown, options).map(|event| match event {
        Event::InlineMath(text) => Event::InlineHtml(formula(&text, DisplayMode::Inline)),
        Event::DisplayMath(text) => Event::Html(formula(&text, DisplayMode::Block)),
        other => other,
    });
    let mut rendered = String::new();
    html::push_html(&mut rendered, events);
    sanitise(&rendered)
}

fn formula(text: &str, display_mode: DisplayMode) -> CowStr<'static> {
    let storage = Storage::new();
    let events: Result<Vec<_>, _> = Formulas::new(text, &storage).collect();
    let mut rendered = String::new();
    let config = RenderConfig { display_mode, ..RenderConfig::default() };
    let done = events.is_ok_and(|events| {
        let events = events.into_iter().map(Ok::<_, std::convert::Infallible>);
        push_mathml(&mut rendered, events, config).is_ok()
    });
    if !done {
        // A formula that cannot be rendered is shown as source text.
        rendered = format!("<code>{}</code>", ammonia::clean_text(text));
    }
    rendered.into()
}

fn sanitise(rendered: &str) -> String {
    let mut cleaner = ammonia::Builder::default();
    cleaner.add_tags(MATHML.iter().copied().collect::<HashSet<_>>());
    for tag in MATHML {
        cleaner.add_tag_attributes(tag, ATTRIBUTES.iter().copied());
    }
    cleaner.add_tag_attributes("code", ["class"]);
    cleaner.clean(rendered).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_become_mathml() {
        let page = html("The sum $\\sum_{i=0}^{n} x_i^2$ and\n\n$$\\frac{a}{b} \\ge \\sqrt{c}$$\n");
        assert!(page.contains("<math"), "{page}");
        for tag in ["<mfrac>", "<msqrt>", "<msubsup>", "display=\"block\""] {
            assert!(page.contains(tag), "{tag} in {page}");
        }
        assert!(!page.contains('$'), "{page}");
    }

    #[test]
    fn a_formula_that_is_none_is_shown_as_written() {
        let page = html("$\\frac{a$ and text");
        assert!(page.contains("text"), "{page}");
        assert!(!page.contains("merror"), "{page}");
    }

    #[test]
    fn nothing_in_a_statement_can_run() {
        for text in [
            "<script>alert(1)</script>hello",
            "<img src=x onerror=alert(1)>hello",
            "[hello](javascript:alert(1))",
            "$\\text{<script>alert(1)</script>}$ hello",
            "<math><mtext><style><img src=x onerror=alert(1)></style></mtext></math>hello",
            "<iframe src=//example.com></iframe>hello",
        ] {
            let page = html(text);
            assert!(page.contains("hello"), "{page}");
            for bad in ["<script", "onerror", "javascript:", "<iframe", "<style"] {
                assert!(!page.contains(bad), "{bad} in {page}");
            }
        }
    }

    #[test]
    fn code_and_tables_survive() {
        let page = html("| a | b |\n|---|---|\n| 1 | 2 |\n\n```cpp\nint x < 3;\n```\n");
        assert!(page.contains("<table>") && page.contains("<td>1</td>"), "{page}");
        assert!(page.contains("int x &lt; 3;"), "{page}");
    }
}
