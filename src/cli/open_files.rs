//! The plan of open files: divides those that the system allows among clients, origins and everything else.
//!
//! A request that needs an origin takes a file for its client and one for the origin, so that both limits together have
//! to fit. Otherwise connections would be accepted that cannot be served.

use larder_proxy::Settings;
use larder_proxy::settings::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::{info, warn};

/// Standard streams, memory files, logs, the statistics database, signals, clocks.
const OF_THE_PROCESS: u64 = 40;
/// A runtime's selector and its idle connections.
const OF_A_THREAD: u64 = 8;
/// The usual number of a disk's segments, with those that are being written or freed. Larger disks have one for each GiB.
const OF_A_DISK: u64 = 144;
/// Connections to nodes and to their engine.
const OF_A_CLUSTER: u64 = 64;
/// Connections of administrators, names being resolved, health checks, certificates.
const OTHERS: u64 = 192;
/// The least number of files for clients, origins and others together.
const LEAST: u64 = 32;

/// Raises the limit of open files: every connection is an open file, and most systems start with a limit of 1,024.
pub(crate) fn raise() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        warn!("cannot raise the limit of open files: {error}");
    }
}

/// Files of a connection through a parent over TLS: its socket, and the two of its relay.
const OF_A_RELAY: usize = 3;

/// Lowers the limits of `settings` to what the open files allow. Errors: a line, if there are too few files to serve
/// clients at all.
pub(crate) fn plan(settings: &mut Settings) -> Result<(), String> {
    let Some(files) = getrlimit(Resource::Nofile).current else { return Ok(()) };
    let (wanted, taken) = (settings.limits.clone(), (fixed(settings), of_an_origin(settings)));
    let mut rules = settings.sites.iter().flat_map(|site| &site.site_rules);
    if !rules.any(|rule| rule.effects.auth_request.as_ref().is_some_and(Option::is_some)) {
        settings.limits.inquiries = 0;
    }
    divide(&mut settings.limits, files, taken)?;
    for (wanted, left, subject) in lowered(&wanted, &settings.limits) {
        info!("{files} files may be open at once (ulimit -n): they serve {left} {subject}, not {wanted}");
    }
    Ok(())
}

/// Returns the limits of which less is `left` than `wanted`: both numbers, and what they limit.
pub(crate) fn lowered(wanted: &Limits, left: &Limits) -> impl Iterator<Item = (usize, usize, &'static str)> {
    let limits = [
        (wanted.connections, left.connections, "connections of clients"),
        (wanted.in_flight, left.in_flight, "requests to origins"),
    ];
    limits.into_iter().filter(|(wanted, left, _)| left < wanted)
}

/// Returns the number of files that are open without any client.
fn fixed(settings: &Settings) -> u64 {
    let threads = settings.threads.max(1) as u64;
    let cluster = u64::from(settings.cluster.is_some());
    let doors = 2 * settings.doors.listen.len();
    let listeners = settings.listen.len() + doors + settings.sockets.paths.len();
    let disks = settings.disks.iter().map(|disk| OF_A_DISK + (disk.size >> 30)).sum::<u64>();
    // A successor gets copies of the listening sockets.
    let of_threads = threads * (OF_A_THREAD + 2 * (listeners as u64 + cluster));
    OF_THE_PROCESS + of_threads + disks + cluster * OF_A_CLUSTER
}

/// Returns the number of files that a connection to an origin, or the other end of a tunnel, may take.
fn of_an_origin(settings: &Settings) -> usize {
    let general = &settings.parent;
    let own = settings.sites.iter().map(|site| &site.parents).chain([&settings.forward.parents]);
    let mut parents = own.flatten().chain([&general.http, &general.https]).flatten();
    if parents.any(|parent| parent.https) { OF_A_RELAY } else { 1 }
}

/// Divides `files`, of which `fixed` are open without any client, where a connection to an origin takes `each`.
fn divide(limits: &mut Limits, files: u64, (fixed, each): (u64, usize)) -> Result<(), String> {
    let least = fixed + LEAST;
    if files < least {
        return Err(format!(
            "{files} files may be open at once (ulimit -n), and this config needs at least {least}"
        ));
    }
    let left = files - fixed;
    let others = OTHERS.min(left / 4);
    limits.idle = limits.idle.min((left / 8) as usize / each);
    limits.admin = limits.admin.min((others / 3) as usize);
    limits.inquiries = limits.inquiries.min((left / 8) as usize);
    let shared = (left - others) as usize - limits.idle * each - limits.inquiries;
    limits.in_flight = limits.in_flight.min(shared * 2 / 5 / each);
    // A tunnel counts as two connections: its client's, and one like those to origins.
    limits.connections = limits.connections.min((shared - limits.in_flight * each) * 2 / (1 + each));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_limits_together_fit_into_the_open_files() {
        let plans = [(92, 60), (200, 60), (1_024, 60), (1_024, 900), (65_536, 300), (1 << 20, 300)];
        for ((files, fixed), each) in plans.into_iter().flat_map(|plan| [(plan, 1), (plan, OF_A_RELAY)]) {
            let mut limits = Limits::default();
            divide(&mut limits, files, (fixed, each)).unwrap();
            let Limits { connections, in_flight, idle, admin, inquiries, .. } = limits;
            let all = [connections, in_flight, idle, admin, inquiries];
            assert!(all.iter().all(|part| *part > 0), "{files}: {limits:?}");
            // Every other connection of a client may be the other end of a tunnel.
            let of_clients = connections.div_ceil(2) + connections / 2 * each;
            let sum = of_clients + (in_flight + idle) * each + admin + inquiries;
            assert!(fixed + sum as u64 <= files, "{files}: {limits:?}");
        }
        let wanted = Limits::default();
        let mut limits = wanted.clone();
        divide(&mut limits, 1 << 20, (300, 1)).unwrap();
        assert_eq!((limits.connections, limits.in_flight), (wanted.connections, wanted.in_flight));
        let refusal = divide(&mut limits, 91, (60, 1)).unwrap_err();
        assert_eq!(refusal, "91 files may be open at once (ulimit -n), and this config needs at least 92");
    }
}
