//! Services: names of sites' origins whose SRV records name the servers (RFC 2782).
//!
//! The servers of a service and their addresses are kept for the lifetime of the records, within bounds. Each connection
//! tries the servers in an order of its own: by priority, and among those of one priority at random by weight.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use parking_lot::Mutex;

use super::dns::NameServers;
use super::name_addresses::{NameAddresses, UNKNOWN, kept_until};
use super::records::{HostAddresses, ServiceRecord, ServiceRecords};
use crate::base::clock;

/// The most servers of one service.
const MOST: usize = 64;

type Records = dyn Fn(&str) -> io::Result<ServiceRecords> + Send + Sync;

/// The known servers of services.
pub(super) struct Services {
    records: Box<Records>,
    known: Mutex<HashMap<Box<str>, KnownService>>,
}

#[derive(Clone)]
struct KnownService {
    servers: Arc<[Server]>,
    /// The time until which they are used (`clock::millis`).
    until: u64,
}

struct Server {
    record: ServiceRecord,
    addresses: Vec<IpAddr>,
}

impl Default for Services {
    /// Creates a table that requests records from the system's name servers.
    fn default() -> Self {
        Self::by(|name| NameServers::of_system().service(name))
    }
}

impl Services {
    pub(super) fn by(records: impl Fn(&str) -> io::Result<ServiceRecords> + Send + Sync + 'static) -> Self {
        Self { records: Box::new(records), known: Mutex::default() }
    }

    /// Returns the servers that are kept until after `now`.
    fn kept(&self, service: &str, now: u64) -> Option<KnownService> {
        self.known.lock().get(service).filter(|known| now < known.until).cloned()
    }

    /// Returns the addresses of the servers of `service` in the order in which they are tried; `look_up` returns those of
    /// a server's name. Errors: the reason why there are none.
    pub(super) fn look_up(
        &self,
        service: &str,
        look_up: impl Fn(&str) -> io::Result<HostAddresses>,
    ) -> io::Result<NameAddresses> {
        let now = clock::millis();
        let KnownService { servers, until } = match self.kept(service, now) {
            Some(known) => known,
            None => {
                let ServiceRecords { records, lifetime } = (self.records)(service)?;
                let (servers, of_addresses) = found(records, look_up)?;
                let known = KnownService { servers, until: kept_until(now, lifetime.min(of_addresses)) };
                self.known.lock().insert(service.into(), known.clone());
                known
            }
        };
        let addresses = |server: &Server| {
            let port = server.record.port;
            server.addresses.iter().map(move |ip| SocketAddr::new(*ip, port)).collect::<Vec<_>>()
        };
        let ordered = order(&servers, |below| fastrand::u32(..below));
        Ok(NameAddresses { addresses: ordered.into_iter().flat_map(addresses).collect(), until: Some(until) })
    }
}

/// Returns the servers that have addresses, and the shortest lifetime of these in seconds. Errors: none has.
fn found(
    mut records: Vec<ServiceRecord>,
    look_up: impl Fn(&str) -> io::Result<HostAddresses>,
) -> io::Result<(Arc<[Server]>, u32)> {
    let (mut servers, mut failure) = (Vec::new(), io::Error::from(io::ErrorKind::NotFound));
    let mut shortest = u32::MAX;
    records.sort_by_key(|record| record.priority);
    for record in records.into_iter().take(MOST) {
        match look_up(&record.target) {
            Ok(HostAddresses { addresses, lifetime }) => {
                servers.push(Server { record, addresses });
                shortest = shortest.min(lifetime.unwrap_or(UNKNOWN));
            }
            Err(error) => failure = error,
        }
    }
    if servers.is_empty() { Err(failure) } else { Ok((servers.into(), shortest)) }
}

/// Returns the servers in the order in which one connection tries them (RFC 2782, "The format of the SRV RR"): the lowest
/// priority first. Among equals, each place is drawn by weight; `draw` returns a number below its argument.
fn order(servers: &[Server], mut draw: impl FnMut(u32) -> u32) -> Vec<&Server> {
    let mut left: Vec<_> = servers.iter().collect();
    // Servers without weight come first, and so have a small chance.
    left.sort_by_key(|server| (server.record.priority, server.record.weight));
    let mut ordered = Vec::with_capacity(left.len());
    while let Some(first) = left.first() {
        let equals = left.iter().take_while(|server| server.record.priority == first.record.priority);
        let weights: Vec<_> = equals.map(|server| u32::from(server.record.weight)).collect();
        let mut point = draw(weights.iter().sum::<u32>() + 1);
        let at = weights.iter().position(|weight| match point.checked_sub(*weight) {
            None | Some(0) => true,
            Some(rest) => {
                point = rest;
                false
            }
        });
        ordered.push(left.remove(at.unwrap_or(0)));
    }
    ordered
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn record(target: &str, priority: u16, weight: u16) -> ServiceRecord {
        ServiceRecord { priority, weight, port: 80, target: target.into() }
    }

    fn servers(records: &[ServiceRecord]) -> Vec<Server> {
        records.iter().map(|record| Server { record: record.clone(), addresses: Vec::new() }).collect()
    }

    #[test]
    fn rfc_2782_servers_are_ordered_by_priority_and_drawn_by_weight() {
        let servers =
            servers(&[record("backup", 2, 9), record("a", 1, 3), record("none", 1, 0), record("b", 1, 6)]);
        let mut random = fastrand::Rng::with_seed(1);
        let mut firsts = HashMap::<_, u32>::new();
        for _ in 0..10_000 {
            let ordered = order(&servers, |below| random.u32(..below));
            let names: Vec<_> = ordered.iter().map(|server| &*server.record.target).collect();
            assert_eq!((names.len(), names[3]), (4, "backup"));
            *firsts.entry(names[0]).or_default() += 1;
        }
        for (name, tenths) in [("none", 1), ("a", 3), ("b", 6)] {
            assert!(firsts[name].abs_diff(tenths * 1_000) < 300, "{firsts:?}");
        }
    }

    #[test]
    fn servers_are_kept_for_the_lifetime_of_their_records() {
        let asked = Arc::new(Mutex::new(0));
        let counted = Arc::clone(&asked);
        let services = Services::by(move |_| {
            *counted.lock() += 1;
            Ok(ServiceRecords { records: vec![record("a", 0, 0), record("unknown", 0, 0)], lifetime: 20 })
        });
        let ip = |name: &str| match name {
            "a" => Ok(HostAddresses { addresses: vec![IpAddr::from([192, 0, 2, 1])], lifetime: Some(9) }),
            _ => Err(io::ErrorKind::NotFound.into()),
        };
        let expected = [SocketAddr::from(([192, 0, 2, 1], 80))];
        let found = || services.look_up("_s", ip).unwrap().addresses;
        for _ in 0..2 {
            assert_eq!(*found(), expected, "a server without an address is left out");
        }
        assert_eq!(*asked.lock(), 1);
        services.known.lock().values_mut().for_each(|known| known.until = 0);
        assert_eq!((&*found(), *asked.lock()), (&expected[..], 2));
        let left = services.look_up("_s", ip).unwrap().until.unwrap() - clock::millis();
        assert!((8_000..=9_000).contains(&left), "the shortest lifetime: {left}");
    }
}
