//! Turns a draft into [`Settings`]: defaults that depend on the machine or on other keys, and checks of combinations.

mod acme;
mod cluster;
mod control;
mod node_tls;
mod problems;
mod statistics;
mod tls;
mod without_effect;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::{env, thread};

use larder_evict::{By, Capacity};
use larder_proxy::Settings;
use larder_proxy::settings::{
    Acme, Door, Doors, Forward, Health, Listener, MemoryTier, OriginTls, Role, Site, SiteRule, Token,
    Tracing, UnixSockets,
};

use super::draft::rule::RuleDraft;
use super::draft::{DiskDraft, Draft, Listen, Memory, SiteDraft};
use super::machine;
use super::names::covers;
use super::places::show_socket;
use super::rules::{self, Owner};
use crate::cli::admin_token::TOKEN;
use crate::cli::state::state_directory;
use crate::cli::units::{counted, show_size};
use problems::Problems;

const REVERSE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
const REVERSE_TLS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8443);
const FORWARD_PROXY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 3128);

/// Returns the settings of `draft`, or all contradictions in it.
pub(super) fn settle(draft: Draft) -> Result<Settings, Vec<String>> {
    let mut problems = Problems::of(&draft);
    let ((listen, sockets), doors) = (listeners(&draft), doors(&draft));
    check_fronts(&draft, &listen, &sockets, &doors, &mut problems);
    check_addresses(&draft, &listen, &doors, &mut problems);
    check_clients(&draft, &listen, &doors, &mut problems);
    check_tls(&draft, &listen, &mut problems);
    let client_auth = tls::client_auths(&draft, &listen, &mut problems);
    let admin_token = admin_token(&draft, &mut problems);
    let admin_tls = tls::admin(&draft, &mut problems);
    check_sites(&draft.sites, &mut problems);
    let tls: Vec<_> = draft.sites.iter().map(|site| tls::settle(site, &mut problems)).collect();
    let rules: Vec<_> =
        draft.sites.iter().map(|site| settle_rules(&site.site_rules, Owner::Site, &mut problems)).collect();
    let forward_rules = settle_rules(&draft.forward_rules, Owner::Forward, &mut problems);
    check_memory(&draft, &mut problems);
    check_disks(&draft.disks, &mut problems);
    check_trace(&draft, &mut problems);
    let cluster = cluster::settle(&draft, &mut problems);
    let state = state_directory();
    let (has_sockets, cluster_of_sites) = (!sockets.paths.is_empty(), cluster.as_ref());
    let around = acme::Around::new((&listen, has_sockets), &client_auth, cluster_of_sites, state.as_deref());
    let acme = acme::settle(&draft.sites, &around, &mut problems);
    check_limits(&draft, &mut problems);
    let problems = problems.lines();
    if !problems.is_empty() {
        return Err(problems);
    }
    let first = listen.first().map(|listener| listener.address);
    let first = first.or_else(|| doors.first().map(|(_, address)| *address));
    Ok(Settings {
        without_effect: without_effect::find(&draft),
        listen,
        sockets,
        proxy_protocol: draft.proxy_protocol,
        certificates: draft.certificates,
        client_auth,
        own_records: draft.own_records,
        admin: draft.admin.map(|admin| admin.address),
        admin_tls,
        admin_token,
        threads: draft.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)),
        memory: memory_tier(draft.memory),
        disks: draft.disks.into_iter().map(|disk| disk.tier).collect(),
        schedule: draft.schedule,
        limits: draft.limits,
        timeouts: draft.timeouts,
        sites: {
            let parts = draft.sites.into_iter().zip(tls.into_iter().zip(acme)).zip(rules).enumerate();
            parts.map(|(at, ((site, tls), rules))| settle_site(at, site, tls, rules)).collect()
        },
        forward: Forward { site_rules: forward_rules, ..draft.forward },
        doors: Doors { listen: doors, ..draft.doors },
        access_log: draft.access_log,
        access_log_file: draft.access_log_file,
        state,
        statistics: statistics::settle(draft.statistics, first),
        cluster,
        trace: draft.trace,
        validate: draft.validate,
        name: draft.name,
        x_cache: draft.x_cache,
        client_address: draft.client_address,
        trust: draft.trust,
    })
}

