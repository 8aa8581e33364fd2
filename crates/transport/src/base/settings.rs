//! The settings of the proxy: plain data, already validated.
//!
//! The binary creates these from a config file and flags; this crate does not validate them again. A reload creates a
//! new `Settings`. Its values take effect at once, except `listen`, `admin`, `threads`, `statistics`, `cluster`,
//! `trace`, `advise` and the capacity of the memory tier, which need a restart.

mod access_log;
mod acme;
mod auth_request;
mod bucket;
mod certificates;
mod client_auth;
pub mod cluster;
mod config_keys;
mod effects;
mod engine_tls;
mod hsts;
mod intercept;
mod jwt;
mod limit;
mod listeners;
mod node_tls;
mod origin;
mod origin_tls;
mod pages;
mod parent;
mod rule;
mod signed;
mod site;
mod statistics;
mod sticky;
mod template;
mod token;
mod users;
mod validate;

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use ipnet::IpNet;
pub use larder_advise::Prices;
use larder_evict::{By, Capacity, Spec};
pub use larder_packages::age::{Dates, Exemption, MinAge};
pub use larder_packages::{Protocol, Protocols};
pub use larder_rpc::line::Form as LineForm;
pub use larder_rules::{
    Bucket, Conditions, Domains, LARGEST_LIST, NamedPatterns, Names, Networks, Pattern, Query, Rule,
};
pub use larder_rules::{CertificateCondition, MapBy, Moments, RuleSet, Split, TRACKING, UrlMap, normal_path};
pub use larder_semantics::lifetimes::{IgnoredDirectives, Lifetimes};
use larder_semantics::storable::Rules;
pub use larder_store::{Counts, DiskTier};
use larder_words::named;
use larder_words::with_defaults;

pub use self::access_log::{AccessLog, LoggedRequests};
pub use self::acme::{Acme, AcmeChallenge, LETS_ENCRYPT, LETS_ENCRYPT_STAGING};
pub use self::auth_request::{AuthRequest, PermissionBy};
pub use self::bucket::{CredentialSource, S3Bucket};
pub use self::certificates::{CertificateFault, CertificateFiles};
pub use self::client_auth::{ClientAuth, ClientAuthFiles, ClientAuths};
pub use self::cluster::{EngineAddress, EngineOutagePolicy, Settings as Cluster, Tier as SecondTier};
pub use self::config_keys::{ConfigDifference, ConfigKeys, ConfigValue};
pub use self::effects::Effects;
pub use self::engine_tls::EngineTls;
pub use self::hsts::Hsts;
pub use self::intercept::Intercept;
pub use self::jwt::{Claims, JwkSet, Jwt, KeySource, TokenFault};
pub use self::limit::{Bandwidth, BandwidthBy, CountedRequests, Limit, LimitBy, Rate};
pub use self::listeners::{AdminTls, Listener, ProxyProtocol, Role, Trust, UnixSockets};
pub use self::node_tls::{NodeTls, NodeTlsFiles};
pub use self::origin::socket_of;
pub use self::origin::{Balance, Origin, ResolveInterval, is_service};
pub use self::origin_tls::{OriginTls, OriginTlsFiles};
pub use self::pages::{Page, Pages};
pub use self::parent::{NoProxy, Pac, ParentProxy, ParentSettings};
pub use self::rule::{Answer, CookieFilter, Edits};
pub use self::signed::{SignatureFault, SignaturePlace, SignedUrls};
pub use self::site::SiteRule;
pub use self::statistics::{ClientDetail, Database, QueryStrings, Statistics};
pub use self::sticky::OriginTag;
pub use self::sticky::Sticky;
pub use self::template::{Placeholder, Template};
pub use self::token::ClusterKey;
pub use self::token::Token;
pub use self::users::Print;
pub use self::users::{BadLine, Tokens, Users};
pub use self::validate::ValidatorSettings;
pub use super::outcome::Kind as OutcomeKind;
use crate::base::networks::near;
pub use crate::base::path_prefix::PathPrefix;
pub use crate::base::schedule::{Schedule, Times};

/// Maximum of rules of a site.
pub const MOST_RULES: usize = larder_rules::RuleSet::MOST;

/// The default of [`Site::doubt`], in seconds.
pub const DOUBT: u32 = 60;

