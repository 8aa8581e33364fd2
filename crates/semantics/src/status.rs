//! The reasons of all cache decisions, which the `Cache-Status` field (RFC 9211) reports.
//!
//! One table feeds `Cache-Status`, logs, metrics and explanations. The code that makes a decision chooses its
//! reason; this module makes no decisions.

use larder_words::named;

macro_rules! reasons {
    ($($group:literal: $($name:ident $token:literal $section:literal $explanation:literal $help:literal;)+)+) => {
        /// The reason for the treatment of a request or response.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Why {
            $($(#[doc = concat!($explanation, " (", $section, ")")] $name,)+)+
        }

        impl Why {
            /// Every reason, in the order of their numbers.
            pub const ALL: &[Self] = &[$($(Self::$name),+),+];

            /// All reasons, grouped by their subjects.
            pub const GROUPS: &[(&str, &[Self])] = &[$(($group, &[$(Self::$name),+])),+];

            /// Returns a lower-case kebab token.
            pub fn token(self) -> &'static str {
                match self { $($(Self::$name => $token,)+)+ }
            }

            /// Returns the section that has the rule.
            pub fn section(self) -> &'static str {
                match self { $($(Self::$name => $section,)+)+ }
            }

            /// Returns one line for users.
            pub fn explanation(self) -> &'static str {
                match self { $($(Self::$name => $explanation,)+)+ }
            }

            /// Returns a change that would prevent it; empty if none is needed.
            pub fn help(self) -> &'static str {
                match self { $($(Self::$name => $help,)+)+ }
            }
        }
    };
}