fn listeners(draft: &Draft) -> (Vec<Listener>, UnixSockets) {
    let auto = |wanted: bool, address| if wanted { vec![address] } else { Vec::new() };
    let has_sites = !draft.sites.is_empty();
    let (mut reverse, mut paths) = (Vec::new(), Vec::new());
    for listen in draft.reverse_listen.iter().flatten() {
        match listen {
            Listen::Address(address) => reverse.push(*address),
            Listen::Socket(path) => paths.push(path.clone()),
        }
    }
    if draft.reverse_listen.is_none() {
        reverse = auto(has_sites, REVERSE);
    }
    let forward = draft.forward_listen.clone().unwrap_or_else(|| auto(!has_sites, FORWARD_PROXY));
    let has_certificates = !draft.certificates.is_empty() || has_acme(draft);
    let reverse_tls = draft.reverse_listen_tls.clone();
    let reverse_tls = reverse_tls.unwrap_or_else(|| auto(has_sites && has_certificates, REVERSE_TLS));
    let each = [
        (reverse, Role::Reverse, false),
        (reverse_tls, Role::Reverse, true),
        (forward, Role::Forward, false),
        (draft.forward_listen_tls.clone(), Role::Forward, true),
    ];
    let listeners = |(addresses, role, tls): (Vec<_>, _, _)| {
        addresses.into_iter().map(move |address| Listener { address, role, tls })
    };
    (each.into_iter().flat_map(listeners).collect(), UnixSockets { paths, mode: draft.socket_mode })
}

fn doors(draft: &Draft) -> Vec<(Door, SocketAddr)> {
    let each = [
        (Door::Thrift, &draft.thrift_listen),
        (Door::Onc, &draft.onc_listen),
        (Door::Line, &draft.line_listen),
    ];
    each.into_iter().flat_map(|(door, listen)| listen.iter().map(move |address| (door, *address))).collect()
}

/// Returns the token that the admin listener requires; it must require one if other machines can reach it.
fn admin_token(draft: &Draft, problems: &mut Problems<'_>) -> Option<Token> {
    let token = match (&draft.admin_token, env::var(TOKEN)) {
        (None, Ok(text)) if !text.is_empty() => match text.parse() {
            Ok(token) => Some(token),
            Err(why) => {
                problems.add_line(format!("${TOKEN}: {why}"));
                return None;
            }
        },
        (token, _) => token.clone(),
    };
    if let Some(admin) = draft
        .admin
        .map(|admin| admin.address)
        .filter(|admin| token.is_none() && !admin.ip().to_canonical().is_loopback())
    {
        let text = format!(
            "admin {admin} can be reached from other machines: set admin_token in the file, or ${TOKEN}"
        );
        problems.add(&["admin", "admin_token"], &text);
    }
    token
}

fn check_fronts(
    draft: &Draft,
    listen: &[Listener],
    sockets: &UnixSockets,
    doors: &[(Door, SocketAddr)],
    problems: &mut Problems<'_>,
) {
    for (at, path) in sockets.paths.iter().enumerate() {
        if sockets.paths[..at].contains(path) {
            problems.add(&["reverse.listen"], &format!("reverse.listen has {} twice", show_socket(path)));
        }
    }
    let reverse = !sockets.paths.is_empty() || listen.iter().any(|listener| listener.role == Role::Reverse);
    match (reverse, draft.sites.first()) {
        (true, None) => {
            let only_tls = sockets.paths.is_empty() && has_only_tls(listen);
            let key = if only_tls { "reverse.listen_tls" } else { "reverse.listen" };
            let text = match only_tls && draft.certificates.is_empty() {
                true => {
                    "reverse.listen_tls needs an origin and a certificate: add a [[site]] and a [[tls]], or --origin URL with \
                     --tls-cert and --tls-key"
                }
                false => &format!("{key} needs an origin: add a [[site]], or --origin URL"),
            };
            problems.add(&[key, "site"], text);
        }
        (false, Some(site)) => {
            problems.add_to_site(site, "no listener serves this site: reverse.listen is empty");
        }
        _ if listen.is_empty() && sockets.paths.is_empty() && doors.is_empty() => {
            let text = "nothing listens: forward.listen is empty, and there is no [[site]]";
            problems.add(&["forward.listen", "site"], text);
        }
        _ => {}
    }
}

