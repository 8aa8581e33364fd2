//! Shadow caches beside the memory tier: what other policies and sizes would bring ([`larder_advise`]).
//!
//! A thread of low priority takes the requests that the workers' [taps](crate::observe::tap) have queued. It looks up how their
//! responses are stored, what purges have reached them since the last request, and whether they were refreshed in the background.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use larder_advise::{
    Answer, Auto, Cell, Change, Freshness, Heavy, LateRequests, Panel, PanelSettings, Report, Request, Sums,
    Switch, Tier, Traffic,
};
use larder_evict::{By, Capacity, Object, Spec};
use larder_semantics::freshness::{Flags, Freshness as StoredFreshness};
use larder_semantics::purge::Effect;
use larder_semantics::status::Why;
use larder_stats::Prediction;
use larder_store::{Budget, Entry, Generation, Store};
use parking_lot::Mutex;

use super::allowance::{Allowance, timed};
use crate::base::clock;
use crate::base::outcome::{Kind, Tier as Place};
use crate::base::settings::Settings;
use crate::counts::counters::Counts;
use crate::exchange::route::first_segment;
use crate::exchange::target::url_parts;
use crate::observe::Observers;
use crate::observe::tap::{Queue, SeenRequest, Selection};

/// The interval at which the heaviest keys are chosen.
const CHOICE: Duration = Duration::from_secs(1);
/// The interval at which the report about the whole time is made.
const REPORT: Duration = Duration::from_secs(5);
/// The part of the memory for shadows of disks, if there are any.
const DISKS: f64 = 0.4;
/// The most requests that shadows see at once.
const SHOWN: usize = 256;
/// Seconds in an hour.
const HOUR: u32 = 3_600;
/// Half of the keys about which it is known when their responses were fetched.
const KNOWN: usize = 1 << 15;

/// The shadow caches of a process.
pub struct Advisor {
    selection: Arc<Selection>,
    store: Arc<Store>,
    observers: Arc<Observers>,
    state: Mutex<State>,
    /// The latest report about the whole time, and when it was made.
    latest: Mutex<(Instant, Arc<Report>)>,
}

struct State {
    panel: Panel,
    /// The shadows of the disks together, if there are any.
    disks: Option<Panel>,
    heavy: Heavy,
    /// The time of the last choice of heavy keys.
    chosen: Instant,
    allowance: Allowance,
    known: KnownKeys,
    /// The counts of all requests up to now.
    counts: Counts,
    late: LateRequests,
    auto: Auto,
    /// The hour since 1970 whose predictions are not recorded yet, and the second since which they are not.
    hour: u32,
    since: u32,
}

/// What is known about a key.
#[derive(Clone, Copy)]
struct KnownKey {
    /// The time at which a request last fetched or validated its response (UNIX seconds).
    fetched: u32,
    /// The purges up to this one have reached the shadows.
    checked: Generation,
}

/// The keys requested last. When there are too many, those without a request since the last time are forgotten.
#[derive(Default)]
struct KnownKeys {
    young: HashMap<u64, KnownKey>,
    old: HashMap<u64, KnownKey>,
    /// The bytes that stored responses take beyond those expected of new ones: a mean of the last ones.
    beyond: f64,
}

/// The number of stored responses in that mean.
const MEAN: f64 = 64.0;

impl Advisor {
    /// Returns the shadows of the tiers with these settings; `None` if they are off.
    pub(crate) fn new(
        settings: &Settings,
        store: &Arc<Store>,
        observers: &Arc<Observers>,
    ) -> Option<Arc<Self>> {
        let selection = Arc::clone(observers.selection.as_ref()?);
        let (tier, disks) = (&settings.memory, &settings.disks);
        let parts = |amount| {
            let capacity = Capacity { amount, ..tier.capacity };
            let budget = Budget { capacity, counts: tier.counts, workers: settings.threads };
            (budget.kept(), budget.largest_fetched().min(tier.max_object.unwrap_or(u64::MAX)))
        };
        let panel = Panel::new(PanelSettings {
            by: tier.capacity.by,
            sizes: Panel::sizes_beside(tier.capacity.amount, parts),
            running: tier.policy.clone(),
            others: Panel::usual_policies(),
            sample: selection.all(),
            share: if disks.is_empty() { 1.0 } else { 1.0 - DISKS },
        });
        let disks = disks.first().map(|first| {
            let size = disks.iter().map(|disk| disk.size).sum();
            Panel::new(PanelSettings {
                by: By::Bytes,
                sizes: Panel::sizes_beside(size, |kept| {
                    (kept, first.max_object.unwrap_or(u64::MAX).min(kept / 2))
                }),
                running: first.policy.clone(),
                others: Panel::usual_policies(),
                sample: selection.all(),
                share: DISKS,
            })
        });
        let counts = observers.accounts.counts();
        let (heavy, known, late, auto) = Default::default();
        let latest = Mutex::new((Instant::now(), Arc::new(panel.report(Tier::Memory, 0))));
        let state = Mutex::new(State {
            panel,
            disks,
            heavy,
            chosen: Instant::now(),
            allowance: Allowance::new(),
            known,
            counts,
            late,
            auto,
            hour: clock::now() / HOUR,
            since: 0,
        });
        let (store, observers) = (Arc::clone(store), Arc::clone(observers));
        Some(Arc::new(Self { selection, store, observers, state, latest }))
    }

