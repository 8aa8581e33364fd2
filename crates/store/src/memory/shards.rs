//! The shards of the tier: their locks, and their parts of its capacity.
//!
//! **Locks follow workers**: there are several shards for each worker, each on cache lines of its own, so that workers
//! seldom wait for each other. **Capacity follows need**: all shards have equal shares of the capacity, but a *large*
//! response, of more than an eighth of a share, brings its own. Its shard has as much more for as long as it is stored, and
//! all shards have equally less. So a response may be larger than a share.
//!
//! This holds:
//!
//! - A shard never exceeds its capacity, as `larder_evict` counts.
//! - The capacities of all shards together never exceed that of the tier, unless a large response is being stored: its shard
//!   takes more before the others give it up, one after the other, since a thread never holds two locks. Until the others
//!   have done so, the response's bytes are still booked as bytes in progress.
//! - With one shard, nothing is large, and the tier evicts exactly as its policy does in a simulation. With more, each shard
//!   orders its own residents: a tier of many shards hits about as often as one with one shard, as a test shows.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use larder_evict::{AnyShard, By, InsertResult, Object, Spec};
use parking_lot::{Mutex, MutexGuard};

use super::resident::UsedResident;
use super::{Budget, Memory};

/// A response of more than this part of a share is large.
const LARGE_SHARE: u64 = 8;
/// The largest part of the capacity that large responses take from the shares, as a fraction.
const LARGE_MOST: (u64, u64) = (7, 8);

/// All shards.
pub(super) struct Shards {
    all: Box<[Shard]>,
    capacity: SharedCapacity,
}

/// A shard, on cache lines of its own: hits in other shards do not wait for those that this one's lock writes.
#[repr(align(128))]
pub(super) struct Shard {
    number: u64,
    contents: Mutex<ShardContents>,
    changes: ChangeCount,
}

struct ShardContents {
    shard: AnyShard<UsedResident>,
    /// The weights of its large responses.
    large: u64,
}

/// The number of changes of a shard so far. Hits of [hot entries](super::hot) read it, and no lookup writes to its cache lines.
#[derive(Default)]
#[repr(align(128))]
struct ChangeCount(AtomicU64);

/// The capacity of the tier in its unit, and the part of it that large responses have.
#[repr(align(128))]
struct SharedCapacity {
    budget: Budget,
    amount: AtomicU64,
    large: AtomicU64,
    /// The least weight of a large response.
    least: u64,
    /// The shard whose large responses are evicted next for others.
    turn: AtomicUsize,
}

/// A locked shard. Shared references read the contents.
pub(super) struct LockedShard<'s> {
    contents: MutexGuard<'s, ShardContents>,
    shard: &'s Shard,
    shards: &'s Shards,
    has_changed: bool,
    has_grown: bool,
}

