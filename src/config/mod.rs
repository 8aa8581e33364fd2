//! Combines a config file with the flags: the only place that validates. Everything below trusts its [`Settings`].
//!
//! `raw` turns text into a draft by the table in `keys`; here the flags come on top, and combinations of values
//! are decided and checked.

mod cluster;
mod control;
pub(crate) mod docs;
mod draft;
mod keys;
mod kinds;
pub(crate) mod names;
mod raw;
mod rpc;
mod settle;
pub(crate) mod statistics;

#[cfg(test)]
mod tests;

use std::fmt::{self, Display};
use std::fs;
use std::io::{self, ErrorKind};
use std::ops::RangeInclusive;
use std::path::Path;

use larder_evict::{By, Capacity};
use larder_proxy::Settings;
use larder_proxy::settings::{DiskTier, Origin, Role, Tracing, Validate};

use self::draft::{DiskDraft, Draft, SiteDraft};
use crate::args::Flags;
use crate::units;

/// The variable that has the admin token, where the file has none.
pub(crate) const TOKEN: &str = "LARDER_TOKEN";
/// How many worker threads there may be.
pub(crate) const THREADS: RangeInclusive<u64> = 1..=1_024;
/// How many bytes the memory tier may have: up to what a process can address.
pub(crate) const MEMORY: RangeInclusive<u64> = 1..=1 << 47;
/// How many bytes a directory of the disk tier may have.
pub(crate) const DISK: RangeInclusive<u64> = 1 << 20..=1 << 47;
/// How many entries the memory tier may have: its slots are 32 bits wide.
pub(crate) const ENTRIES: RangeInclusive<u64> = 1..=u32::MAX as u64 - 1;

/// All that is wrong with a config, one line each.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ConfigError {
    /// Each names the file and line, or the flag.
    pub(crate) problems: Vec<String>,
}

impl Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.problems.join("\n"))
    }
}

/// What to run: the defaults, then the file, then the flags.
pub(crate) fn load(path: Option<&Path>, flags: &Flags) -> Result<Settings, ConfigError> {
    let Some(path) = path else { return parse("", "", flags) };
    match fs::read_to_string(path) {
        Ok(text) => parse(&path.display().to_string(), &text, flags),
        Err(error) => {
            let problem = format!("cannot read {}: {}", path.display(), explain(&error));
            Err(ConfigError { problems: vec![problem] })
        }
    }
}

fn explain(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "no such file".to_owned(),
        ErrorKind::PermissionDenied => "permission denied".to_owned(),
        ErrorKind::IsADirectory => "it is a directory".to_owned(),
        ErrorKind::InvalidData => "it is not UTF-8 text".to_owned(),
        _ => error.to_string(),
    }
}

/// [`load`] with the file's name and text.
fn parse(file: &str, text: &str, flags: &Flags) -> Result<Settings, ConfigError> {
    let mut draft = Draft::default();
    let read = raw::read(file, text, &mut draft);
    override_with(flags, &mut draft);
    if let (disks, sizes @ 2..) = (flags.disk.len(), flags.disk_size.len())
        && disks != sizes
    {
        let problem =
            format!("--disk-size: {sizes} sizes for {disks} directories; say one for all, or one for each");
        return Err(ConfigError { problems: vec![problem] });
    }
    match (read, settle::settle(draft)) {
        (Ok(()), Ok(settings)) => Ok(settings),
        // A value that could not be read still has its default, which is no reason to blame its neighbours.
        (Err(problems), _) | (Ok(()), Err(problems)) => Err(ConfigError { problems }),
    }
}

/// Puts what the flags say in the place of what the file says.
fn override_with(flags: &Flags, draft: &mut Draft) {
    let places = &mut draft.places;
    let mut said = |key: &str, flag: &str| places.insert(key.to_owned(), flag.to_owned());
    if let Some(size) = flags.memory {
        said("memory.size", "--memory");
        (draft.memory.size, draft.memory.entries) = (Some(size), None);
    }
    if let Some(entries) = flags.entries {
        said("memory.entries", "--entries");
        (draft.memory.size, draft.memory.entries) = (None, Some(entries));
    }
    if !flags.listen.is_empty() {
        said("reverse.listen", "--listen");
        draft.reverse_listen = Some(flags.listen.clone());
    }
    if !flags.forward.is_empty() {
        said("forward.listen", "--forward");
        draft.forward_listen = Some(flags.forward.clone());
    }
    let doors = [
        ("thrift.listen", "--thrift", &flags.thrift, &mut draft.thrift_listen),
        ("onc.listen", "--onc", &flags.onc, &mut draft.onc_listen),
        ("line.listen", "--line", &flags.line, &mut draft.line_listen),
    ];
    for (key, flag, wanted, listen) in doors {
        if !wanted.is_empty() {
            said(key, flag);
            listen.clone_from(wanted);
        }
    }
    if let Some(admin) = flags.admin {
        said("admin", "--admin");
        draft.admin = admin.0;
    }
    if !flags.origin.is_empty() {
        draft.sites = vec![only_site(&flags.origin)];
    }
    if !flags.disk.is_empty() {
        draft.disks = disks(flags);
    }
    draft.threads = flags.threads.or(draft.threads);
    draft.statistics.place = flags.stats.clone().unwrap_or_else(|| draft.statistics.place.clone());
    draft.memory.policy = flags.policy.clone().unwrap_or_else(|| draft.memory.policy.clone());
    draft.access_log = flags.access_log.unwrap_or(draft.access_log);
    draft.access_log_file = flags.access_log_file.clone().or(draft.access_log_file.take());
    draft.forward.allow_private |= flags.allow_private;
}