with_defaults! {
    /// All settings of the proxy. Lists and addresses are empty by default.
    #[derive(Clone, Debug)]
    pub struct Settings {
        /// Settings in the config that have no effect, one line each.
        pub without_effect: Vec<String> = Vec::new(),
        /// The keys of the config that differ from their defaults.
        pub keys: ConfigKeys = ConfigKeys::default(),
        /// The addresses for clients. At least one, together with `sockets`.
        pub listen: Vec<Listener> = Vec::new(),
        /// The Unix sockets for clients.
        pub sockets: UnixSockets = UnixSockets::default(),
        /// The proxies in front of this one that begin each connection with a PROXY header.
        pub proxy_protocol: ProxyProtocol = ProxyProtocol::default(),
        /// The certificates of the TLS listeners; the first one is for clients that send no server name.
        pub certificates: Vec<CertificateFiles> = Vec::new(),
        /// The client certificates that listeners request.
        pub client_auth: ClientAuths = ClientAuths::default(),
        /// The address of the admin listener with `/stats`, `/healthz` and `/readyz`; `None` turns it off.
        pub admin: Option<SocketAddr> = None,
        /// TLS of the admin listener; `None`: plain HTTP.
        pub admin_tls: Option<AdminTls> = None,
        /// The token that the admin listener requires from clients on other machines; `None`: only clients on this machine
        /// are served.
        pub admin_token: Option<Token> = None,
        /// The admin listeners of the caches that get their responses from this one, which repeat its purges.
        pub purge_edges: Vec<Origin> = Vec::new(),
        /// Worker threads, each with its own runtime and its own accept queue. At least 1.
        pub threads: usize = 1,
        /// The memory tier.
        pub memory: MemoryTier = MemoryTier::default(),
        /// The directories of the disk tier; empty: stored responses end with the process.
        pub disks: Vec<DiskTier> = Vec::new(),
        /// The schedule of automatic removals from the cache.
        pub schedule: Schedule = Schedule::default(),
        /// The hits that are compared with the origin's current response.
        pub validate: ValidatorSettings = ValidatorSettings::default(),
        /// Whether shadow caches show what other policies and sizes would bring.
        pub advise: bool = true,
        /// What requests to origins and memory cost.
        pub cost: Prices = Prices::default(),
        /// Limits on the messages and connections of clients.
        pub limits: Limits = Limits::default(),
        /// Timeouts for clients and origins.
        pub timeouts: Timeouts = Timeouts::default(),
        /// The parent proxies, unless a site or the forward proxy has its own.
        pub parent: ParentSettings = ParentSettings::default(),
        /// Reverse-proxied sites, in the order they are matched.
        pub sites: Vec<Site> = Vec::new(),
        /// The forward proxy, which serves requests for any origin.
        pub forward: Forward = Forward::default(),
        /// The tunnels of the forward proxy that are intercepted; `None`: none is.
        pub intercept: Option<Intercept> = None,
        /// The listeners for RPC clients.
        pub doors: Doors = Doors::default(),
        /// The access log.
        pub access_log: AccessLog = AccessLog::Off,
        /// The file of the access log; `None`: standard output.
        pub access_log_file: Option<PathBuf> = None,
        /// Whether each line of the access log is written at once.
        pub access_log_by_line: bool = false,
        /// The part of clients' addresses in the access log; `Off`: `0.0.0.0`.
        pub access_log_client: ClientDetail = ClientDetail::Whole,
        /// The directory for state that survives a restart; `None`: no such state.
        pub state: Option<PathBuf> = None,
        /// The statistics database.
        pub statistics: Statistics = Statistics::default(),
        /// The cluster that this proxy is a node of; `None`: no cluster.
        pub cluster: Option<Cluster> = None,
        /// The destination of traces and metrics.
        pub trace: TraceSettings = TraceSettings::default(),
        /// The name of this proxy in `Via` and `Cache-Status` (a token, RFC 9110 section 7.6.3).
        pub name: String = "Larder".to_owned(),
        /// Whether to send the traditional `X-Cache: HIT` or `X-Cache: MISS` as well.
        pub x_cache: bool = false,
        /// The fields that pass the client's address on to origins of sites.
        pub client_address: ClientAddress = ClientAddress::XForwardedFor,
        /// The field with the id of each request; `None`: requests have no ids.
        pub request_id: Option<HeaderName> = None,
        /// Proxies in front of this one whose fields about the client's address are trusted.
        pub trust: Trust = Trust::default(),
    }
}

