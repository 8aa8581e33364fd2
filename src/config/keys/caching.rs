//! The keys of caching, which sites and the forward proxy have.

use larder_semantics::storable::Rules;

use super::key::{Key, MANY, keys};
use super::values::{
    CODING, COOKIES, EARLY_HINTS, FIELD, MEDIA_RANGE, PREDICTION, PREFETCHES, RELOADS, SLICE,
};
use crate::config::kinds::{AtLeast, Count, Flag, Kind, List, OrWord, Percent, Seconds, Size, Words};

/// The keys for caching, in both `[[site]]` and `[forward]`.
pub(crate) const CACHING: &[Key<Rules>] = keys! {
    "heuristic" in heuristic_percent: Percent,
        "lifetime of a response without an explicit one: this share of the time since Last-Modified";
    "heuristic_max" in heuristic_max: Seconds, "upper limit of such heuristic lifetimes";
    "heuristic_adaptive" in heuristic_adaptive: Flag,
        "heuristic lifetimes are longer for responses that several validations found unchanged, and shorter for \
         those that changed (docs/refresh-ahead.md#adaptive-lifetimes)";
    "heuristic_cookies" in guesses_with_cookies: Flag,
        "whether heuristic lifetimes also apply to requests with Cookie or a client's certificate; if not, their \
         responses are stored only with an explicit lifetime";
    "targeted" in targeted: List(FIELD),
        "fields that override Cache-Control, in order of precedence (RFC 9213)";
    "stale_if_error" in stale_if_error: Seconds, "serve stale responses for this long if the origin fails";
    "stale_if_slow" in stale_if_slow: OrWord("off", AtLeast(1)),
        "if the origin does not answer within this time, serve the stale response that stale_if_error allows, and fetch another meanwhile";
    "stale_while_revalidate" in stale_while_revalidate: Seconds,
        "serve stale responses for this long during a revalidation in the background";
    "refresh_ahead" in refresh_ahead: Percent,
        "refresh popular responses in the background when this share of their lifetime is left (docs/refresh-ahead.md)";
    "refresh_ahead_hits" in refresh_ahead_hits: Count(1..=MANY),
        "number of requests in its lifetime that makes a response popular, not counting the one that fetched it";
    "slice" in slice: SLICE,
        "size of the slices in which responses of more than eight of them are fetched and stored when clients request ranges (docs/internals/slices.md)";
    "early_hints" in early_hints: EARLY_HINTS,
        "103 with the Link fields of the stored response while a request to the origin is in progress: to clients of HTTP/2, to all, or to none (docs/early-hints.md)";
    "client_prefetch" in declines_prefetches: PREFETCHES,
        "requests of clients with Sec-Purpose: prefetch; cached-only: without a stored response, they get 503 (docs/early-hints.md#prefetches-of-clients)";
    "prefetch" in prefetch: List(PREDICTION),
        "prefetch responses that clients are likely to request next: association: those that were often requested next; sequence: the next number or range (docs/prefetch.md)";
    "prefetch_traffic" in prefetch_traffic: Percent,
        "limit on the requests and bytes of unused prefetches, as a share of the requests and bytes of clients";
    "store_cookies" in cookies: COOKIES,
        "Set-Cookie fields that are stored and sent to all clients: short: values of one or two bytes without Expires or Max-Age";
    "reloads" in ignores_reloads: RELOADS,
        "whether a client's no-cache, max-age or min-fresh causes a request to the origin";
    "store_post" in stores_posts: Flag,
        "store responses to POST with a lifetime and their own URL in Content-Location, for later GETs (RFC 9110 9.3.3)";
    "compress" in compression.codings: List(CODING),
        "codings in which stored responses are sent to clients that accept them, the preferred one first; none: as the origin sent them (docs/compression.md)";
    "compress_types" in compression.types: List(MEDIA_RANGE),
        "media types of responses that are compressed; one * stands for any characters";
    "compress_min" in compression.min: Size(0..=1 << 30), "shorter content is not compressed";
};
