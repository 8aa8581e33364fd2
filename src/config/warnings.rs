//! Settings that are valid, but most likely a mistake.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::uri::Authority;
use larder_evict::{By, Capacity};
use larder_proxy::Settings;
use larder_proxy::net::own::OwnListeners;
use larder_proxy::settings::{AccessLog, Counts, Origin, ProxyProtocol, Role, Site, Token};

use super::machine::Machine;
use super::places::show_socket;
use super::rules;
use crate::cli::units::show_size;

/// A memory tier with less room than this, in bytes, holds only a response or two.
const LEAST_MEMORY: u64 = 64 << 10;

/// Random bits of a token that nobody can guess.
const LEAST_BITS: usize = 128;

/// Returns warnings about likely mistakes, one line each.
pub(crate) fn warnings(settings: &Settings) -> Vec<String> {
    let Capacity { by, amount } = settings.memory.capacity;
    let (size, machine) = (show_size(amount), Machine::here().memory());
    let mut warnings = settings.without_effect.clone();
    if by == By::Bytes && amount > machine {
        let machine = show_size(machine & !((1 << 20) - 1));
        warnings.push(format!("memory.size {size} is more memory than there is: {machine}"));
    }
    if by == By::Bytes && amount < LEAST_MEMORY && settings.memory.counts == Counts::All {
        warnings
            .push(format!("memory.size {size} is too small for most responses; write a unit, such as 64MiB"));
    }
    if let (AccessLog::Off, Some(file)) = (settings.access_log, &settings.access_log_file) {
        let file = file.display();
        warnings.push(format!("access_log_file {file} stays empty: set access_log, such as to \"combined\""));
    }
    if let Some(auth) = settings.client_auth.of(Role::Reverse).filter(|auth| auth.files.is_required)
        && let Some(address) = plain_listener(settings)
        && settings.sites.iter().any(|site| !site.only_https)
    {
        let place = &auth.files.place;
        warnings.push(format!(
            "{place}: reverse.listen {address} serves clients without a certificate: set listen = [], or https = \"redirect\" for each site"
        ));
    }
    if let Some(auth) = settings.client_auth.of(Role::Forward).filter(|auth| auth.files.is_required)
        && let Some(listener) = settings.listen.iter().find(|one| one.role == Role::Forward && !one.tls)
    {
        let (place, address) = (&auth.files.place, listener.address);
        warnings.push(format!(
            "{place}: forward.listen {address} serves clients without a certificate: set listen = []"
        ));
    }
    let ProxyProtocol { reverse, forward } = &settings.proxy_protocol;
    for (key, networks) in [("reverse", reverse), ("forward", forward)] {
        if let Some(network) = networks.iter().find(|network| network.prefix_len() == 0) {
            warnings.push(format!(
                "{key}.proxy_protocol {network} lets every client claim any address: list the proxies in front alone"
            ));
        }
    }
    let token = settings.cluster.as_ref().and_then(|cluster| cluster.token.as_ref());
    if let Some(bits) = token.map(Token::most_bits).filter(|bits| *bits < LEAST_BITS) {
        warnings.push(format!(
            "cluster.token has at most {bits} random bits: use one of {LEAST_BITS}, such as openssl rand -hex 16 prints"
        ));
    }
    warnings.extend(settings.sites.iter().flat_map(|site| of_origins(site, settings.cluster.is_some())));
    warnings.extend(acme(settings));
    warnings.extend(to_own_listeners(settings));
    warnings.extend(rules::warnings(settings));
    warnings
}

/// Returns settings of a site about several origins, or about slow ones, that have no effect.
fn of_origins(site: &Site, is_in_cluster: bool) -> Vec<String> {
    let name = &site.name;
    let lists = site.site_rules.iter().filter_map(|rule| rule.effects.origin.as_ref());
    let is_alone = std::iter::once(&site.origins).chain(lists).all(|origins| origins.len() == 1);
    let keys = [("sticky", site.sticky.is_some()), ("slow_start", !site.slow_start.is_zero())];
    let alone = keys.into_iter().filter(|(_, is_set)| *is_set && is_alone);
    let alone = alone.map(|(key, _)| format!("site '{name}': {key} has no effect with one origin"));
    let is_own = site.sticky.as_ref().is_some_and(|sticky| sticky.source().is_none());
    let of_nodes = (is_own && is_in_cluster).then(|| {
        format!("site '{name}': nodes have different keys for sticky cookies: set keys = file, the same on all nodes")
    });
    let is_idle = site.rules.stale_if_slow.is_some() && (!site.cache || site.rules.stale_if_error == 0);
    let idle = is_idle.then(|| {
        format!("site '{name}': stale_if_slow has no effect: it stores nothing, or stale_if_error is 0s")
    });
    alone.chain(of_nodes).chain(idle).collect()
}

/// Returns conditions that may keep an authority from verifying the hosts of sites.
fn acme(settings: &Settings) -> Vec<String> {
    let ports: Vec<_> = settings.listen.iter().map(|listener| listener.address.port()).collect();
    let sites = settings.sites.iter().filter_map(|site| Some((&site.name, site.acme.as_ref()?)));
    let unreached =
        sites.filter(|(_, acme)| !acme.challenges.iter().any(|kind| ports.contains(&kind.port())));
    unreached
        .map(|(name, acme)| {
            let wanted: Vec<_> = acme.challenges.iter().map(|kind| kind.port().to_string()).collect();
            format!(
                "site '{name}': acme: the authority connects to port {}, where no listener is: have it forwarded here, or \
                 listen there",
                wanted.join(" or ")
            )
        })
        .collect()
}

/// Returns a listener of the sites without TLS.
fn plain_listener(settings: &Settings) -> Option<String> {
    let listener = settings.listen.iter().find(|one| one.role == Role::Reverse && !one.tls);
    let socket = || settings.sockets.paths.first().map(|path| show_socket(path));
    listener.map(|listener| listener.address.to_string()).or_else(socket)
}

/// Finds origins that are listeners of the same process, which answers such requests with 508.
fn to_own_listeners(settings: &Settings) -> Vec<String> {
    let listen = settings.listen.iter().map(|listener| listener.address);
    let doors = settings.doors.listen.iter().map(|(_, address)| *address);
    let peers = settings.cluster.as_ref().map(|cluster| cluster.listen);
    let own = OwnListeners::new(listen.chain(doors).chain(settings.admin).chain(peers));
    let all = settings.sites.iter().flat_map(|site| site.all_origins().map(move |origin| (site, origin)));
    let loops = all.filter(|(_, origin)| addresses(origin).into_iter().any(|address| own.have(address)));
    loops
        .map(|(site, origin)| {
            let name = &site.name;
            format!(
                "site '{name}': its origin {origin} is a listener of this process: requests for it get 508"
            )
        })
        .collect()
}

/// Returns the addresses of `origin`, as far as they are known without a name server.
fn addresses(origin: &Origin) -> Vec<SocketAddr> {
    let Ok(authority) = origin.authority.parse::<Authority>() else { return Vec::new() };
    let port = authority.port_u16().unwrap_or(if origin.https { 443 } else { 80 });
    let hosts = match authority.host().trim_start_matches('[').trim_end_matches(']') {
        "localhost" => vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()],
        host => host.parse::<IpAddr>().into_iter().collect(),
    };
    hosts.into_iter().map(|host| SocketAddr::new(host, port)).collect()
}
