//! The interface between a cache and its eviction policy.
//!
//! A policy orders dense `u32` slots. It sees objects' keys, sizes and costs through [`Residents`], and never
//! a value, a lock or a clock; it counts nothing that its caller already counts.

use std::fmt::Debug;
use std::ops::RangeInclusive;

/// Where a resident object stands: dense, from 0, used again after the object has gone.
pub type Slot = u32;

/// No slot at all: the end of a list or of a chain. A cache holds fewer objects than this.
pub(crate) const NONE: Slot = Slot::MAX;

/// Where a replay keeps an object's slot or, with this bit, a note of an object that is not resident.
pub(crate) const NOTED: u32 = 1 << 31;

/// The highest note: with [`NOTED`], the next one would be [`NONE`].
pub(crate) const MOST_NOTE: u32 = NOTED - 2;

/// What a policy may know of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// The object's key, already hashed: equal keys are the same object. A shard's index uses the lowest bits
    /// and the top 7, so spread keys over shards by the bits between, such as 32 to 56.
    pub key: u64,
    /// Bytes it occupies, bookkeeping included where that matters. 0 is allowed, and then nothing bounds how
    /// many there are under a capacity in bytes.
    pub size: u64,
    /// What fetching it again would cost, in microseconds; 0 where it is unknown.
    pub cost: u32,
}

/// The unit of a [`Capacity`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum By {
    /// An object weighs its size.
    Bytes,
    /// Every object weighs 1.
    Entries,
}

/// How much a cache may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Capacity {
    /// What is counted.
    pub by: By,
    /// How many of it, at most.
    pub amount: u64,
}

impl Capacity {
    /// What an object of `size` bytes takes of this capacity, in its unit.
    #[inline]
    pub fn weigh(self, size: u64) -> u64 {
        match self.by {
            By::Bytes => size,
            By::Entries => 1,
        }
    }

    /// `share` of the amount, rounded down: what a queue may hold that is given that part of the cache.
    #[inline]
    pub(crate) fn share(self, share: f64) -> u64 {
        (self.amount as f64 * share) as u64
    }
}

/// A policy's view of the cache that it serves: it changes nothing but notes.
pub trait Residents {
    /// The object in `slot`. Panics if the slot is vacant, which only a broken policy can ask for.
    fn object(&self, slot: Slot) -> Object;

    /// What the object in `slot` takes of the capacity, in its unit.
    #[inline]
    fn weight(&self, slot: Slot) -> u64 {
        match self.capacity().by {
            By::Bytes => self.object(slot).size,
            By::Entries => 1,
        }
    }

    /// Whether an object stands in `slot`.
    fn contains(&self, slot: Slot) -> bool;

    /// How many objects there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sum of the objects' weights, in the capacity's unit.
    fn used(&self) -> u64;

    /// The capacity as it is now: it may change while the cache runs.
    fn capacity(&self) -> Capacity;

    /// The number of the object in `slot`, where all objects are numbered beforehand: in a replay.
    #[inline(always)]
    fn number(&self, _slot: Slot) -> Option<u32> {
        None
    }

    /// The same of the object that is asked for now and is not resident.
    #[inline(always)]
    fn number_of_newcomer(&self) -> Option<u32> {
        None
    }

    /// Keeps `note` of the object numbered `number`, which is leaving or has left, until it is stored again. A note is less
    /// than 2^31 - 1.
    #[inline(always)]
    fn keep_note(&self, _number: u32, _note: u32) {}

    /// The note of the object numbered `number`, which is not resident.
    #[inline(always)]
    fn note(&self, _number: u32) -> Option<u32> {
        None
    }

    /// Lookups so far, this one included: the only time there is.
    fn now(&self) -> u64;

    /// When the object in `slot` will be asked for next, on the scale of [`now`](Self::now). Only a replay
    /// knows, for the offline bounds; a live cache answers "never".
    fn next(&self, _slot: Slot) -> u64 {
        u64::MAX
    }

