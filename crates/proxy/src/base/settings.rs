//! What the proxy is told: plain data, already checked.
//!
//! The binary turns a config file and flags into these; nothing below validates again. A reload
//! makes a new `Settings`: everything applies at once except `listen`, `admin`, `threads`, `statistics`,
//! `cluster`, `trace` and the capacity of the memory tier, which belong to the process.

mod acme;
mod certificates;
mod client_auth;
pub(crate) mod cluster;
pub(crate) mod engine_address;
mod engine_tls;
mod hsts;
mod limit;
mod listeners;
mod node_tls;
mod origin;
mod origin_tls;
mod pages;
mod rule;
mod statistics;
mod token;
mod upstream;
mod users;
mod validate;

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use larder_evict::{By, Capacity, Spec};
pub use larder_rpc::line::Form as LineForm;
pub use larder_rules::{Conditions, Domains, LARGEST_LIST, Named, Names, Networks, Pattern, Query, Rule};
pub use larder_rules::{RuleSet, TRACKING, normal_path};
pub use larder_semantics::lifetimes::{Ignored, Lifetimes};
use larder_semantics::storable::Rules;
pub use larder_store::{Counts, DiskTier};

pub use self::acme::{Acme, AcmeChallenge, LETS_ENCRYPT, LETS_ENCRYPT_STAGING};
pub use self::certificates::{CertificateFault, CertificateFiles};
pub use self::client_auth::{ClientAuth, ClientAuthFiles, ClientAuths};
pub use self::cluster::{EngineAddress, Settings as Cluster, Tier as SecondTier, WithoutEngine};
pub use self::engine_tls::EngineTls;
pub use self::hsts::Hsts;
pub use self::limit::{Counted, Limit, LimitBy, Rate};
pub use self::listeners::{AdminTls, Listener, ProxyProtocol, Role, UnixSockets};
pub use self::node_tls::{NodeTls, NodeTlsFiles};
pub(crate) use self::origin::socket_of;
pub use self::origin::{Balance, Origin};
pub use self::origin_tls::{OriginTls, OriginTlsFiles};
pub use self::pages::{Page, Pages};
pub use self::rule::{Answer, CookieFilter, Edits, Effects, Placeholder, SiteRule, Template};
pub use self::statistics::{ClientDetail, Database, QueryStrings, Statistics};
pub use self::token::Token;
pub use self::upstream::{Tries, Upstream};
pub(crate) use self::users::Print;
pub use self::users::{BadLine, Tokens, Users};
pub use self::validate::Validate;
use crate::base::networks::near;
pub use crate::base::path_prefix::PathPrefix;
pub use crate::base::schedule::{Schedule, Times};

/// The most rules of a site.
pub const MOST_RULES: usize = larder_rules::RuleSet::MOST;

/// [`Site::doubt`] where nothing is configured.
pub const DOUBT: u32 = 60;