impl Shards {
    pub(super) fn new(budget: Budget, policy: &Spec, seed: impl Fn(u64) -> u64) -> Self {
        let (count, amount) = (budget.shards(), budget.kept());
        let shard = |number| {
            let capacity = larder_evict::Capacity { amount: part(amount, count, number), ..budget.capacity };
            let contents = ShardContents { shard: policy.build(capacity, seed(number)), large: 0 };
            Shard { number, contents: Mutex::new(contents), changes: ChangeCount::default() }
        };
        let least = match budget.capacity.by {
            By::Bytes if count > 1 => amount / count / LARGE_SHARE + 1,
            _ => u64::MAX,
        };
        let (amount, large, turn) = (amount.into(), AtomicU64::new(0), AtomicUsize::new(0));
        let capacity = SharedCapacity { budget, amount, large, least, turn };
        Self { all: (0..count).map(shard).collect(), capacity }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the shard of the resident with this hash. The index inside a shard uses the low bits.
    #[inline]
    pub(super) fn of(&self, hash: u64) -> &Shard {
        &self.all[(hash >> 48) as usize % self.all.len()]
    }

    #[inline]
    pub(super) fn lock<'s>(&'s self, shard: &'s Shard) -> LockedShard<'s> {
        LockedShard {
            contents: shard.contents.lock(),
            shard,
            shards: self,
            has_changed: false,
            has_grown: false,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Shard> {
        self.all.iter()
    }

    /// Changes the capacity. The shards [fit](Memory::fit) into it later.
    pub(super) fn set_amount(&self, amount: u64) {
        self.capacity.amount.store(amount, Ordering::Release);
    }
}

impl Shards {
    /// Checks that the capacities of all shards are within that of the tier, and that large responses are counted.
    pub(super) fn validate(&self) -> Result<(), String> {
        let (mut capacity, mut large) = (0, 0);
        for shard in &self.all {
            let shard = self.lock(shard);
            capacity += shard.capacity().amount;
            let mut stored = 0;
            shard.for_each(&mut |_, kept| stored += self.capacity.large_part_of(kept));
            if stored != shard.contents.large {
                return Err(format!("{stored} in large responses, {} counted", shard.contents.large));
            }
            large += stored;
        }
        let counted = self.capacity.large.load(Ordering::Acquire);
        let amount = self.capacity.amount.load(Ordering::Acquire);
        match capacity <= amount && large == counted {
            true => Ok(()),
            false => {
                Err(format!("shards have {capacity} of {amount}, {large} of {counted} in large responses"))
            }
        }
    }
}

impl Shard {
    /// Returns the number of changes so far.
    #[inline]
    pub(super) fn changes(&self) -> u64 {
        self.changes.0.load(Ordering::Acquire)
    }
}

impl SharedCapacity {
    /// Returns the weight of an object of `size` bytes if it is large; otherwise 0.
    fn large_part(&self, size: u64) -> u64 {
        if size >= self.least { size } else { 0 }
    }

    /// Returns the weight of a resident if it is large; otherwise 0.
    fn large_part_of(&self, kept: &UsedResident) -> u64 {
        self.large_part(kept.object(0, self.budget.counts).size)
    }
}

impl Deref for LockedShard<'_> {
    type Target = AnyShard<UsedResident>;

    fn deref(&self) -> &Self::Target {
        &self.contents.shard
    }
}

impl Drop for LockedShard<'_> {
    /// Counts a change before the lock is released: see the order of events in [`hot`](super::hot).
    fn drop(&mut self) {
        if self.has_changed {
            self.shard.changes.0.fetch_add(1, Ordering::Release);
        }
    }
}

impl LockedShard<'_> {
    /// Looks a resident up; a hit counts as a request.
    #[inline]
    pub(super) fn get(&mut self, hash: u64) -> Option<&UsedResident> {
        self.contents.shard.get(hash)
    }

    /// Looks a resident up `count` times in sequence, as [`get`](Self::get) does.
    pub(super) fn get_often(&mut self, hash: u64, count: u32) {
        self.contents.shard.get_often(hash, count);
    }

    /// Returns the number of changes so far.
    #[inline]
    pub(super) fn changes(&self) -> u64 {
        self.shard.changes()
    }

    /// Returns the resident with this hash, to be replaced by one of the same size.
    pub(super) fn resident_mut(&mut self, hash: u64) -> Option<&mut UsedResident> {
        self.has_changed = true;
        self.contents.shard.peek_mut(hash)
    }

    /// Returns the resident of this key and size, to be replaced by one of this cost.
    pub(super) fn renew(&mut self, object: Object) -> Option<&mut UsedResident> {
        self.has_changed = true;
        self.contents.shard.renew(object)
    }

    /// Stores `kept`, in place of the resident with its key. With `is_admitted`, the policy is not asked whether it admits it.
    pub(super) fn insert(
        &mut self,
        object: Object,
        kept: UsedResident,
        is_admitted: bool,
        dropped: &mut Vec<UsedResident>,
    ) -> InsertResult<UsedResident> {
        self.has_changed = true;
        let from = dropped.len();
        self.set_capacity(dropped);
        let large = self.shards.capacity.large_part(object.size);
        let stored = match (large, is_admitted) {
            (0, false) => self.contents.shard.insert(object, kept, dropped),
            (0, true) => self.contents.shard.restore(object, kept, dropped),
            _ => self.insert_large(object, kept, is_admitted, dropped),
        };
        self.settle(from, dropped);
        stored
    }

    /// The policy decides on a large response as if it were to replace others of its shard.
    fn insert_large(
        &mut self,
        object: Object,
        kept: UsedResident,
        is_admitted: bool,
        dropped: &mut Vec<UsedResident>,
    ) -> InsertResult<UsedResident> {
        let is_new = self.peek(object.key).is_none();
        if is_new && !is_admitted && !self.contents.shard.admits(&object) {
            return InsertResult::Refused(kept);
        }
        self.grow(object.size, dropped);
        let stored = self.contents.shard.restore(object, kept, dropped);
        if !matches!(stored, InsertResult::Stored) {
            self.shrink(object.size, dropped);
        }
        stored
    }

    pub(super) fn remove(&mut self, hash: u64, dropped: &mut Vec<UsedResident>) {
        let from = dropped.len();
        dropped.extend(self.contents.shard.remove(hash));
        self.settle(from, dropped);
    }

    pub(super) fn clear(&mut self, dropped: &mut Vec<UsedResident>) {
        let from = dropped.len();
        self.contents.shard.clear(dropped);
        self.settle(from, dropped);
    }