/// Whether an authority issues certificates for a site.
fn has_acme(draft: &Draft) -> bool {
    draft.sites.iter().any(|site| site.acme.is_some())
}

/// Whether all addresses of the sites use TLS.
fn has_only_tls(listen: &[Listener]) -> bool {
    listen.iter().filter(|listener| listener.role == Role::Reverse).all(|listener| listener.tls)
}

/// Checks that clients are listed for a listener on all addresses, which may be open to the internet.
fn check_clients(
    draft: &Draft,
    listen: &[Listener],
    doors: &[(Door, SocketAddr)],
    problems: &mut Problems<'_>,
) {
    let forward = listen.iter().filter(|listener| listener.role == Role::Forward);
    let forward = forward.map(|listener| (http_key(listener), listener.address, "forward"));
    let doors = doors.iter().map(|(door, address)| (listen_key(*door), *address, "doors"));
    for (key, address, table) in forward.chain(doors) {
        let is_open = address.ip().to_canonical().is_unspecified();
        if is_open && !draft.places.contains_key(&format!("{table}.clients")) {
            let clients = format!("{table}.clients");
            let text = format!(
                "{key} {address} can be reached from every network: name its clients in [{table}], such as \
                 clients = [\"127.0.0.0/8\", \"192.168.0.0/16\"]"
            );
            problems.add(&[key, &clients], &text);
        }
    }
}

/// Returns the key with the address of a listener for HTTP.
fn http_key(listener: &Listener) -> &'static str {
    match (listener.role, listener.tls) {
        (Role::Reverse, false) => "reverse.listen",
        (Role::Reverse, true) => "reverse.listen_tls",
        (Role::Forward, false) => "forward.listen",
        (Role::Forward, true) => "forward.listen_tls",
    }
}

/// Checks that TLS has certificates, and that certificates are used.
fn check_tls(draft: &Draft, listen: &[Listener], problems: &mut Problems<'_>) {
    let speaks = listen.iter().find(|listener| listener.tls).map(http_key);
    let doors = [(draft.doors.thrift_tls, "thrift.tls"), (draft.doors.line_tls, "line.tls")];
    let speaks = speaks.or_else(|| doors.iter().find(|(is_on, _)| *is_on).map(|(_, key)| *key));
    let of_admin = draft.admin.is_some_and(|admin| admin.tls);
    match (speaks, draft.certificates.first()) {
        // A site is missing, too, and that error is reported with it.
        (Some("reverse.listen_tls"), None) if draft.sites.is_empty() && has_only_tls(listen) => {}
        (Some(_), None) if has_acme(draft) => {}
        (Some(key), None) => {
            let text = format!(
                "{key} needs a certificate: add a [[tls]] with 'cert' and 'key', or --tls-cert and --tls-key, or acme to \
                 a [[site]]"
            );
            problems.add(&[key, "tls"], &text);
        }
        (None, Some(files)) if !of_admin => {
            let sites = match draft.sites.is_empty() {
                true => "add a [[site]] or --origin URL, or set",
                false => "set reverse.listen_tls,",
            };
            let line = format!(
                "{}: no listener uses this certificate: {sites} forward.listen_tls, thrift.tls or line.tls, or begin \
                 admin with https://",
                files.place
            );
            problems.add_of_tables(&["tls", "reverse", "forward", "thrift", "line"], line);
        }
        _ => {}
    }
    let is_reverse_tls = |listener: &Listener| listener.role == Role::Reverse && listener.tls;
    if let Some(site) = draft.sites.iter().find(|site| site.only_https)
        && !listen.iter().any(is_reverse_tls)
    {
        problems.add_to_site(site, "https = \"redirect\" needs a listener for TLS: set reverse.listen_tls");
    }
    if let Some(site) = draft.sites.iter().find(|site| site.hsts.is_some())
        && !listen.iter().any(is_reverse_tls)
        && draft.trust.is_empty()
    {
        let text =
            "hsts needs a listener for TLS, or a proxy that terminates it: set reverse.listen_tls or trust";
        problems.add_to_site(site, text);
    }
}