with_defaults! {
    /// The memory tier's size and policy.
    #[derive(Clone, Debug)]
    pub struct MemoryTier {
        /// The capacity, in bytes or entries.
        pub capacity: Capacity = Capacity { by: By::Bytes, amount: 1 << 30 },
        /// The definition of a response's size.
        pub counts: Counts = Counts::All,
        /// The eviction policy.
        pub policy: Spec = Spec::default(),
        /// Whether another policy runs once shadow caches have shown that it is better.
        pub auto: bool = false,
        /// Maximum size of a stored body, in bytes; `None`: the size of a shard.
        pub max_object: Option<u64> = None,
        /// Maximum of variants stored for one URL (RFC 9111 section 4.1); the oldest is evicted first. At least 1.
        pub max_variants: usize = 32,
    }
}

with_defaults! {
    /// Limits on the messages and connections of clients. Each has its own status for refusals.
    #[derive(Clone, Debug)]
    pub struct Limits {
        /// Bytes of a request's head (431).
        pub head_bytes: usize = 32 << 10,
        /// Field lines of a request's head (431).
        pub head_fields: usize = 100,
        /// Bytes of a request-target (414).
        pub target_bytes: usize = 8 << 10,
        /// Bytes of a request's content (413).
        pub body_bytes: u64 = 1 << 30,
        /// Concurrent client connections; further ones are closed on arrival.
        pub connections: usize = 65_536,
        /// Concurrent streams of an HTTP/2 connection; further ones are refused. 0: HTTP/2 is disabled.
        pub streams: usize = 100,
        /// Concurrent requests to origins.
        pub in_flight: usize = 1_024,
        /// Requests that wait for a permit to an origin; further ones get 503 with `Retry-After`.
        pub queue: usize = 4_096,
        /// Replies that are compressed while they are sent; further ones pass as they are. 0: none is.
        pub compressions: usize = 64,
        /// Idle connections to origins; beyond that, the oldest is closed. No key: it follows from the open files.
        pub idle: usize = 8_192,
        /// Concurrent connections of administrators; further ones are closed on arrival. No key either.
        pub admin: usize = 64,
        /// Concurrent requests to services that decide about requests (`auth_request`). No key either.
        pub inquiries: usize = 256,
    }
}

with_defaults! {
    /// Timeouts.
    #[derive(Clone, Debug)]
    pub struct Timeouts {
        /// From the first byte of a head to its last (408).
        pub head: Duration = Duration::from_secs(10),
        /// Between two requests of a connection (closed silently).
        pub idle: Duration = Duration::from_secs(60),
        /// Without a single byte of progress in a request's or response's content (408, or closed).
        pub stall: Duration = Duration::from_secs(60),
        /// Minimum rate in bytes per second, once a transfer has taken `stall`: a slower request content is refused (408),
        /// and a slower reader of a response is disconnected. 0: any rate.
        pub min_rate: u64 = 100,
        /// For a TCP (and TLS) connection to an origin (504).
        pub connect: Duration = Duration::from_secs(5),
        /// From the end of a request to the first byte of the origin's response (504).
        pub first_byte: Duration = Duration::from_secs(60),
        /// Between two pieces of an origin's response (502, or the response is truncated).
        pub origin_idle: Duration = Duration::from_secs(60),
        /// Minimum rate in bytes per second of an origin's response that no client reads any more; a slower one is aborted,
        /// once it was unread for `stall`. 0: any rate.
        pub unread_rate: u64 = 16 << 10,
        /// Without a byte in either direction of a tunnel (closed).
        pub tunnel: Duration = Duration::from_secs(3600),
        /// Maximum time that the shutdown after `SIGTERM` waits for requests in flight.
        pub drain: Duration = Duration::from_secs(30),
    }
}