/// Everything the proxy needs to know.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What was written in the config and has no effect, a line each.
    pub without_effect: Vec<String>,
    /// Where clients connect. At least one, with `sockets`.
    pub listen: Vec<Listener>,
    /// Unix sockets where clients connect.
    pub sockets: UnixSockets,
    /// The proxies in front of them that begin each connection with a PROXY header.
    pub proxy_protocol: ProxyProtocol,
    /// The certificates of the listeners that speak TLS; the first one is for clients that name no server.
    pub certificates: Vec<CertificateFiles>,
    /// The certificates that listeners ask clients for.
    pub client_auth: ClientAuths,
    /// Where `/stats`, `/healthz` and `/readyz` are served; `None` turns them off.
    pub admin: Option<SocketAddr>,
    /// TLS of the admin listener; `None`: it speaks HTTP in clear.
    pub admin_tls: Option<AdminTls>,
    /// The token that clients on other machines must show there; `None`: only clients on this machine are answered.
    pub admin_token: Option<Token>,
    /// Worker threads, each with its own runtime and its own accept queue. At least 1.
    pub threads: usize,
    /// The memory tier.
    pub memory: MemoryTier,
    /// The directories of the disk tier; none: what is stored goes with the process.
    pub disks: Vec<DiskTier>,
    /// What is forgotten without being asked for.
    pub schedule: Schedule,
    /// Which hits are compared with what the origin answers.
    pub validate: Validate,
    /// Bounds on what a client may send and hold.
    pub limits: Limits,
    /// How long to wait for clients and origins.
    pub timeouts: Timeouts,
    /// Reverse-proxied sites, in the order they are matched.
    pub sites: Vec<Site>,
    /// How requests for other people's origins are treated.
    pub forward: Forward,
    /// The doors for programs that speak RPC.
    pub doors: Doors,
    /// The access log.
    pub access_log: AccessLog,
    /// Where it is written; `None`: to standard output.
    pub access_log_file: Option<PathBuf>,
    /// The directory in which a process leaves what the next one has to know; `None`: nothing is left.
    pub state: Option<PathBuf>,
    /// What is kept of requests in a database.
    pub statistics: Statistics,
    /// The cluster that this is a node of; `None`: it is by itself.
    pub cluster: Option<Cluster>,
    /// Where requests are traced to.
    pub trace: Tracing,
    /// How this proxy names itself in `Via` and `Cache-Status` (a token, RFC 9110 section 7.6.3).
    pub name: String,
    /// Also send the traditional `X-Cache: HIT` or `X-Cache: MISS`.
    pub x_cache: bool,
    /// How the client's address is passed on.
    pub client_address: ClientAddress,
    /// Proxies in front of this one that may say for whom they ask.
    pub trust: Vec<IpNet>,
}

/// The memory tier's size and policy.
#[derive(Clone, Debug)]
pub struct MemoryTier {
    /// Bytes or entries.
    pub capacity: Capacity,
    /// What counts as the size of a response.
    pub counts: Counts,
    /// The eviction policy.
    pub policy: Spec,
    /// The largest body stored, in bytes; `None`: as large as a shard.
    pub max_object: Option<u64>,
    /// Variants kept for one URL (RFC 9111 section 4.1); the oldest goes first. At least 1.
    pub max_variants: usize,
}

/// Bounds on what a client may send and hold. Each is refused with a status of its own.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of a request's head (431).
    pub head_bytes: usize,
    /// Field lines of a request's head (431).
    pub head_fields: usize,
    /// Bytes of a request-target (414).
    pub target_bytes: usize,
    /// Bytes of a request's content (413).
    pub body_bytes: u64,
    /// Client connections at once; further ones are closed on arrival.
    pub connections: usize,
    /// Streams of an HTTP/2 connection at once; further ones are refused. 0: HTTP/2 is not spoken.
    pub streams: usize,
    /// Requests to origins at once.
    pub in_flight: usize,
    /// Requests waiting for one of those places; beyond it: 503 with `Retry-After`.
    pub queue: usize,
}

/// How long to wait.
#[derive(Clone, Debug)]
pub struct Timeouts {
    /// From the first byte of a head to its last (408).
    pub head: Duration,
    /// Between two requests of a connection (closed silently).
    pub idle: Duration,
    /// Without a single byte of progress in a request's or response's content (408, or closed).
    pub stall: Duration,
    /// Bytes per second below which a request's content is refused (408) and a client that takes a
    /// response is dropped, once either has taken `stall`; 0: any rate.
    pub min_rate: u64,
    /// For a TCP (and TLS) connection to an origin (504).
    pub connect: Duration,
    /// From the end of a request to the first byte of the origin's answer (504).
    pub first_byte: Duration,
    /// Between two pieces of an origin's answer (502, or the truncation passed on).
    pub origin_idle: Duration,
    /// Bytes per second below which an origin's answer is given up that nobody reads any more, once it has gone unread
    /// for `stall`; 0: any rate.
    pub unread_rate: u64,
    /// Without a byte in either direction of a tunnel (closed).
    pub tunnel: Duration,
    /// How long `SIGTERM` waits for requests under way.
    pub drain: Duration,
}

