//! The content of a config file, on top of the defaults. Combinations of values are not checked here.

pub(super) mod acme;
pub(super) mod cluster;
pub(super) mod control;
pub(super) mod rule;
pub(super) mod statistics;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http::HeaderName;
use ipnet::IpNet;
use larder_evict::Spec;
use larder_proxy::settings::{
    AccessLog, Balance, CertificateFiles, ClientAddress, Counts, DiskTier, Doors, Forward, HostHeader, Hsts,
    Limits, MemoryTier, Origin, PathPrefix, ProxyProtocol, Schedule, Timeouts, Token, Tracing, Trust,
    UnixSockets, Validate,
};
use larder_semantics::storable::Rules;

use self::rule::RuleDraft;

/// The values as written, on top of the defaults.
#[derive(Clone, Debug)]
pub(crate) struct Draft {
    pub(crate) threads: Option<usize>,
    pub(crate) admin: Option<AdminAddress>,
    pub(crate) admin_token: Option<Token>,
    pub(crate) access_log: AccessLog,
    pub(crate) access_log_file: Option<PathBuf>,
    pub(crate) name: String,
    pub(crate) x_cache: bool,
    pub(crate) client_address: ClientAddress,
    pub(crate) request_id: Option<HeaderName>,
    pub(crate) trust: Trust,
    pub(crate) memory: Memory,
    pub(crate) disks: Vec<DiskDraft>,
    pub(crate) schedule: Schedule,
    pub(crate) statistics: statistics::Draft,
    pub(crate) cluster: cluster::Draft,
    pub(crate) trace: Tracing,
    pub(crate) validate: Validate,
    pub(crate) limits: Limits,
    pub(crate) timeouts: Timeouts,
    pub(crate) certificates: Vec<CertificateFiles>,
    pub(crate) proxy_protocol: ProxyProtocol,
    pub(crate) reverse_listen: Option<Vec<Listen>>,
    pub(crate) socket_mode: u32,
    pub(crate) reverse_listen_tls: Option<Vec<SocketAddr>>,
    pub(crate) reverse_client: ClientDraft,
    pub(crate) sites: Vec<SiteDraft>,
    pub(crate) forward_listen: Option<Vec<SocketAddr>>,
    pub(crate) forward_listen_tls: Vec<SocketAddr>,
    pub(crate) forward_client: ClientDraft,
    pub(crate) forward: Forward,
    pub(crate) forward_rules: Vec<RuleDraft>,
    pub(crate) thrift_listen: Vec<SocketAddr>,
    pub(crate) onc_listen: Vec<SocketAddr>,
    pub(crate) line_listen: Vec<SocketAddr>,
    /// All keys of RPC listeners except their addresses.
    pub(crate) doors: Doors,
    /// The place of each key that was written, as errors name it: `memory.size` -> `larder.toml:7`.
    pub(crate) places: BTreeMap<String, String>,
    /// The tables, and the keys above all tables, with parts that could not be read.
    pub(crate) unread: BTreeSet<String>,
}

/// An address at which clients of sites connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listen {
    /// An address with a port.
    Address(SocketAddr),
    /// A Unix socket.
    Socket(PathBuf),
}

/// The address at which administrators connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AdminAddress {
    pub(crate) address: SocketAddr,
    /// Whether they connect over TLS.
    pub(crate) tls: bool,
}

/// The settings for certificates of clients, as written.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClientDraft {
    pub(crate) ca: Option<PathBuf>,
    pub(crate) is_required: Option<bool>,
}

/// The memory tier, as written.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub(crate) size: Option<u64>,
    pub(crate) entries: Option<u64>,
    pub(crate) counts: Counts,
    pub(crate) policy: Spec,
    pub(crate) max_object: Option<u64>,
    pub(crate) max_variants: usize,
}

/// A directory of the disk tier, as written.
#[derive(Clone, Debug)]
pub(crate) struct DiskDraft {
    /// The place where its table begins, as errors name it.
    pub(crate) place: String,
    pub(crate) tier: DiskTier,
}

