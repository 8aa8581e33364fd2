//! The keys of a `[[site]]`.

use super::acme::Acme;
use super::control;
use super::key::{Key, MANY, keys};
use super::resolve_interval::Interval;
use super::sticky::Sticky;
use super::values::{
    BALANCE, DIRECTORY, HOST, HOST_HEADER, HSTS, HTTPS, NAME, NETWORK, ORIGIN, PARENT, PATH, PREFIX, TEXT,
};
use crate::config::bounds::MEMORY;
use crate::config::draft::SiteDraft;
use crate::config::kinds::{
    AtLeast, Count, Flag, Kind, List, OrWord, Percent, Seconds, Size, Statuses, Words,
};

/// The keys of a `[[site]]` other than [`CACHING`](super::CACHING).
pub(crate) const SITE: &[Key<SiteDraft>] = keys! {
    "name" in name: OrWord("auto", NAME),
        "name of the site in logs and statistics; auto: its first host, or its number as in site1, with its path";
    "hosts" in values.hosts: List(HOST),
        "host names without ports; *.example.com matches all subdomains; none: every host";
    "path" in values.path: PREFIX, "only this path and those below it";
    "origin" in values.origins: List(ORIGIN),
        "origin servers, http://host:port, https://, h2c:// or h2:// (HTTP/2 without or over TLS, as for gRPC) or \
         unix:/socket or http+srv://_http._tcp.example (the servers of a service by DNS SRV) or s3://bucket?region=.. or azure://account/container (docs/recipes/object-storage.md#private-buckets), each with a weight if wanted, as in \"http://a weight=3\" (0: no new clients), or with backup, as in \
         \"http://b backup\": only while no other answers; at least one, unless a rule without match answers all requests; a path at the end, \
         if only a slash, replaces the site's own path (docs/reverse-proxy.md)";
    "balance" in values.balance: BALANCE,
        "choice of the origin for a request: round-robin: in turn; two-choices: of two random origins, the one with \
         fewer requests in progress; least-time: of two random origins, the one with the shorter times and fewer requests \
         in progress; hash: the same origin for the same URL; \
         client: the same for a client's address; all by weight";
    "sticky" in values.sticky: OrWord("off", Sticky),
        "a cookie that keeps a client at the origin that answered it first (docs/reverse-proxy.md#sticky-sessions)";
    "parent" in values.parents: OrWord("default", List(PARENT)),
        "parent proxies through which its origins are reached; default: those of [parent]; []: none";
    "host" in values.host: HOST_HEADER, "Host field sent to the origin: the client's, the origin's own, or this one";
    "rewrite_urls" in values.rewrite_urls: Flag,
        "whether Location, Content-Location and the Domain and Path of cookies that name the origin are changed to name the site";
    "role" in control.role: control::ROLE,
        "tags: a gateway beside its backend, which stores only tags (docs/control.md)";
    "https" in values.only_https: HTTPS,
        "redirect: a request that arrives without TLS is redirected to the same URL under https";
    "hsts" in values.hsts: OrWord("off", HSTS),
        "Strict-Transport-Security of replies to requests for https, unless the origin sends it: how long browsers use TLS only";
    "acme" in acme: OrWord("off", Acme),
        "get a certificate for each of its hosts from an authority by ACME, and renew it (docs/tls.md)";
    "ca" in ca: OrWord("system", DIRECTORY),
        "PEM file with the authorities that are trusted for certificates of https origins";
    "client_cert" in client_cert: OrWord("none", DIRECTORY),
        "PEM file with the certificate chain that is sent to https origins that request one";
    "client_key" in client_key: OrWord("none", DIRECTORY), "file with its private key in PEM";
    "tls_name" in tls_name: OrWord("origin", HOST),
        "name that is requested from https origins (SNI) and that their certificates must have; origin: the host of \
         their URL";
    "cache" in values.cache: Flag, "false: nothing is stored, and every request is forwarded";
    "validate" in control.validate: control::VALIDATE,
        "always: revalidate before each use; stale_if_error is then 0s by default (docs/control.md)";
    "couple" in control.couple: control::Couple, "role tags: further pools that a change to a pool blanks";
    "couple_transitively" in control.transitive: Flag, "role tags: follow couplings of coupled pools, too";
    "tags" in control.tags.tags: Count(1..=MANY), "role tags: largest number of tags in a pool";
    "tag_bytes" in control.tags.bytes: Size(1 << 10..=*MEMORY.end()), "role tags: largest size of a pool";
    "tag_pools" in control.tags.pools: Count(1..=65_536),
        "role tags: largest number of pools; further segments share one";
    "tag_limit" in control.tags.content: Size(0..=1 << 30),
        "role tags: largest content that is read to generate a tag";
    "tag_doubt" in control.tags.doubt: Seconds,
        "time for which a change with an unknown result may still take effect: until then, a gateway generates no \
         tags, and a cache revalidates the responses that it may concern";
    "push" in control.push: Flag, "role tags: send cache groups and their invalidations to caches (RFC 9875)";
    "push_lifetime" in control.push_lifetime: Seconds,
        "role tags: with push, lifetime of responses for which the backend sets none";
    "in_flight" in values.in_flight: OrWord("off", Count(1..=MANY)),
        "requests to its origins in progress at once; further ones wait, as with in_flight of [limits]";
    "retries" in values.retries: Count(0..=100), "retries of an idempotent request without an answer";
    "max_fails" in values.max_fails: Count(1..=MANY), "failures in a row after which an origin gets no requests";
    "fail_timeout" in values.fail_timeout: AtLeast(1), "for how long it gets none";
    "max_errors" in values.max_errors: OrWord("off", Count(1..=MANY)),
        "answers with 500, 502, 503 or 504 in a row after which an origin gets no requests for fail_timeout, if another is well";
    "retry_budget" in values.retry_budget: OrWord("off", Percent),
        "retries of all requests, at most, as a share of the requests; ten more are always allowed";
    "hedge" in values.hedge: OrWord("off", Percent),
        "share of the requests that are sent to a second origin when the answer is later than 95% of them: GET and HEAD; the \
         first answer is used";
    "slow_start" in values.slow_start: AtLeast(0),
        "time in which the share of an origin that answers again grows to that of its weight";
    "resolve_interval" in values.resolve_interval: Interval,
        "when names of origins are resolved again; auto: when the lifetime of the DNS records is over, between 1s and 1h, or after 30s \
         where it is unknown; kept connections to addresses that are not found any more get no further requests";
    "health" in health: OrWord("off", PATH),
        "path of health checks, which each origin must answer";
    "health_status" in health_status: List(Statuses), "statuses that these answers may have: 401, \"2xx\" or \"200-399\"";
    "health_text" in health_text: OrWord("off", TEXT), "text that the first 64 KiB of these answers must have";
    "health_port" in health_port: OrWord("off", Count(1..=65_535)), "port of health checks, with the scheme of the origin; off: that of each origin";
    "health_fails" in health_fails: Count(1..=1_000), "health checks in a row that fail before an origin gets no requests";
    "health_passes" in health_passes: Count(1..=1_000), "health checks in a row after that until it gets them again";
    "health_interval" in health_interval: AtLeast(100), "interval between health checks";
    "purge_from" in values.purge_from: List(NETWORK),
        "clients that may send PURGE (docs/purge.md); others need admin_token";
};
