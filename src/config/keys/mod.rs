//! THE TABLE of keys: one row each, with its name, kind, field and meaning. Parsing, errors, the reference in
//! `docs/config.md` and the example file all come from here. Values are written into a [`Draft`].

mod acme;
mod caching;
mod cluster;
mod control;
mod key;
mod resolve_interval;
mod rpc;
mod site;
mod statistics;
mod sticky;
mod values;

use larder_proxy::settings::CertificateFiles;

use super::bounds::{DISK, ENTRIES, MEMORY, THREADS};
use super::draft::{DiskDraft, Draft};
use super::kinds::{AtLeast, Count, Flag, Kind, List, NetworkList, OrWord, Ports, Price, Share, Size, Words};
pub(super) use acme::ACME;
pub(super) use caching::CACHING;
pub(super) use key::{Key, Section};
use key::{MANY, keys};
pub(super) use site::SITE;
use statistics::CLIENT_DETAIL;
use values::{
    ACCESS_LOG, ACCESS_LOG_FLUSH, ADDRESS, ADMIN, ADVISE, AUTO, CLIENT_ADDRESS, CLIENT_AUTH, COLLECTOR,
    COUNTS, DIRECTORY, FILES, INTERCEPTED, LISTEN, LOG_FILE, MODE, NETWORK, NO_PROXY, NODE_URL, PARENT,
    PARENT_FALLBACK, POLICY, REAL_IP, REQUEST_ID, SECRET, TIMES, TOKEN,
};
pub(super) use values::{BALANCE, EARLY_HINTS, HOST_HEADER, ORIGIN, PREFETCHES, SLICE};

/// The keys above all tables: the process.
pub(super) const TOP: &[Key<Draft>] = keys! {
    "include" in include: List(FILES),
        "files that are read after this one, in the order of their names, such as \"conf.d/*.toml\"; their keys replace those of \
         this file, and their tables such as [[site]] are added";
    "threads" in threads: OrWord("auto", Count(THREADS)), "worker threads; auto: one for each core";
    "admin" in admin: OrWord("off", ADMIN),
        "address of the admin listener: metrics, live log, health; addresses other than loopback need admin_token; https:// in front: over TLS (docs/tls.md)";
    "admin_token" in values.admin_token: OrWord("off", SECRET),
        "token that clients on other machines must present to the admin listener; also $LARDER_TOKEN";
    "purge_edges" in values.purge_edges: List(NODE_URL),
        "admin listeners of caches that get their responses from this one, with the same admin_token: each purge here is repeated there (docs/purge.md)";
    "advise" in values.advise: ADVISE,
        "whether shadow caches, without contents, show what other policies and sizes would bring (docs/advise.md)";
    "access_log" in values.access_log: ACCESS_LOG, "one line for each request, in this form (docs/logs.md)";
    "access_log_file" in values.access_log_file: OrWord("stdout", LOG_FILE),
        "file of the access log; SIGHUP reopens it";
    "access_log_flush" in values.access_log_by_line: ACCESS_LOG_FLUSH,
        "when lines are written: many together, each within 100 ms, or each line at once";
    "access_log_client" in values.access_log_client: CLIENT_DETAIL,
        "part of clients' addresses in the access log; truncated: 24 bits of IPv4, 48 of IPv6; off: 0.0.0.0";
    "name" in values.name: TOKEN, "name of the proxy in Via and Cache-Status";
    "x_cache" in values.x_cache: Flag, "also send the traditional X-Cache: HIT or MISS";
    "client_address" in values.client_address: CLIENT_ADDRESS, "field that tells origins of sites the client's address";
    "request_id" in values.request_id: OrWord("off", REQUEST_ID),
        "field with an id for each request, as X-Request-Id: from proxies in trust, or made; in logs, traces and requests to origins";
    "trust" in values.trust.proxies: NetworkList,
        "proxies in front of this one, whose X-Forwarded-For, -Proto and -Host (or Forwarded) are accepted; \"@FILE\": the networks in this file";
    "real_ip" in values.trust.real_ip: OrWord("off", REAL_IP),
        "field in which these proxies send the client's address alone, before X-Forwarded-For: CF-Connecting-IP, True-Client-IP, X-Real-IP";
};