    /// Notes that another policy runs.
    pub(crate) fn run(&self, policy: &Spec) {
        self.state.lock().panel.run(policy);
    }

    /// Returns the table about the last `period`, up to this moment. That about all that is kept is the [latest](Self::latest) then.
    pub fn report(&self, period: Duration) -> Report {
        self.feed();
        let table = self.table(period);
        if period == Duration::MAX {
            *self.latest.lock() = (Instant::now(), Arc::new(table.clone()));
        }
        table
    }

    /// Returns the table about all that is kept, as it was some seconds ago.
    pub fn latest(&self) -> Arc<Report> {
        Arc::clone(&self.latest.lock().1)
    }

    /// Feeds the shadows, and renews the [latest](Self::latest) table from time to time.
    pub(crate) fn work(&self) {
        self.feed();
        if self.latest.lock().0.elapsed() >= REPORT {
            let table = Arc::new(self.table(Duration::MAX));
            *self.latest.lock() = (Instant::now(), table);
        }
    }

    fn table(&self, period: Duration) -> Report {
        let period = period.as_secs().try_into().unwrap_or(u32::MAX);
        let mut state = self.state.lock();
        let (table, used) = timed(|| state.table(clock::now().saturating_sub(period)));
        state.allowance.charge_change(used);
        table
    }

    /// Records the predictions of the present hour up to now in the statistics database, if there is one.
    pub fn record(&self) {
        self.feed();
        self.record_hour(&mut self.state.lock());
    }

    fn record_hour(&self, state: &mut State) {
        let now = clock::now();
        if let Some(ledger) = &self.observers.ledger {
            ledger.record_predictions(predictions(&state.table(state.since), state.hour));
        }
        (state.hour, state.since) = (now / HOUR, now);
    }

    /// Judges a window that has ended, if one has. Returns what it showed, and another policy that should run now.
    pub(crate) fn judge(&self) -> Option<(String, Option<Switch>)> {
        let State { panel, auto, allowance, .. } = &mut *self.state.lock();
        let now = clock::now();
        let since = auto.window(now)?;
        let (Report { window, advice, doubt, .. }, used) = timed(|| panel.report(Tier::Memory, since));
        allowance.charge_change(used);
        let better = advice.as_ref().map_or("no policy", |advice| &advice.policy);
        let found = doubt.unwrap_or_else(|| format!("{better} is better"));
        let found = format!("{found} in {} requests", window.requests);
        Some((found, auto.judge(now, &panel.policy().to_string(), advice)))
    }

    /// Feeds the shadows with what is queued, and adapts what they see to the time that all work has taken.
    fn feed(&self) {
        let mut state = self.state.lock();
        let (is_lost, used) = timed(|| self.show(&mut state));
        state.allowance.charge(used);
        let ((), used) = timed(|| state.adapt(&self.selection, is_lost));
        state.allowance.charge_change(used);
    }

    /// Shows the shadows what is queued. Returns whether requests were lost.
    fn show(&self, state: &mut State) -> bool {
        if clock::now() / HOUR != state.hour {
            self.record_hour(state);
        }
        // The counts first: a request is counted before it is queued.
        let counts = self.observers.accounts.counts();
        let since = counts.since(&state.counts);
        let queues = self.selection.take();
        let lost: u64 = queues.iter().map(|queue| queue.lost).sum();
        let State { panel, disks, known, heavy, late, .. } = state;
        panel.count(clock::now(), traffic(&since, Place::Memory), lost);
        if let Some(disks) = disks {
            disks.count(clock::now(), traffic(&since, Place::Disk), lost);
        }
        panel.use_share(self.store.memory.usable());
        let mut requests = Vec::new();
        for Queue { seen, chosen, .. } in queues {
            chosen.into_iter().for_each(|(key, bytes)| heavy.count(key, bytes));
            requests.extend(seen);
        }
        // Policies depend on the order of requests, also of those of different workers.
        requests.sort_unstable_by_key(|request| request.ended);
        for requests in requests.chunks(SHOWN) {
            let stored: Vec<_> = requests.iter().map(|seen| self.store.memory.latest(seen.key)).collect();
            let all = requests.iter().zip(&stored);
            let all: Vec<_> = all.map(|(seen, entry)| self.request(known, seen, entry.as_ref())).collect();
            panel.request_all(&all, |panel, at, answer| {
                let (request, seen) = (&all[at], &requests[at]);
                let real = |behind| real_answer(seen.kind, seen.tier, behind).unwrap_or(Answer::Miss);
                panel.compare(request, answer, real(Place::Memory));
                if let Some(disks) = disks {
                    disks.request_behind(request, answer, real(Place::Disk));
                }
                if let Answer::Stale(stale) = answer
                    && let Some(route) = stored[at].as_ref().and_then(route_of)
                {
                    late.count(&route, stale, panel.stands_for(request));
                }
            });
        }
        state.counts = counts;
        if state.chosen.elapsed() >= CHOICE {
            state.choose_heavy(&self.selection);
        }
        lost > 0
    }

