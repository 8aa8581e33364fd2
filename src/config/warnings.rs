//! Settings that are valid, and most likely a mistake.

use larder_evict::{By, Capacity};
use larder_proxy::Settings;
use larder_proxy::settings::{AccessLog, ProxyProtocol, Role};

use super::machine;
use super::places::show_socket;
use crate::cli::units::show_size;

/// A memory tier with less room than this holds a response or two, in bytes.
const LEAST_MEMORY: u64 = 64 << 10;

/// What is most likely not meant, one line each.
pub(crate) fn warnings(settings: &Settings) -> Vec<String> {
    let Capacity { by, amount } = settings.memory.capacity;
    let (size, machine) = (show_size(amount), machine::memory());
    let mut warnings = Vec::new();
    if by == By::Bytes && amount > machine {
        let machine = show_size(machine & !((1 << 20) - 1));
        warnings.push(format!("memory.size {size} is more memory than there is: {machine}"));
    }
    if by == By::Bytes && amount < LEAST_MEMORY {
        warnings
            .push(format!("memory.size {size} has room for next to nothing; write a unit, such as 64MiB"));
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
    warnings
}

/// A listener of the sites without TLS.
fn plain_listener(settings: &Settings) -> Option<String> {
    let listener = settings.listen.iter().find(|one| one.role == Role::Reverse && !one.tls);
    let socket = || settings.sockets.paths.first().map(|path| show_socket(path));
    listener.map(|listener| listener.address.to_string()).or_else(socket)
}