/// A reverse-proxied site.
#[derive(Clone, Debug)]
pub struct Site {
    /// Its name in metrics and logs.
    pub name: String,
    /// Host names, lower-case, without port; `*.example.com` matches one or more leading labels;
    /// empty: every host.
    pub hosts: Vec<String>,
    /// The paths of these hosts that it is for.
    pub path: PathPrefix,
    /// Where its content comes from. At least one.
    pub origins: Vec<Origin>,
    /// Which of them a request goes to.
    pub balance: Balance,
    /// What the origin sees as `Host`.
    pub host: HostHeader,
    /// Fields of responses that name the origin are changed to name the site.
    pub rewrite_urls: bool,
    /// Caching rules.
    pub rules: Rules,
    /// Rules for parts of its requests, in the order in which they apply.
    pub site_rules: Vec<SiteRule>,
    /// False: every request passes through.
    pub cache: bool,
    /// Requests that arrive without TLS are answered with a redirect to https.
    pub only_https: bool,
    /// What replies to requests for https tell browsers, if the origin does not.
    pub hsts: Option<Hsts>,
    /// Nothing of its answers is stored but their tags: the site is a gateway beside its backend.
    pub tags: Option<larder_tags::Settings>,
    /// How long a change whose end is unknown may still happen, in seconds; 0: not at all.
    pub doubt: u32,
    /// Further tries of an idempotent request whose origin failed before it answered.
    pub retries: u32,
    /// Failures in a row after which an origin is left alone.
    pub max_fails: u32,
    /// How long it is left alone.
    pub fail_timeout: Duration,
    /// Time after which names of origins are resolved again; `None`: connections that are kept do not ask.
    pub resolve_interval: Option<Duration>,
    /// Active checks of each origin, if any.
    pub health: Option<Health>,
    /// From whom its hosts have certificates; `None`: from `certificates`.
    pub acme: Option<Arc<Acme>>,
    /// TLS towards its origins, where it is not by the system's authorities alone.
    pub tls: Option<Arc<OriginTls>>,
    /// Who may send `PURGE`, besides those who show the admin token.
    pub purge_from: Vec<IpNet>,
}

/// An active health check: `GET path` that must answer 2xx or 3xx.
#[derive(Clone, Debug)]
pub struct Health {
    /// The path asked for.
    pub path: String,
    /// Time between two checks.
    pub interval: Duration,
}

/// What the origin sees as `Host`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostHeader {
    /// What the client sent.
    Preserve,
    /// The origin's own authority.
    Origin,
    /// This value.
    Set(String),
}

/// How a forward proxy behaves.
#[derive(Clone, Debug)]
pub struct Forward {
    /// Clients that may use it.
    pub clients: Vec<IpNet>,
    /// Ports that requests other than `CONNECT` may reach.
    pub ports: Vec<RangeInclusive<u16>>,
    /// Ports that `CONNECT` may reach.
    pub connect_ports: Vec<u16>,
    /// Let clients reach loopback, link-local, private and metadata addresses.
    pub allow_private: bool,
    /// Caching rules.
    pub rules: Rules,
    /// Rules for parts of its requests, in the order in which they apply.
    pub site_rules: Vec<SiteRule>,
}

/// How programs that speak RPC get pages. What holds for clients of the forward proxy holds for them.
#[derive(Clone, Debug)]
pub struct Doors {
    /// Where they connect; the kernel chooses a port 0.
    pub listen: Vec<(Door, SocketAddr)>,
    /// Clients of Thrift connect over TLS.
    pub thrift_tls: bool,
    /// Clients of the line protocol connect over TLS.
    pub line_tls: bool,
    /// Clients that may use them.
    pub clients: Vec<IpNet>,
    /// How requests name their sender: visible ASCII and spaces.
    pub user_agent: String,
    /// Redirects followed for one page.
    pub redirects: usize,
    /// Follow redirects from http to https, and back.
    pub cross_scheme: bool,
    /// The largest page that has to be put together before it is sent, in bytes: one whose length only its
    /// end tells, or one with a content coding.
    pub max_page: u64,
    /// Between two calls of a connection (closed silently).
    pub idle: Duration,
    /// How the line protocol tells the end of a page.
    pub line_form: LineForm,
    /// Serve ONC RPC over UDP too; `None`: where only loopback can reach it.
    pub onc_udp: Option<bool>,
    /// Calls of one client's address that are answered over UDP in a second; loopback has no limit.
    pub onc_udp_rate: u32,
    /// Where the rpcbind is with which the ONC door registers; `None`: with none.
    pub rpcbind: Option<PathBuf>,
}

