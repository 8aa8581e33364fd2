//! The keys of caching, which sites and the forward proxy have.

use larder_semantics::storable::Rules;

use super::key::{Key, MANY, key};
use super::values::{CODING, COOKIES, EARLY_HINTS, FIELD, MEDIA_RANGE, PREDICTION, PREFETCHES, RELOADS};
use crate::config::kinds::{Count, Flag, Kind, List, Percent, Seconds, Size, Words};

/// The keys for caching, in both `[[site]]` and `[forward]`.
pub(crate) const CACHING: &[Key<Rules>] = &[
    key!(
        "heuristic",
        Percent,
        heuristic_percent,
        "lifetime of a response without an explicit one: this share of the time since Last-Modified"
    ),
    key!("heuristic_max", Seconds, heuristic_max, "upper limit of such heuristic lifetimes"),
    key!(
        "heuristic_adaptive",
        Flag,
        heuristic_adaptive,
        "heuristic lifetimes are longer for responses that several validations found unchanged, and shorter for \
         those that changed (docs/refresh-ahead.md#adaptive-lifetimes)"
    ),
    key!(
        "heuristic_cookies",
        Flag,
        guesses_with_cookies,
        "whether heuristic lifetimes also apply to requests with Cookie or a client's certificate; if not, their \
         responses are stored only with an explicit lifetime"
    ),
    key!(
        "targeted",
        List(FIELD),
        targeted,
        "fields that override Cache-Control, in order of precedence (RFC 9213)"
    ),
    key!(
        "stale_if_error",
        Seconds,
        stale_if_error,
        "serve stale responses for this long if the origin fails"
    ),
    key!(
        "stale_while_revalidate",
        Seconds,
        stale_while_revalidate,
        "serve stale responses for this long during a revalidation in the background"
    ),
    key!(
        "refresh_ahead",
        Percent,
        refresh_ahead,
        "refresh popular responses in the background when this share of their lifetime is left (docs/refresh-ahead.md)"
    ),
    key!(
        "refresh_ahead_hits",
        Count(1..=MANY),
        refresh_ahead_hits,
        "number of requests in its lifetime that makes a response popular, not counting the one that fetched it"
    ),
    key!(
        "early_hints",
        EARLY_HINTS,
        early_hints,
        "103 with the Link fields of the stored response while a request to the origin is in progress: to clients of HTTP/2, to all, or to none (docs/early-hints.md)"
    ),
    key!(
        "client_prefetch",
        PREFETCHES,
        declines_prefetches,
        "requests of clients with Sec-Purpose: prefetch; cached-only: without a stored response, they get 503 (docs/early-hints.md#prefetches-of-clients)"
    ),
    key!(
        "prefetch",
        List(PREDICTION),
        prefetch,
        "prefetch responses that clients are likely to request next: association: those that were often requested next; sequence: the next number or range (docs/prefetch.md)"
    ),
    key!(
        "prefetch_traffic",
        Percent,
        prefetch_traffic,
        "limit on the requests and bytes of unused prefetches, as a share of the requests and bytes of clients"
    ),
    key!(
        "store_cookies",
        COOKIES,
        cookies,
        "Set-Cookie fields that are stored and sent to all clients: short: values of one or two bytes without Expires or Max-Age"
    ),
    key!(
        "reloads",
        RELOADS,
        ignores_reloads,
        "whether a client's no-cache, max-age or min-fresh causes a request to the origin"
    ),
    key!(
        "store_post",
        Flag,
        stores_posts,
        "store responses to POST with a lifetime and their own URL in Content-Location, for later GETs (RFC 9110 9.3.3)"
    ),
    key!(
        "compress",
        List(CODING),
        compression.codings,
        "codings in which stored responses are sent to clients that accept them, the preferred one first; none: as the origin sent them (docs/compression.md)"
    ),
    key!(
        "compress_types",
        List(MEDIA_RANGE),
        compression.types,
        "media types of responses that are compressed; one * stands for any characters"
    ),
    key!("compress_min", Size(0..=1 << 30), compression.min, "shorter content is not compressed"),
];
