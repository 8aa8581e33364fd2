//! Purges by a path alone, such as `/img/`, where all sites have the same hosts: the URLs for which the path stands.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use crate::base::settings::Role;
use crate::exchange::target::{key_role, url_parts};
use crate::flow::worker::ProcessState;

/// Returns the origins, such as `http://docs.example`, of the URLs of the only site, or of the sites that share hosts
/// and differ in their paths. They follow from the hosts, or from the addresses of the listeners if the site accepts
/// every host, and from the responses in memory. Errors: there is no site, or there are several with different hosts;
/// in one line.
pub fn origins(shared: &ProcessState) -> Result<BTreeSet<String>, String> {
    let plan = shared.plan();
    let mut sites = plan.sites.iter();
    let first = sites.next();
    let Some(site) = first.filter(|first| sites.all(|site| site.settings.hosts == first.settings.hosts))
    else {
        let count = plan.sites.iter().count();
        return Err(format!("write the whole URL: a path needs one site, and {count} are configured"));
    };
    let ports = shared.own.addresses().iter().map(SocketAddr::port);
    let hosts = site.settings.hosts.iter().filter(|host| !host.starts_with('*'));
    let mut origins: BTreeSet<_> = match site.settings.hosts.is_empty() {
        true => shared.own.addresses().iter().flat_map(by_address).collect(),
        false => hosts.flat_map(|host| by_name(host, ports.clone())).collect(),
    };
    shared.cache.store.memory.list(&mut |resident, _| {
        let keys = resident.variants().iter().map(|entry| entry.key()).take(1);
        origins.extend(keys.filter(|key| key_role(key) == Some(Role::Reverse)).filter_map(origin));
    });
    Ok(origins)
}

/// Returns the origins by which clients on this machine and others reach `address`, with and without TLS.
fn by_address(address: &SocketAddr) -> Vec<String> {
    let port = address.port();
    let hosts = match address.ip() {
        ip if ip.is_unspecified() => vec![format!("127.0.0.1:{port}"), format!("localhost:{port}")],
        ip if ip.is_loopback() => vec![address.to_string(), format!("localhost:{port}")],
        _ => vec![address.to_string()],
    };
    hosts.iter().flat_map(|host| with_schemes(host)).collect()
}

/// Returns the origins by which clients reach `host` at `ports`.
fn by_name(host: &str, ports: impl Iterator<Item = u16>) -> Vec<String> {
    let hosts = ports.map(|port| format!("{host}:{port}")).chain([host.to_owned()]);
    hosts.flat_map(|host| with_schemes(&host)).collect()
}

fn with_schemes(host: &str) -> [String; 2] {
    ["http", "https"].map(|scheme| format!("{scheme}://{host}"))
}

fn origin(key: &[u8]) -> Option<String> {
    let (scheme, authority, _) = url_parts(key)?;
    Some(format!("{scheme}://{}", String::from_utf8_lossy(authority)))
}
