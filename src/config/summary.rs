//! The settings for people: a summary, and the changes that need a restart.

use larder_evict::{By, Capacity};
use larder_proxy::Settings;
use larder_proxy::settings::{
    Cluster, Counts, Intercept, Listener, Role, Statistics, TraceSettings, ValidatorSettings,
};

use super::names::{self, door_name, front_name};
use super::places;
use crate::cli::units::{counted, show_duration, show_share, show_size};

/// Returns the changes from `running` to `wanted` that a reload cannot make, one line each: they concern the process.
pub(crate) fn needs_restart(running: &Settings, wanted: &Settings) -> Vec<String> {
    let rows = [
        ("listen", show_listeners(running), show_listeners(wanted)),
        ("doors", show_doors(running), show_doors(wanted)),
        ("admin", show_admin(running), show_admin(wanted)),
        ("threads", running.threads.to_string(), wanted.threads.to_string()),
        ("memory", show_capacity(running), show_capacity(wanted)),
        ("disk", show_directories(running), show_directories(wanted)),
        ("stats", show_statistics(&running.statistics), show_statistics(&wanted.statistics)),
        ("cluster", show_cluster(running), show_cluster(wanted)),
        ("trace", show_trace(running), show_trace(wanted)),
        ("advise", show_switch(running.advise), show_switch(wanted.advise)),
    ];
    let changed = rows.into_iter().filter(|(_, now, then)| now != then);
    changed
        .map(|(what, now, then)| format!("{what} stays {now} until a restart; the config says {then}"))
        .collect()
}

fn show_switch(is_on: bool) -> String {
    if is_on { "on" } else { "off" }.to_owned()
}

/// Returns a summary of the settings, for people.
pub(crate) fn summary(settings: &Settings) -> Vec<(&'static str, String)> {
    let mut rows = vec![
        ("listen", show_listeners(settings)),
        ("admin", show_admin(settings)),
        ("threads", settings.threads.to_string()),
        ("memory", show_memory(settings)),
    ];
    rows.extend(settings.disks.iter().map(|disk| {
        let (path, size) = (disk.path.display(), show_size(disk.size));
        ("disk", format!("{path}, {size}, {}", disk.policy))
    }));
    rows.extend(show_clients(settings).map(|text| ("clients", text)));
    rows.extend(settings.intercept.as_ref().map(|intercept| ("tunnels", show_intercepted(intercept))));
    rows.push(("stats", show_statistics(&settings.statistics)));
    if settings.cluster.is_some() {
        rows.push(("cluster", show_cluster(settings)));
    }
    if settings.trace.endpoint.is_some() {
        rows.push(("trace", show_trace(settings)));
    }
    if settings.validate.sample > 0.0 {
        let ValidatorSettings { sample, rate, .. } = settings.validate;
        rows.push(("validate", format!("sample {}, at most {rate} a second", show_share(sample))));
    }
    if !settings.doors.listen.is_empty() {
        rows.insert(1, ("doors", show_doors(settings)));
    }
    rows.extend(settings.sites.iter().map(|site| {
        let mut hosts = if site.hosts.is_empty() { "every host".to_owned() } else { site.hosts.join(", ") };
        if !site.path.is_root() {
            hosts = format!("{} of {hosts}", site.path);
        }
        let origins: Vec<_> = site.origins.iter().map(places::show_origin).collect();
        let pass = match (&site.tags, site.cache) {
            (Some(_), _) => ", tags only",
            (None, true) if site.rules.validated => ", always validated",
            (None, true) => "",
            (None, false) => ", not cached",
        };
        let by_rule = site.site_rules.iter().filter_map(|rule| Some((rule, rule.effects.origin.as_ref()?)));
        let by_rule: String = by_rule
            .map(|(rule, origins)| {
                let origins: Vec<_> = origins.iter().map(places::show_origin).collect();
                format!(", by rule {} from {}", rule.name, origins.join(", "))
            })
            .collect();
        ("site", format!("{}: {hosts} from {}{by_rule}{pass}", site.name, origins.join(", ")))
    }));
    rows
}

