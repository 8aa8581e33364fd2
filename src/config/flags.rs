//! The flags that `serve` and `check` share. They override a config file.
//!
//! Values are parsed here, one by one; `settle` checks their combinations.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use clap::Args;
use larder_evict::Spec;
use larder_proxy::settings::{AccessLog, CertificateFiles, Counts, DiskTier, HostHeader, Origin, Site};

use super::bounds::{DISK, ENTRIES, MEMORY, THREADS};
use super::draft::{AdminAddress, DatabasePlace, DiskDraft, Draft, ListenAddress, SiteDraft};
use super::names;
use super::places;
use super::registries;
use super::self_signed;
use crate::cli::numbers::whole;
use crate::cli::{choice, units};

/// The arguments of `serve`, which `check` validates.
#[derive(Clone, Debug, Args)]
pub(crate) struct Run {
    /// Read this file first; flags override it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The flags that override the file.
    #[command(flatten)]
    pub(crate) flags: Flags,
}

/// Flags that override a config file.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Flags {
    /// Serve sites at this address, or at a Unix socket as in unix:/run/larder.sock [default: 127.0.0.1:8080]; repeatable
    #[arg(long, value_name = "ADDRESS", value_parser = places::listen)]
    pub(crate) listen: Vec<ListenAddress>,
    /// Serve sites over TLS at this address [default: 127.0.0.1:8443 with a certificate]; repeatable
    #[arg(long, value_name = "ADDRESS", value_parser = names::address)]
    pub(crate) listen_tls: Vec<SocketAddr>,
    /// File with a certificate chain in PEM, for listeners with TLS; repeatable
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Vec<PathBuf>,
    /// File with the key of that certificate in PEM; once for each
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Vec<PathBuf>,
    /// Use a certificate that this program makes and signs itself, to try TLS
    #[arg(long)]
    pub(crate) tls_self_signed: bool,
    /// Be a reverse proxy for this origin, instead of the file's sites; repeatable. An https origin gets its own name as Host
    #[arg(long, value_name = "URL", value_parser = places::origin)]
    pub(crate) origin: Vec<Origin>,
    /// Be a forward proxy at this address [default: 127.0.0.1:3128 without an origin]; repeatable
    #[arg(long, value_name = "ADDRESS", value_parser = names::address)]
    pub(crate) forward: Vec<SocketAddr>,
    /// Serve Thrift at this address; repeatable
    #[arg(long, value_name = "ADDRESS", value_parser = names::address)]
    pub(crate) thrift: Vec<SocketAddr>,
    /// Serve ONC RPC at this address; repeatable
    #[arg(long, value_name = "ADDRESS", value_parser = names::address)]
    pub(crate) onc: Vec<SocketAddr>,
    /// Serve the line protocol at this address; repeatable
    #[arg(long, value_name = "ADDRESS", value_parser = names::address)]
    pub(crate) line: Vec<SocketAddr>,
    /// Memory for stored responses, such as 64MiB [default: 1GiB or a quarter of the machine's]
    #[arg(long, value_name = "SIZE", value_parser = memory, conflicts_with = "entries")]
    pub(crate) memory: Option<u64>,
    /// Capacity of the memory in responses instead of bytes
    #[arg(long, value_name = "NUMBER", value_parser = whole::<u64>(ENTRIES))]
    pub(crate) entries: Option<u64>,
    /// What the capacity and the policy count of a response [default: all]
    #[arg(long, value_name = "WHAT", value_parser = choice(Counts::NAMES))]
    pub(crate) count: Option<Counts>,
    /// Eviction policy, such as s3fifo or tinylfu+gdsf [default: adaptive]
    #[arg(long, value_name = "POLICY", value_parser = names::policy)]
    pub(crate) policy: Option<Spec>,
    /// Also store responses on disk in this directory; repeatable
    #[arg(long, value_name = "DIR", value_parser = names::directory)]
    pub(crate) disk: Vec<PathBuf>,
    /// Size of a disk directory [default: 10GiB]; once for all, or once for each
    #[arg(long, value_name = "SIZE", value_parser = disk_size, requires = "disk")]
    pub(crate) disk_size: Vec<u64>,
    /// Eviction policy of the disk, such as secondhit+lru [default: sieve]
    #[arg(long, value_name = "POLICY", value_parser = names::policy, requires = "disk")]
    pub(crate) disk_policy: Option<Spec>,
    /// Address of the admin listener, with https:// in front for TLS, or off [default: 127.0.0.1:9145]
    #[arg(long, value_name = "ADDRESS", value_parser = admin)]
    pub(crate) admin: Option<Admin>,
    /// URL of the statistics database, or none [default: auto, a file in the state directory]
    #[arg(long, value_name = "URL", value_parser = names::database)]
    pub(crate) stats: Option<DatabasePlace>,
    /// Worker threads [default: one for each core]
    #[arg(long, value_name = "NUMBER", value_parser = whole::<usize>(THREADS))]
    pub(crate) threads: Option<usize>,
    /// Write an access log in this form [default: off]
    #[arg(long, value_name = "FORM", value_parser = choice(AccessLog::NAMES))]
    pub(crate) access_log: Option<AccessLog>,
    /// File of the access log [default: stdout]
    #[arg(long, value_name = "FILE", value_parser = names::log_file)]
    pub(crate) access_log_file: Option<PathBuf>,
    /// Answer https requests to public registries, or to intercept.hosts, to cache them (docs/run.md)
    #[arg(long)]
    pub(crate) intercept: bool,
    /// Let forward clients reach loopback, link-local, private and metadata addresses
    #[arg(long)]
    pub(crate) allow_private: bool,
}

