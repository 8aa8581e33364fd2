//! The choices that RFC 9111 leaves to the operator of a cache, and the times of a fetch.

use std::time::Duration;

use larder_words::named;

use crate::coding::Compression;
use crate::early_hints::EarlyHints;
use crate::fields::Fields;
use crate::history::History;
use crate::lifetimes::{IgnoredDirectives, Lifetimes};
use larder_words::with_defaults;

with_defaults! {
    /// The choices that the RFC leaves to the operator.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Rules {
        /// The share of the time since `Last-Modified` for which a response without lifetime is fresh, in percent
        /// (RFC 9111 section 4.2.2).
        pub heuristic_percent: u8 = 10,
        /// The longest such lifetime, in seconds.
        pub heuristic_max: u32 = 86_400,
        /// Whether such a lifetime is adapted to the results of validations of the URL.
        pub heuristic_adaptive: bool = false,
        /// Whether such a lifetime also holds for requests with `Cookie`, whose responses may be for one user.
        pub guesses_with_cookies: bool = true,
        /// The targeted fields in use, lower case, the most important first (RFC 9213 section 2.2).
        pub targeted: Vec<String> = vec!["cdn-cache-control".into()],
        /// The staleness allowed when the origin fails, in seconds, where neither client nor origin gives one
        /// (RFC 9111 section 4.2.4).
        pub stale_if_error: u32 = 3_600,
        /// The time that an origin has for an answer before a stored response is used that may also be used when the origin
        /// fails; `None`: as long as it takes.
        pub stale_if_slow: Option<Duration> = None,
        /// The staleness allowed during revalidation, in seconds, where the origin gives none (RFC 5861 section 3).
        pub stale_while_revalidate: u32 = 0,
        /// The last share of their lifetime, in percent, in which popular responses are refreshed; 0 turns this off.
        pub refresh_ahead: u8 = 0,
        /// The predictions that cause prefetches.
        pub prefetch: Vec<Prediction> = Vec::new(),
        /// The traffic that unused prefetches may cause, as a share of that of clients, in percent.
        pub prefetch_traffic: u8 = 5,
        /// The requests during its lifetime that make a response popular, without the one that fetched it.
        pub refresh_ahead_hits: u32 = 2,
        /// The bytes in each slice of large responses of which clients request ranges; `None`: they are not stored by slices.
        pub slice: Option<u64> = Some(1 << 20),
        /// The clients that get the links of a stored response while the origin is asked.
        pub early_hints: EarlyHints = EarlyHints::default(),
        /// Whether prefetches of clients get only stored responses, and otherwise none.
        pub declines_prefetches: bool = false,
        /// Whether each use is validated, for any lifetime from the origin. So responses without a lifetime, or
        /// without a validator, may be stored as well.
        pub validated: bool = false,
        /// Whether responses without a lifetime and a validator are stored, for requests that accept stale ones, and for failures.
        pub keeps_stale: bool = false,
        /// The `Set-Cookie` fields that are stored.
        pub cookies: Cookies = Cookies::Short,
        /// Whether requests for a newer response than the stored one get the stored one (against RFC 9111 section 5.2.1).
        pub ignores_reloads: bool = false,
        /// Whether responses to POST are stored that declare themselves their target's content, with a lifetime
        /// (RFC 9110 section 9.3.3).
        pub stores_posts: bool = false,
        /// Whether no response is stored.
        pub stores_nothing: bool = false,
        /// The operator's lifetimes, in place of those of origins.
        pub lifetimes: Lifetimes = Lifetimes::default(),
        /// Whether the content is known before it arrives, by its digest: cookies and `Vary` say nothing about it.
        pub is_fixed: bool = false,
        /// Whether responses to requests with credentials are for all clients: who names the content may have it.
        pub shares_authorized: bool = false,
        /// Whether a stored response may answer when the origin refuses the request as one too many (429).
        pub outlasts_limits: bool = false,
        /// Directives of origins that are ignored.
        pub ignored: IgnoredDirectives = IgnoredDirectives::default(),
        /// The responses that are sent to clients in another coding than the origin's.
        pub compression: Compression = Compression::default(),
    }
}

named! {
    /// A prediction of requests, whose responses are prefetched.
    pub enum Prediction, name {
        /// The requests that often followed in the past.
        Association = "association",
        /// The next of numbered URLs or of ranges that a client requests one after the other.
        Sequence = "sequence",
    }
}

named! {
    /// The `Set-Cookie` fields that are stored, and thus sent to all clients. The others are sent only to the
    /// client whose request they answered.
    #[derive(Default)]
    pub enum Cookies, name {
        /// Fields whose values are too short to identify a client, such as `lang=en`, and that remove no cookie.
        #[default]
        Short = "short",
        /// All fields.
        All = "all",
        /// No fields.
        None = "none",
    }
}

/// The longest value of a cookie, in bytes, that cannot identify a client: a flag, or a language.
const SHORT: usize = 2;

impl Cookies {
    /// Whether a `Set-Cookie` field with this value is stored.
    pub(crate) fn keeps(self, field: &[u8]) -> bool {
        let mut parts = field.split(|&byte| byte == b';');
        let pair = parts.next().unwrap_or_default();
        let value = pair.iter().position(|&byte| byte == b'=').map_or(pair, |at| &pair[at + 1..]);
        // A field that removes a cookie would end the session of each client that receives it.
        let has_end = |part: &[u8]| {
            let name = part.split(|&byte| byte == b'=').next().unwrap_or_default().trim_ascii();
            name.eq_ignore_ascii_case(b"expires") || name.eq_ignore_ascii_case(b"max-age")
        };
        match self {
            Self::Short => (1..=SHORT).contains(&value.trim_ascii().len()) && !parts.any(has_end),
            Self::All => true,
            Self::None => false,
        }
    }
}

impl Rules {
    /// Whether no heuristic lifetime may be used for this request.
    pub fn forbids_guess(&self, request: &impl Fields) -> bool {
        !self.guesses_with_cookies && (request.contains("cookie") || request.contains("client-cert"))
    }
}

/// The times at which a response was requested and its head was received, in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// `request_time` (RFC 9111 section 4.2.3).
    pub requested: u32,
    /// The time of the head (`response_time`).
    pub received: u32,
    /// Whether its age is taken only from `Age`, which the sending node counts by one clock; `Date`, which is
    /// of another clock, is not compared with the local clock.
    pub by_age: bool,
    /// The results of validations of its URL.
    pub history: History,
}

#[cfg(test)]
mod tests {
    use super::Cookies;

    #[test]
    fn only_cookies_that_identify_no_client_and_remove_none_are_stored() {
        for (field, is_short) in [
            ("lang=en; Path=/", true),
            ("a=b", true),
            ("b", true),
            ("sid=abc", false),
            ("sid=", false),
            ("", false),
            ("sid=; Path=/; max-age=0", false),
            ("sid=x; Expires=Thu, 01 Jan 1970 00:00:00 GMT", false),
            ("a=b; MAX-AGE =60", false),
        ] {
            assert_eq!(Cookies::Short.keeps(field.as_bytes()), is_short, "{field}");
            assert!(Cookies::All.keeps(field.as_bytes()) && !Cookies::None.keeps(field.as_bytes()));
        }
    }
}