    /// Returns a request in the form for shadows. `entry` is the response that is stored now.
    fn request(&self, known: &mut KnownKeys, seen: &SeenRequest, entry: Option<&Entry>) -> Request {
        let SeenRequest { key, kind, why, now, requests, bytes, response, .. } = seen;
        let is_fetched = matches!(kind, Kind::Miss | Kind::Revalidated | Kind::Coalesced);
        let memory = &self.store.memory;
        let has_validator =
            response.as_ref().is_some_and(|response| response.freshness.flags.contains(Flags::VALIDATOR));
        // The slices of a response are stored by themselves, under other keys.
        let size = match (entry.filter(|entry| entry.body().slices().is_none()), response) {
            (Some(entry), _) => known.learn(memory.size_of(entry), memory.size_of_new(entry.body().len())),
            (None, Some(response)) => known.expected(memory.size_of_new(response.length)),
            (None, None) => *bytes,
        };
        Request {
            object: Object { key: *key, size, cost: response.as_ref().map_or(0, |response| response.cost) },
            now: *now,
            requests: *requests,
            bytes: *bytes,
            freshness: response.as_ref().map(|response| match entry.filter(|_| is_fetched) {
                Some(entry) => lifetimes(&entry.freshness(), entry.freshness().age(*now)),
                None => lifetimes(&response.freshness, response.freshness.initial_age),
            }),
            is_forced: is_fetched && is_demanded(*why),
            is_shared: *kind == Kind::Coalesced,
            // A response that was fetched although one was stored has changed.
            is_confirmed: has_validator && (*kind != Kind::Miss || *why == Why::Absent),
            change: self.change(known, seen, is_fetched, entry),
        }
    }

    /// Returns what has happened to the copies since the last request for their key.
    fn change(
        &self,
        known: &mut KnownKeys,
        seen: &SeenRequest,
        is_fetched: bool,
        entry: Option<&Entry>,
    ) -> Change {
        let SeenRequest { key, why, now, .. } = *seen;
        let received = seen.response.as_ref().map_or(now, |response| response.freshness.received);
        let before = known.get(key);
        let fetched = match before {
            Some(before) if !is_fetched => before.fetched.max(received),
            _ => now,
        };
        known.put(key, KnownKey { fetched, checked: self.store.purges.now() });
        let Some(KnownKey { fetched, checked }) = before else { return Change::None };
        match entry.and_then(|entry| self.store.reach_since(checked, entry)).map(|reach| reach.effect) {
            Some(Effect::Remove) => Change::Removed,
            Some(Effect::Stale | Effect::Invalid) => Change::Expired,
            None if matches!(why, Why::Purged | Why::Invalidated) => Change::Expired,
            // A second later, since the clock and the fetch are not quite together.
            None if !is_fetched && received > fetched.saturating_add(1) => Change::Refreshed(received),
            None => Change::None,
        }
    }
}

impl State {
    /// Makes shadows see less if the work has taken too much time or requests were lost, and more if the time is ample.
    fn adapt(&mut self, selection: &Selection, is_lost: bool) {
        let Self { panel, disks, heavy, allowance, .. } = self;
        let is_exceeded = allowance.is_exceeded();
        if is_lost {
            allowance.lose();
        }
        let mut is_other = false;
        if is_exceeded || is_lost {
            is_other = panel.narrow_heavy(heavy);
            if !is_other {
                panel.thin();
            }
        } else if allowance.is_ample() {
            is_other = heavy.widen();
            if !is_other {
                disks.iter_mut().for_each(|disks| disks.grow(panel.counted_share()));
                panel.grow(1.0);
            }
        }
        disks.iter_mut().for_each(|disks| disks.narrow(panel));
        if is_other {
            self.choose_heavy(selection);
        }
        selection.set_sample(self.panel.sample(), self.panel.large_sent());
    }

    /// Chooses the heaviest keys.
    fn choose_heavy(&mut self, selection: &Selection) {
        self.chosen = Instant::now();
        let keys = selection.set_heavy(&self.heavy.choose());
        let largest = self.heavy.largest();
        self.panel.set_heavy(&keys, largest);
        self.disks.iter_mut().for_each(|disks| disks.set_heavy(&keys, largest));
    }

