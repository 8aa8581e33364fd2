//! Turns a draft into [`Settings`]: defaults that depend on the machine or on other keys, and checks of combinations.

mod acme;
mod cluster;
mod control;
mod intercept;
mod listeners;
mod node_tls;
mod problems;
mod statistics;
mod tls;
mod without_effect;

use std::sync::Arc;
use std::{env, thread};

use larder_evict::{By, Capacity};
use larder_proxy::Settings;
use larder_proxy::settings::{
    Acme, DiskTier, Doors, Forward, Health, Limits, MemoryTier, Origin, OriginTls, Prices, Site, SiteRule,
    Token, is_service, socket_of,
};

use super::buckets;
use super::draft::rule::RuleDraft;
use super::draft::{DiskDraft, Draft, SiteDraft};
use super::machine::Machine;
use super::names::covers;
use super::parents;
use super::places::check_origins;
use super::rules::{self, Owner};
use super::written;
use crate::cli::admin_token::TOKEN;
use crate::cli::state::state_directory;
use crate::cli::units::{counted, show_size};
use listeners::Listeners;
use problems::Problems;

/// Returns the settings of `draft`, or all contradictions in it.
pub(super) fn settle(mut draft: Draft) -> Result<Settings, Vec<String>> {
    let keys = written::keys(&draft);
    give_rules(&mut draft);
    let mut problems = Problems::of(&draft);
    let listeners = Listeners::of(&draft);
    listeners.check(&draft, &mut problems);
    let client_auth = tls::client_auths(&draft, &listeners.http, &mut problems);
    let admin_token = admin_token(&draft, &mut problems);
    let admin_tls = tls::admin(&draft, &mut problems);
    check_sites(&draft, &mut problems);
    let tls: Vec<_> = draft.sites.iter().map(|site| tls::settle(site, &mut problems)).collect();
    let rules: Vec<_> =
        draft.sites.iter().map(|site| settle_rules(&site.site_rules, Owner::Site, &mut problems)).collect();
    let forward_rules = settle_rules(&draft.forward_rules, Owner::Forward, &mut problems);
    check_memory(&draft, &mut problems);
    check_disks(&draft.disks, &mut problems);
    let cluster = cluster::settle(&draft, &mut problems);
    let state = state_directory();
    let around = acme::AcmeContext::new(&listeners, &client_auth, cluster.as_ref(), state.as_deref());
    let acme = acme::settle(&draft.sites, &around, &mut problems);
    let parent = parents::settle(&draft.parent);
    let parent = parent.map_err(|why| problems.add(&["parent.from_env"], &why)).unwrap_or_default();
    check_limits(&draft, &mut problems);
    let intercept = intercept::settle(&draft, &listeners.http, &mut problems);
    problems.none()?;
    let first = listeners.first();
    let Listeners { http, sockets, doors } = listeners;
    let without_effect = without_effect::find(&draft);
    let parts = draft.sites.into_iter().zip(tls.into_iter().zip(acme)).zip(rules).enumerate();
    let sites = parts.map(|(at, ((site, tls), rules))| settle_site(at, site, tls, rules)).collect();
    let (capacity, values) = (capacity(draft.memory_size, draft.memory_entries), draft.values);
    Ok(Settings {
        without_effect,
        keys,
        listen: http,
        sockets,
        client_auth,
        admin: draft.admin.map(|admin| admin.address),
        admin_tls,
        admin_token,
        threads: draft.threads.unwrap_or_else(|| thread::available_parallelism().map_or(1, usize::from)),
        memory: MemoryTier { capacity, policy: values.cost.priced(values.memory.policy), ..values.memory },
        disks: draft.disks.into_iter().map(|disk| priced_disk(disk.tier, &values.cost)).collect(),
        parent,
        sites,
        forward: Forward { site_rules: forward_rules, ..values.forward },
        intercept,
        doors: Doors { listen: doors, ..values.doors },
        state,
        statistics: statistics::settle(draft.database, values.statistics, first),
        cluster,
        ..values
    })
}

