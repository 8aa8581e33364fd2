//! The interface between a cache and its eviction policy.
//!
//! A policy orders dense `u32` slots. It sees the keys, sizes and costs of objects through [`Residents`], and has no
//! access to values, locks or clocks. It keeps no count that its caller already keeps.

use larder_words::named;

use crate::params::Params;

/// The place of a resident object. Slots are dense, start at 0, and are reused after the object has left.
pub type Slot = u32;

/// No slot: the end of a list or of a chain. A cache holds fewer objects than this number.
pub(crate) const NONE: Slot = Slot::MAX;

/// The bit that distinguishes a note on an object that is not resident from the slot of a resident object, in a replay.
pub(crate) const NOTED: u32 = 1 << 31;

/// The highest note: with [`NOTED`], the next value would be [`NONE`].
pub(crate) const MOST_NOTE: u32 = NOTED - 2;

/// The value of [`Residents::note`] for an object without a note.
pub(crate) const NO_NOTE: u32 = MOST_NOTE + 1;

/// The properties of an object that a policy can see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// The object's key, already hashed: equal keys mean the same object. The index of a shard uses the lowest bits and
    /// the top 7, so spread keys over shards by the bits between, such as 32 to 56.
    pub key: u64,
    /// Bytes occupied by the object, with bookkeeping if that matters. 0 is allowed; then a capacity in bytes does not
    /// bound the number of objects.
    pub size: u64,
    /// The cost to fetch the object again, in microseconds; 0 if unknown.
    pub cost: u32,
}

named! {
    /// The unit of a [`Capacity`].
    #[derive(Hash)]
    pub enum By, name {
        /// The weight of an object is its size.
        Bytes = "bytes",
        /// The weight of every object is 1.
        Entries = "entries",
    }
}

/// The limit on the contents of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Capacity {
    /// The unit.
    pub by: By,
    /// The largest allowed amount in that unit.
    pub amount: u64,
}

impl Capacity {
    /// Returns the weight of an object of `size` bytes in the unit of this capacity.
    #[inline]
    pub fn weigh(self, size: u64) -> u64 {
        match self.by {
            By::Bytes => size,
            By::Entries => 1,
        }
    }

    /// Returns `share` of the amount, rounded down: the limit of a queue with that share of the cache.
    #[inline]
    pub(crate) fn share(self, share: f64) -> u64 {
        (self.amount as f64 * share) as u64
    }
}

/// A policy's view of its cache: read-only, except for notes.
pub trait Residents {
    /// Returns the object in `slot`. Panics if the slot is vacant, which only a broken policy can cause.
    fn object(&self, slot: Slot) -> Object;

    /// Returns the weight of the object in `slot`, in the unit of the capacity.
    #[inline]
    fn weight(&self, slot: Slot) -> u64 {
        match self.capacity().by {
            By::Bytes => self.object(slot).size,
            By::Entries => 1,
        }
    }

    /// Whether `slot` holds an object.
    fn contains(&self, slot: Slot) -> bool;

    /// Returns the number of objects.
    fn len(&self) -> usize;

    /// Whether there are no objects.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the sum of the weights of all objects, in the unit of the capacity.
    fn used(&self) -> u64;

    /// Returns the current capacity, which may change while the cache runs.
    fn capacity(&self) -> Capacity;

    /// Returns the number of the object in `slot`, if all objects are numbered beforehand, as in a replay.
    #[inline(always)]
    fn number(&self, _slot: Slot) -> Option<u32> {
        None
    }

    /// Returns the number of the object that is requested now and is not resident.
    #[inline(always)]
    fn number_of_newcomer(&self) -> Option<u32> {
        None
    }

    /// Stores `note` for the object numbered `number`, which is leaving or has left, until that object is stored again.
    /// A note is less than 2^31 - 1.
    #[inline(always)]
    fn keep_note(&self, _number: u32, _note: u32) {}

    /// Returns the note of the object numbered `number`, which is not resident; 2^31 - 1 if it has none. This is not an
    /// `Option`, since a policy that compares notes then needs no separate branch for an object without one.
    #[inline(always)]
    fn note(&self, _number: u32) -> u32 {
        NO_NOTE
    }

    /// Returns the number of lookups so far, including the current one. This is the only time that a policy knows.
    fn now(&self) -> u64;

    /// Returns the time of the next request for the object in `slot`, on the scale of [`now`](Self::now). Only a replay
    /// knows it, for the offline bounds; a live cache returns "never".
    fn next(&self, _slot: Slot) -> u64 {
        u64::MAX
    }

    /// Returns the time of the next request for the object that is requested now, whether or not it is resident.
    fn next_of_newcomer(&self) -> u64 {
        u64::MAX
    }
}

