//! Why: the reasons of every cache decision, and the `Cache-Status` field (RFC 9211) they go into.
//!
//! One table feeds `Cache-Status`, logs, metrics and explanations. A reason is made where the
//! decision is; nothing is decided here.

use crate::wire::put_decimal;

macro_rules! reasons {
    ($($name:ident $token:literal $section:literal $explanation:literal;)+) => {
        /// Why a request or response was treated as it was.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Why {
            $(#[doc = concat!($explanation, " (", $section, ")")] $name,)+
        }

        impl Why {
            /// Every reason, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// A lower-case kebab token.
            pub fn token(self) -> &'static str {
                match self { $(Self::$name => $token,)+ }
            }

            /// Where the rule stands.
            pub fn section(self) -> &'static str {
                match self { $(Self::$name => $section,)+ }
            }

            /// One line for people.
            pub fn explanation(self) -> &'static str {
                match self { $(Self::$name => $explanation,)+ }
            }
        }
    };
}

reasons! {
    // Answered from the cache.
    Fresh "fresh" "RFC 9111 4.2" "a stored response is fresh";
    StaleWhileRevalidate "stale-while-revalidate" "RFC 5861 3" "a stale response is used while another is fetched";
    MaxStale "max-stale" "RFC 9111 5.2.1.2" "the client accepts a response this stale";
    StaleIfError "stale-if-error" "RFC 5861 4" "the origin failed and a stale response may stand in";
    Validated "validated" "RFC 9111 4.3.3" "the origin says that the stored response is still good";
    Collapsed "collapsed" "RFC 9111 4" "the answer to another client's request, under way, serves this one";

    // Sent to the origin.
    Absent "absent" "RFC 9111 2" "nothing is stored under this URI";
    VariantAbsent "variant-absent" "RFC 9111 4.1" "no stored variant was selected by these request fields";
    RangeAbsent "range-absent" "RFC 9111 3.3" "the stored part does not hold the range asked for";
    Expired "expired" "RFC 9111 4.2" "the stored response is past its lifetime";
    ResponseNoCache "response-no-cache" "RFC 9111 5.2.2.4" "the origin wants each use validated";
    RequestNoCache "request-no-cache" "RFC 9111 5.2.1.4" "the client wants the stored response validated";
    RequestMaxAge "request-max-age" "RFC 9111 5.2.1.1" "the client wants a younger response";
    RequestMinFresh "request-min-fresh" "RFC 9111 5.2.1.3" "the client wants a response that stays fresh longer";
    NotSelected "not-selected" "RFC 9111 4.3.4" "the 304 is about another response than the stored one";
    Method "method" "RFC 9111 2" "the method is not answered from a cache";
    Bypass "bypass" "configuration" "the configuration keeps this request from the cache";
    KnownUncacheable "known-uncacheable" "configuration" "a recent answer to this request could not be stored";

    // Not stored.
    MethodNotStorable "method-not-storable" "RFC 9111 3" "responses to this method are not stored";
    StatusNotStorable "status-not-storable" "RFC 9111 3" "the status answers this request only";
    NotUnderstood "not-understood" "RFC 9111 5.2.2.3" "must-understand, and the status code is unknown";
    RequestNoStore "request-no-store" "RFC 9111 5.2.1.5" "the client asked to store nothing";
    ResponseNoStore "response-no-store" "RFC 9111 5.2.2.5" "the origin asked to store nothing";
    Private "private" "RFC 9111 5.2.2.7" "the response is for one user";
    Authorization "authorization" "RFC 9111 3.5" "the request has credentials and the response does not allow sharing";
    SetCookie "set-cookie" "RFC 6265 4.1" "the response sets a cookie and has no lifetime of its own";
    VaryAny "vary-any" "RFC 9111 4.1" "the response varies by something other than request fields";
    NoFreshness "no-freshness" "RFC 9111 3" "neither a lifetime nor a validator comes with the response";
    NeverFresh "never-fresh" "RFC 9111 4.2" "without lifetime left, validator or stale allowance it could never be used";
    ContentLocation "content-location" "RFC 9110 9.3.3" "the answer to POST does not represent its target";
    BadContentRange "bad-content-range" "RFC 9110 14.4" "the partial response does not say which part it is";
    TooLarge "too-large" "configuration" "the response is larger than may be stored";
    Truncated "truncated" "RFC 9111 3.3" "the response ended early";
    Purged "purged" "RFC 9111 4.4" "it was removed while it arrived";

    // No answer to pass on.
    OnlyIfCached "only-if-cached" "RFC 9111 5.2.1.7" "the client takes stored responses only and none will do";
    OriginUnreachable "origin-unreachable" "RFC 9110 15.6.3" "no connection to the origin";
    OriginTimeout "origin-timeout" "RFC 9110 15.6.5" "the origin did not answer in time";
    OriginMalformed "origin-malformed" "RFC 9110 15.6.3" "the origin's answer is not HTTP";
    OriginForbidden "origin-forbidden" "configuration" "the origin's address is not allowed";
    Refused "refused" "RFC 9112" "the request is malformed, or more than is accepted";
    Overloaded "overloaded" "configuration" "too many requests wait for origins";
}

/// Why a request went to the origin, in the words of RFC 9211 section 2.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forward {
    /// The cache was told not to handle it.
    Bypass,
    /// The method requires it.
    Method,
    /// Nothing stored under the URI.
    UriMiss,
    /// Nothing stored for these request fields.
    VaryMiss,
    /// Nothing stored, without saying which of the two.
    Miss,
    /// What is stored is fresh, but the request asked for more.
    Request,
    /// What is stored is stale.
    Stale,
    /// What is stored is a part, and not the right one.
    Partial,
}