/// Returns the key with the addresses of an RPC listener.
fn listen_key(door: Door) -> &'static str {
    match door {
        Door::Thrift => "thrift.listen",
        Door::Onc => "onc.listen",
        Door::Line => "line.listen",
    }
}

fn check_addresses(
    draft: &Draft,
    listen: &[Listener],
    doors: &[(Door, SocketAddr)],
    problems: &mut Problems<'_>,
) {
    let asked = listen.iter().map(|listener| (http_key(listener), listener.address));
    let doors = doors.iter().map(|(door, address)| (listen_key(*door), *address));
    let peers = draft.cluster.engine.as_ref().map(|_| ("cluster.listen", draft.cluster.listen));
    let admin = draft.admin.map(|admin| ("admin", admin.address));
    let asked: Vec<_> = asked.chain(doors).chain(admin).chain(peers).collect();
    for (at, (later, address)) in asked.iter().enumerate() {
        for (earlier, other) in asked[..at].iter().filter(|(_, other)| clash(*other, *address)) {
            let text = format!("{later} {address} and {earlier} {other} cannot both listen");
            problems.add(&[later, earlier], &text);
        }
    }
}

/// Rejects a config with traces if the build does not support them.
fn check_trace(draft: &Draft, problems: &mut Problems<'_>) {
    if let Some(endpoint) = draft.trace.endpoint.as_ref().filter(|_| !Tracing::IS_BUILT_IN) {
        let text = format!(
            "trace.endpoint {endpoint}: this program was built without the feature otlp, and sends no traces"
        );
        problems.add(&["trace.endpoint"], &text);
    }
}

/// Whether two sockets cannot be bound at the same time.
fn clash(one: SocketAddr, other: SocketAddr) -> bool {
    let overlap = one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() != 0 && one.port() == other.port() && one.is_ipv4() == other.is_ipv4() && overlap
}

fn check_sites(sites: &[SiteDraft], problems: &mut Problems<'_>) {
    for (at, site) in sites.iter().enumerate() {
        if site.origins.is_empty() {
            problems.add_to_site(site, "[[site]] has no origin in its 'origin' list");
        }
        control::check(site, problems);
        for earlier in &sites[..at] {
            if site.name.is_some() && site.name == earlier.name {
                let name = site.name.as_deref().unwrap_or_default();
                problems.add_to_site(
                    site,
                    &format!("the name '{name}' belongs to the site at {}", earlier.place),
                );
            }
            check_hosts(site, earlier, problems);
        }
    }
}

/// Checks that a host's requests reach the site: sites of the same path are matched in their order, so an earlier one
/// takes them first.
fn check_hosts(site: &SiteDraft, earlier: &SiteDraft, problems: &mut Problems<'_>) {
    if earlier.is_unread || site.path != earlier.path {
        return;
    }
    if earlier.hosts.is_empty() {
        let place = &earlier.place;
        let text =
            format!("no request reaches this [[site]]: the one at {place} takes every host; put it last");
        return problems.add_to_site(site, &text);
    }
    for host in &site.hosts {
        if let Some(taken) = earlier.hosts.iter().find(|taken| covers(taken, host)) {
            let text = format!("host '{host}' is taken by '{taken}' of the [[site]] at {}", earlier.place);
            problems.add_to_site(site, &text);
        }
    }
}

