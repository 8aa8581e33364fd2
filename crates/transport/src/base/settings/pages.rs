//! Pages that replace the content of error responses.

use std::ops::RangeInclusive;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};

use super::rule::Value;

/// A page for errors with some status codes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// The status codes, within 400 to 599.
    pub statuses: RangeInclusive<u16>,
    /// The status of the reply in place of the error's.
    pub status: Option<StatusCode>,
    /// The media type and the content of the page; `None`: the error keeps its own.
    pub content: Option<(HeaderValue, Bytes)>,
}

/// Pages by status, the preferred one first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pages(Vec<Page>);

impl Pages {
    /// Creates the list. A page for fewer status codes is preferred.
    pub fn new(mut pages: Vec<Page>) -> Self {
        pages.sort_by_key(|page| page.statuses.clone().count());
        Self(pages)
    }

    /// Whether there are no pages.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the page for this status.
    pub fn of(&self, status: StatusCode) -> Option<&Page> {
        self.0.iter().find(|page| page.statuses.contains(&status.as_u16()))
    }
}

impl Value for Pages {
    /// Adds the pages of a later rule, which are preferred to these.
    fn add(&mut self, later: &Self) {
        self.0.splice(..0, later.0.iter().cloned());
    }
}

/// Fields that describe the content that a page replaces.
const ABOUT_CONTENT: [header::HeaderName; 8] = [
    header::CONTENT_TYPE,
    header::CONTENT_LENGTH,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_LOCATION,
    header::CONTENT_RANGE,
    header::CONTENT_DISPOSITION,
    header::ACCEPT_RANGES,
];

impl Page {
    /// Replaces the fields that describe the content with those of a page of this media type.
    pub fn describe(content_type: &HeaderValue, fields: &mut HeaderMap) {
        for name in ABOUT_CONTENT.iter().chain(&[header::ETAG, header::LAST_MODIFIED]) {
            fields.remove(name);
        }
        for digest in ["content-digest", "repr-digest", "digest", "content-md5"] {
            fields.remove(digest);
        }
        fields.insert(header::CONTENT_TYPE, content_type.clone());
    }
}