/// A site, as written.
#[derive(Clone, Debug)]
pub(crate) struct SiteDraft {
    /// The place where its table begins, as errors name it.
    pub(crate) place: String,
    /// The place of each of its keys that was written.
    pub(crate) places: BTreeMap<String, String>,
    /// Whether a part of it could not be read.
    pub(crate) is_unread: bool,
    pub(crate) name: Option<String>,
    pub(crate) hosts: Vec<String>,
    pub(crate) path: PathPrefix,
    pub(crate) origins: Vec<Origin>,
    pub(crate) balance: Balance,
    pub(crate) host: HostHeader,
    pub(crate) rewrite_urls: bool,
    pub(crate) only_https: bool,
    pub(crate) hsts: Option<Hsts>,
    pub(crate) acme: Option<acme::Draft>,
    pub(crate) ca: Option<PathBuf>,
    pub(crate) client_cert: Option<PathBuf>,
    pub(crate) client_key: Option<PathBuf>,
    pub(crate) tls_name: Option<String>,
    pub(crate) cache: bool,
    pub(crate) retries: u32,
    pub(crate) max_fails: u32,
    pub(crate) fail_timeout: Duration,
    pub(crate) resolve_interval: Option<Duration>,
    pub(crate) health: Option<String>,
    pub(crate) health_interval: Duration,
    pub(crate) purge_from: Vec<IpNet>,
    pub(crate) rules: Rules,
    /// The rules in its `[[site.rule]]` tables.
    pub(crate) site_rules: Vec<RuleDraft>,
    pub(crate) control: control::Draft,
}

impl Draft {
    /// Returns the place of the first of `keys` that was written, for errors.
    pub(crate) fn place(&self, keys: &[&str]) -> String {
        let written = keys.iter().find_map(|key| self.places.get(*key));
        written.cloned().unwrap_or_else(|| "defaults".to_owned())
    }
}

impl SiteDraft {
    /// Returns the place where `key` was written, or else where the site begins.
    pub(crate) fn place_of(&self, key: &str) -> &str {
        self.places.get(key).unwrap_or(&self.place)
    }
}

impl Default for Draft {
    fn default() -> Self {
        let MemoryTier { counts, policy, max_object, max_variants, .. } = MemoryTier::default();
        Self {
            threads: None,
            admin: Some(AdminAddress { address: SocketAddr::from(([127, 0, 0, 1], 9145)), tls: false }),
            admin_token: None,
            access_log: AccessLog::Off,
            access_log_file: None,
            name: "Larder".to_owned(),
            x_cache: false,
            client_address: ClientAddress::XForwardedFor,
            request_id: None,
            trust: Trust::default(),
            memory: Memory { size: None, entries: None, counts, policy, max_object, max_variants },
            disks: Vec::new(),
            schedule: Schedule::default(),
            statistics: statistics::Draft::default(),
            cluster: cluster::Draft::default(),
            trace: Tracing::default(),
            validate: Validate::default(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            certificates: Vec::new(),
            proxy_protocol: ProxyProtocol::default(),
            reverse_listen: None,
            socket_mode: UnixSockets::default().mode,
            reverse_listen_tls: None,
            reverse_client: ClientDraft::default(),
            sites: Vec::new(),
            forward_listen: None,
            forward_listen_tls: Vec::new(),
            forward_client: ClientDraft::default(),
            forward: Forward::default(),
            forward_rules: Vec::new(),
            thrift_listen: Vec::new(),
            onc_listen: Vec::new(),
            line_listen: Vec::new(),
            doors: Doors::default(),
            places: BTreeMap::new(),
            unread: BTreeSet::new(),
        }
    }
}

impl Default for DiskDraft {
    fn default() -> Self {
        Self { place: String::new(), tier: DiskTier::at(PathBuf::new()) }
    }
}

impl Default for SiteDraft {
    fn default() -> Self {
        Self {
            place: String::new(),
            places: BTreeMap::new(),
            is_unread: false,
            name: None,
            hosts: Vec::new(),
            path: PathPrefix::default(),
            origins: Vec::new(),
            balance: Balance::default(),
            host: HostHeader::Preserve,
            rewrite_urls: false,
            only_https: false,
            hsts: None,
            acme: None,
            ca: None,
            client_cert: None,
            client_key: None,
            tls_name: None,
            cache: true,
            retries: 1,
            max_fails: 3,
            fail_timeout: Duration::from_secs(10),
            resolve_interval: Some(Duration::from_secs(30)),
            health: None,
            health_interval: Duration::from_secs(10),
            purge_from: Vec::new(),
            // Sites have users; responses to clients of a forward proxy come with all kinds of cookies.
            rules: Rules { guesses_with_cookies: false, ..Rules::default() },
            site_rules: Vec::new(),
            control: control::Draft::default(),
        }
    }
}