fn check_limits(draft: &Draft, problems: &mut Problems<'_>) {
    if draft.limits.head_bytes < draft.limits.target_bytes {
        let (head, uri) =
            (show_size(draft.limits.head_bytes as u64), show_size(draft.limits.target_bytes as u64));
        let text = format!("limits.head {head} is smaller than limits.uri {uri}, which is part of it");
        problems.add(&["limits.head", "limits.uri"], &text);
    }
}

fn check_memory(draft: &Draft, problems: &mut Problems<'_>) {
    let Memory { size, entries, max_object, .. } = draft.memory;
    if let (Some(size), Some(entries)) = (size, entries) {
        let (size, entries) = (show_size(size), counted(entries, "entry", "entries"));
        let text = format!("memory has either a size or entries, not both {size} and {entries}");
        problems.add(&["memory.entries", "memory.size"], &text);
    }
    if let (Some(size), Some(largest)) = (size, max_object)
        && largest > size
    {
        let (largest, size) = (show_size(largest), show_size(size));
        let text = format!("memory.max_object {largest} is larger than memory.size {size}");
        problems.add(&["memory.max_object", "memory.size"], &text);
    }
}

fn check_disks(disks: &[DiskDraft], problems: &mut Problems<'_>) {
    for (at, disk) in disks.iter().enumerate() {
        let tier = &disk.tier;
        let path = tier.path.display();
        if let Some(other) = disks[..at].iter().find(|other| other.tier.path == tier.path) {
            let other = &other.place;
            problems.add_to_disk(disk, &format!("{path} is already the directory of the disk at {other}"));
        }
        if let Some(largest) = tier.max_object.filter(|largest| *largest > tier.size) {
            let (largest, size) = (show_size(largest), show_size(tier.size));
            problems.add_to_disk(disk, &format!("disk.max_object {largest} is larger than disk.size {size}"));
        }
    }
}

fn memory_tier(memory: Memory) -> MemoryTier {
    let capacity = match (memory.entries, memory.size) {
        (Some(entries), _) => Capacity { by: By::Entries, amount: entries },
        (None, Some(size)) => Capacity { by: By::Bytes, amount: size },
        (None, None) => Capacity { by: By::Bytes, amount: (1 << 30).min(machine::memory() / 4) },
    };
    let Memory { counts, policy, max_object, max_variants, .. } = memory;
    MemoryTier { capacity, counts, policy, max_object, max_variants }
}

fn settle_rules(drafts: &[RuleDraft], owner: Owner, problems: &mut Problems<'_>) -> Vec<SiteRule> {
    rules::settle(drafts, owner).unwrap_or_else(|found| {
        found.into_iter().for_each(|line| problems.add_line(line));
        Vec::new()
    })
}

fn settle_site(
    at: usize,
    site: SiteDraft,
    (tls, acme): (Option<Arc<OriginTls>>, Option<Arc<Acme>>),
    site_rules: Vec<SiteRule>,
) -> Site {
    let (cache, tags, rules) = control::settle(&site);
    let doubt = site.control.tags.doubt;
    let SiteDraft { name, hosts, path, origins, balance, host, rewrite_urls, only_https, hsts, .. } = site;
    let SiteDraft { retries, max_fails, fail_timeout, resolve_interval, .. } = site;
    let (interval, purge_from) = (site.health_interval, site.purge_from);
    let path_in_name = if path.is_root() { String::new() } else { path.to_string() };
    let name = name.or_else(|| hosts.first().map(|host| format!("{host}{path_in_name}")));
    let name = name.unwrap_or_else(|| format!("site{}{path_in_name}", at + 1));
    let health = site.health.map(|path| Health { path, interval });
    Site {
        name,
        hosts,
        path,
        origins,
        balance,
        host,
        rewrite_urls,
        rules,
        site_rules,
        only_https,
        hsts,
        acme,
        cache,
        tags,
        doubt,
        retries,
        max_fails,
        fail_timeout,
        resolve_interval,
        health,
        tls,
        purge_from,
    }
}
