//! All pools of a backend.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use larder_words::debug_as;
use parking_lot::{RwLock, RwLockReadGuard};

use crate::identity::Keys;
use crate::pool::{Pool, PoolReport};
use crate::segment::Segment;
use crate::settings::Settings;

/// The pools of a backend.
pub struct Pools {
    pub(crate) keys: Keys,
    /// Returns seconds since some fixed moment.
    pub(crate) clock: fn() -> u32,
    /// The number of changes in progress.
    open: AtomicU64,
    pub(crate) state: RwLock<State>,
}

pub(crate) struct State {
    pub(crate) settings: Arc<Settings>,
    pub(crate) named: HashMap<Box<str>, Arc<Pool>>,
    /// The pool of the segments without a separate one.
    pub(crate) others: Arc<Pool>,
}

debug_as!(Pools, |_| "Pools(..)");

impl Pools {
    /// Creates empty pools. `clock` returns seconds.
    pub fn new(settings: Settings, clock: fn() -> u32) -> Self {
        let others = Arc::new(Pool::shared(&settings));
        let state = State { settings: Arc::new(settings), named: HashMap::new(), others };
        Self { keys: Keys::default(), clock, open: AtomicU64::new(0), state: RwLock::new(state) }
    }

    /// Forbids new tags for [`Settings::doubt`]: an earlier process may have forwarded a change that has not ended.
    pub fn start_in_doubt(&self) {
        self.changed_elsewhere(&Segment::Anywhere, false);
    }

    /// Whether no change is in progress and none has an unknown end.
    pub fn is_settled(&self) -> bool {
        let now = (self.clock)();
        self.open.load(Ordering::SeqCst) == 0
            && !self.state().all().any(|pool| pool.is_doubtful_anywhere(now))
    }

    /// Applies other settings and blanks everything: the backend may be another one. While requests may still be in
    /// flight to the old backend, no tags are created, even if the settings have no doubt after changes.
    pub fn change(&self, settings: Settings) {
        let mut state = self.state.write();
        let until = self.end_of_doubt(settings.doubt.max(Settings::default().doubt));
        state.all().for_each(|pool| {
            pool.doubt_all(until);
            pool.change(&settings);
        });
        state.settings = Arc::new(settings);
    }

    /// Returns the settings in force.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.state().settings)
    }

    pub(crate) fn is_doubtful(&self, segment: &Segment) -> bool {
        let (state, now) = (self.state(), (self.clock)());
        match segment {
            Segment::Named(name) => state.of(name).is_doubtful(name, now),
            Segment::Anywhere => state.all().any(|pool| pool.is_doubtful_anywhere(now)),
        }
    }

    /// Returns the contents and counters of each pool.
    pub fn report(&self) -> Vec<PoolReport> {
        let state = self.state();
        let mut all: Vec<_> = state.named.iter().map(|(name, pool)| pool.report(name)).collect();
        all.sort_by(|one, other| one.pool.cmp(&other.pool));
        all.push(state.others.report("*"));
        all
    }

    /// Blanks the pools affected by a change below `segment` that did not pass this gateway. Unless it
    /// `is_over`, no tags are created there for a while.
    pub fn changed_elsewhere(&self, segment: &Segment, is_over: bool) {
        // In the order of `Change::drop`, for the same reason.
        if !is_over {
            self.doubt(segment);
        }
        self.blank(segment);
    }

    pub(crate) fn blank(&self, segment: &Segment) {
        let state = self.state();
        match segment {
            Segment::Named(name) => state.concerned(name).for_each(|(name, pool)| pool.blank(name)),
            Segment::Anywhere => state.all().for_each(|pool| pool.blank_all()),
        }
    }

    pub(crate) fn doubt(&self, segment: &Segment) {
        let state = self.state();
        let until = self.end_of_doubt(state.settings.doubt);
        match segment {
            Segment::Named(name) => state.concerned(name).for_each(|(name, pool)| pool.doubt(name, until)),
            Segment::Anywhere => state.all().for_each(|pool| pool.doubt_all(until)),
        }
    }

    /// Returns the second in which a doubt of this many seconds that begins now ends. The current second does
    /// not count, since it may be nearly over.
    fn end_of_doubt(&self, seconds: u32) -> u32 {
        let now = (self.clock)();
        if seconds == 0 { now } else { now.saturating_add(seconds).saturating_add(1) }
    }

    pub(crate) fn change_began(&self) {
        self.open.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn change_ended(&self) {
        self.open.fetch_sub(1, Ordering::SeqCst);
    }

    pub(crate) fn pool(&self, name: &str) -> (Arc<Pool>, Arc<Settings>) {
        let state = self.state();
        (Arc::clone(state.of(name)), Arc::clone(&state.settings))
    }

    pub(crate) fn state(&self) -> RwLockReadGuard<'_, State> {
        self.state.read()
    }
}

impl State {
    pub(crate) fn of(&self, name: &str) -> &Arc<Pool> {
        self.named.get(name).unwrap_or(&self.others)
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Pool>> {
        self.named.values().chain([&self.others])
    }

    /// Returns the segments affected by a change below `name`, and their pools.
    fn concerned<'s>(&'s self, name: &'s str) -> impl Iterator<Item = (&'s str, &'s Pool)> {
        let coupled = self.settings.couplings.of(name).iter().map(|name| &**name);
        std::iter::once(name).chain(coupled).map(|name| (name, &**self.of(name)))
    }
}
