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

/// Longest formula that is rendered. Editorials are written on the page, and a parser of formulas may take long or fail on hostile text.
const FORMULA: usize = 2000;

fn formula(text: &str, display_mode: DisplayMode) -> CowStr<'static> {
    let rendered = (text.len() <= FORMULA).then(|| std::panic::catch_unwind(|| mathml(text, display_mode)));
    match rendered {
        Some(Ok(Some(rendered))) => rendered.into(),
        // A formula that cannot be rendered is shown as source text.
        _ => format!("<code>{}</code>", ammonia::clean_text(text)).into(),
    }
}

/// Texts of rendered formulas that are replaced.
const ESCAPES: [(&str, &str); 8] = [
    ("\\_", "_"),
    ("\\%", "%"),
    ("\\#", "#"),
    ("\\$", "$"),
    ("\\{", "{"),
    ("\\}", "}"),
    ("\\&amp;", "&amp;"),
    ("\u{b5}", "\u{3bc}"),
];

fn mathml(text: &str, display_mode: DisplayMode) -> Option<String> {
    let storage = Storage::new();
    let events: Result<Vec<_>, _> = Formulas::new(text, &storage).collect();
    let mut rendered = String::new();
    let config = RenderConfig { display_mode, ..RenderConfig::default() };
    let events = events.ok()?.into_iter().map(Ok::<_, std::convert::Infallible>);
    push_mathml(&mut rendered, events, config).ok()?;
    // The renderer copies text as it is, with the backslashes of escaped characters; and writes the micro sign, which has no italic form,
    // for the letter mu.
    for (written, shown) in ESCAPES {
        rendered = rendered.replace(written, shown);
    }
    Some(rendered)
}

fn sanitise(rendered: &str) -> String {
    let mut cleaner = ammonia::Builder::default();
    cleaner.add_tags(MATHML.iter().copied().collect::<HashSet<_>>());
    for tag in MATHML {
        cleaner.add_tag_attributes(tag, ATTRIBUTES.iter().copied());
    }
    cleaner.add_tag_attributes("code", ["class"]);
    // The policy of the pages would refuse images of other hosts, and there are no others.
    cleaner.rm_tags(["img"]);
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
    fn a_long_formula_is_shown_as_written() {
        let text = format!("{}x", "x+".repeat(FORMULA / 2));
        assert!(html(&format!("${text}$")).starts_with("<p><code>x"));
        assert!(html(&format!("${}$", &text[2..])).starts_with("<p><math"));
    }

    #[test]
    fn escaped_characters_in_the_text_of_a_formula_lose_their_backslash() {
        let page = html("$\\text{min\\_weight} = 5\\%$");
        assert!(page.contains("min_weight") && !page.contains('\\'), "{page}");
    }

    /// Returns the text of the formulas of all statements, with their problems.
    fn formulas() -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        for problem in board_problems::all() {
            let page = html(&problem.statement);
            for math in page.split("<math").skip(1) {
                let math = math.split("</math>").next().unwrap_or_default();
                let text = math.split('>').skip(1).map(|part| part.split('<').next().unwrap_or_default());
                found.push((problem.slug.as_str(), text.collect()));
            }
        }
        found
    }

    #[test]
    fn statements_show_no_backslashes() {
        for problem in board_problems::all() {
            let page = html(&problem.statement);
            assert!(!page.contains('\\'), "{}: {page}", problem.slug);
        }
    }

    #[test]
    fn the_math_font_of_the_pages_has_every_character_of_the_formulas() {
        let font = include_str!("../../ui/build/math.txt");
        for (slug, text) in formulas() {
            let text =
                text.replace("&amp;", "&").replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", " ");
            // Browsers draw invisible operators without a glyph.
            let missing: String = text
                .chars()
                .filter(|letter| !font.contains(*letter) && !('\u{2061}'..='\u{2064}').contains(letter))
                .collect();
            assert!(missing.is_empty(), "{slug}: {missing:?} are not in board/ui/build/math.txt");
        }
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