impl Doors {
    /// Whether clients of this door connect over TLS.
    pub fn speaks_tls(&self, door: Door) -> bool {
        match door {
            Door::Thrift => self.thrift_tls,
            Door::Line => self.line_tls,
            Door::Onc => false,
        }
    }

    /// Whether a door for ONC RPC at `ip` takes calls over UDP: their senders can be forged, and answers are long.
    pub fn takes_datagrams(&self, ip: IpAddr) -> bool {
        self.onc_udp.unwrap_or_else(|| ip.to_canonical().is_loopback())
    }
}

/// A door: one RPC protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// Apache Thrift.
    Thrift,
    /// ONC RPC.
    Onc,
    /// The line protocol.
    Line,
}

impl Door {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Thrift, Self::Onc, Self::Line];

    /// Its name in the config, lists and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Thrift => "thrift",
            Self::Onc => "onc",
            Self::Line => "line",
        }
    }
}

/// The access log's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessLog {
    /// None.
    Off,
    /// One readable line a request.
    Text,
    /// One JSON object a request.
    Json,
    /// NCSA's combined log format.
    Combined,
    /// Squid's native format.
    Squid,
}

/// Where requests are traced to.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracing {
    /// The collector, which takes OTLP over HTTP: `http://host:port`, without a slash at its end; `None`: nowhere.
    pub endpoint: Option<String>,
    /// Of the requests whose clients do not say whether they are traced, so many are: 0 to 1.
    pub sample: f64,
}

impl Tracing {
    /// Whether spans can be sent at all.
    pub const IS_BUILT_IN: bool = cfg!(feature = "otlp");
}

impl Default for Tracing {
    fn default() -> Self {
        Self { endpoint: None, sample: 1.0 }
    }
}

/// How the client's address is passed on to origins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAddress {
    /// Not at all.
    Off,
    /// Appended to `X-Forwarded-For`, with `X-Forwarded-Proto` and `X-Forwarded-Host`.
    XForwardedFor,
    /// Appended to `Forwarded` (RFC 7239).
    Forwarded,
}

impl Default for MemoryTier {
    fn default() -> Self {
        Self {
            capacity: Capacity { by: By::Bytes, amount: 1 << 30 },
            counts: Counts::All,
            policy: Spec::default(),
            max_object: None,
            max_variants: 32,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head_bytes: 32 << 10,
            head_fields: 100,
            target_bytes: 8 << 10,
            body_bytes: 1 << 30,
            connections: 65_536,
            streams: 100,
            in_flight: 1_024,
            queue: 4_096,
        }
    }
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            head: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            stall: Duration::from_secs(60),
            min_rate: 100,
            connect: Duration::from_secs(5),
            first_byte: Duration::from_secs(60),
            origin_idle: Duration::from_secs(60),
            unread_rate: 16 << 10,
            tunnel: Duration::from_secs(3600),
            drain: Duration::from_secs(30),
        }
    }
}

impl Default for Forward {
    fn default() -> Self {
        Self {
            clients: near(),
            ports: vec![80..=80, 443..=443, 1025..=u16::MAX],
            connect_ports: vec![443],
            allow_private: false,
            rules: Rules { targeted: Vec::new(), ..Rules::default() },
            site_rules: Vec::new(),
        }
    }
}

impl Default for Doors {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            thrift_tls: false,
            line_tls: false,
            clients: near(),
            user_agent: concat!("Larder/", env!("CARGO_PKG_VERSION")).to_owned(),
            redirects: 10,
            cross_scheme: true,
            max_page: 64 << 20,
            idle: Duration::from_secs(300),
            line_form: LineForm::Framed,
            onc_udp: None,
            onc_udp_rate: 20,
            rpcbind: Some(PathBuf::from(larder_rpc::onc::rpcbind::SOCKET)),
        }
    }
}
