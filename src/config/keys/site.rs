//! The keys of a `[[site]]`.

use super::acme::Acme;
use super::control;
use super::key::{Key, MANY, key};
use super::values::{
    BALANCE, DIRECTORY, HOST, HOST_HEADER, HSTS, HTTPS, NAME, NETWORK, ORIGIN, PATH, PREFIX,
};
use crate::config::bounds::MEMORY;
use crate::config::draft::SiteDraft;
use crate::config::kinds::{AtLeast, Count, Flag, Kind, List, Or, Seconds, Size, Words};

/// The keys of a `[[site]]` other than [`CACHING`](super::CACHING).
pub(crate) const SITE: &[Key<SiteDraft>] = &[
    key!(
        "name",
        Or("auto", NAME),
        name,
        "name of the site in logs and statistics; auto: its first host, or its number as in site1, with its path"
    ),
    key!(
        "hosts",
        List(HOST),
        hosts,
        "host names without ports; *.example.com matches all subdomains; none: every host"
    ),
    key!("path", PREFIX, path, "only this path and those below it"),
    key!(
        "origin",
        List(ORIGIN),
        origins,
        "origin servers, http://host:port, https://, h2c:// or h2:// (HTTP/2 without or over TLS, as for gRPC) or \
         unix:/socket, each with a weight if wanted, as in \"http://a weight=3\"; at least one; a path at the end, \
         if only a slash, replaces the site's own path (docs/reverse-proxy.md)"
    ),
    key!(
        "balance",
        BALANCE,
        balance,
        "choice of the origin for a request: round-robin: in turn; two-choices: of two random origins, the one with \
         fewer requests in progress; both by weight"
    ),
    key!(
        "host",
        HOST_HEADER,
        host,
        "Host field sent to the origin: the client's, the origin's own, or this one"
    ),
    key!(
        "rewrite_urls",
        Flag,
        rewrite_urls,
        "whether Location, Content-Location and the Domain and Path of cookies that name the origin are changed to name the site"
    ),
    key!(
        "role",
        control::ROLE,
        control.role,
        "tags: a gateway beside its backend, which stores only tags (docs/control.md)"
    ),
    key!(
        "https",
        HTTPS,
        only_https,
        "redirect: a request that arrives without TLS is redirected to the same URL under https"
    ),
    key!(
        "hsts",
        Or("off", HSTS),
        hsts,
        "Strict-Transport-Security of replies to requests for https, unless the origin sends it: how long browsers use TLS only"
    ),
    key!(
        "acme",
        Or("off", Acme),
        acme,
        "get a certificate for each of its hosts from an authority by ACME, and renew it (docs/tls.md)"
    ),
    key!(
        "ca",
        Or("system", DIRECTORY),
        ca,
        "PEM file with the authorities that are trusted for certificates of https origins"
    ),
    key!(
        "client_cert",
        Or("none", DIRECTORY),
        client_cert,
        "PEM file with the certificate chain that is sent to https origins that request one"
    ),
    key!("client_key", Or("none", DIRECTORY), client_key, "file with its private key in PEM"),
    key!(
        "tls_name",
        Or("origin", HOST),
        tls_name,
        "name that is requested from https origins (SNI) and that their certificates must have; origin: the host of \
         their URL"
    ),
    key!("cache", Flag, cache, "false: nothing is stored, and every request is forwarded"),
    key!(
        "validate",
        control::VALIDATE,
        control.validate,
        "always: revalidate before each use; stale_if_error is then 0s by default (docs/control.md)"
    ),
    key!(
        "couple",
        control::Couple,
        control.couple,
        "role tags: further pools that a change to a pool blanks"
    ),
    key!(
        "couple_transitively",
        Flag,
        control.transitive,
        "role tags: follow couplings of coupled pools, too"
    ),
    key!("tags", Count(1..=MANY), control.tags.tags, "role tags: largest number of tags in a pool"),
    key!("tag_bytes", Size(1 << 10..=*MEMORY.end()), control.tags.bytes, "role tags: largest size of a pool"),
    key!(
        "tag_pools",
        Count(1..=65_536),
        control.tags.pools,
        "role tags: largest number of pools; further segments share one"
    ),
    key!(
        "tag_limit",
        Size(0..=1 << 30),
        control.tags.content,
        "role tags: largest content that is read to generate a tag"
    ),
    key!(
        "tag_doubt",
        Seconds,
        control.tags.doubt,
        "time for which a change with an unknown result may still take effect: until then, a gateway generates no \
         tags, and a cache revalidates the responses that it may concern"
    ),
    key!(
        "push",
        Flag,
        control.push,
        "role tags: send cache groups and their invalidations to caches (RFC 9875)"
    ),
    key!(
        "push_lifetime",
        Seconds,
        control.push_lifetime,
        "role tags: with push, lifetime of responses for which the backend sets none"
    ),
    key!("retries", Count(0..=100), retries, "retries of an idempotent request without an answer"),
    key!("max_fails", Count(1..=MANY), max_fails, "failures in a row after which an origin gets no requests"),
    key!("fail_timeout", AtLeast(1), fail_timeout, "for how long it gets none"),
    key!(
        "resolve_interval",
        Or("off", AtLeast(1_000)),
        resolve_interval,
        "interval at which names of origins are resolved again; kept connections to addresses that are not found any more get no further requests"
    ),
    key!(
        "health",
        Or("off", PATH),
        health,
        "path of health checks, which each origin must answer with 2xx or 3xx"
    ),
    key!("health_interval", AtLeast(100), health_interval, "interval between health checks"),
    key!(
        "purge_from",
        List(NETWORK),
        purge_from,
        "clients that may send PURGE (docs/purge.md); others need admin_token"
    ),
];
