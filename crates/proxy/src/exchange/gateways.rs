//! The tag pools of all gateways, which are kept across reloads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use larder_cluster::message;
use larder_tags::{PoolReport, Pools, Segment, Settings};
use parking_lot::Mutex;
use serde::Serialize;

use super::gateway_files::GatewayFiles;
use crate::base::clock;
use crate::base::settings::{HostHeader, Origin, PathPrefix, Site};

/// The pools of all gateways. A site is identified by its name, and keeps its pools when the config is reloaded.
pub struct Gateways {
    all: Mutex<Vec<Gateway>>,
    settled: GatewayFiles,
    /// Whether the process forwards no more changes.
    closed: AtomicBool,
}

struct Gateway {
    site: String,
    origins: Vec<Origin>,
    host: HostHeader,
    /// The path prefix of the site. Tags are kept by the paths of clients.
    path: PathPrefix,
    settings: Settings,
    pools: Arc<Pools>,
    /// Whether it is in the config. A removed gateway is kept, since changes that it has forwarded may be in progress.
    is_configured: bool,
}

/// The contents and counts of a gateway's pools.
#[derive(Debug, Serialize)]
pub struct Holdings {
    /// The name of the site.
    pub site: String,
    /// Its pools of tags.
    pub pools: Vec<PoolReport>,
}

impl Gateways {
    /// Returns an empty set; `settled` is the record of the last process about its gateways.
    pub(crate) fn new(settled: GatewayFiles) -> Self {
        Self { all: Mutex::default(), settled, closed: AtomicBool::new(false) }
    }

    /// Empties the pools of gateways that are not among `sites`, the sites of a new config. They get no notice of
    /// changes until they are in a config again.
    pub(crate) fn retain(&self, sites: &[Site]) {
        let is_known =
            |known: &Gateway| sites.iter().any(|site| site.name == known.site && site.tags.is_some());
        for known in self.all.lock().iter_mut().filter(|known| !is_known(known)) {
            known.pools.change(known.settings.clone());
            known.is_configured = false;
        }
    }

    /// Must be called when the gateways of the first config are open: the record of the last process does not apply to
    /// gateways that a later config adds.
    pub(crate) fn forget_last_process(&self) {
        self.settled.forget();
    }

    /// Returns the pools of `site`, if it is a gateway. If its settings have changed, its pools are emptied. A gateway
    /// starts in doubt, unless the last process ended it without a change in progress.
    pub(crate) fn open(&self, site: &Site) -> Option<Arc<Pools>> {
        let settings = site.tags.as_ref()?;
        let mut all = self.all.lock();
        if let Some(known) = all.iter_mut().find(|known| known.site == site.name) {
            let is_same = known.is_configured
                && known.origins == site.origins
                && known.host == site.host
                && known.path == site.path
                && known.settings == *settings;
            if !is_same {
                known.pools.change(settings.clone());
                known.is_configured = true;
                (known.origins, known.host) = (site.origins.clone(), site.host.clone());
                known.path = site.path.clone();
                known.settings = settings.clone();
            }
            return Some(Arc::clone(&known.pools));
        }
        let pools = Arc::new(Pools::new(settings.clone(), seconds));
        if !self.settled.has(&site.name, &site.origins) {
            pools.start_in_doubt();
        }
        all.push(Gateway {
            site: site.name.clone(),
            origins: site.origins.clone(),
            host: site.host.clone(),
            path: site.path.clone(),
            settings: settings.clone(),
            pools: Arc::clone(&pools),
            is_configured: true,
        });
        Some(pools)
    }

    /// Blanks the pools that a change through a gateway of the same name on another node concerns. Unless the change
    /// `is_over`, these pools are also in doubt.
    pub(crate) fn changed_elsewhere(&self, pools: &message::Pools, is_over: bool) {
        let all = self.all.lock();
        let segment = pools.pool.as_deref().map_or(Segment::Anywhere, |name| Segment::Named(name.into()));
        let known = all.iter().filter(|known| known.site == pools.site);
        known.for_each(|known| known.pools.changed_elsewhere(&segment, is_over));
    }

    /// Blanks all pools of all gateways.
    pub(crate) fn blank_all(&self) {
        self.all.lock().iter().for_each(|known| known.pools.changed_elsewhere(&Segment::Anywhere, true));
    }

    /// Blanks all pools of all gateways, and puts them in doubt: they make no tags for a while.
    pub(crate) fn start_in_doubt(&self) {
        self.all.lock().iter().for_each(|known| known.pools.start_in_doubt());
    }

    /// Records for the next process which gateways have no change in progress and are not in doubt. Must be called
    /// after the last connection has ended.
    pub fn ended(&self) {
        let all = self.all.lock();
        // Set first: a change that a worker begins now either counts as open below, or finds this flag set.
        self.closed.store(true, Ordering::SeqCst);
        let settled = all.iter().filter(|known| known.is_configured && known.pools.is_settled());
        self.settled.write(settled.map(|known| (known.site.as_str(), known.origins.as_slice())));
    }

    /// Whether it is too late to forward a change. Must be called after the change counts as open.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Returns the contents and counts of all gateways.
    pub fn report(&self) -> Vec<Holdings> {
        self.all
            .lock()
            .iter()
            .filter(|known| known.is_configured)
            .map(|known| Holdings { site: known.site.clone(), pools: known.pools.report() })
            .collect()
    }
}

/// Returns the seconds of a monotonic clock, so that doubts have their full length.
fn seconds() -> u32 {
    u32::try_from(clock::millis() / 1_000).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::{HeaderMap, Method, StatusCode};
    use larder_semantics::storable::Rules;
    use larder_tags::TagDecision;

    use super::*;
    use crate::base::settings::{Balance, ResolveInterval};

    fn gateway(name: &str) -> Site {
        Site {
            name: name.to_owned(),
            hosts: Vec::new(),
            path: Default::default(),
            origins: vec![Origin::new(false, "a:1")],
            balance: Balance::default(),
            host: HostHeader::Preserve,
            rewrite_urls: false,
            rules: Rules::default(),
            site_rules: Vec::new(),
            only_https: false,
            hsts: None,
            cache: false,
            tags: Some(Settings { doubt: 0, ..Settings::default() }),
            doubt: 0,
            sticky: None,
            in_flight: None,
            retries: 0,
            max_fails: 1,
            fail_timeout: Duration::ZERO,
            max_errors: None,
            retry_budget: None,
            hedge: None,
            slow_start: Duration::ZERO,
            resolve_interval: ResolveInterval::Off,
            health: None,
            acme: None,
            parents: None,
            tls: None,
            purge_from: Vec::new(),
        }
    }

    /// A change begins and then checks the flag; the end of the process sets the flag and then checks for changes in
    /// progress. In either order, no file names a gateway that forwards a change later.
    #[test]
    fn a_change_is_refused_or_seen_by_the_end_of_the_process() {
        let gateways = Gateways::new(GatewayFiles::default());
        let open = |name| gateways.open(&gateway(name)).expect("it is a gateway");
        let (busy, idle) = (open("busy"), open("idle"));
        let TagDecision::Change(mut change) = busy.ask(&Method::PUT, b"a", b"/users", &HeaderMap::new())
        else {
            panic!("a PUT changes something");
        };
        assert!(!gateways.is_closed() && !busy.is_settled() && idle.is_settled());
        gateways.ended();
        assert!(gateways.is_closed());
        change.answered(StatusCode::OK);
        drop(change);
        assert!(busy.is_settled() && gateways.is_closed());
    }
}