reasons! {
    "Answered from the cache":
    Fresh "fresh" "RFC 9111 4.2"
        "a stored response is fresh"
        "";
    EquivalentQuery "no-vary-search" "draft-ietf-httpbis-no-vary-search 7"
        "a fresh response to another query answers this one, too, by its No-Vary-Search"
        "";
    StaleWhileRevalidate "stale-while-revalidate" "RFC 5861 3"
        "a stale response is used while another is fetched"
        "a longer max-age makes it rarer";
    MaxStale "max-stale" "RFC 9111 5.2.1.2"
        "the client accepts a response this stale"
        "";
    TagCurrent "tag-current" "RFC 9110 13.1.2"
        "the tag that the client sent is current"
        "";
    StaleIfError "stale-if-error" "RFC 5861 4"
        "the origin failed and a stale response may be used instead"
        "the proxy's log has the cause";
    StaleIfSlow "stale-if-slow" "RFC 9111 4.2.4"
        "the origin takes long, and a stale response is used while another is fetched"
        "a longer stale_if_slow waits longer for the origin";

    "Sent to the origin":
    Absent "absent" "RFC 9111 2"
        "nothing is stored under this URI"
        "the answer is stored if that is allowed; a larger cache keeps it longer";
    VariantAbsent "variant-absent" "RFC 9111 4.1"
        "no stored variant was selected by these request fields"
        "name fewer request fields in Vary, or fields with few values";
    RangeAbsent "range-absent" "RFC 9111 3.3"
        "the stored part does not contain the requested range"
        "a request for the whole response stores all its ranges";
    Expired "expired" "RFC 9111 4.2"
        "the stored response has exceeded its lifetime"
        "a longer max-age, or ttl, ttl_min or ttl_default in a rule; ETag or Last-Modified make revalidation cheap, and \
         stale-while-revalidate hides it";
    Purged "purged" "configuration"
        "a soft purge has ended the lifetime of the stored response"
        "it is validated once and then used again";
    Invalidated "invalidated" "RFC 9875 2.2.1"
        "a group that the stored response belongs to was invalidated"
        "smaller groups, if it has not changed";
    ResponseNoCache "response-no-cache" "RFC 9111 5.2.2.4"
        "the origin requires validation before each use"
        "send max-age instead of no-cache, or set ignore = [\"no-cache\"] in a rule, if the response may be used for a \
         while";
    RequestNoCache "request-no-cache" "RFC 9111 5.2.1.4"
        "the client requires validation of the stored response"
        "browsers send this when a page is reloaded";
    RequestMaxAge "request-max-age" "RFC 9111 5.2.1.1"
        "the client requires a younger response"
        "browsers send max-age=0 when a page is reloaded; immutable prevents that";
    AlwaysValidated "always-validated" "configuration"
        "the site requires validation before each use"
        "validate = \"stale\" for the site, if stored responses may be used for a while";
    PositionAhead "position-ahead" "configuration"
        "the client sent a position in the stream of purges that this node did not reach in time"
        "larder cluster shows whether the engine answers, and how far this node is behind";
    TagUnknown "tag-unknown" "RFC 9110 13.1.2"
        "no tag that the client sent is known to be current"
        "answers get tags unless they have no-store, private, Set-Cookie or Vary: *; clients send them in If-None-Match";
    RequestIfMatch "request-if-match" "RFC 9110 13.1.1"
        "the stored response does not meet the client's If-Match or If-Unmodified-Since"
        "";
    RequestMinFresh "request-min-fresh" "RFC 9111 5.2.1.3"
        "the client requires a response that stays fresh longer"
        "a longer max-age";
    Method "method" "RFC 9111 2"
        "the method is not answered from a cache"
        "only GET and HEAD are";
    Bypass "bypass" "configuration"
        "the configuration excludes this request from the cache"
        "cache = true for the site; a GET with content or Upgrade is never cached";

    Unauthorized "unauthorized" "configuration"
        "a rule of the configuration requires a password or a token, and the request has no valid one"
        "larder why names the rule; larder passwd sets a password";
    ByRule "by-rule" "configuration"
        "a rule of the configuration answers this request"
        "larder why names the rule";

    "Not stored":
    NotByRule "not-by-rule" "configuration"
        "a rule of the configuration keeps this response out of the cache"
        "larder why names the rule";
    MethodNotStorable "method-not-storable" "RFC 9111 3"
        "responses to this method are not stored"
        "use GET";
    StatusNotStorable "status-not-storable" "RFC 9111 3"
        "the status answers this request only"
        "";
    NotUnderstood "not-understood" "RFC 9111 5.2.2.3"
        "must-understand, and the status code is unknown"
        "leave must-understand out, or use a standard status";
    RequestNoStore "request-no-store" "RFC 9111 5.2.1.5"
        "the client forbids storing"
        "leave no-store out of the request";
    ResponseNoStore "response-no-store" "RFC 9111 5.2.2.5"
        "the origin forbids storing"
        "send Cache-Control: max-age=SECONDS instead of no-store, or set ignore = [\"no-store\"] and ttl in a rule, if it \
         is for all users";
    Private "private" "RFC 9111 5.2.2.7"
        "the response is for one user"
        "send Cache-Control: max-age=SECONDS without private, or set ignore = [\"private\"] and ttl in a rule, if it is for \
         all users";
    Authorization "authorization" "RFC 9111 3.5"
        "the request has credentials and the response does not allow sharing"
        "send Cache-Control: public, or s-maxage=SECONDS, if it is for all users";
    SetCookie "set-cookie" "RFC 6265 4.1"
        "the response sets a cookie and has no lifetime of its own"
        "set no cookie with it, or drop it by response = { cookies = \"drop\" } and set ttl_default in a rule; or send \
         Cache-Control: max-age=SECONDS, if all users may get the cookie";
    CookieGuess "cookie-guess" "configuration"
        "the request has a cookie or a client certificate, and the origin states no lifetime"
        "send Cache-Control: max-age=SECONDS, or set ttl_default in a rule, if the response is for all users; with \
         heuristic_cookies = true, it gets a heuristic lifetime";
    VaryAny "vary-any" "RFC 9111 4.1"
        "the response varies by something other than request fields"
        "name the request fields in Vary that matter, instead of * or the client's address";
    NoFreshness "no-freshness" "RFC 9111 3"
        "the response has neither a lifetime nor a validator"
        "set ttl_default in a rule, such as ttl_default = \"10m\"; or let the origin send Cache-Control: max-age=SECONDS, \
         or an ETag or Last-Modified for validation";
    NeverFresh "never-fresh" "RFC 9111 4.2"
        "the response has no lifetime left, no validator and no stale allowance"
        "set ttl in a rule, such as ttl = \"10m\"; or let the origin send Cache-Control: max-age=SECONDS beyond its Age, \
         or an ETag or Last-Modified";
    ContentLocation "content-location" "RFC 9110 9.3.3"
        "the answer to POST does not represent its target"
        "send the target's own URL in Content-Location, if the answer equals that to a GET";
    BadContentRange "bad-content-range" "RFC 9110 14.4"
        "a partial response (206) does not name one range of its length in bytes, or one of another status names a part"
        "send Content-Range with a 206, and 206 for a part; several ranges, or those of another unit, are not stored";
    OwnedElsewhere "owned-elsewhere" "configuration"
        "another node of the cluster keeps the response, and has answered"
        "a larger hot in [cluster] keeps more copies of popular responses";
    ErrorWhileFresh "error-while-fresh" "configuration"
        "the answer is an error, and the stored response is still fresh for other clients"
        "purge the URL, if the error is for all clients";
    TooLarge "too-large" "configuration"
        "the response is larger than may be stored"
        "a larger max_object, more memory, or a disk";
    NotAdmitted "not-admitted" "configuration"
        "the policy of the memory did not admit the response"
        "a policy without an admission filter, or more memory; a filter may admit it when it is requested again";
    FillBudget "fill-budget" "configuration"
        "the memory budget for responses in progress is used up"
        "more memory, or a higher timeouts.unread_rate, if slow origins occupy it";
    NotWritten "not-written" "configuration"
        "the response is too large for memory, and the disk did not take it: it is full, too slow, or fails"
        "larder stats shows the state of the disk; more space, a faster disk, or more memory";

    "No answer to forward":
    OnlyIfCached "only-if-cached" "RFC 9111 5.2.1.7"
        "the client accepts only stored responses, and none fits"
        "leave only-if-cached out of the request";
    PrefetchNotStored "prefetch-not-stored" "configuration"
        "the client requested a prefetch, which the site answers from the cache only, and no stored response fits"
        "client_prefetch = \"serve\" for the site or in a rule sends prefetches to the origin, like other requests";
    OriginUnreachable "origin-unreachable" "RFC 9110 15.6.3"
        "no connection to the origin"
        "check that the origin runs, and its name and port";
    ParentUnreachable "parent-unreachable" "RFC 9110 15.6.3"
        "no connection to the parent proxy through which the origin is reached"
        "check that the proxy runs; the proxy's log has the cause, and [parent] its address, no_proxy and fallback";
    ParentRefused "parent-refused" "RFC 9110 9.3.6"
        "the parent proxy answered that it does not forward the request"
        "the log has its status: 407 means another user name and password in [parent], others its own rules";
    OriginUnresolved "origin-unresolved" "RFC 9110 15.6.3"
        "the origin's name has no address"
        "check the spelling of the name, and the name servers of this machine";
    NoCredentials "no-credentials" "configuration"
        "there are no credentials for the bucket that is the origin"
        "the proxy's log names each source and its fault; docs/recipes/object-storage.md describes them";
    BucketRefused "bucket-refused" "configuration"
        "the storage refuses the request to the bucket"
        "the proxy's log has its code: rights of the credentials, the region, the clock, or the name of the bucket";
    ReadOnly "read-only" "RFC 9110 15.5.6"
        "the origin is a bucket, which is only read"
        "send GET or HEAD without content; write to the storage itself";
    OriginTls "origin-tls" "RFC 9110 15.6.3"
        "no TLS with the origin: the handshake failed"
        "the proxy's log has the cause";
    OriginTlsUntrusted "origin-tls-untrusted" "RFC 5280 6"
        "no trusted authority has signed the origin's certificate"
        "ca in the site's table, with the certificate of the authority; or add it to the system's certificates";
    OriginTlsExpired "origin-tls-expired" "RFC 5280 4.1.2.5"
        "the origin's certificate has expired, or is not valid yet"
        "renew the certificate, and check the clock of this machine";
    OriginTlsName "origin-tls-name" "RFC 9110 4.3.4"
        "the origin's certificate is for another name"
        "tls_name in the site's table, or the name in the URL of the origin; the proxy's log has the names";
    OriginTlsCertificate "origin-tls-certificate" "RFC 5280 6"
        "the origin's certificate is not valid"
        "the proxy's log has the cause, such as a certificate that is not for servers, or is one of an authority";
    OriginNotTls "origin-not-tls" "RFC 9110 4.3.4"
        "the server at the origin's port does not use TLS"
        "http:// instead of https:// in origin, or the port for TLS";
    OriginClosed "origin-closed" "RFC 9110 15.6.3"
        "the origin closed the connection instead of answering"
        "the origin's log; a server that restarts, or that has reached a limit";
    OriginTimeout "origin-timeout" "RFC 9110 15.6.5"
        "the origin did not answer in time"
        "a longer timeouts.first_byte, or a faster origin";
    OriginMalformed "origin-malformed" "RFC 9110 15.6.3"
        "the origin's answer is not HTTP"
        "check the program at the origin's port";
    DigestMismatch "digest-mismatch" "configuration"
        "the content is not the one that the package's index or its URL names by its digest"
        "the origin or a mirror has damaged or exchanged the file, or the index that is stored is another one: fetch that again";
    OriginForbidden "origin-forbidden" "configuration"
        "the origin's address is not allowed"
        "allow_private, ports and connect_ports in [forward] permit addresses and ports";
    AccessDenied "access-denied" "configuration"
        "a rule of the configuration does not serve this client, or the URL lacks the signature that it requires"
        "allow and deny in the site's rules name clients, signed names the keys of URLs; larder why names the rule";
    PackageYoung "package-young" "configuration"
        "the version of this package is younger than the least age that a rule of the configuration requires"
        "min_age in the site's rules sets the age, and its allow names packages that may be younger";
    AuthUnanswered "auth-unanswered" "configuration"
        "the service that decides whether this client is served gave no decision"
        "the proxy's log names the service and its fault; auth_request in the site's rules has its URL, and on_failure";
    RateLimited "rate-limited" "RFC 6585 4"
        "the request is beyond a limit that a rule of the configuration sets"
        "a larger limit in the site's rules; Retry-After tells the client when to retry";
    OnlyHttps "only-https" "RFC 9110 4.2.2"
        "the site is served over TLS only, and the request came without it"
        "https = \"serve\" in [[site]] answers such requests";
    Loop "loop" "RFC 9110 7.6.3"
        "the request has come back to this proxy, or would come back to it"
        "an origin at an address where this proxy does not listen itself";
    Refused "refused" "RFC 9112"
        "the request is malformed or exceeds a limit"
        "the answer's text names the error; [limits] sets the limits";
    Overloaded "overloaded" "configuration"
        "too many requests wait for origins"
        "a larger limits.in_flight or limits.queue, if the origins can handle it";
    ClientLeft "client-left" "RFC 9112 9.5"
        "the client disconnected before an answer, and no other client waited for it"
        "";
    Undelivered "undelivered" "configuration"
        "an RPC client cannot get the page as a whole: it is too long, was cut short, has an unknown coding or a NUL byte where it is a string, or is behind a redirect that is not followed"
        "the client's error and the proxy's log name the cause; [doors] sets the limits";

    "Tunnels":
    Intercepted "intercepted" "configuration"
        "the proxy answers the requests in this tunnel itself"
        "a host in never of [intercept] gets a tunnel instead";
    TunnelDistrusted "tunnel-distrusted" "RFC 8446 6.2"
        "the client has refused the certificate that the proxy's authority signs for this host, so it gets a tunnel"
        "larder ca export shows the certificate to trust; a host whose clients know its certificate belongs in never of \
         [intercept]";
    TunnelCertificate "tunnel-client-certificate" "RFC 8446 4.3.2"
        "the origin asks for a certificate of the client, so that only a tunnel works"
        "";
    TunnelNotTls "tunnel-not-tls" "RFC 9110 9.3.6"
        "no TLS between this proxy and the origin is possible, so that the client gets a tunnel"
        "";
    TunnelCredentials "tunnel-credentials" "configuration"
        "the client has to present credentials to this proxy, which the requests in an intercepted tunnel do not have"
        "a rule without users, tokens, auth_request and jwt for CONNECT, and a listener without client_ca";
}