/// The directories that the flags name. A single size is for all of them.
fn disks(flags: &Flags) -> Vec<DiskDraft> {
    let sizes = flags.disk_size.iter().copied().map(Some);
    let last = flags.disk_size.last().copied();
    let sizes = sizes.chain(std::iter::repeat(last));
    let disks = flags.disk.iter().cloned().zip(sizes).map(|(path, size)| {
        let mut tier = DiskTier::at(path);
        tier.size = size.unwrap_or(tier.size);
        tier.policy = flags.disk_policy.clone().unwrap_or(tier.policy);
        DiskDraft { place: "--disk".to_owned(), tier }
    });
    disks.collect()
}

fn only_site(origins: &[Origin]) -> SiteDraft {
    SiteDraft {
        place: "--origin".to_owned(),
        name: Some("default".to_owned()),
        origins: origins.to_vec(),
        ..SiteDraft::default()
    }
}

/// What a reload from `running` to `wanted` cannot change, one line each: it belongs to the process.
pub(crate) fn needs_restart(running: &Settings, wanted: &Settings) -> Vec<String> {
    let rows = [
        ("listen", show_listeners(running), show_listeners(wanted)),
        ("doors", show_doors(running), show_doors(wanted)),
        ("admin", show_admin(running), show_admin(wanted)),
        ("threads", running.threads.to_string(), wanted.threads.to_string()),
        ("memory", show_capacity(running), show_capacity(wanted)),
        ("disk", show_directories(running), show_directories(wanted)),
        ("stats", statistics::summary(&running.statistics), statistics::summary(&wanted.statistics)),
        ("cluster", cluster::summary(running), cluster::summary(wanted)),
        ("trace", show_trace(running), show_trace(wanted)),
    ];
    let changed = rows.into_iter().filter(|(_, now, then)| now != then);
    changed
        .map(|(what, now, then)| format!("{what} stays {now} until a restart; the config says {then}"))
        .collect()
}

/// What would run, for people.
pub(crate) fn summary(settings: &Settings) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("listen", show_listeners(settings)),
        ("admin", show_admin(settings)),
        ("threads", settings.threads.to_string()),
        ("memory", show_memory(settings)),
    ];
    rows.extend(settings.disks.iter().map(|disk| {
        let (path, size) = (disk.path.display(), units::show_size(disk.size));
        ("disk", format!("{path}, {size}, {}", disk.policy))
    }));
    rows.push(("stats", statistics::summary(&settings.statistics)));
    if settings.cluster.is_some() {
        rows.push(("cluster", cluster::summary(settings)));
    }
    if settings.trace.endpoint.is_some() {
        rows.push(("trace", show_trace(settings)));
    }
    if settings.validate.sample > 0.0 {
        let Validate { sample, rate, .. } = settings.validate;
        rows.push(("validate", format!("sample {sample:?}, at most {rate} a second")));
    }
    if !settings.doors.listen.is_empty() {
        rows.insert(1, ("doors", show_doors(settings)));
    }
    rows.extend(settings.sites.iter().map(|site| {
        let hosts = if site.hosts.is_empty() { "every host".to_owned() } else { site.hosts.join(", ") };
        let origins: Vec<_> = site.origins.iter().map(names::show_origin).collect();
        let pass = match (&site.tags, site.cache) {
            (Some(_), _) => ", tags only",
            (None, true) if site.rules.validated => ", always validated",
            (None, true) => "",
            (None, false) => ", not cached",
        };
        ("site", format!("{}: {hosts} from {}{pass}", site.name, origins.join(", ")))
    }));
    rows
}

/// The role's name in lists and logs.
pub(crate) fn role_name(role: Role) -> &'static str {
    match role {
        Role::Reverse => "reverse",
        Role::Forward => "forward",
    }
}

fn show_listeners(settings: &Settings) -> String {
    let listeners = settings.listen.iter();
    let listeners: Vec<_> =
        listeners.map(|listener| format!("{} ({})", listener.address, role_name(listener.role))).collect();
    listeners.join(", ")
}

fn show_doors(settings: &Settings) -> String {
    let doors = settings.doors.listen.iter();
    let doors: Vec<_> = doors.map(|(door, address)| format!("{address} ({})", door.name())).collect();
    if doors.is_empty() { "off".to_owned() } else { doors.join(", ") }
}

fn show_admin(settings: &Settings) -> String {
    settings.admin.map_or_else(|| "off".to_owned(), |address| address.to_string())
}

fn show_trace(settings: &Settings) -> String {
    let Tracing { endpoint, sample } = &settings.trace;
    endpoint.as_ref().map_or_else(|| "off".to_owned(), |endpoint| format!("{endpoint}, sample {sample:?}"))
}

fn show_memory(settings: &Settings) -> String {
    format!("{}, {}", show_capacity(settings), settings.memory.policy)
}

fn show_directories(settings: &Settings) -> String {
    let paths: Vec<_> = settings.disks.iter().map(|disk| disk.path.display().to_string()).collect();
    if paths.is_empty() { "off".to_owned() } else { paths.join(", ") }
}

fn show_capacity(settings: &Settings) -> String {
    let Capacity { by, amount } = settings.memory.capacity;
    match by {
        By::Bytes => units::show_size(amount),
        By::Entries => format!("{amount} entries"),
    }
}
