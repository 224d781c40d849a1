//! Editorial and discussion of a problem.

use serde::{Deserialize, Serialize};

/// A comment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Comment {
    /// Id of the comment.
    pub id: String,
    /// Name of the author.
    pub user: String,
    /// Milliseconds since the Unix epoch.
    pub created_at: i64,
    /// Sanitised HTML, rendered from Markdown.
    pub html: String,
    /// Whether the caller may remove it.
    pub removable: bool,
}

/// A page of a problem's discussion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Discussion {
    /// Comments, newest first.
    pub comments: Vec<Comment>,
    /// Number of comments on the problem.
    pub total: i64,
    /// Value of `before` for the next page.
    #[schema(required)]
    pub next: Option<String>,
    /// Most bytes of a comment.
    pub limit_bytes: usize,
}

/// A text in Markdown: a comment or an editorial.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
pub struct MarkdownBody {
    /// The text. Raw HTML is shown as text.
    pub markdown: String,
}

/// Editorial of a problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Editorial {
    /// Sanitised HTML; formulas are MathML. Empty if there is no editorial.
    pub html: String,
    /// The text in Markdown, for the editor; null for callers who may not edit it.
    #[schema(required)]
    pub markdown: Option<String>,
    /// Name of the last author; null if there is no editorial.
    #[schema(required)]
    pub user: Option<String>,
    /// Milliseconds since the Unix epoch.
    #[schema(required)]
    pub updated_at: Option<i64>,
    /// Whether the caller may edit it.
    pub editable: bool,
}
