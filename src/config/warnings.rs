//! Settings that are valid, and most likely a mistake.

use larder_evict::{By, Capacity};
use larder_proxy::Settings;
use larder_proxy::settings::{AccessLog, Role};

use super::machine;
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
        && let Some(listener) = settings.listen.iter().find(|one| one.role == Role::Reverse && !one.tls)
        && settings.sites.iter().any(|site| !site.only_https)
    {
        let (place, address) = (&auth.files.place, listener.address);
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
    warnings
}
