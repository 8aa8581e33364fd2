//! The content of a config file, on top of the defaults. Combinations of values are not checked here.

pub(super) mod acme;
pub(super) mod cluster;
pub(super) mod control;
pub(super) mod rule;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use larder_proxy::Settings;
use larder_proxy::settings::{DiskTier, NoProxy, ParentProxy, ParentSettings, Site};
use larder_semantics::with_defaults;

use self::rule::RuleDraft;

with_defaults! {
    /// The values as written, on top of the defaults.
    #[derive(Clone, Debug)]
    pub(crate) struct Draft {
        /// The files that the file that was read last includes.
        include: Vec<String> = Vec::new(),
        threads: Option<usize> = None,
        admin: Option<AdminAddress> = Some(AdminAddress { address: SocketAddr::from(([127, 0, 0, 1], 9145)), tls: false }),
        database: DatabasePlace = DatabasePlace::Default,
        memory_size: Option<u64> = None,
        memory_entries: Option<u64> = None,
        disks: Vec<DiskDraft> = Vec::new(),
        cluster: cluster::Draft = cluster::Draft::default(),
        reverse_listen: Option<Vec<ListenAddress>> = None,
        reverse_listen_tls: Option<Vec<SocketAddr>> = None,
        reverse_client: ClientDraft = ClientDraft::default(),
        sites: Vec<SiteDraft> = Vec::new(),
        /// The rules in [[rule]] tables, which each site has before its own.
        rules: Vec<RuleDraft> = Vec::new(),
        parent: ParentDraft = ParentDraft::default(),
        forward_listen: Option<Vec<SocketAddr>> = None,
        forward_listen_tls: Vec<SocketAddr> = Vec::new(),
        forward_client: ClientDraft = ClientDraft::default(),
        forward_rules: Vec<RuleDraft> = Vec::new(),
        intercept: InterceptDraft = InterceptDraft::default(),
        thrift_listen: Vec<SocketAddr> = Vec::new(),
        onc_listen: Vec<SocketAddr> = Vec::new(),
        line_listen: Vec<SocketAddr> = Vec::new(),
        /// The values of all other keys, as they are in force.
        values: Settings = Settings::default(),
        /// The place of each key that was written, as errors name it: `memory.size` -> `larder.toml:7`.
        places: BTreeMap<String, String> = BTreeMap::new(),
        /// The tables, and the keys above all tables, with parts that could not be read.
        unread: BTreeSet<String> = BTreeSet::new(),
    }
}

/// The database of the statistics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DatabasePlace {
    /// In the state directory.
    Default,
    /// There is none.
    Off,
    /// In the database at this URL.
    At(String),
}

/// An address at which clients of sites connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ListenAddress {
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

with_defaults! {
    /// The parent proxies, as written.
    #[derive(Clone, Debug)]
    pub(crate) struct ParentDraft {
        http: Vec<ParentProxy> = Vec::new(),
        /// Those for https origins, if they are others.
        https: Option<Vec<ParentProxy>> = None,
        no_proxy: Vec<NoProxy> = Vec::new(),
        /// Whether the environment names what is not written.
        from_env: bool = false,
        falls_back: bool = false,
        fail_timeout: Duration = ParentSettings::default().fail_timeout,
    }
}

/// The tunnels that are intercepted, as written.
#[derive(Clone, Debug, Default)]
pub(crate) struct InterceptDraft {
    /// Hosts, and the word for public registries.
    pub(crate) hosts: Vec<String>,
    pub(crate) never: Vec<String>,
    /// The directory of the authority; `None`: the state directory.
    pub(crate) ca: Option<PathBuf>,
}

/// A directory of the disk tier, as written.
#[derive(Clone, Debug)]
pub(crate) struct DiskDraft {
    /// The place where its table begins, as errors name it.
    pub(crate) place: String,
    pub(crate) tier: DiskTier,
}

with_defaults! {
    /// A site, as written.
    #[derive(Clone, Debug)]
    pub(crate) struct SiteDraft {
        /// The place where its table begins, as errors name it.
        place: String = String::new(),
        /// The place of each of its keys that was written.
        places: BTreeMap<String, String> = BTreeMap::new(),
        /// Whether a part of it could not be read.
        is_unread: bool = false,
        name: Option<String> = None,
        acme: Option<acme::Draft> = None,
        ca: Option<PathBuf> = None,
        client_cert: Option<PathBuf> = None,
        client_key: Option<PathBuf> = None,
        tls_name: Option<String> = None,
        health: Option<String> = None,
        health_text: Option<String> = None,
        health_interval: Duration = Duration::from_secs(10),
        /// The rules in its `[[site.rule]]` tables.
        site_rules: Vec<RuleDraft> = Vec::new(),
        /// The values of all other keys, as they are in force.
        values: Site = Site::default(),
        control: control::Draft = control::Draft::default(),
    }
}

impl Draft {
    /// Returns the place of the first of `keys` that was written, for errors.
    pub(crate) fn place(&self, keys: &[&str]) -> String {
        let written = keys.iter().find_map(|key| self.places.get(*key));
        written.cloned().unwrap_or_else(|| "defaults".to_owned())
    }
}

impl SiteDraft {
    /// Returns the name of the site, which is the one with the number `at` from 0.
    pub(crate) fn name_at(&self, at: usize) -> String {
        let path = if self.values.path.is_root() { String::new() } else { self.values.path.to_string() };
        let by_host = || self.values.hosts.first().map(|host| format!("{host}{path}"));
        self.name.clone().or_else(by_host).unwrap_or_else(|| format!("site{}{path}", at + 1))
    }

    /// Whether `key` was written.
    pub(crate) fn is_written(&self, key: &str) -> bool {
        self.places.contains_key(key)
    }

    /// Returns the place where `key` was written, or else where the site begins.
    pub(crate) fn place_of(&self, key: &str) -> &str {
        self.places.get(key).unwrap_or(&self.place)
    }
}

impl Default for DiskDraft {
    fn default() -> Self {
        Self { place: String::new(), tier: DiskTier::at(PathBuf::new()) }
    }
}