    /// Returns the table about the time since `since` (UNIX seconds).
    fn table(&self, since: u32) -> Report {
        let asked = traffic(&self.counts, Place::Memory).asked.requests;
        let mut report =
            Report { lifetimes: self.late.most(asked), ..self.panel.report(Tier::Memory, since) };
        if let Some(disks) = &self.disks {
            let of_disks = disks.report(Tier::Disk, since);
            report.bytes += of_disks.bytes;
            report.cells.extend(of_disks.cells);
        }
        report
    }
}

/// Returns the figures of a report as rows of the statistics database, for an hour since 1970.
fn predictions(report: &Report, hour: u32) -> Vec<Prediction> {
    let (requests, bytes) = (report.window.requests as f64, report.window.bytes as f64);
    let row = |cell: &Cell| Prediction {
        hour: u64::from(hour) * u64::from(HOUR) * 1_000,
        tier: cell.tier.name().into(),
        policy: cell.policy.clone(),
        size: cell.size,
        requests: requests as u64,
        hits: (requests * cell.ratios.hit_ratio).round() as u64,
        hits_error: (requests * cell.ratios.hit_ratio_error).round() as u64,
        bytes: bytes as u64,
        bytes_from_cache: (bytes * cell.ratios.byte_hit_ratio).round() as u64,
        is_running: cell.current,
    };
    if requests > 0.0 { report.cells.iter().map(row).collect() } else { Vec::new() }
}

/// Returns how long a response of this `age` that an origin gives now may answer, as one did with this freshness.
fn lifetimes(freshness: &StoredFreshness, age: u32) -> Freshness {
    let is_validated = freshness.flags.contains(Flags::NO_CACHE);
    let lifetime = freshness.lifetime.saturating_sub(age);
    Freshness { lifetime: if is_validated { 0 } else { lifetime }, stale: freshness.stale_while_revalidate }
}

/// Returns the host and the first segment of the path of a stored response.
fn route_of(entry: &Entry) -> Option<String> {
    let (_, authority, path) = url_parts(entry.key())?;
    let segment = first_segment(std::str::from_utf8(path).ok()?);
    Some(format!("{}/{segment}", String::from_utf8_lossy(authority)))
}

impl KnownKeys {
    fn get(&self, key: u64) -> Option<KnownKey> {
        self.young.get(&key).or_else(|| self.old.get(&key)).copied()
    }

    /// Notes the `size` of a stored response, and returns it.
    fn learn(&mut self, size: u64, expected: u64) -> u64 {
        self.beyond += (size as f64 - expected as f64 - self.beyond) / MEAN;
        size
    }

    /// Returns the size that a new response of this size is likely to have once it is stored.
    fn expected(&self, size: u64) -> u64 {
        (size as f64 + self.beyond).max(1.0) as u64
    }

    fn put(&mut self, key: u64, known: KnownKey) {
        if self.young.len() >= KNOWN {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert(key, known);
    }
}

/// Whether the client or the config demands that an origin is asked, whatever is stored.
fn is_demanded(why: Why) -> bool {
    matches!(
        why,
        Why::RequestNoCache
            | Why::RequestMaxAge
            | Why::RequestIfMatch
            | Why::RequestMinFresh
            | Why::AlwaysValidated
            | Why::PositionAhead
            | Why::RangeAbsent
    )
}

/// Returns the answer of memory and the tier `behind` it to a request that ended so; `None` if it was not cacheable.
fn real_answer(kind: Kind, tier: Place, behind: Place) -> Option<Answer> {
    match kind {
        Kind::Hit | Kind::StaleHit if tier != Place::Memory && tier != behind => Some(Answer::Miss),
        Kind::Hit | Kind::StaleHit | Kind::Coalesced => Some(Answer::Hit),
        Kind::Revalidated => Some(Answer::Stale(0)),
        Kind::Miss => Some(Answer::Miss),
        Kind::Pass | Kind::Refused | Kind::Failed => None,
    }
}

/// Returns the cacheable requests among `counts`, and those that a fetch for another request has answered, memory, or the tier
/// `behind` it.
fn traffic(counts: &Counts, behind: Place) -> Traffic {
    let mut traffic = Traffic::default();
    for ends in counts.ends() {
        let sums = Sums { requests: ends.requests as f64, bytes: ends.bytes as f64, ..Sums::default() };
        let Some(answer) = real_answer(ends.kind, ends.tier, behind) else { continue };
        traffic.asked += sums;
        match answer {
            Answer::Hit => traffic.hit += sums,
            Answer::Stale(_) => traffic.hit.bytes += sums.bytes,
            Answer::Demanded | Answer::Miss => {}
        }
    }
    traffic
}