/// Returns the hosts whose tunnels are intercepted.
fn show_intercepted(intercept: &Intercept) -> String {
    let hosts = |hosts: &[String]| match hosts.len() {
        0..=4 => hosts.join(", "),
        more => counted(more as u64, "host", "hosts"),
    };
    let never = match &intercept.never[..] {
        [] => String::new(),
        never => format!(", but for {}", hosts(never)),
    };
    let authority = intercept.authority.cert.display();
    format!("to {} are intercepted{never}, with the authority {authority}", hosts(&intercept.hosts))
}

fn show_listeners(settings: &Settings) -> String {
    let listeners = settings.listen.iter();
    let name = |listener: &Listener| front_name(listener.role, listener.tls);
    let listeners = listeners.map(|listener| format!("{} ({})", listener.address, name(listener)));
    let paths = settings.sockets.paths.iter();
    let sockets =
        paths.map(|path| format!("{} ({})", places::show_socket(path), front_name(Role::Reverse, false)));
    listeners.chain(sockets).collect::<Vec<_>>().join(", ")
}

/// Returns the rules for certificates of clients.
fn show_clients(settings: &Settings) -> impl Iterator<Item = String> {
    [Role::Reverse, Role::Forward].into_iter().filter_map(|role| {
        let auth = settings.client_auth.of(role)?;
        let rule = if auth.files.is_required { "required" } else { "requested" };
        let authorities = counted(auth.count as u64, "authority", "authorities");
        Some(format!("{}, certificates {rule}, {authorities}", front_name(role, true)))
    })
}

fn show_doors(settings: &Settings) -> String {
    let doors = settings.doors.listen.iter();
    let name = |door| door_name(door, settings.doors.speaks_tls(door));
    let doors: Vec<_> = doors.map(|(door, address)| format!("{address} ({})", name(*door))).collect();
    if doors.is_empty() { "off".to_owned() } else { doors.join(", ") }
}

fn show_admin(settings: &Settings) -> String {
    let scheme = if settings.admin_tls.is_some() { "https://" } else { "" };
    settings.admin.map_or_else(|| "off".to_owned(), |address| format!("{scheme}{address}"))
}

fn show_trace(settings: &Settings) -> String {
    let TraceSettings { endpoint, sample, metrics } = &settings.trace;
    let Some(endpoint) = endpoint else { return "off".to_owned() };
    let metrics = metrics.map(|every| format!(", metrics every {}", show_duration(every)));
    format!("{endpoint}, sample {}{}", show_share(*sample), metrics.unwrap_or_default())
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
        By::Bytes if settings.memory.counts == Counts::Content => format!("{} of content", show_size(amount)),
        By::Bytes => show_size(amount),
        By::Entries if settings.memory.counts == Counts::Content => {
            format!("{} by content", counted(amount, "entry", "entries"))
        }
        By::Entries => counted(amount, "entry", "entries"),
    }
}

fn show_cluster(settings: &Settings) -> String {
    settings.cluster.as_ref().map_or_else(
        || "off".to_owned(),
        |cluster| {
            let Cluster { engine, node, listen, weight, prefix, tls, .. } = cluster;
            let over_tls = if tls.is_some() { " over TLS" } else { "" };
            format!("{node} (weight {weight}) at {listen}{over_tls}, by {engine} (prefix {prefix})")
        },
    )
}

fn show_statistics(statistics: &Statistics) -> String {
    let Statistics { database, keep, client, rate, queue, max_size, contents, .. } = statistics;
    match larder_stats::describe(&database.url()) {
        Ok(url) => {
            let (keep, size) = (show_duration(*keep), show_size(*max_size));
            let contents = contents.map_or_else(|| "off".to_owned(), show_duration);
            format!(
                "{url}, keep {keep}, max_size {size}, client {client}, rate {rate}, queue {queue}, contents {contents}"
            )
        }
        Err(_) => names::NO_DATABASE.to_owned(),
    }
}