with_defaults! {
    /// A reverse-proxied site.
    #[derive(Clone, Debug)]
    pub struct Site {
        /// Its name in metrics and logs.
        pub name: String = String::new(),
        /// Host names, lower-case, without port; `*.example.com` matches one or more leading labels;
        /// empty: every host.
        pub hosts: Vec<String> = Vec::new(),
        /// The paths of these hosts that belong to the site.
        pub path: PathPrefix = PathPrefix::default(),
        /// The origins of its content. At least one.
        pub origins: Vec<Origin> = Vec::new(),
        /// The method that chooses one of the origins.
        pub balance: Balance = Balance::default(),
        /// The value of `Host` in requests to origins.
        pub host: HostHeader = HostHeader::Preserve,
        /// Whether URLs of the origin in fields of responses are replaced with URLs of the site.
        pub rewrite_urls: bool = false,
        /// Caching rules.
        // Sites have users; responses to clients of a forward proxy come with all kinds of cookies.
        pub rules: Rules = Rules { guesses_with_cookies: false, ..Rules::default() },
        /// Rules for subsets of its requests, in the order in which they apply.
        pub site_rules: Vec<SiteRule> = Vec::new(),
        /// Whether responses are cached. If not, every request passes through.
        pub cache: bool = true,
        /// Whether requests without TLS get a redirect to https.
        pub only_https: bool = false,
        /// `Strict-Transport-Security` in responses over https, if the origin does not send it.
        pub hsts: Option<Hsts> = None,
        /// The tags of responses; `Some`: the site is a gateway beside its backend and stores only tags, no responses.
        pub tags: Option<larder_tags::Settings> = None,
        /// Time for which a change with an unknown end may still take effect, in seconds; 0: none.
        pub doubt: u32 = DOUBT,
        /// The cookie that keeps a client at one origin; `None`: each request may go to another.
        pub sticky: Option<Sticky> = None,
        /// Maximum of requests to its origins at once, below that of all sites; `None`: that one.
        pub in_flight: Option<usize> = None,
        /// Maximum of retries of an idempotent request whose origin failed before it responded.
        pub retries: u32 = 1,
        /// Consecutive failures after which an origin is in its backoff.
        pub max_fails: u32 = 3,
        /// Duration of the backoff.
        pub fail_timeout: Duration = Duration::from_secs(10),
        /// Consecutive answers with errors after which an origin is in its backoff; `None`: any number is accepted.
        pub max_errors: Option<u32> = None,
        /// Retries for 100 requests; `None`: no limit but that of each request.
        pub retry_budget: Option<u8> = None,
        /// Requests of 100 that are sent to a second origin when the answer is late; `None`: none.
        pub hedge: Option<u8> = None,
        /// Time in which the share of an origin that answers again grows to that of its weight; zero: at once.
        pub slow_start: Duration = Duration::ZERO,
        /// When names of origins are resolved again.
        pub resolve_interval: ResolveInterval = ResolveInterval::Auto,
        /// Active checks of each origin, if any.
        pub health: Option<Health> = None,
        /// The authority that issues certificates for its hosts; `None`: they are in `certificates`.
        pub acme: Option<Arc<Acme>> = None,
        /// Its own parent proxies; empty: its origins are reached directly.
        pub parents: Option<Vec<ParentProxy>> = None,
        /// TLS to its origins, if it differs from the system's defaults.
        pub tls: Option<Arc<OriginTls>> = None,
        /// Clients that may send `PURGE` without the admin token.
        pub purge_from: Vec<IpNet> = Vec::new(),
    }
}

/// An active health check: `GET path`.
#[derive(Clone, Debug)]
pub struct Health {
    /// The path of the request.
    pub path: String,
    /// The text that the answer must have; `None`: any, or none. It is not empty.
    pub text: Option<String>,
    /// The statuses that it may have.
    pub statuses: Vec<RangeInclusive<u16>>,
    /// The port of the check; `None`: that of the origin.
    pub port: Option<u16>,
    /// The failed checks in a row after which an origin gets no requests, and those without a failure after which it gets
    /// them again.
    pub thresholds: (u32, u32),
    /// Time between two checks.
    pub interval: Duration,
}

/// The value of `Host` in requests to origins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostHeader {
    /// The value from the client.
    Preserve,
    /// The authority of the origin.
    Origin,
    /// This value.
    Set(String),
}