/// Methods that pass a call on to `$to`, an expression of `$self`.
macro_rules! forward {
    ($self:ident => $to:expr; $(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty;)*) => {
        $(#[inline]
        fn $name(&$self, $($argument: $type),*) -> $result {
            $to.$name($($argument),*)
        })*
    };
}

pub(crate) use forward;

/// A policy behind a pointer sees its cache through one.
impl Residents for &dyn Residents {
    forward! { self => (**self);
        fn object(slot: Slot) -> Object;
        fn weight(slot: Slot) -> u64;
        fn contains(slot: Slot) -> bool;
        fn len() -> usize;
        fn used() -> u64;
        fn capacity() -> Capacity;
        fn number(slot: Slot) -> Option<u32>;
        fn number_of_newcomer() -> Option<u32>;
        fn keep_note(number: u32, note: u32) -> ();
        fn note(number: u32) -> u32;
        fn now() -> u64;
        fn next(slot: Slot) -> u64;
        fn next_of_newcomer() -> u64;
    }
}

/// The methods of a [`Policy`] that consists of one data structure, its field `0` or `$part`, and leaves them to it.
macro_rules! leave_rest_to_part {
    () => {
        $crate::policy::leave_rest_to_part!(0, validate);
    };
    ($part:tt, $validate:ident) => {
        #[inline]
        fn on_remove<R: Residents>(&mut self, slot: Slot, _residents: &R) {
            self.$part.remove(slot);
        }

        fn heap_bytes(&self) -> usize {
            self.$part.heap_bytes()
        }

        fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
            self.$part.$validate(residents)
        }
    };
}

pub(crate) use leave_rest_to_part;

/// A rule that selects the objects to keep.
///
/// The caller guarantees that every slot passed to [`on_hit`](Self::on_hit) and [`on_remove`](Self::on_remove) was
/// passed to [`on_insert`](Self::on_insert) before and has not left since. The policy guarantees that
/// [`evict`](Self::evict) returns such a slot, only once, and returns one as long as there are any.
pub trait Policy: Sized + Send + 'static {
    /// The parameters that a user can tune.
    type Params: Params;

    /// One line that describes the policy, for help, docs and reports.
    const ABOUT: &'static str;

    /// Whether the policy needs the future requests, which only a replay knows: a bound to compare with.
    const OFFLINE: bool = false;

    /// Whether a replay fetches the slots of later requests from memory in advance. This pays if a request takes so many
    /// instructions that the processor does not look that far ahead by itself; FIFO, LRU and SIEVE lose by it.
    const FETCHES_AHEAD: bool = false;

    /// Whether the policy keeps notes on objects that leave ([`Residents::keep_note`]). If not, a replay clears the place
    /// of such an object without reading it.
    const KEEPS_NOTES: bool = false;

    /// The cost of the most expensive operation, for n residents: `O(1)`, `O(log n)`, `O(samples)`.
    const COST: &'static str = "O(1)";

    /// Returns an empty policy. All its randomness comes from `seed`: the same seed gives the same victims. Later
    /// decisions that depend on the capacity should use [`Residents::capacity`], since the capacity can change.
    fn new(capacity: Capacity, params: Self::Params, seed: u64) -> Self;

    /// Whether to keep `new`, which fits and is not resident. The cache calls this once per miss, before victims are
    /// chosen.
    fn admit<R: Residents>(&mut self, _new: &Object, _residents: &R) -> bool {
        true
    }

    /// Adds the object in `slot`, which is stored and already counted in `residents`.
    fn on_insert<R: Residents>(&mut self, slot: Slot, residents: &R);

    /// Notes a request for the object in `slot`.
    fn on_hit<R: Residents>(&mut self, slot: Slot, residents: &R);

    /// Notes `count` requests in sequence for the object in `slot`, if that is less work than one after the other. Returns
    /// whether it has; if not, the caller calls [`on_hit`](Self::on_hit) for each.
    #[inline]
    fn on_hits<R: Residents>(&mut self, _slot: Slot, _count: u32, _residents: &R) -> bool {
        false
    }

    /// Chooses a victim and forgets it; the victim is still readable in `residents` during the call. Returns `None`
    /// only when no object is left to evict.
    fn evict<R: Residents>(&mut self, residents: &R) -> Option<Slot>;

    /// Removes the object in `slot`, which leaves for a reason outside the policy: purge, expiry or replacement.
    fn on_remove<R: Residents>(&mut self, slot: Slot, residents: &R);

    /// Returns the bytes that the policy has allocated, spare room included.
    fn heap_bytes(&self) -> usize;

    /// Checks the policy's own invariants against `residents`; the error names the broken one.
    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String>;
}