/// Returns the token that the admin listener requires; it must require one if other machines can reach it.
fn admin_token(draft: &Draft, problems: &mut Problems<'_>) -> Option<Token> {
    let token = match (&draft.values.admin_token, env::var(TOKEN)) {
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
    if !draft.values.purge_edges.is_empty() && token.is_none() {
        problems.add(&["purge_edges"], "purge_edges needs admin_token, which the edges have, too");
    }
    token
}

/// Gives each site the rules of all sites, before its own.
fn give_rules(draft: &mut Draft) {
    for site in &mut draft.sites {
        site.site_rules.splice(..0, draft.rules.iter().cloned());
    }
}

fn check_sites(Draft { sites, rules, .. }: &Draft, problems: &mut Problems<'_>) {
    if let Some(rule) = rules.first().filter(|_| sites.is_empty()) {
        let text =
            "there is no [[site]] that has this [[rule]]; those of the forward proxy are [[forward.rule]]";
        problems.add_line(format!("{}: {text}", rule.place));
    }
    for (at, site) in sites.iter().enumerate() {
        if site.values.origins.is_empty() {
            problems.add_to_site(site, "[[site]] has no origin in its 'origin' list");
        } else if let Err(problem) = check_origins(&site.values.origins) {
            problems.add_to_site(site, &problem);
        } else if site.values.origins == [Origin::none()]
            && let Some(rule) = RuleDraft::decisive(&site.site_rules).filter(|rule| !rule.answers())
        {
            let place = &rule.place;
            let text =
                format!("the rule at {place} keeps requests by stop from the rule that answers everything");
            problems.add_to_site(site, &format!("[[site]] has no 'origin': {text}"));
        }
        check_health(site, problems);
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

fn check_health(site: &SiteDraft, problems: &mut Problems<'_>) {
    if site.health_status.is_empty() {
        let text = "site.health_status: no status passes: name one, or leave it out for 200 to 399";
        problems.add_to_key(site, "health_status", text);
    }
    let has_no_port = |origin: &&Origin| socket_of(&origin.authority).is_some() || is_service(origin.host());
    let origin = site.values.origins.iter().find(has_no_port).filter(|_| site.health_port.is_some());
    if let Some(origin) = origin {
        let text = format!("site.health_port: {origin} has no port that another could replace; leave it out");
        problems.add_to_key(site, "health_port", &text);
    }
}

/// Checks that a host's requests reach the site: sites of the same path are matched in their order, so an earlier one
/// takes them first.
fn check_hosts(site: &SiteDraft, earlier: &SiteDraft, problems: &mut Problems<'_>) {
    if earlier.is_unread || site.values.path != earlier.values.path {
        return;
    }
    if earlier.values.hosts.is_empty() {
        let place = &earlier.place;
        let text =
            format!("no request reaches this [[site]]: the one at {place} takes every host; put it last");
        return problems.add_to_site(site, &text);
    }
    for host in &site.values.hosts {
        if let Some(taken) = earlier.values.hosts.iter().find(|taken| covers(taken, host)) {
            let text = format!("host '{host}' is taken by '{taken}' of the [[site]] at {}", earlier.place);
            problems.add_to_site(site, &text);
        }
    }
}

fn check_limits(draft: &Draft, problems: &mut Problems<'_>) {
    let Limits { head_bytes, target_bytes, .. } = draft.values.limits;
    if head_bytes < target_bytes {
        let (head, uri) = (show_size(head_bytes as u64), show_size(target_bytes as u64));
        let text = format!("limits.head {head} is smaller than limits.uri {uri}, which is part of it");
        problems.add(&["limits.head", "limits.uri"], &text);
    }
}

fn check_memory(draft: &Draft, problems: &mut Problems<'_>) {
    if draft.values.memory.auto && !draft.values.advise {
        problems.add(&["memory.auto"], "memory.auto = \"policy\" needs shadow caches: set advise = \"on\"");
    }
    let (size, entries) = (draft.memory_size, draft.memory_entries);
    if let (Some(size), Some(entries)) = (size, entries) {
        let (size, entries) = (show_size(size), counted(entries, "entry", "entries"));
        let text = format!("memory has either a size or entries, not both {size} and {entries}");
        problems.add(&["memory.entries", "memory.size"], &text);
    }
    if let (Some(size), Some(largest)) = (size, draft.values.memory.max_object)
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

fn capacity(size: Option<u64>, entries: Option<u64>) -> Capacity {
    match (entries, size) {
        (Some(entries), _) => Capacity { by: By::Entries, amount: entries },
        (None, Some(size)) => Capacity { by: By::Bytes, amount: size },
        (None, None) => Capacity { by: By::Bytes, amount: (1 << 30).min(Machine::here().memory() / 4) },
    }
}

fn priced_disk(disk: DiskTier, cost: &Prices) -> DiskTier {
    DiskTier { policy: cost.priced(disk.policy), ..disk }
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
    let (cache, tags, mut rules) = control::settle(&site);
    buckets::share(&site, &site_rules, &mut rules);
    let name = site.name_at(at);
    let doubt = site.control.tags.doubt;
    let (interval, text, port) = (site.health_interval, site.health_text, site.health_port);
    let (statuses, thresholds) = (site.health_status, (site.health_fails, site.health_passes));
    let health = site.health.map(|path| Health { path, text, statuses, port, thresholds, interval });
    Site { name, rules, site_rules, acme, cache, tags, doubt, health, tls, ..site.values }
}
