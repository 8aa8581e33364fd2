//! Pages that are buffered whole before they are sent.

use bytes::Bytes;
use larder_rpc::Failure;

use super::failure;
use crate::net::byte_budget::Share;

/// Maximum of bytes of buffered pages in the whole process.
pub(super) const MOST: usize = 256 << 20;

/// A whole page, and its share of the budget.
pub(super) struct WholePage {
    pub(super) bytes: Bytes,
    pub(super) share: Share,
}

/// The reason why a page cannot be buffered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// The page has more than this number of bytes.
    TooLong(u64),
    /// The budget is exhausted.
    Crowded,
    /// The origin's response is incomplete or malformed.
    Broken(String),
}

impl Obstacle {
    pub(super) fn failure(self, url: &str) -> Failure {
        match self {
            Self::TooLong(most) => failure(url, 502, format!("the page has more than {most} bytes")),
            Self::Crowded => failure(url, 503, "too many pages are being assembled; try again"),
            Self::Broken(why) => failure(url, 502, why),
        }
    }
}
