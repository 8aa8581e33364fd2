//! A rule, as written.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;

use http::{HeaderName, HeaderValue, StatusCode};
use larder_proxy::settings::{Conditions, Effects, Networks, Pattern, Split, Template};

/// A rule, as written.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleDraft {
    /// The place where its table begins, as errors name it.
    pub(crate) place: String,
    /// The table as TOML.
    pub(crate) text: String,
    /// Whether a part of it could not be read.
    pub(crate) is_unread: bool,
    pub(crate) name: Option<String>,
    pub(crate) conditions: Conditions,
    pub(crate) stop: bool,
    /// All effects except those of the keys below.
    pub(crate) effects: Effects,
    pub(crate) ttl_by_status: Vec<(RangeInclusive<u16>, u32)>,
    pub(crate) redirect: Option<(Template, StatusCode)>,
    pub(crate) respond: Option<Respond>,
    pub(crate) error_pages: Vec<ErrorPage>,
    pub(crate) classes: Vec<Class>,
    pub(crate) split: Option<Division>,
    pub(crate) cors: Option<Cors>,
    pub(crate) security_headers: bool,
    pub(crate) tags: Vec<HeaderValue>,
}

impl RuleDraft {
    /// Whether it answers all requests itself.
    pub(crate) fn answers_everything(&self) -> bool {
        self.conditions == Conditions::default() && self.answers()
    }

    /// Whether it answers its requests itself.
    pub(crate) fn answers(&self) -> bool {
        self.redirect.is_some() || self.respond.is_some()
    }

    /// Returns the first of `rules` that answers everything, or that ends the rules of a request which needs an origin.
    pub(crate) fn decisive(rules: &[Self]) -> Option<&Self> {
        let needs_origin = |rule: &Self| rule.stop && !rule.answers() && rule.effects.origin.is_none();
        rules.iter().find(|rule| rule.answers_everything() || needs_origin(rule))
    }
}

/// A page for errors with these statuses.
#[derive(Clone, Debug)]
pub(crate) struct ErrorPage {
    pub(crate) statuses: RangeInclusive<u16>,
    /// `None`: the content stays.
    pub(crate) file: Option<PathBuf>,
    /// The status of the reply in place of the error's.
    pub(crate) status: Option<StatusCode>,
}

/// A request field with the class of clients to which a request belongs.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    pub(crate) name: HeaderName,
    /// The field's values, each with the requests that get it.
    pub(crate) values: Vec<(HeaderValue, Members)>,
    /// The field's value for all other requests.
    pub(crate) otherwise: Option<HeaderValue>,
}

/// A request field with the bucket of the client.
#[derive(Clone, Debug)]
pub(crate) struct Division {
    pub(crate) field: HeaderName,
    pub(crate) split: Arc<Split>,
    /// How long clients keep the cookie, in seconds.
    pub(crate) ttl: u32,
}

/// The requests of a class.
#[derive(Clone, Debug)]
pub(crate) enum Members {
    /// Requests of clients in these networks.
    Clients(Networks),
    /// Requests with one of these values of a field.
    Values { of: Box<str>, patterns: Vec<Pattern> },
}

/// The pages of other origins that may read responses (Fetch standard, "CORS protocol").
#[derive(Clone, Debug)]
pub(crate) struct Cors {
    /// The origins of these pages; `*` stands for all.
    pub(crate) origins: Vec<String>,
    /// Methods and request fields that they may use.
    pub(crate) methods: Vec<String>,
    pub(crate) fields: Vec<String>,
    /// Response fields that they may read.
    pub(crate) expose: Vec<String>,
    /// Whether they may send cookies.
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

/// The content of an answer.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// The text of the status.
    Status,
    Text(String),
    File(PathBuf),
}
