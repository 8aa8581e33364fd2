//! THE TABLE of keys: one row each, with its name, kind, place and meaning. Reading a file, its errors, the
//! reference in `docs/config.md` and the example file all come from here.
//! They are written into a [`Draft`].

use std::net::SocketAddr;
use std::path::PathBuf;

use ipnet::IpNet;
use larder_evict::Spec;
use larder_proxy::settings::{AccessLog, ClientAddress, HostHeader, Origin, Times, Token};
use larder_semantics::storable::{Cookies, Rules};
use toml::de::DeValue;

use super::draft::{DiskDraft, Draft, SiteDraft};
use super::kinds::{
    AtLeast, Choice, Count, Flag, Kind, List, Or, Percent, Ports, Seconds, Share, Size, Text, Words,
};
use super::{DISK, ENTRIES, MEMORY, THREADS, cluster, control, names, rpc, statistics};

/// One key of a `T`.
pub(super) struct Key<T> {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// What values it takes, in words.
    pub(super) kind: fn() -> String,
    /// Writes a value into its place.
    pub(super) set: fn(&mut T, &DeValue<'_>) -> Result<(), String>,
    /// The value in its place, as TOML.
    pub(super) show: fn(&T) -> String,
}

/// A table of the file, such as `[limits]`.
pub(super) struct Section {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    pub(super) keys: &'static [Key<Draft>],
}

macro_rules! key {
    ($name:literal, $kind:expr, $($place:ident).+, $about:literal) => {
        Key {
            name: $name,
            about: $about,
            kind: || $kind.words(),
            set: |target, value| {
                target.$($place).+ = $kind.read(value)?;
                Ok(())
            },
            show: |target| $kind.show(&target.$($place).+),
        }
    };
}

pub(super) use key;

pub(super) const ADDRESS: Text<SocketAddr> =
    Text { words: "address with a port", parse: names::address, show: SocketAddr::to_string };
pub(super) const NETWORK: Text<IpNet> =
    Text { words: "address or network", parse: names::network, show: names::show_network };
const POLICY: Text<Spec> =
    Text { words: "policy, [filter+]name[:param=value,..]", parse: names::policy, show: Spec::to_string };
pub(super) const TOKEN: Text<String> = Text { words: "token", parse: names::token, show: String::clone };
const FIELD: Text<String> = Text { words: "field name", parse: names::field_name, show: String::clone };
const HOST: Text<String> = Text { words: "host", parse: names::host, show: String::clone };
const PATH: Text<String> = Text { words: "path", parse: names::path, show: String::clone };
const NAME: Text<String> = Text { words: "word", parse: names::token, show: String::clone };
pub(super) const ORIGIN: Text<Origin> =
    Text { words: "http://host:port", parse: names::origin, show: names::show_origin };
const COLLECTOR: Text<String> =
    Text { words: "http://host:port", parse: names::collector, show: String::clone };
const HOST_HEADER: Text<HostHeader> = Text {
    words: "\"preserve\" or \"origin\" or a host",
    parse: names::host_header,
    show: names::show_host_header,
};
pub(super) const ADMIN_TOKEN: Text<Token> = Text {
    words: "at least 16 characters",
    parse: |text| text.parse(),
    show: |token| token.secret().to_owned(),
};
const ACCESS_LOG: Choice<AccessLog> = Choice(names::ACCESS_LOGS);
const DIRECTORY: Text<PathBuf> =
    Text { words: "path", parse: names::directory, show: |path| path.display().to_string() };
const TIMES: Text<Times> = Text {
    words: "minute, hour, day, month and weekday as in cron",
    parse: |text| text.parse(),
    show: Times::to_string,
};
const COOKIES: Choice<Cookies> =
    Choice(&[("short", Cookies::Short), ("all", Cookies::All), ("none", Cookies::None)]);
const RELOADS: Choice<bool> = Choice(&[("obey", false), ("ignore", true)]);
const CLIENT_ADDRESS: Choice<ClientAddress> = Choice(names::CLIENT_ADDRESSES);

/// More of anything than one machine serves, and far from where arithmetic ends.
pub(super) const MANY: u64 = 10_000_000;

/// The keys above all tables: the process.
pub(super) const TOP: &[Key<Draft>] = &[
    key!("threads", Or("auto", Count(THREADS)), threads, "worker threads; auto: one for each core"),
    key!(
        "admin",
        Or("off", ADDRESS),
        admin,
        "where figures, the live log and health are served; other than loopback needs admin_token"
    ),
    key!(
        "admin_token",
        Or("off", ADMIN_TOKEN),
        admin_token,
        "what must be shown there by who comes from another machine; also $LARDER_TOKEN"
    ),
    key!("access_log", ACCESS_LOG, access_log, "one line for each request, in this form (docs/logs.md)"),
    key!("access_log_file", Or("stdout", DIRECTORY), access_log_file, "its place; SIGHUP opens it anew"),
    key!("name", TOKEN, name, "how the proxy names itself in Via and Cache-Status"),
    key!("x_cache", Flag, x_cache, "also send the traditional X-Cache: HIT or MISS"),
    key!("client_address", CLIENT_ADDRESS, client_address, "how origins learn the client's address"),
    key!(
        "trust",
        List(NETWORK),
        trust,
        "proxies in front of this one, whose X-Forwarded-For, -Proto and -Host (or Forwarded) are believed"
    ),
];

/// Every table of the file except the sites.
pub(super) const SECTIONS: &[Section] = &[
    Section {
        name: "memory",
        about: "The memory tier. Its capacity is either a size or a number of entries.",
        keys: &[
            key!(
                "size",
                Or("auto", Size(MEMORY)),
                memory.size,
                "capacity with heads, keys and bookkeeping; auto: 1GiB or a quarter of the machine's memory, \
                 whichever is less"
            ),
            key!(
                "entries",
                Or("off", Count(ENTRIES)),
                memory.entries,
                "capacity in responses instead of bytes"
            ),
            key!("policy", POLICY, memory.policy, "which responses make room"),
            key!(
                "max_object",
                Or("auto", Size(MEMORY)),
                memory.max_object,
                "largest content stored; auto: whatever fits"
            ),
            key!("max_variants", Count(1..=65_536), memory.max_variants, "variants kept for one URL (Vary)"),
        ],
    },
    Section {
        name: "schedule",
        about: "What is forgotten without being asked for. By default nothing is: what is stored makes room when there is need.",
        keys: &[
            key!("every", AtLeast(1), schedule.every, "how often what is stored is looked through"),
            key!(
                "expired",
                Or("off", AtLeast(0)),
                schedule.expired,
                "forget what has been stale, and of no use while origins fail, for longer than this"
            ),
            key!(
                "unused",
                Or("off", AtLeast(1_000)),
                schedule.unused,
                "forget what nobody has asked for in so long"
            ),
            key!(
                "everything",
                Or("off", TIMES),
                schedule.everything,
                "forget everything at these times (local time)"
            ),
            key!("rate", Count(1..=MANY), schedule.rate, "objects on disk that are looked at in a second"),
        ],
    },
    Section {
        name: "stats",
        about: "The statistics database, in which every request is recorded (docs/statistics.md). No request waits for it.",
        keys: statistics::KEYS,
    },
    Section {
        name: "cluster",
        about: "The nodes that serve as one cache, and the Valkey or Redis by which they know of each other (docs/cluster.md).",
        keys: cluster::KEYS,
    },
    Section {
        name: "trace",
        about: "Traces for OpenTelemetry, of a program built with the feature otlp (docs/logs.md). No request waits for them.",
        keys: &[
            key!(
                "endpoint",
                Or("off", COLLECTOR),
                trace.endpoint,
                "the collector, which takes OTLP over HTTP below /v1/traces"
            ),
            key!(
                "sample",
                Share,
                trace.sample,
                "share of requests that are traced; a client's traceparent says it for its own"
            ),
        ],
    },
    Section {
        name: "validate",
        about: "Hits that are fetched again, past the cache, to see whether they were stale (docs/validator.md).",
        keys: &[
            key!(
                "sample",
                Share,
                validate.sample,
                "share of hits that are: 0.001 is one in a thousand; 0: none"
            ),
            key!("rate", Count(1..=MANY), validate.rate, "of those, so many in a second at most"),
            key!("cookies", Flag, validate.cookies, "also repeat requests with Cookie or Authorization"),
        ],
    },
    Section {
        name: "limits",
        about: "What a client may send and hold. What exceeds a limit is refused with the status in brackets.",
        keys: &[
            key!("head", Size(256..=16 << 20), limits.head_bytes, "a request's head (431)"),
            key!("fields", Count(1..=256), limits.head_fields, "field lines of a request's head (431)"),
            key!("uri", Size(16..=65_535), limits.target_bytes, "a request's target (414)"),
            key!("body", Size(0..=*MEMORY.end()), limits.body_bytes, "a request's content (413)"),
            key!("connections", Count(1..=MANY), limits.connections, "client connections at once (closed)"),
            key!("in_flight", Count(1..=MANY), limits.in_flight, "requests to origins at once (they queue)"),
            key!("queue", Count(0..=MANY), limits.queue, "requests waiting for an origin's turn (503)"),
        ],
    },
    Section {
        name: "timeouts",
        about: "How long to wait for clients and origins.",
        keys: &[
            key!("head", AtLeast(1), timeouts.head, "from a head's first byte to its last (408)"),
            key!("idle", AtLeast(1), timeouts.idle, "between two requests of a connection (closed)"),
            key!("stall", AtLeast(1), timeouts.stall, "without progress in any content (408, or closed)"),
            key!(
                "min_rate",
                Count(0..=MANY),
                timeouts.min_rate,
                "bytes a second that clients must send or take once stall has passed (408, or closed); 0: any rate"
            ),
            key!(
                "connect",
                AtLeast(1),
                timeouts.connect,
                "for a connection to an origin, TLS included (504)"
            ),
            key!("first_byte", AtLeast(1), timeouts.first_byte, "for the origin's answer to begin (504)"),
            key!("origin_idle", AtLeast(1), timeouts.origin_idle, "between two pieces of that answer (502)"),
            key!(
                "unread_rate",
                Count(0..=MANY),
                timeouts.unread_rate,
                "bytes a second that an answer must arrive with that nobody has read for stall (given up); 0: any rate"
            ),
            key!(
                "tunnel",
                AtLeast(1),
                timeouts.tunnel,
                "without a byte in either direction of a tunnel (closed)"
            ),
            key!("drain", AtLeast(0), timeouts.drain, "for requests under way when told to stop"),
        ],
    },
    Section {
        name: "reverse",
        about: "Where the sites are served.",
        keys: &[key!(
            "listen",
            Or("auto", List(ADDRESS)),
            reverse_listen,
            "addresses; auto: 127.0.0.1:8080 if there is a site"
        )],
    },
    Section {
        name: "forward",
        about: "The forward proxy, which asks any origin for its clients.",
        keys: &[
            key!(
                "listen",
                Or("auto", List(ADDRESS)),
                forward_listen,
                "addresses; auto: 127.0.0.1:3128 if there is no site"
            ),
            key!(
                "clients",
                List(NETWORK),
                forward.clients,
                "addresses and networks whose clients may use it (403); a listener for all addresses needs it"
            ),
            key!(
                "ports",
                List(Ports),
                forward.ports,
                "ports of origins that requests other than CONNECT may reach (403)"
            ),
            key!(
                "connect_ports",
                List(Count(1..=65_535)),
                forward.connect_ports,
                "ports that CONNECT may reach (403)"
            ),
            key!(
                "allow_private",
                Flag,
                forward.allow_private,
                "let clients reach loopback, link-local, private and metadata addresses"
            ),
        ],
    },
    Section { name: "thrift", about: "The door for Apache Thrift.", keys: rpc::THRIFT },
    Section {
        name: "onc",
        about: "The door for ONC RPC, over TCP, and over UDP where senders cannot be forged.",
        keys: rpc::ONC,
    },
    Section { name: "line", about: "The door for the line protocol.", keys: rpc::LINE },
    Section {
        name: "doors",
        about: "What all RPC listeners have in common. Which addresses and ports their clients may reach is for [forward] to say.",
        keys: rpc::DOORS,
    },
];

/// What a `[[disk]]` says.
pub(super) const DISK_KEYS: &[Key<DiskDraft>] = &[
    key!("path", DIRECTORY, tier.path, "a directory of its own; it is made if it is not there"),
    key!("size", Size(DISK), tier.size, "bytes that its files may take"),
    key!("policy", POLICY, tier.policy, "which responses make room, and, with a filter, which enter"),
    key!(
        "max_object",
        Or("auto", Size(MEMORY)),
        tier.max_object,
        "largest content stored; auto: whatever fits"
    ),
];

/// What a `[[site]]` says besides [`CACHING`].
pub(super) const SITE: &[Key<SiteDraft>] = &[
    key!("name", Or("auto", NAME), name, "its name in logs and numbers; auto: its first host"),
    key!(
        "hosts",
        List(HOST),
        hosts,
        "host names without ports; *.example.com takes all below it; none: every host"
    ),
    key!("origin", List(ORIGIN), origins, "the servers behind it; at least one"),
    key!(
        "host",
        HOST_HEADER,
        host,
        "the Host that the origin sees: the client's, the origin's own, or this one"
    ),
    key!(
        "role",
        control::ROLE,
        control.role,
        "tags: a gateway beside its backend, which keeps nothing but tags (docs/control.md)"
    ),
    key!("cache", Flag, cache, "false: every request passes through"),
    key!(
        "validate",
        control::VALIDATE,
        control.validate,
        "always: whatever is stored is validated each time, and stale_if_error is 0s unless it is said (docs/control.md)"
    ),
    key!("couple", control::Couple, control.couple, "role tags: pools that a change to another blanks"),
    key!(
        "couple_transitively",
        Flag,
        control.transitive,
        "role tags: and those that a change to these would blank"
    ),
    key!("tags", Count(1..=MANY), control.tags.tags, "role tags: tags of a pool"),
    key!("tag_bytes", Size(1 << 10..=*MEMORY.end()), control.tags.bytes, "role tags: what a pool may take"),
    key!(
        "tag_pools",
        Count(1..=65_536),
        control.tags.pools,
        "role tags: pools; segments beyond them share one"
    ),
    key!(
        "tag_limit",
        Size(0..=1 << 30),
        control.tags.content,
        "role tags: largest content that is read for its tag"
    ),
    key!(
        "tag_doubt",
        Seconds,
        control.tags.doubt,
        "how long a change whose end is unknown may still happen: meanwhile, a gateway makes no tags, and a cache \
         validates what the change may concern"
    ),
    key!(
        "push",
        Flag,
        control.push,
        "role tags: tell caches what belongs together, and what is invalid (RFC 9875)"
    ),
    key!(
        "push_lifetime",
        Seconds,
        control.push_lifetime,
        "role tags: with push, how long caches keep answers of whose lifetime the backend says nothing"
    ),
    key!("retries", Count(0..=100), retries, "further tries of an idempotent request that got no answer"),
    key!("max_fails", Count(1..=MANY), max_fails, "failures in a row until an origin is left alone"),
    key!("fail_timeout", AtLeast(1), fail_timeout, "how long it is left alone"),
    key!("health", Or("off", PATH), health, "path that must answer 2xx or 3xx, asked of each origin"),
    key!("health_interval", AtLeast(100), health_interval, "time between two such checks"),
    key!(
        "purge_from",
        List(NETWORK),
        purge_from,
        "addresses and networks that may send PURGE (docs/purge.md), as may who shows admin_token"
    ),
];

/// What both a `[[site]]` and `[forward]` say of caching.
pub(super) const CACHING: &[Key<Rules>] = &[
    key!(
        "heuristic",
        Percent,
        heuristic_percent,
        "freshness without explicit lifetime: this share of the time since Last-Modified"
    ),
    key!("heuristic_max", Seconds, heuristic_max, "the most that heuristic freshness may come to"),
    key!("targeted", List(FIELD), targeted, "fields obeyed before Cache-Control, first one first (RFC 9213)"),
    key!("stale_if_error", Seconds, stale_if_error, "stale responses serve this long when the origin fails"),
    key!(
        "stale_while_revalidate",
        Seconds,
        stale_while_revalidate,
        "stale responses serve this long while a fresh one is fetched"
    ),
    key!(
        "store_cookies",
        COOKIES,
        cookies,
        "Set-Cookie fields stored and sent to all clients: values of one or two bytes without an end of life, all, or none"
    ),
    key!(
        "reloads",
        RELOADS,
        ignores_reloads,
        "whether a client's no-cache, max-age or min-fresh makes the cache ask the origin"
    ),
    key!(
        "store_post",
        Flag,
        stores_posts,
        "store answers to POST that have a lifetime and their own URL in Content-Location, for later GETs (RFC 9110 9.3.3)"
    ),
];
