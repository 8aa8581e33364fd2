//! The content of a config file, on top of the defaults. Combinations of values are not checked here.

pub(super) mod acme;
pub(super) mod cluster;
pub(super) mod control;
pub(super) mod rule;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use larder_proxy::Settings;
use larder_proxy::settings::{DiskTier, NoProxy, ParentProxy, ParentSettings, Site};
use larder_words::with_defaults;

use self::rule::RuleDraft;

with_defaults! {
    /// The values as written, on top of the defaults.
    #[derive(Clone, Debug)]
    pub(crate) struct Draft {
        /// The files that the file that was read last includes.
        pub(crate) include: Vec<String> = Vec::new(),
        pub(crate) threads: Option<usize> = None,
        pub(crate) admin: Option<AdminAddress> = Some(AdminAddress { address: SocketAddr::from(([127, 0, 0, 1], 9145)), tls: false }),
        pub(crate) database: DatabasePlace = DatabasePlace::Default,
        pub(crate) memory_size: Option<u64> = None,
        pub(crate) memory_entries: Option<u64> = None,
        pub(crate) disks: Vec<DiskDraft> = Vec::new(),
        pub(crate) cluster: cluster::Draft = cluster::Draft::default(),
        pub(crate) reverse_listen: Option<Vec<ListenAddress>> = None,
        pub(crate) reverse_listen_tls: Option<Vec<SocketAddr>> = None,
        pub(crate) reverse_client: ClientDraft = ClientDraft::default(),
        pub(crate) sites: Vec<SiteDraft> = Vec::new(),
        /// The rules in [[rule]] tables, which each site has before its own.
        pub(crate) rules: Vec<RuleDraft> = Vec::new(),
        pub(crate) parent: ParentDraft = ParentDraft::default(),
        pub(crate) forward_listen: Option<Vec<SocketAddr>> = None,
        pub(crate) forward_listen_tls: Vec<SocketAddr> = Vec::new(),
        pub(crate) forward_client: ClientDraft = ClientDraft::default(),
        pub(crate) forward_rules: Vec<RuleDraft> = Vec::new(),
        pub(crate) intercept: InterceptDraft = InterceptDraft::default(),
        pub(crate) thrift_listen: Vec<SocketAddr> = Vec::new(),
        pub(crate) onc_listen: Vec<SocketAddr> = Vec::new(),
        pub(crate) line_listen: Vec<SocketAddr> = Vec::new(),
        /// The values of all other keys, as they are in force.
        pub(crate) values: Settings = Settings::default(),
        /// The place of each key that was written, as errors name it: `memory.size` -> `larder.toml:7`.
        pub(crate) places: BTreeMap<String, String> = BTreeMap::new(),
        /// The tables, and the keys above all tables, with parts that could not be read.
        pub(crate) unread: BTreeSet<String> = BTreeSet::new(),
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
        pub(crate) http: Vec<ParentProxy> = Vec::new(),
        /// Those for https origins, if they are others.
        pub(crate) https: Option<Vec<ParentProxy>> = None,
        pub(crate) no_proxy: Vec<NoProxy> = Vec::new(),
        pub(crate) only: Vec<NoProxy> = Vec::new(),
        /// Whether the environment names what is not written.
        pub(crate) from_env: bool = false,
        pub(crate) falls_back: bool = false,
        pub(crate) fail_timeout: Duration = ParentSettings::default().fail_timeout,
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

with_defaults! {
    /// A directory of the disk tier, as written.
    #[derive(Clone, Debug)]
    pub(crate) struct DiskDraft {
        /// The place where its table begins, as errors name it.
        pub(crate) place: String = String::new(),
        pub(crate) tier: DiskTier = DiskTier::at(PathBuf::new()),
    }
}

with_defaults! {
    /// A site, as written.
    #[derive(Clone, Debug)]
    pub(crate) struct SiteDraft {
        /// The place where its table begins, as errors name it.
        pub(crate) place: String = String::new(),
        /// The place of each of its keys that was written.
        pub(crate) places: BTreeMap<String, String> = BTreeMap::new(),
        /// Whether a part of it could not be read.
        pub(crate) is_unread: bool = false,
        pub(crate) name: Option<String> = None,
        pub(crate) acme: Option<acme::Draft> = None,
        pub(crate) ca: Option<PathBuf> = None,
        pub(crate) client_cert: Option<PathBuf> = None,
        pub(crate) client_key: Option<PathBuf> = None,
        pub(crate) tls_name: Option<String> = None,
        pub(crate) health: Option<String> = None,
        pub(crate) health_text: Option<String> = None,
        pub(crate) health_status: Vec<RangeInclusive<u16>> = vec![200..=399],
        pub(crate) health_port: Option<u16> = None,
        pub(crate) health_fails: u32 = 1,
        pub(crate) health_passes: u32 = 1,
        pub(crate) health_interval: Duration = Duration::from_secs(10),
        /// The rules in its `[[site.rule]]` tables.
        pub(crate) site_rules: Vec<RuleDraft> = Vec::new(),
        /// The values of all other keys, as they are in force.
        pub(crate) values: Site = Site::default(),
        pub(crate) control: control::Draft = control::Draft::default(),
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