/// Every table of the file except the sites.
pub(super) const SECTIONS: &[Section] = &[
    Section {
        name: "memory",
        about: "The memory tier. Its capacity is either a size or a number of entries.",
        keys: keys! {
            "size" in memory_size: OrWord("auto", Size(MEMORY)),
                "capacity in bytes; auto: 1GiB or a quarter of the machine's memory, whichever is less";
            "entries" in memory_entries: OrWord("off", Count(ENTRIES)), "capacity in responses instead of bytes";
            "count" in values.memory.counts: COUNTS,
                "size of a response, for the capacity and the policy: all: with head, key and bookkeeping; content: of its content, as in \
                 a simulation, so the process takes more memory than the capacity";
            "policy" in values.memory.policy: POLICY, "eviction policy";
            "auto" in values.memory.auto: AUTO,
                "policy: another policy runs, until the config names another one, once shadow caches have shown for an hour that it is better (docs/advise.md)";
            "max_object" in values.memory.max_object: OrWord("auto", Size(MEMORY)),
                "largest content that is stored; auto: no limit but the capacity";
            "max_variants" in values.memory.max_variants: Count(1..=65_536), "variants kept for one URL (Vary)";
        },
    },
    Section {
        name: "schedule",
        about: "Removal of stored responses by age or time. Off by default: responses are evicted when room is needed.",
        keys: keys! {
            "every" in values.schedule.every: AtLeast(1), "interval between checks of all stored responses";
            "expired" in values.schedule.expired: OrWord("off", AtLeast(0)),
                "remove responses this long after they are stale and can no longer replace an error";
            "unused" in values.schedule.unused: OrWord("off", AtLeast(1_000)),
                "remove responses without a request for this long";
            "everything" in values.schedule.everything: OrWord("off", TIMES),
                "remove all responses at these times (local time)";
            "rate" in values.schedule.rate: Count(1..=MANY), "objects on disk that are checked in a second";
        },
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
        about: "Traces and metrics for OpenTelemetry (docs/logs.md). No request waits for them.",
        keys: keys! {
            "endpoint" in values.trace.endpoint: OrWord("off", COLLECTOR),
                "URL of the collector for OTLP over HTTP; /v1/traces or /v1/metrics is appended";
            "sample" in values.trace.sample: Share,
                "share of requests that are traced; a request with traceparent follows that instead";
            "metrics" in values.trace.metrics: OrWord("off", AtLeast(100)),
                "interval at which the collector gets the metrics of /metrics, too";
        },
    },
    Section {
        name: "cost",
        about: "Prices in any currency, by which larder advise shows sizes as money (docs/advise.md). Policies with cost=money take the fee from here.",
        keys: keys! {
            "per_gb" in values.cost.per_gb: Price, "of 1,000,000,000 bytes from origins";
            "per_million" in values.cost.per_million: Price, "of a million requests to origins";
            "memory_gib_month" in values.cost.memory_gib_month: Price, "of a GiB of memory in a month";
            "memory_step" in values.cost.memory_step: Size(MEMORY), "memory that is sold together";
            "disk_gib_month" in values.cost.disk_gib_month: Price, "of a GiB of disk in a month";
            "disk_step" in values.cost.disk_step: Size(MEMORY), "disk that is sold together";
        },
    },
    Section {
        name: "validate",
        about: "A sample of hits that are fetched again from the origin to detect stale ones (docs/validator.md).",
        keys: keys! {
            "sample" in values.validate.sample: Share,
                "share of hits that are checked: 0.001 is one in a thousand; 0: none";
            "rate" in values.validate.rate: Count(1..=MANY), "largest number of checks in a second";
            "cookies" in values.validate.cookies: Flag, "also repeat requests with Cookie or Authorization";
        },
    },
    Section {
        name: "limits",
        about: "Limits for clients. A request beyond a limit gets the status in brackets.",
        keys: keys! {
            "head" in values.limits.head_bytes: Size(256..=16 << 20), "a request's head (431)";
            "fields" in values.limits.head_fields: Count(1..=256), "field lines of a request's head (431)";
            "uri" in values.limits.target_bytes: Size(16..=65_535), "a request's target (414)";
            "body" in values.limits.body_bytes: Size(0..=*MEMORY.end()), "a request's content (413)";
            "connections" in values.limits.connections: Count(1..=MANY), "client connections at once (closed)";
            "streams" in values.limits.streams: Count(0..=1_000),
                "requests at once on an HTTP/2 connection (refused); 0: HTTP/2 is off";
            "in_flight" in values.limits.in_flight: Count(1..=MANY),
                "requests to origins in progress at once, each with a permit (queued); one client or site leaves a \
                 sixteenth, at least 1 or 2, to others; if several wait, the client that holds the fewest is next";
            "queue" in values.limits.queue: Count(0..=MANY), "requests that may wait for a permit (503)";
            "compressions" in values.limits.compressions: Count(0..=MANY),
                "replies compressed at once while they are sent (sent uncompressed); 0: only stored ones are compressed";
        },
    },
    Section {
        name: "timeouts",
        about: "Time limits for clients and origins.",
        keys: keys! {
            "head" in values.timeouts.head: AtLeast(1), "from a head's first byte to its last (408)";
            "idle" in values.timeouts.idle: AtLeast(1), "between two requests of a connection (closed)";
            "stall" in values.timeouts.stall: AtLeast(1), "without progress in any content (408, or closed)";
            "min_rate" in values.timeouts.min_rate: Count(0..=MANY),
                "bytes a second that clients must send or read after stall (408, or closed); 0: any rate";
            "connect" in values.timeouts.connect: AtLeast(1), "for a connection to an origin, TLS included (504)";
            "first_byte" in values.timeouts.first_byte: AtLeast(1), "for the origin's answer to begin (504)";
            "origin_idle" in values.timeouts.origin_idle: AtLeast(1),
                "between two reads of that answer (502); of a stream of events (text/event-stream), at least 5m";
            "unread_rate" in values.timeouts.unread_rate: Count(0..=MANY),
                "bytes a second at which an answer without readers must arrive after stall (abandoned); 0: any rate";
            "tunnel" in values.timeouts.tunnel: AtLeast(1),
                "without a byte in either direction of a tunnel (closed)";
            "drain" in values.timeouts.drain: AtLeast(0), "for requests in progress after SIGTERM";
        },
    },
    Section {
        name: "reverse",
        about: "Listeners for the sites.",
        keys: keys! {
            "listen" in reverse_listen: OrWord("auto", List(LISTEN)),
                "addresses or Unix sockets, such as \"unix:/run/larder/http.sock\"; auto: 127.0.0.1:8080 if there is a site";
            "socket_mode" in values.sockets.mode: MODE, "permissions of the files of its Unix sockets, in octal";
            "listen_tls" in reverse_listen_tls: OrWord("auto", List(ADDRESS)),
                "addresses for TLS; auto: 127.0.0.1:8443 if there is a site, and a [[tls]] or a site with acme";
            "proxy_protocol" in values.proxy_protocol.reverse: List(NETWORK),
                "proxies in front of this one whose connections begin with a PROXY header, version 1 or 2: the client's address is the one that it names";
            "client_ca" in reverse_client.ca: OrWord("none", DIRECTORY),
                "PEM file with the authorities that are trusted for certificates of clients; TLS listeners then \
                 request a certificate from each client, which origins see in Client-Cert (docs/tls.md)";
            "client_auth" in reverse_client.is_required: OrWord("auto", CLIENT_AUTH),
                "require: clients over TLS without a certificate are refused; request: they are served; auto: require, if there is a client_ca";
        },
    },
    Section {
        name: "forward",
        about: "The forward proxy: it fetches from any origin.",
        keys: keys! {
            "listen" in forward_listen: OrWord("auto", List(ADDRESS)),
                "addresses; auto: 127.0.0.1:3128 if there is no site";
            "listen_tls" in forward_listen_tls: List(ADDRESS),
                "addresses for clients that reach the proxy over TLS";
            "proxy_protocol" in values.proxy_protocol.forward: List(NETWORK),
                "proxies in front of this one whose connections begin with a PROXY header, version 1 or 2: the client's address is the one that it names";
            "client_ca" in forward_client.ca: OrWord("none", DIRECTORY),
                "PEM file with the authorities that are trusted for certificates of clients; TLS listeners then \
                 request a certificate from each client (docs/tls.md)";
            "client_auth" in forward_client.is_required: OrWord("auto", CLIENT_AUTH),
                "require: clients over TLS without a certificate are refused; request: they are served; auto: require, if there is a client_ca";
            "clients" in values.forward.clients: List(NETWORK),
                "addresses and networks whose clients may use it (403); a listener for all addresses needs it";
            "ports" in values.forward.ports: List(Ports),
                "ports of origins that requests other than CONNECT may reach (403)";
            "connect_ports" in values.forward.connect_ports: List(Count(1..=65_535)),
                "ports that CONNECT may reach (403)";
            "allow_private" in values.forward.allow_private: Flag,
                "let clients reach loopback, link-local, private and metadata addresses";
            "http2" in values.forward.http2: Flag,
                "let origins over https choose HTTP/2 (docs/forward-proxy.md#http2-to-origins)";
            "client_address" in values.forward.client_address: CLIENT_ADDRESS,
                "field that tells origins the client's address";
            "pac" in values.forward.pac.is_on: Flag,
                "answer requests for /proxy.pac and /wpad.dat with a script by which clients configure themselves (docs/forward-proxy.md#clients-that-configure-themselves)";
            "pac_direct" in values.forward.pac.direct: List(NO_PROXY),
                "destinations that clients reach without the proxy by this script";
            "pac_fallback" in values.forward.pac.falls_back: PARENT_FALLBACK,
                "while the proxy does not answer, clients: off: reach nothing; direct: reach origins directly";
            "parent" in values.forward.parents: OrWord("default", List(PARENT)),
                "parent proxies through which origins are reached; default: those of [parent]; []: none";
        },
    },
    Section {
        name: "parent",
        about: "Parent proxies: those of HTTP or SOCKS 5 through which Larder reaches origins, if they are needed (docs/forward-proxy.md#parent-proxies).",
        keys: keys! {
            "http" in parent.http: List(PARENT),
                "the proxies, the preferred one first; the next is tried while one cannot be reached";
            "https" in parent.https: OrWord("http", List(PARENT)),
                "proxies for https origins and tunnels; http: the same; []: none";
            "no_proxy" in parent.no_proxy: List(NO_PROXY),
                "destinations that are reached directly: a host with all names below it, .domain: only these, networks for URLs with \
                 addresses; this machine always is";
            "only" in parent.only: List(NO_PROXY),
                "destinations that are reached through these proxies, written as those; []: all; others are reached directly";
            "from_env" in parent.from_env: Flag,
                "take proxies that are not set here from HTTP_PROXY, HTTPS_PROXY and ALL_PROXY, and further destinations from NO_PROXY";
            "fallback" in parent.falls_back: PARENT_FALLBACK,
                "while no proxy can be reached: off: requests fail; direct: origins are reached directly";
            "fail_timeout" in parent.fail_timeout: AtLeast(1),
                "for how long a proxy that could not be reached gets no requests";
        },
    },
    Section {
        name: "intercept",
        about: "Hosts whose https requests the forward proxy answers itself, so that they are cached: clients have to trust \
                its authority (docs/run.md). Other tunnels stay as they are.",
        keys: keys! {
            "hosts" in intercept.hosts: List(INTERCEPTED),
                "hosts whose tunnels are intercepted, such as \"*.packages.example\"; \"registries\": the public registries of packages; \"*\": all";
            "never" in intercept.never: List(INTERCEPTED), "hosts among these whose tunnels stay as they are";
            "ca" in intercept.ca: OrWord("state", DIRECTORY),
                "directory with the authority that larder ca init has made; state: the state directory";
        },
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
pub(super) const DISK_KEYS: &[Key<DiskDraft>] = keys! {
    "path" in tier.path: DIRECTORY, "directory for this tier only; created if missing";
    "size" in tier.size: Size(DISK), "largest total size of its files";
    "policy" in tier.policy: POLICY, "eviction policy, with an optional admission filter";
    "max_object" in tier.max_object: OrWord("auto", Size(MEMORY)),
        "largest content that is stored; auto: no limit but the capacity";
};

/// The keys of a `[[tls]]`.
pub(super) const TLS_KEYS: &[Key<CertificateFiles>] = keys! {
    "cert" in cert: DIRECTORY, "file with the certificate chain in PEM, the server's own certificate first";
    "key" in key: DIRECTORY, "file with its private key in PEM";
};