impl Forward {
    /// The word in the field.
    pub fn token(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Miss => "miss",
            Self::Request => "request",
            Self::Stale => "stale",
            Self::Partial => "partial",
        }
    }
}

impl Why {
    /// The word of RFC 9211 for a reason to go to the origin; `None` for other reasons.
    pub fn forward(self) -> Option<Forward> {
        Some(match self {
            Self::Absent => Forward::UriMiss,
            Self::VariantAbsent => Forward::VaryMiss,
            Self::RangeAbsent => Forward::Partial,
            Self::Expired | Self::ResponseNoCache | Self::NotSelected => Forward::Stale,
            Self::RequestNoCache | Self::RequestMaxAge | Self::RequestMinFresh => Forward::Request,
            Self::Method => Forward::Method,
            Self::Bypass | Self::KnownUncacheable => Forward::Bypass,
            _ => return None,
        })
    }
}

/// One member of `Cache-Status` (RFC 9211 section 2): how this cache handled the request.
#[derive(Clone, Copy, Debug, Default)]
pub struct CacheStatus<'a> {
    /// The cache's name.
    pub cache: &'a str,
    /// Whether it answered from what is stored.
    pub hit: bool,
    /// Why it went to the origin, if it did.
    pub forward: Option<Forward>,
    /// The status code the origin answered with.
    pub forward_status: Option<u16>,
    /// Whether the answer was stored.
    pub stored: bool,
    /// Whether it waited for another request's answer.
    pub collapsed: bool,
    /// Seconds of freshness left; negative when stale.
    pub ttl: Option<i64>,
    /// The cache key, printable.
    pub key: Option<&'a str>,
    /// The reason.
    pub detail: Option<Why>,
}

impl CacheStatus<'_> {
    /// Appends the member, without the field's name.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::write_name(out, self.cache);
        self.write_parameters(out);
    }

    /// Appends a cache's name as members begin with it, for those who write many.
    pub fn write_name(out: &mut Vec<u8>, name: &str) {
        put_name(out, name);
    }

    /// Appends the member without the name.
    pub fn write_parameters(&self, out: &mut Vec<u8>) {
        if self.hit {
            out.extend_from_slice(b"; hit");
        }
        if let Some(forward) = self.forward {
            out.extend_from_slice(b"; fwd=");
            out.extend_from_slice(forward.token().as_bytes());
        }
        if let Some(status) = self.forward_status {
            out.extend_from_slice(b"; fwd-status=");
            put_decimal(out, status.into());
        }
        if self.stored {
            out.extend_from_slice(b"; stored");
        }
        if self.collapsed {
            out.extend_from_slice(b"; collapsed");
        }
        if let Some(ttl) = self.ttl {
            out.extend_from_slice(if ttl < 0 { b"; ttl=-" } else { b"; ttl=" });
            put_decimal(out, ttl.unsigned_abs());
        }
        if let Some(key) = self.key {
            out.extend_from_slice(b"; key=");
            put_string(out, key);
        }
        if let Some(why) = self.detail {
            out.extend_from_slice(b"; detail=");
            out.extend_from_slice(why.token().as_bytes());
        }
    }
}

/// A structured token if it can be one, else a string (RFC 9651 sections 3.3.3 and 3.3.4).
fn put_name(out: &mut Vec<u8>, name: &str) {
    let allowed = |byte| crate::fields::is_token(&[byte]) || matches!(byte, b':' | b'/');
    if name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '*') && name.bytes().all(allowed) {
        out.extend_from_slice(name.as_bytes());
    } else {
        put_string(out, name);
    }
}

/// A structured string; what it cannot hold becomes a question mark.
fn put_string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for byte in text.bytes() {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(if matches!(byte, b' '..=b'~') { byte } else { b'?' });
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn written(status: CacheStatus<'_>) -> String {
        let mut out = Vec::new();
        status.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn tokens_are_distinct_kebab_words() {
        let tokens: HashSet<_> = Why::ALL.iter().map(|why| why.token()).collect();
        assert_eq!(tokens.len(), Why::ALL.len());
        let kebab = |t: &str| t.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
        assert!(tokens.iter().all(|token| kebab(token)));
    }

    #[test]
    fn members_are_written() {
        let larder = CacheStatus { cache: "Larder", ..Default::default() };
        let hit = CacheStatus { hit: true, ..larder };
        let cases = [
            (CacheStatus { ttl: Some(30), ..hit }, "Larder; hit; ttl=30"),
            (
                CacheStatus { ttl: Some(-3), detail: Some(Why::StaleWhileRevalidate), ..hit },
                "Larder; hit; ttl=-3; detail=stale-while-revalidate",
            ),
            (
                CacheStatus {
                    forward: Why::Absent.forward(),
                    forward_status: Some(200),
                    stored: true,
                    ..larder
                },
                "Larder; fwd=uri-miss; fwd-status=200; stored",
            ),
            (
                CacheStatus {
                    forward: Why::Expired.forward(),
                    collapsed: true,
                    key: Some("http://a/\"\\é"),
                    ..larder
                },
                r#"Larder; fwd=stale; collapsed; key="http://a/\"\\??""#,
            ),
            (CacheStatus { cache: "1st floor", ..hit }, "\"1st floor\"; hit"),
        ];
        for (status, expected) in cases {
            assert_eq!(written(status), expected);
        }
    }
}