    /// The same of the object that is asked for now, whether or not it is resident.
    fn next_of_newcomer(&self) -> u64 {
        u64::MAX
    }
}

/// A rule for what to keep.
///
/// The caller promises: every slot given to [`on_hit`](Self::on_hit) and [`on_remove`](Self::on_remove) was
/// given to [`on_insert`](Self::on_insert) before and has not left since. The policy promises that
/// [`evict`](Self::evict) returns such a slot, once, and one whenever there are any.
pub trait Policy: Sized + Send + 'static {
    /// What a user can tune.
    type Params: Params;

    /// One line that says what it does, for help, docs and reports.
    const ABOUT: &'static str;

    /// Whether it needs to know the future, which only a replay does: a bound to compare with.
    const OFFLINE: bool = false;

    /// What its dearest operation costs, for n residents: `O(1)`, `O(log n)`, `O(samples)`.
    const COST: &'static str = "O(1)";

    /// An empty policy. All its randomness comes from `seed`: the same seed gives the same victims. What
    /// depends on the capacity later should ask [`Residents::capacity`], since that can change.
    fn new(capacity: Capacity, params: Self::Params, seed: u64) -> Self;

    /// Whether to keep `new`, which fits and is not resident. Asked once per miss, before victims are chosen.
    fn admit<R: Residents>(&mut self, _new: &Object, _residents: &R) -> bool {
        true
    }

    /// `slot` has been filled, and is counted in `residents`.
    fn on_insert<R: Residents>(&mut self, slot: Slot, residents: &R);

    /// The object in `slot` was asked for.
    fn on_hit<R: Residents>(&mut self, slot: Slot, residents: &R);

    /// Chooses a victim and forgets it; the victim is still readable in `residents` meanwhile. `None` only
    /// when nothing is left to evict.
    fn evict<R: Residents>(&mut self, residents: &R) -> Option<Slot>;

    /// The object in `slot` leaves for a reason that is not the policy's: purge, expiry or replacement.
    fn on_remove<R: Residents>(&mut self, slot: Slot, residents: &R);

    /// Bytes that it has allocated, spare room included.
    fn heap_bytes(&self) -> usize;

    /// Checks its own invariants against `residents`; the error says which one is broken.
    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String>;
}

/// One thing that a user can tune in a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name in a spec: `small` in `s3fifo:small=0.1`.
    pub name: &'static str,
    /// What it does, with unit and range, in one line.
    pub about: &'static str,
}

/// A policy's parameters: a typed struct whose fields can be read and set by name. `()` has none.
pub trait Params: Default + Clone + Debug + PartialEq + Send {
    /// Every parameter, in the order in which a spec prints them.
    const ALL: &'static [Param];

    /// Sets parameter `name`, one of [`ALL`](Self::ALL). The error says what would have been valid, such as
    /// "a share from 0 to 1".
    fn set(&mut self, name: &str, value: &str) -> Result<(), String>;

    /// The value of parameter `name`, one of [`ALL`](Self::ALL), as [`set`](Self::set) reads it.
    fn get(&self, name: &str) -> String;
}

impl Params for () {
    const ALL: &'static [Param] = &[];

    fn set(&mut self, _name: &str, _value: &str) -> Result<(), String> {
        Err("no parameter".into())
    }

    fn get(&self, _name: &str) -> String {
        String::new()
    }
}

/// Reads a share of the capacity, for [`Params::set`].
pub(crate) fn read_share(value: &str) -> Result<f64, String> {
    let share = value.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "a share from 0 to 1".into())
}

/// Reads a count within `range`, for [`Params::set`].
pub(crate) fn read_count(value: &str, range: RangeInclusive<u32>) -> Result<u32, String> {
    let count = value.parse().ok().filter(|count| range.contains(count));
    count.ok_or_else(|| format!("a count from {} to {}", range.start(), range.end()))
}
