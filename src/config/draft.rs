//! The content of a config file, on top of the defaults. Combinations of values are not checked here.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use larder_evict::Spec;
use larder_proxy::settings::{
    AccessLog, ClientAddress, DiskTier, Doors, Forward, HostHeader, Limits, MemoryTier, Origin, Schedule,
    Timeouts, Token, Tracing, Validate,
};
use larder_semantics::storable::Rules;

use super::{cluster, control, statistics};

/// What was written, on top of the defaults.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) threads: Option<usize>,
    pub(super) admin: Option<SocketAddr>,
    pub(super) admin_token: Option<Token>,
    pub(super) access_log: AccessLog,
    pub(super) access_log_file: Option<PathBuf>,
    pub(super) name: String,
    pub(super) x_cache: bool,
    pub(super) client_address: ClientAddress,
    pub(super) trust: Vec<IpNet>,
    pub(super) memory: Memory,
    pub(super) disks: Vec<DiskDraft>,
    pub(super) schedule: Schedule,
    pub(super) statistics: statistics::Draft,
    pub(super) cluster: cluster::Draft,
    pub(super) trace: Tracing,
    pub(super) validate: Validate,
    pub(super) limits: Limits,
    pub(super) timeouts: Timeouts,
    pub(super) reverse_listen: Option<Vec<SocketAddr>>,
    pub(super) sites: Vec<SiteDraft>,
    pub(super) forward_listen: Option<Vec<SocketAddr>>,
    pub(super) forward: Forward,
    pub(super) thrift_listen: Vec<SocketAddr>,
    pub(super) onc_listen: Vec<SocketAddr>,
    pub(super) line_listen: Vec<SocketAddr>,
    /// But for where they listen.
    pub(super) doors: Doors,
    /// Where each key was written, as an error says it: `memory.size` -> `larder.toml:7`.
    pub(super) places: BTreeMap<String, String>,
}

/// The memory tier as it was written.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    pub(super) size: Option<u64>,
    pub(super) entries: Option<u64>,
    pub(super) policy: Spec,
    pub(super) max_object: Option<u64>,
    pub(super) max_variants: usize,
}

/// A directory of the disk tier as it was written.
#[derive(Clone, Debug)]
pub(super) struct DiskDraft {
    /// Where it begins, as an error says it.
    pub(super) place: String,
    pub(super) tier: DiskTier,
}

/// A site as it was written.
#[derive(Clone, Debug)]
pub(super) struct SiteDraft {
    /// Where it begins, as an error says it.
    pub(super) place: String,
    pub(super) name: Option<String>,
    pub(super) hosts: Vec<String>,
    pub(super) origins: Vec<Origin>,
    pub(super) host: HostHeader,
    pub(super) cache: bool,
    pub(super) retries: u32,
    pub(super) max_fails: u32,
    pub(super) fail_timeout: Duration,
    pub(super) health: Option<String>,
    pub(super) health_interval: Duration,
    pub(super) purge_from: Vec<IpNet>,
    pub(super) rules: Rules,
    pub(super) control: control::Draft,
}

impl Default for Draft {
    fn default() -> Self {
        let MemoryTier { policy, max_object, max_variants, .. } = MemoryTier::default();
        Self {
            threads: None,
            admin: Some(SocketAddr::from(([127, 0, 0, 1], 9145))),
            admin_token: None,
            access_log: AccessLog::Off,
            access_log_file: None,
            name: "Larder".to_owned(),
            x_cache: false,
            client_address: ClientAddress::XForwardedFor,
            trust: Vec::new(),
            memory: Memory { size: None, entries: None, policy, max_object, max_variants },
            disks: Vec::new(),
            schedule: Schedule::default(),
            statistics: statistics::Draft::default(),
            cluster: cluster::Draft::default(),
            trace: Tracing::default(),
            validate: Validate::default(),
            limits: Limits::default(),
            timeouts: Timeouts::default(),
            reverse_listen: None,
            sites: Vec::new(),
            forward_listen: None,
            forward: Forward::default(),
            thrift_listen: Vec::new(),
            onc_listen: Vec::new(),
            line_listen: Vec::new(),
            doors: Doors::default(),
            places: BTreeMap::new(),
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
            name: None,
            hosts: Vec::new(),
            origins: Vec::new(),
            host: HostHeader::Preserve,
            cache: true,
            retries: 1,
            max_fails: 3,
            fail_timeout: Duration::from_secs(10),
            health: None,
            health_interval: Duration::from_secs(10),
            purge_from: Vec::new(),
            rules: Rules::default(),
            control: control::Draft::default(),
        }
    }
}