impl Flags {
    /// Replaces values of the file by those of the flags.
    pub(super) fn override_file(&self, draft: &mut Draft) {
        let places = &mut draft.places;
        let mut said = |key: &str, flag: &str| places.insert(key.to_owned(), flag.to_owned());
        if let Some(size) = self.memory {
            said("memory.size", "--memory");
            (draft.memory_size, draft.memory_entries) = (Some(size), None);
        }
        if let Some(entries) = self.entries {
            said("memory.entries", "--entries");
            (draft.memory_size, draft.memory_entries) = (None, Some(entries));
        }
        if !self.listen.is_empty() {
            said("reverse.listen", "--listen");
            draft.reverse_listen = Some(self.listen.clone());
        }
        if !self.forward.is_empty() {
            said("forward.listen", "--forward");
            draft.forward_listen = Some(self.forward.clone());
        }
        if !self.listen_tls.is_empty() {
            said("reverse.listen_tls", "--listen-tls");
            draft.reverse_listen_tls = Some(self.listen_tls.clone());
        }
        let doors = [
            ("thrift.listen", "--thrift", &self.thrift, &mut draft.thrift_listen),
            ("onc.listen", "--onc", &self.onc, &mut draft.onc_listen),
            ("line.listen", "--line", &self.line, &mut draft.line_listen),
        ];
        for (key, flag, wanted, listen) in doors {
            if !wanted.is_empty() {
                said(key, flag);
                listen.clone_from(wanted);
            }
        }
        if let Some(admin) = self.admin {
            said("admin", "--admin");
            draft.admin = admin.0;
        }
        if !self.tls_cert.is_empty() {
            draft.values.certificates = self.certificates();
        }
        if self.tls_self_signed {
            draft.values.certificates.push(self_signed::files());
        }
        if !self.origin.is_empty() {
            draft.sites = vec![only_site(&self.origin)];
        }
        if !self.disk.is_empty() {
            draft.disks = self.disks();
        }
        draft.threads = self.threads.or(draft.threads);
        draft.database = self.stats.clone().unwrap_or_else(|| draft.database.clone());
        let values = &mut draft.values;
        values.memory.policy = self.policy.clone().unwrap_or_else(|| values.memory.policy.clone());
        values.memory.counts = self.count.unwrap_or(values.memory.counts);
        values.access_log = self.access_log.unwrap_or(values.access_log);
        if let Some(file) = &self.access_log_file {
            values.access_log_file = Some(file.clone()).filter(|file| file.as_os_str() != "stdout");
        }
        values.forward.allow_private |= self.allow_private;
        if self.intercept && draft.intercept.hosts.is_empty() {
            places.insert("intercept.hosts".to_owned(), "--intercept".to_owned());
            draft.intercept.hosts = vec![registries::WORD.to_owned()];
        }
    }

    /// Returns the certificates that the flags name.
    fn certificates(&self) -> Vec<CertificateFiles> {
        let files = |(cert, key): (&PathBuf, &PathBuf)| {
            let files = CertificateFiles::at(cert.clone(), key.clone(), "--tls-cert");
            CertificateFiles { key_place: "--tls-key".to_owned(), ..files }
        };
        self.tls_cert.iter().zip(&self.tls_key).map(files).collect()
    }

    /// Returns the directories that the flags name. A single size is for all of them.
    fn disks(&self) -> Vec<DiskDraft> {
        let sizes = self.disk_size.iter().copied().map(Some);
        let last = self.disk_size.last().copied();
        let sizes = sizes.chain(std::iter::repeat(last));
        let disks = self.disk.iter().cloned().zip(sizes).map(|(path, size)| {
            let mut tier = DiskTier::at(path);
            tier.size = size.unwrap_or(tier.size);
            tier.policy = self.disk_policy.clone().unwrap_or(tier.policy);
            DiskDraft { place: "--disk".to_owned(), tier }
        });
        disks.collect()
    }
}

fn only_site(origins: &[Origin]) -> SiteDraft {
    // A server of another operator knows its own name only, and so does its certificate.
    let host = match origins.iter().any(|origin| origin.https) {
        true => HostHeader::Origin,
        false => HostHeader::Preserve,
    };
    SiteDraft {
        place: "--origin".to_owned(),
        name: Some("default".to_owned()),
        values: Site { origins: origins.to_vec(), host, ..Site::default() },
        ..SiteDraft::default()
    }
}

/// The address of the admin listener; `None`: off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admin(pub(crate) Option<AdminAddress>);

fn admin(text: &str) -> Result<Admin, String> {
    names::admin(text).map(Admin)
}

fn memory(text: &str) -> Result<u64, String> {
    size_within(text, &MEMORY)
}

fn disk_size(text: &str) -> Result<u64, String> {
    size_within(text, &DISK)
}

fn size_within(text: &str, bounds: &RangeInclusive<u64>) -> Result<u64, String> {
    let size = units::parse_size(text)?;
    let (least, most) = (units::show_size(*bounds.start()), units::show_size(*bounds.end()));
    if bounds.contains(&size) { Ok(size) } else { Err(format!("expected a size from {least} to {most}")) }
}
