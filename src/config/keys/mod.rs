//! THE TABLE of keys: one row each, with its name, kind, field and meaning. Parsing, errors, the reference in
//! `docs/config.md` and the example file all come from here. Values are written into a [`Draft`].

mod acme;
mod caching;
mod cluster;
mod control;
mod key;
mod rpc;
mod site;
mod statistics;
mod values;

use larder_proxy::settings::CertificateFiles;

use super::bounds::{DISK, ENTRIES, MEMORY, THREADS};
use super::draft::{DiskDraft, Draft};
use super::kinds::{AtLeast, Count, Flag, Kind, List, NetworkList, Or, Ports, Share, Size, Words};
pub(super) use acme::ACME;
pub(super) use caching::CACHING;
pub(super) use key::{Key, Section};
use key::{MANY, key};
pub(super) use site::SITE;
use values::{
    ACCESS_LOG, ADDRESS, ADMIN, CLIENT_ADDRESS, CLIENT_AUTH, COLLECTOR, COUNTS, DIRECTORY, LISTEN, MODE,
    NETWORK, POLICY, REAL_IP, REQUEST_ID, SECRET, TIMES, TOKEN,
};
pub(super) use values::{EARLY_HINTS, HOST_HEADER, PREFETCHES};

/// The keys above all tables: the process.
pub(super) const TOP: &[Key<Draft>] = &[
    key!("threads", Or("auto", Count(THREADS)), threads, "worker threads; auto: one for each core"),
    key!(
        "admin",
        Or("off", ADMIN),
        admin,
        "address of the admin listener: metrics, live log, health; addresses other than loopback need admin_token; https:// in front: over TLS (docs/tls.md)"
    ),
    key!(
        "admin_token",
        Or("off", SECRET),
        admin_token,
        "token that clients on other machines must present to the admin listener; also $LARDER_TOKEN"
    ),
    key!("access_log", ACCESS_LOG, access_log, "one line for each request, in this form (docs/logs.md)"),
    key!(
        "access_log_file",
        Or("stdout", DIRECTORY),
        access_log_file,
        "file of the access log; SIGHUP reopens it"
    ),
    key!("name", TOKEN, name, "name of the proxy in Via and Cache-Status"),
    key!("x_cache", Flag, x_cache, "also send the traditional X-Cache: HIT or MISS"),
    key!("client_address", CLIENT_ADDRESS, client_address, "field that tells origins the client's address"),
    key!(
        "request_id",
        Or("off", REQUEST_ID),
        request_id,
        "field with an id for each request, as X-Request-Id: from proxies in trust, or made; in logs, traces and requests to origins"
    ),
    key!(
        "trust",
        NetworkList,
        trust.proxies,
        "proxies in front of this one, whose X-Forwarded-For, -Proto and -Host (or Forwarded) are accepted; \"@FILE\": the networks in this file"
    ),
    key!(
        "real_ip",
        Or("off", REAL_IP),
        trust.real_ip,
        "field in which these proxies send the client's address alone, before X-Forwarded-For: CF-Connecting-IP, True-Client-IP, X-Real-IP"
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
                "capacity in bytes; auto: 1GiB or a quarter of the machine's memory, whichever is less"
            ),
            key!(
                "entries",
                Or("off", Count(ENTRIES)),
                memory.entries,
                "capacity in responses instead of bytes"
            ),
            key!(
                "count",
                COUNTS,
                memory.counts,
                "size of a response, for the capacity and the policy: all: with head, key and bookkeeping; content: of its content, as in \
                 a simulation, so the process takes more memory than the capacity"
            ),
            key!("policy", POLICY, memory.policy, "eviction policy"),
            key!(
                "max_object",
                Or("auto", Size(MEMORY)),
                memory.max_object,
                "largest content that is stored; auto: no limit but the capacity"
            ),
            key!("max_variants", Count(1..=65_536), memory.max_variants, "variants kept for one URL (Vary)"),
        ],
    },
    Section {
        name: "schedule",
        about: "Removal of stored responses by age or time. Off by default: responses are evicted when room is needed.",
        keys: &[
            key!("every", AtLeast(1), schedule.every, "interval between checks of all stored responses"),
            key!(
                "expired",
                Or("off", AtLeast(0)),
                schedule.expired,
                "remove responses this long after they are stale and can no longer replace an error"
            ),
            key!(
                "unused",
                Or("off", AtLeast(1_000)),
                schedule.unused,
                "remove responses without a request for this long"
            ),
            key!(
                "everything",
                Or("off", TIMES),
                schedule.everything,
                "remove all responses at these times (local time)"
            ),
            key!("rate", Count(1..=MANY), schedule.rate, "objects on disk that are checked in a second"),
        ],
    },
    Section {
        name: "stats",
        about: "The statistics database, in which every request is recorded (docs/statistics.md). No request waits for it.",
        keys: statistics::KEYS,
    },
    Section {
        name: "cluster",
        about: "Nodes that serve as one cache, and the Valkey or Redis through which they find each other (docs/cluster.md).",
        keys: cluster::KEYS,
    },
    Section {
        name: "trace",
        about: "Traces for OpenTelemetry; needs a build with the feature otlp (docs/logs.md). No request waits for them.",
        keys: &[
            key!(
                "endpoint",
                Or("off", COLLECTOR),
                trace.endpoint,
                "URL of the collector for OTLP over HTTP; /v1/traces is appended"
            ),
            key!(
                "sample",
                Share,
                trace.sample,
                "share of requests that are traced; a request with traceparent follows that instead"
            ),
        ],
    },
    Section {
        name: "validate",
        about: "A sample of hits that are fetched again from the origin to detect stale ones (docs/validator.md).",
        keys: &[
            key!(
                "sample",
                Share,
                validate.sample,
                "share of hits that are checked: 0.001 is one in a thousand; 0: none"
            ),
            key!("rate", Count(1..=MANY), validate.rate, "largest number of checks in a second"),
            key!("cookies", Flag, validate.cookies, "also repeat requests with Cookie or Authorization"),
        ],
    },
    Section {
        name: "limits",
        about: "Limits for clients. A request beyond a limit gets the status in brackets.",
        keys: &[
            key!("head", Size(256..=16 << 20), limits.head_bytes, "a request's head (431)"),
            key!("fields", Count(1..=256), limits.head_fields, "field lines of a request's head (431)"),
            key!("uri", Size(16..=65_535), limits.target_bytes, "a request's target (414)"),
            key!("body", Size(0..=*MEMORY.end()), limits.body_bytes, "a request's content (413)"),
            key!("connections", Count(1..=MANY), limits.connections, "client connections at once (closed)"),
            key!(
                "streams",
                Count(0..=1_000),
                limits.streams,
                "requests at once on an HTTP/2 connection (refused); 0: HTTP/2 is off"
            ),
            key!(
                "in_flight",
                Count(1..=MANY),
                limits.in_flight,
                "requests to origins in progress at once, each with a permit (queued)"
            ),
            key!("queue", Count(0..=MANY), limits.queue, "requests that may wait for a permit (503)"),
        ],
    },
    Section {
        name: "timeouts",
        about: "Time limits for clients and origins.",
        keys: &[
            key!("head", AtLeast(1), timeouts.head, "from a head's first byte to its last (408)"),
            key!("idle", AtLeast(1), timeouts.idle, "between two requests of a connection (closed)"),
            key!("stall", AtLeast(1), timeouts.stall, "without progress in any content (408, or closed)"),
            key!(
                "min_rate",
                Count(0..=MANY),
                timeouts.min_rate,
                "bytes a second that clients must send or read after stall (408, or closed); 0: any rate"
            ),
            key!(
                "connect",
                AtLeast(1),
                timeouts.connect,
                "for a connection to an origin, TLS included (504)"
            ),
            key!("first_byte", AtLeast(1), timeouts.first_byte, "for the origin's answer to begin (504)"),
            key!("origin_idle", AtLeast(1), timeouts.origin_idle, "between two reads of that answer (502)"),
            key!(
                "unread_rate",
                Count(0..=MANY),
                timeouts.unread_rate,
                "bytes a second at which an answer without readers must arrive after stall (abandoned); 0: any rate"
            ),
            key!(
                "tunnel",
                AtLeast(1),
                timeouts.tunnel,
                "without a byte in either direction of a tunnel (closed)"
            ),
            key!("drain", AtLeast(0), timeouts.drain, "for requests in progress after SIGTERM"),
        ],
    },
    Section {
        name: "reverse",
        about: "Listeners for the sites.",
        keys: &[
            key!(
                "listen",
                Or("auto", List(LISTEN)),
                reverse_listen,
                "addresses or Unix sockets, such as \"unix:/run/larder/http.sock\"; auto: 127.0.0.1:8080 if there is a site"
            ),
            key!("socket_mode", MODE, socket_mode, "permissions of the files of its Unix sockets, in octal"),
            key!(
                "listen_tls",
                Or("auto", List(ADDRESS)),
                reverse_listen_tls,
                "addresses for TLS; auto: 127.0.0.1:8443 if there is a site, and a [[tls]] or a site with acme"
            ),
            key!(
                "proxy_protocol",
                List(NETWORK),
                proxy_protocol.reverse,
                "proxies in front of this one whose connections begin with a PROXY header, version 1 or 2: the client's address is the one that it names"
            ),
            key!(
                "client_ca",
                Or("none", DIRECTORY),
                reverse_client.ca,
                "PEM file with the authorities that are trusted for certificates of clients; TLS listeners then \
                 request a certificate from each client, which origins see in Client-Cert (docs/tls.md)"
            ),
            key!(
                "client_auth",
                Or("auto", CLIENT_AUTH),
                reverse_client.is_required,
                "require: clients over TLS without a certificate are refused; request: they are served; auto: require, if there is a client_ca"
            ),
        ],
    },
    Section {
        name: "forward",
        about: "The forward proxy: it fetches from any origin.",
        keys: &[
            key!(
                "listen",
                Or("auto", List(ADDRESS)),
                forward_listen,
                "addresses; auto: 127.0.0.1:3128 if there is no site"
            ),
            key!(
                "listen_tls",
                List(ADDRESS),
                forward_listen_tls,
                "addresses for clients that reach the proxy over TLS"
            ),
            key!(
                "proxy_protocol",
                List(NETWORK),
                proxy_protocol.forward,
                "proxies in front of this one whose connections begin with a PROXY header, version 1 or 2: the client's address is the one that it names"
            ),
            key!(
                "client_ca",
                Or("none", DIRECTORY),
                forward_client.ca,
                "PEM file with the authorities that are trusted for certificates of clients; TLS listeners then \
                 request a certificate from each client (docs/tls.md)"
            ),
            key!(
                "client_auth",
                Or("auto", CLIENT_AUTH),
                forward_client.is_required,
                "require: clients over TLS without a certificate are refused; request: they are served; auto: require, if there is a client_ca"
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
    Section { name: "thrift", about: "The listener for Apache Thrift.", keys: rpc::THRIFT },
    Section { name: "onc", about: "The listener for ONC RPC, over TCP and UDP.", keys: rpc::ONC },
    Section { name: "line", about: "The listener for the line protocol.", keys: rpc::LINE },
    Section {
        name: "doors",
        about: "Settings of all RPC listeners. [forward] sets the addresses and ports that their clients may reach.",
        keys: rpc::DOORS,
    },
];

/// The keys of a `[[disk]]`.
pub(super) const DISK_KEYS: &[Key<DiskDraft>] = &[
    key!("path", DIRECTORY, tier.path, "directory for this tier only; created if missing"),
    key!("size", Size(DISK), tier.size, "largest total size of its files"),
    key!("policy", POLICY, tier.policy, "eviction policy, with an optional admission filter"),
    key!(
        "max_object",
        Or("auto", Size(MEMORY)),
        tier.max_object,
        "largest content that is stored; auto: no limit but the capacity"
    ),
];

/// The keys of a `[[tls]]`.
pub(super) const TLS_KEYS: &[Key<CertificateFiles>] = &[
    key!(
        "cert",
        DIRECTORY,
        cert,
        "file with the certificate chain in PEM, the server's own certificate first"
    ),
    key!("key", DIRECTORY, key, "file with its private key in PEM"),
];
