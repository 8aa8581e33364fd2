//! The paths from clients to the three services, each with its processes.

use std::ffi::OsStr;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use larder_evict::Capacity;

use super::conditions::{Cell, ENTITIES, Endpoint, Way};
use crate::child::ChildProcess;
use crate::link::{Link, LinkQuality};
use crate::proxy::{Proxy, memory};
use crate::{Bench, Halt, Slots};

/// An open way. The processes next to the clients end first.
pub(super) struct OpenWay {
    caches: Vec<Proxy>,
    link: Option<Link>,
    gateway: Option<Proxy>,
    services: ChildProcess,
    to: Slots,
}

impl OpenWay {
    /// Starts the services, and the processes in front of them. Each cache has room for `capacity`. Fails if one of
    /// them does not start.
    pub(super) fn start(bench: &Bench<'_>, cell: &Cell, capacity: Capacity) -> Result<Self, Halt> {
        let program = &bench.program;
        let services = services(&bench.lab, &cell.endpoint)?;
        let mut to = services.address("listening on ", "")?;
        let gateway = match cell.way {
            Way::Straight => None,
            way => Some(Proxy::configured(program, &gateway(to, way == Way::Push))?),
        };
        if let Some(gateway) = &gateway {
            to = gateway.listener("reverse")?;
        }
        // The gateway is beside the services, and the link is in front of both.
        let link = quality(&cell.endpoint).map(|quality| Link::open(to, quality)).transpose()?;
        if let Some(link) = &link {
            to = link.address();
        }
        let count = if cell.way.has_cache() { cell.instances } else { 0 };
        let start = |_| Proxy::configured(program, &cache(to, cell, capacity));
        let caches = (0..count).map(start).collect::<Result<Vec<_>, _>>()?;
        let addresses = caches.iter().map(|cache| cache.listener("reverse"));
        let addresses = addresses.collect::<Result<Vec<_>, _>>()?;
        let to = match addresses.split_first() {
            Some((first, others)) => Slots::of(*first, others.iter().copied()),
            None => to.into(),
        };
        Ok(Self { caches, link, gateway, services, to })
    }

    /// Returns the servers of the clients.
    pub(super) fn to(&self) -> &Slots {
        &self.to
    }

    /// Returns the first cache, if there is one.
    pub(super) fn cache(&self) -> Option<&Proxy> {
        self.caches.first()
    }

    /// Returns the bytes that the link to the services has forwarded in both directions.
    pub(super) fn passed(&self) -> Option<u64> {
        self.link.as_ref().map(Link::passed)
    }

    /// Returns the processor time of caches and gateway, and that of the services.
    pub(super) fn processors(&self) -> [Duration; 2] {
        let proxies = self.caches.iter().chain(&self.gateway).map(Proxy::processor).sum();
        [proxies, spent(self.services.id())]
    }

    /// Returns `halt`, extended by the last output of the process that has ended.
    pub(super) fn explain(&mut self, halt: Halt) -> Halt {
        let proxies = self.caches.iter_mut().chain(&mut self.gateway);
        let halt = proxies.fold(halt, |halt, proxy| proxy.explain(halt));
        self.services.explain(halt)
    }
}

fn quality(endpoint: &Endpoint) -> Option<LinkQuality> {
    let is_near = endpoint.away_ms == 0 && endpoint.rate.is_none();
    let round_trip = Duration::from_millis(endpoint.away_ms);
    (!is_near).then_some(LinkQuality { round_trip, rate: endpoint.rate })
}

fn services(lab: &Path, endpoint: &Endpoint) -> Result<ChildProcess, Halt> {
    let (entities, cost) = (ENTITIES.to_string(), endpoint.cost_us.to_string());
    let mut words = vec!["--listen", "127.0.0.1:0", "--entities", &entities, "--cost", &cost];
    let filler = endpoint.filler.to_string();
    if endpoint.filler > 0 {
        words.extend(["--filler", &filler]);
    }
    words.extend(endpoint.is_busy.then_some("--busy"));
    let words: Vec<_> = words.iter().map(OsStr::new).collect();
    ChildProcess::start(lab, "larder-lab live services", &words, |_| true)
}

/// A config that listens on any free port, with one worker, as the report's caches did. A site follows it.
const LISTENS: &str =
    "threads = 1\nadmin = '127.0.0.1:0'\n[stats]\nurl = 'none'\n[reverse]\nlisten = ['127.0.0.1:0']\n";

fn gateway(to: SocketAddr, push: bool) -> String {
    format!(
        "{LISTENS}[[site]]\norigin = 'http://{to}'\nrole = 'tags'\npush = {push}\ntag_limit = '4MiB'\ntag_doubt = '0s'\n\
         couple = {{ users = ['paths', 'skills'] }}\n"
    )
}

fn cache(to: SocketAddr, cell: &Cell, capacity: Capacity) -> String {
    let validate = if cell.way == Way::Always { "validate = 'always'\n" } else { "" };
    let memory = memory(capacity, &cell.policy);
    format!("{LISTENS}{memory}[[site]]\norigin = 'http://{to}'\n{validate}")
}

/// Returns the processor time of a process, including its threads that have ended: fields 14 and 15 of its `stat`.
fn spent(process: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let ticks = ticks(&stat).unwrap_or(0);
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second().max(1) as f64)
}

fn ticks(stat: &str) -> Option<u64> {
    // The name before the last bracket may contain blanks.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_that_do_not_start_are_reported_with_their_output() {
        let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/experiment/lab-without-services");
        let Err(halt) = services(Path::new(program), &Endpoint::default()) else { panic!("they serve") };
        assert_eq!(
            halt.to_string(),
            "larder-lab live services: it ended before it served; it said: no room for services"
        );
    }

    #[test]
    fn user_and_system_time_are_found_behind_any_name() {
        let stat = "7 (a ) b) S 1 2 3 4 5 6 7 8 9 10 500 70 0 0 20 0 1 0";
        assert_eq!((ticks(stat), ticks("7 (a)"), ticks("")), (Some(570), None, None));
        let begun = std::time::Instant::now();
        while begun.elapsed() < Duration::from_millis(60) {
            std::hint::spin_loop();
        }
        assert!(spent(std::process::id()) >= Duration::from_millis(10));
    }
}
