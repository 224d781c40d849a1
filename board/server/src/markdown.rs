//! Renders comments from Markdown to sanitised HTML.
//!
//! Anyone may write a comment, so much less is allowed than in a statement: no HTML, no images, which could track readers, no headings,
//! which would break the outline of the page, and no formulas, whose parser is not made for hostile text.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use ammonia::{Builder, UrlRelative};
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd, html};

const TAGS: [&str; 18] = [
    "a",
    "blockquote",
    "br",
    "code",
    "del",
    "em",
    "hr",
    "li",
    "ol",
    "p",
    "pre",
    "strong",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
];

static CLEANER: LazyLock<Builder<'static>> = LazyLock::new(|| {
    let mut cleaner = Builder::empty();
    cleaner
        .tags(HashSet::from(TAGS))
        .generic_attributes(HashSet::new())
        .tag_attributes(HashMap::from([("a", HashSet::from(["href"]))]))
        .url_schemes(HashSet::from(["http", "https", "mailto"]))
        // A relative link could name any page of the board; a full address shows where it leads.
        .url_relative(UrlRelative::Deny)
        .link_rel(Some("noopener noreferrer nofollow ugc"));
    cleaner
});

/// Renders a comment.
pub fn comment(markdown: &str) -> String {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
    let events = Parser::new_ext(markdown, options).flat_map(|event| match event {
        Event::Html(text) | Event::InlineHtml(text) => vec![Event::Text(text)],
        Event::Start(Tag::HtmlBlock) => vec![Event::Start(Tag::Paragraph)],
        Event::End(TagEnd::HtmlBlock) => vec![Event::End(TagEnd::Paragraph)],
        Event::Start(Tag::Heading { .. }) => vec![Event::Start(Tag::Paragraph), Event::Start(Tag::Strong)],
        Event::End(TagEnd::Heading(_)) => vec![Event::End(TagEnd::Strong), Event::End(TagEnd::Paragraph)],
        // An image becomes a link to it.
        Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
            vec![Event::Start(Tag::Link { link_type, dest_url, title, id })]
        }
        Event::End(TagEnd::Image) => vec![Event::End(TagEnd::Link)],
        other => vec![other],
    });
    let mut rendered = String::new();
    html::push_html(&mut rendered, events);
    CLEANER.clean(&rendered).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_is_shown_as_text() {
        for text in [
            "<script>alert(1)</script>",
            "<img src=x onerror=alert(1)>",
            "<div\nonclick=alert(1)>x</div>",
            "a <b onmouseover=alert(1)>b</b>",
            "<!-- --!><img src=x onerror=alert(1)> -->",
            "<?php ?><svg/onload=alert(1)>",
            "<![CDATA[<svg onload=alert(1)>]]>",
            "<math><mtext><style><img src=x onerror=alert(1)></style></mtext></math>",
            "</p></div><iframe srcdoc='<script>alert(1)</script>'>",
        ] {
            let page = comment(text);
            let tags: Vec<&str> = page.split('<').skip(1).map(name).collect();
            assert!(tags.iter().all(|tag| TAGS.contains(tag)), "{text}: {page}");
            assert!(page.contains("&lt;"), "{text}: {page}");
        }
    }

    /// Returns the name of a tag that starts after `<`.
    fn name(rest: &str) -> &str {
        rest.trim_start_matches('/')
            .split(|letter: char| !letter.is_ascii_alphanumeric())
            .next()
            .unwrap_or_default()
    }

    #[test]
    fn links_lead_to_web_addresses_only() {
        for text in [
            "[x](javascript:alert(1))",
            "[x](JaVaScRiPt:alert(1))",
            "[x](java&#x09;script:alert(1))",
            "[x](data:text/html;base64,PHNjcmlwdD4=)",
            "[x](vbscript:x)",
            "[x](/api/me)",
            "[x](//example.com)",
            "[x][1]\n\n[1]: javascript:alert(1)",
            "<javascript:alert(1)>",
            "![x](javascript:alert(1))",
        ] {
            let page = comment(text);
            assert!(!page.contains("href"), "{text}: {page}");
        }
        let page = comment("[x](https://example.com/a?b=1&c=2 \"title\")");
        assert_eq!(
            page,
            "<p><a href=\"https://example.com/a?b=1&amp;c=2\" rel=\"noopener noreferrer nofollow ugc\">x</a></p>\n"
        );
    }

    #[test]
    fn attributes_and_images_do_not_survive() {
        let page = comment(
            "```cpp\" onclick=\"alert(1)\nint x;\n```\n\n![a](https://example.com/a.png)\n\n# Title {#app .bar}\n",
        );
        assert!(!page.contains("<img") && !page.contains("onclick=\"") && !page.contains("class"), "{page}");
        assert!(page.contains("href=\"https://example.com/a.png\""), "{page}");
        assert!(page.contains("<strong>Title") && !page.contains("<h1"), "{page}");
    }

    #[test]
    fn code_lists_and_tables_are_rendered() {
        let page = comment("* `a < b`\n\n```\nx\n```\n\n| a |\n|--:|\n| 1 |\n\n~~no~~ **yes**");
        for part in
            ["<li>", "<code>a &lt; b</code>", "<pre>", "<td>1</td>", "<del>no</del>", "<strong>yes</strong>"]
        {
            assert!(page.contains(part), "{part} in {page}");
        }
    }

    #[test]
    fn a_hostile_text_of_the_largest_size_is_rendered_in_bounded_time_and_space() {
        for pattern in [">", "[", "*a_", "`", "- ", "![", "<", "|", "&#x0;", "\\", "[a](", "**"] {
            let text = pattern.repeat(8192 / pattern.len());
            let start = std::time::Instant::now();
            let page = comment(&text);
            assert!(start.elapsed().as_secs_f64() < 10.0, "{pattern}: {:?}", start.elapsed());
            assert!(page.len() < 2_000_000, "{pattern}: {}", page.len());
        }
    }
}