with_defaults! {
    /// The settings of the forward proxy.
    #[derive(Clone, Debug)]
    pub struct Forward {
        /// Clients that may use it.
        pub clients: Vec<IpNet> = near(),
        /// Ports that requests other than `CONNECT` may reach.
        pub ports: Vec<RangeInclusive<u16>> = vec![80..=80, 443..=443, 1025..=u16::MAX],
        /// Ports that `CONNECT` may reach.
        pub connect_ports: Vec<u16> = vec![443],
        /// Whether clients may reach loopback, link-local, private and metadata addresses.
        pub allow_private: bool = false,
        /// Whether origins over https may choose HTTP/2.
        pub http2: bool = true,
        /// Whether all clients are one user, who may know what each of them has been told.
        pub one_user: bool = false,
        /// Its own parent proxies; empty: origins are reached directly.
        pub parents: Option<Vec<ParentProxy>> = None,
        /// The fields that pass the client's address on.
        // The clients of a forward proxy may use it to hide from the origins that they name.
        pub client_address: ClientAddress = ClientAddress::Off,
        /// The script with which clients configure themselves.
        pub pac: Pac = Pac::default(),
        /// Caching rules.
        pub rules: Rules = Rules { targeted: Vec::new(), ..Rules::default() },
        /// Rules for subsets of its requests, in the order in which they apply.
        pub site_rules: Vec<SiteRule> = Vec::new(),
    }
}

with_defaults! {
    /// The listeners for RPC clients, which fetch pages by the settings of the forward proxy.
    #[derive(Clone, Debug)]
    pub struct Doors {
        /// Their addresses; with port 0, the kernel chooses the port.
        pub listen: Vec<(Door, SocketAddr)> = Vec::new(),
        /// Whether Thrift clients connect over TLS.
        pub thrift_tls: bool = false,
        /// Whether clients of the line protocol connect over TLS.
        pub line_tls: bool = false,
        /// Clients that may use them.
        pub clients: Vec<IpNet> = near(),
        /// The `User-Agent` of their requests: visible ASCII and spaces.
        pub user_agent: String = concat!("Larder/", env!("CARGO_PKG_VERSION")).to_owned(),
        /// Maximum of redirects followed for one page.
        pub redirects: usize = 10,
        /// Whether to follow redirects from http to https, and from https to http.
        pub cross_scheme: bool = true,
        /// Maximum size in bytes of a page that has to be buffered before it is sent: a page of unknown length, or with a
        /// content coding.
        pub max_page: u64 = 64 << 20,
        /// Between two calls of a connection (closed silently).
        pub idle: Duration = Duration::from_secs(300),
        /// The framing of pages in the line protocol.
        pub line_form: LineForm = LineForm::Framed,
        /// Whether to serve ONC RPC over UDP too; `None`: only at loopback addresses.
        pub onc_udp: Option<bool> = None,
        /// Maximum of responses over UDP to one client address per second; loopback has no limit.
        pub onc_udp_rate: u32 = 20,
        /// The socket of the rpcbind with which the ONC door registers; `None`: no registration.
        pub rpcbind: Option<PathBuf> = Some(PathBuf::from(larder_rpc::onc::rpcbind::SOCKET)),
    }
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

    /// Whether a door for ONC RPC at `ip` accepts calls over UDP. Off by default except at loopback: senders can be
    /// forged, and replies are long.
    pub fn takes_datagrams(&self, ip: IpAddr) -> bool {
        self.onc_udp.unwrap_or_else(|| ip.to_canonical().is_loopback())
    }
}

named! {
    /// The RPC protocol of a listener.
    pub enum Door, name {
        /// Apache Thrift.
        Thrift = "thrift",
        /// ONC RPC.
        Onc = "onc",
        /// The line protocol.
        Line = "line",
    }
}

with_defaults! {
    /// The destination of traces and metrics, and the sampling of traces.
    #[derive(Clone, Debug, PartialEq)]
    pub struct TraceSettings {
        /// The collector, which accepts OTLP over HTTP: `http://host:port`, without a trailing slash; `None`: there is none.
        pub endpoint: Option<String> = None,
        /// The traced share of the requests whose clients send no sampling decision: 0 to 1.
        pub sample: f64 = 1.0,
        /// The interval at which metrics are sent; `None`: they are not.
        pub metrics: Option<Duration> = None,
    }
}

named! {
    /// The fields that pass the client's address on to origins.
    pub enum ClientAddress, name {
        /// No fields.
        Off = "off",
        /// Appended to `X-Forwarded-For`, with `X-Forwarded-Proto` and `X-Forwarded-Host`.
        XForwardedFor = "x-forwarded-for",
        /// Appended to `Forwarded` (RFC 7239).
        Forwarded = "forwarded",
    }
}
