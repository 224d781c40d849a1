//! Links that show a submission to everyone who has them.

use serde::{Deserialize, Serialize};

/// A request to create or revoke the share link of a submission.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
pub struct ShareBody {
    /// Whether the submission has a share link. A link that was revoked never works again: the next one is different.
    pub shared: bool,
}

/// Share link of a submission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Share {
    /// The secret of the link, for the pages `/s/{token}` and `/embed/result/{token}`; null if there is no link.
    #[schema(required)]
    pub token: Option<String>,
}
