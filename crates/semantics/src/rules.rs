//! The choices that RFC 9111 leaves to the operator of a cache, and the times of a fetch.

use crate::coding::Compression;
use crate::early_hints::EarlyHints;
use crate::fields::Fields;
use crate::history::History;
use crate::lifetimes::{Ignored, Lifetimes};

/// The choices that the RFC leaves to the operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Share of the time since `Last-Modified` that a response without lifetime is fresh for, in
    /// percent (RFC 9111 section 4.2.2).
    pub heuristic_percent: u8,
    /// The longest such lifetime, in seconds.
    pub heuristic_max: u32,
    /// Such a lifetime is adapted to what validations of the URL have shown.
    pub heuristic_adaptive: bool,
    /// Such a lifetime also holds for requests with `Cookie`, whose answers may be for one user.
    pub guesses_with_cookies: bool,
    /// The targeted fields obeyed, lower case, the most important first (RFC 9213 section 2.2).
    pub targeted: Vec<String>,
    /// How stale a response may be when the origin fails and nobody says otherwise, in seconds
    /// (RFC 9111 section 4.2.4).
    pub stale_if_error: u32,
    /// How stale a response may be while it is revalidated, where the origin does not say, in
    /// seconds (RFC 5861 section 3).
    pub stale_while_revalidate: u32,
    /// Share of their lifetime, in percent, before the end of which popular responses are refreshed; 0: they are not.
    pub refresh_ahead: u8,
    /// What is prefetched.
    pub prefetch: Vec<Prediction>,
    /// Share of the traffic of clients, in percent, that prefetches without use may have.
    pub prefetch_traffic: u8,
    /// Requests in its lifetime that make a response popular, besides the one that fetched it.
    pub refresh_ahead_hits: u32,
    /// Which clients are sent the links of a stored response while the origin is asked.
    pub early_hints: EarlyHints,
    /// Prefetches of clients are answered from what is stored, or not at all.
    pub declines_prefetches: bool,
    /// Each use is validated, whatever the origin says of lifetimes. So what comes without any, or without a
    /// validator, may be stored as well.
    pub validated: bool,
    /// Which `Set-Cookie` fields are stored.
    pub cookies: Cookies,
    /// Requests that want a newer response than the stored one get the stored one (against RFC 9111 section 5.2.1).
    pub ignores_reloads: bool,
    /// Answers to POST that say they are their target's content, and for how long, are stored (RFC 9110 section 9.3.3).
    pub stores_posts: bool,
    /// Nothing is stored.
    pub stores_nothing: bool,
    /// Lifetimes in place of those of origins.
    pub lifetimes: Lifetimes,
    /// Directives of origins without effect.
    pub ignored: Ignored,
    /// What is sent to clients in another coding than the origin's.
    pub compression: Compression,
}

/// What is prefetched: responses that have not been asked for yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prediction {
    /// What clients often asked for next.
    Association,
    /// The next of numbered URLs or of ranges that a client asks for one after the other.
    Sequence,
}

/// Which `Set-Cookie` fields are stored, and thus sent to all clients. The others go to the client only whose request
/// was answered with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Cookies {
    /// Those whose values are too short to tell one client from another, such as `lang=en`, and that remove no cookie.
    #[default]
    Short,
    /// All.
    All,
    /// None.
    None,
}

/// Bytes of a cookie's value that cannot tell one client from another: a flag, or a language.
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

impl Default for Rules {
    fn default() -> Self {
        Self {
            heuristic_percent: 10,
            heuristic_max: 86_400,
            heuristic_adaptive: false,
            guesses_with_cookies: true,
            targeted: vec!["cdn-cache-control".into()],
            stale_if_error: 3_600,
            stale_while_revalidate: 0,
            refresh_ahead: 0,
            prefetch: Vec::new(),
            prefetch_traffic: 5,
            refresh_ahead_hits: 2,
            early_hints: EarlyHints::default(),
            declines_prefetches: false,
            validated: false,
            cookies: Cookies::Short,
            ignores_reloads: false,
            stores_posts: true,
            stores_nothing: false,
            lifetimes: Lifetimes::default(),
            ignored: Ignored::default(),
            compression: Compression::default(),
        }
    }
}

impl Rules {
    /// Whether no lifetime may be guessed for this request.
    pub fn forbids_guess(&self, request: &impl Fields) -> bool {
        !self.guesses_with_cookies && (request.contains("cookie") || request.contains("client-cert"))
    }
}

/// When a response was asked for and when its head was received, in seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// `request_time` (RFC 9111 section 4.2.3).
    pub requested: u32,
    /// `response_time`.
    pub received: u32,
    /// Its age is taken from `Age`, which the sending node counts by one clock; `Date`, which is of another clock, is
    /// not compared with this one.
    pub by_age: bool,
    /// What validations of its URL have shown.
    pub history: History,
}

#[cfg(test)]
mod tests {
    use super::Cookies;

    #[test]
    fn only_cookies_that_tell_no_client_from_others_and_remove_none_are_stored() {
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