    /// Puts another policy in force.
    pub(super) fn succeed(&mut self, policy: &Spec, seed: u64) {
        self.contents.shard = policy.succeed(&mut self.contents.shard, seed);
    }

    /// Evicts what no longer fits into the shard's part of the capacity.
    pub(super) fn fit(&mut self, dropped: &mut Vec<UsedResident>) {
        let from = dropped.len();
        self.set_capacity(dropped);
        self.settle(from, dropped);
    }

    /// Evicts as long as the shard has more than its share, which large responses exceed.
    fn fit_into_share(&mut self, dropped: &mut Vec<UsedResident>) {
        let from = dropped.len();
        let share = self.target() - self.target().min(self.contents.large);
        self.contents.shard.set_capacity(share, dropped);
        self.settle(from, dropped);
    }

    /// Gives up the capacity of large responses that have left since there were `from` in `dropped`, and evicts what needs it.
    fn settle(&mut self, mut from: usize, dropped: &mut Vec<UsedResident>) {
        while from < dropped.len() {
            self.has_changed = true;
            let left = dropped[from..].iter().map(|kept| self.shards.capacity.large_part_of(kept)).sum();
            from = dropped.len();
            if left > 0 {
                self.shrink(left, dropped);
            }
        }
    }

    fn grow(&mut self, large: u64, dropped: &mut Vec<UsedResident>) {
        self.contents.large += large;
        self.shards.capacity.large.fetch_add(large, Ordering::AcqRel);
        self.has_grown = true;
        self.set_capacity(dropped);
    }

    /// The shard gives the capacity up before others may have it.
    fn shrink(&mut self, large: u64, dropped: &mut Vec<UsedResident>) {
        self.contents.large -= large;
        self.set_capacity(dropped);
        self.shards.capacity.large.fetch_sub(large, Ordering::AcqRel);
    }

    fn set_capacity(&mut self, dropped: &mut Vec<UsedResident>) {
        let target = self.target();
        if self.capacity().amount != target {
            self.contents.shard.set_capacity(target, dropped);
        }
    }

    /// Returns the capacity that the shard should have: its share, and the weights of its large responses.
    fn target(&self) -> u64 {
        let SharedCapacity { amount, large, .. } = &self.shards.capacity;
        let (amount, large) = (amount.load(Ordering::Acquire), large.load(Ordering::Acquire));
        match amount.checked_sub(large) {
            Some(rest) => part(rest, self.shards.len() as u64, self.shard.number) + self.contents.large,
            // The capacity has become less than the large responses have.
            None => (u128::from(self.contents.large) * u128::from(amount) / u128::from(large)) as u64,
        }
    }
}

impl Memory {
    /// Unlocks a shard, and frees what it has `dropped`. The other shards give up what a large response has taken.
    pub(super) fn unlock(&self, shard: LockedShard<'_>, dropped: &[UsedResident]) {
        let has_grown = shard.has_grown;
        drop(shard);
        self.note_dropped(dropped);
        if has_grown {
            self.fit();
        }
    }

    /// Makes each shard fit into its part of the capacity.
    pub(super) fn fit(&self) {
        for shard in self.shards.iter() {
            let (mut shard, mut dropped) = (self.shards.lock(shard), Vec::new());
            shard.fit(&mut dropped);
            self.unlock(shard, &dropped);
        }
    }

    /// Evicts large responses of some shards, in turn, if a response of `size` bytes would leave too little to the others.
    pub(super) fn make_room_for(&self, size: u64) {
        let SharedCapacity { amount, large, turn, .. } = &self.shards.capacity;
        let weight = self.shards.capacity.large_part(size);
        if weight == 0 {
            return;
        }
        let most = amount.load(Ordering::Relaxed) / LARGE_MOST.1 * LARGE_MOST.0;
        for _ in self.shards.iter() {
            if large.load(Ordering::Acquire) + weight <= most {
                return;
            }
            let shard = &self.shards.all[turn.fetch_add(1, Ordering::Relaxed) % self.shards.len()];
            let (mut shard, mut dropped) = (self.shards.lock(shard), Vec::new());
            if shard.contents.large > 0 {
                shard.fit_into_share(&mut dropped);
            }
            self.unlock(shard, &dropped);
        }
    }
}

/// Returns the part of `amount` for shard `n` of `shards`.
fn part(amount: u64, shards: u64, n: u64) -> u64 {
    amount / shards + u64::from(n < amount % shards)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_two_shards_share_no_cache_line() {
        assert_eq!(align_of::<Shard>(), 128);
    }
}
