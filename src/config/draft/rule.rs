//! A rule as it was written.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use http::{HeaderName, HeaderValue, StatusCode};
use larder_proxy::settings::{Conditions, Effects, Networks, Pattern, Template};

/// A rule as it was written.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleDraft {
    /// Where it begins, as an error says it.
    pub(crate) place: String,
    /// Something in it could not be read.
    pub(crate) is_unread: bool,
    pub(crate) name: Option<String>,
    pub(crate) conditions: Conditions,
    pub(crate) stop: bool,
    /// All but the keys below.
    pub(crate) effects: Effects,
    pub(crate) ttl_by_status: Vec<(RangeInclusive<u16>, u32)>,
    pub(crate) redirect: Option<(Template, StatusCode)>,
    pub(crate) respond: Option<Respond>,
    pub(crate) error_pages: Vec<(RangeInclusive<u16>, PathBuf)>,
    pub(crate) classes: Vec<Class>,
    pub(crate) cors: Option<Cors>,
    pub(crate) security_headers: bool,
}

/// A request field that says to which class of clients a request belongs.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub(crate) name: HeaderName,
    /// Its values, each with the requests that get it.
    pub(crate) values: Vec<(HeaderValue, Members)>,
    /// The value for all others.
    pub(crate) otherwise: Option<HeaderValue>,
}

/// Requests of a class.
#[derive(Clone, Debug)]
pub(crate) enum Members {
    /// Those of clients in these networks.
    Clients(Networks),
    /// Those with one of these values of a field.
    Values { of: Box<str>, patterns: Vec<Pattern> },
}

/// Which pages of other origins may read responses (Fetch standard, "CORS protocol").
#[derive(Clone, Debug)]
pub(crate) struct Cors {
    /// The origins of these pages; `*` stands for all.
    pub(crate) origins: Vec<String>,
    /// Methods and request fields that they may use.
    pub(crate) methods: Vec<String>,
    pub(crate) fields: Vec<String>,
    /// Response fields that they may read.
    pub(crate) expose: Vec<String>,
    /// They may send cookies.
    pub(crate) credentials: bool,
    /// How long browsers remember the answer to a preflight request, in seconds.
    pub(crate) max_age: u32,
}

/// An answer with content.
#[derive(Clone, Debug)]
pub(crate) struct Respond {
    pub(crate) status: StatusCode,
    pub(crate) content_type: Option<HeaderValue>,
    pub(crate) content: Content,
}

/// Where the content of an answer is.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// The status in words.
    Status,
    Text(String),
    File(PathBuf),
}