named! {
    /// The reason for a request to the origin, in the words of RFC 9211 section 2.2.
    pub enum Forward, token {
        /// The configuration excludes the request from caching.
        Bypass = "bypass",
        /// The method requires it.
        Method = "method",
        /// No response is stored under the URI.
        UriMiss = "uri-miss",
        /// No response is stored for these request fields.
        VaryMiss = "vary-miss",
        /// No response is stored, without saying which of the two.
        Miss = "miss",
        /// The stored response is fresh, but the request demands more.
        Request = "request",
        /// The stored response is stale.
        Stale = "stale",
        /// The stored part does not contain the requested one.
        Partial = "partial",
    }
}

impl Why {
    /// Returns the word of RFC 9211 for a reason to ask the origin; `None` for other reasons.
    pub fn forward(self) -> Option<Forward> {
        Some(match self {
            Self::Absent => Forward::UriMiss,
            Self::VariantAbsent => Forward::VaryMiss,
            Self::RangeAbsent => Forward::Partial,
            Self::Expired
            | Self::Purged
            | Self::Invalidated
            | Self::ResponseNoCache
            | Self::AlwaysValidated => Forward::Stale,
            Self::TagUnknown => Forward::Miss,
            Self::RequestNoCache
            | Self::RequestMaxAge
            | Self::RequestIfMatch
            | Self::RequestMinFresh
            | Self::PositionAhead => Forward::Request,
            Self::Method
            | Self::Intercepted
            | Self::TunnelDistrusted
            | Self::TunnelCertificate
            | Self::TunnelNotTls
            | Self::TunnelCredentials => Forward::Method,
            Self::Bypass => Forward::Bypass,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn tokens_are_distinct_kebab_words() {
        let tokens: HashSet<_> = Why::ALL.iter().map(|why| why.token()).collect();
        assert_eq!(tokens.len(), Why::ALL.len());
        let kebab = |t: &str| t.bytes().all(|b| b.is_ascii_lowercase() || b == b'-');
        assert!(tokens.iter().all(|token| kebab(token)));
    }
}
