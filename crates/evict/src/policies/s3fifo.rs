//! S3-FIFO: three queues, of which the first evicts most new objects.

use larder_words::named;

use crate::params::{params, read_count, read_share};
use crate::parts::by_slot::BySlot;
use crate::parts::ghost::{Ghosts, Name};
use crate::parts::list::Links;
use crate::parts::segment::{Segment, validate_all};
use crate::parts::share::Share;
use crate::policy::{Capacity, Object, Policy, Residents, Slot};

/// New objects enter a small queue. An object that leaves it without enough hits is evicted, and its key becomes a ghost;
/// with enough hits, or when a ghost is requested, the object enters the main queue, a CLOCK with two bits.
///
/// With `fill=main`, new objects enter the main queue before the first eviction, once the small queue has reached its share.
///
/// Two parameters are of S4-FIFO (H. Xia et al., Learning-augmented heuristics, OSDI 2026), and have no effect by default.
/// Hits of objects in the newest part of the small queue, `skip`, do not count, since an object is often requested again at
/// once and then no more. And with `returns=2`, an object that is requested as a ghost for the first time enters the small
/// queue again; only the second time, it enters the main queue. Such objects have ghosts of their own.
///
/// An object larger than the small queue enters it like any other. The queue is then reduced to its share when room is
/// needed, and the object leaves unless it has enough hits by then.
pub struct S3Fifo {
    params: S3FifoParams,
    links: Links,
    small: Segment,
    main: Segment,
    ghosts: Ghosts,
    /// The ghosts of objects that returned; unused with `returns=1`.
    returned: Ghosts,
    /// Hits, at most [`MOST_HITS`], and flags for the main queue and for objects in the small queue that returned.
    marks: BySlot<u8>,
    /// The mark of the object admitted last.
    mark: u8,
    /// By slot: the weight that had entered the small queue before the object; unused with `skip=0`.
    entries: BySlot<u64>,
    /// The weight that has entered the small queue.
    entered: u64,
    small_share: Share,
    ghost_share: Share,
    /// Whether there has been no eviction.
    is_filling: bool,
}

const MOST_HITS: u8 = 0b011;
const IN_MAIN: u8 = 0b100;
const RETURNED: u8 = 0b1000;

params! {
    /// The parameters of [`S3Fifo`].
    S3FifoParams {
        small: f64 = 0.1, read_share, "share of the capacity for the small queue: 0 to 1";
        ghost: f64 = 0.9, read_share,
            "size of the evicted objects whose keys are remembered, as a share of the capacity: 0 to 1";
        threshold: u32 = 2, |value| read_count(value, 1..=u32::from(MOST_HITS)),
            "hits that move an object to the main queue: 1 to 3";
        fill: Fill = Fill::Small, |value| Fill::of_name(value).ok_or_else(|| "small or main".to_owned()),
            "queue that new objects fill before the first eviction: small (the paper) or main";
        skip: f64 = 0.0, read_share,
            "share of the small queue, at its new end, in which hits do not count: 0 to 1";
        returns: u32 = 1, |value| read_count(value, 1..=2),
            "number of times that a remembered object returns until it enters the main queue: 1 or 2";
    }
}

named! {
    /// The queue of new objects before the first eviction, once the small queue is full.
    pub(crate) enum Fill, name {
        Main = "main",
        Small = "small",
    }
}

impl S3Fifo {
    #[inline]
    fn evict_small<R: Residents>(&mut self, residents: &R) -> Option<Slot> {
        loop {
            let slot = self.small.pop_back(&mut self.links, residents)?;
            let mark = self.marks[slot];
            if u32::from(mark & MOST_HITS) < self.params.threshold {
                let bound = self.ghost_share.of(residents.capacity());
                let ghosts = if mark & RETURNED == 0 { &mut self.ghosts } else { &mut self.returned };
                ghosts.insert(Name::of(slot, residents), residents.weight(slot), (), bound, residents);
                return Some(slot);
            }
            self.marks[slot] = IN_MAIN;
            self.main.push_front(&mut self.links, slot, residents);
        }
    }

    #[inline]
    fn evict_main<R: Residents>(&mut self, residents: &R) -> Option<Slot> {
        loop {
            let slot = self.main.back()?;
            if self.marks[slot] == IN_MAIN {
                return self.main.pop_back(&mut self.links, residents);
            }
            self.marks[slot] -= 1;
            self.main.move_to_front(&mut self.links, slot);
        }
    }

    #[cold]
    fn is_small_full<R: Residents>(&mut self, residents: &R) -> bool {
        self.small.used() >= self.small_share.of(residents.capacity())
    }

    /// Whether the object in `slot` is in the part of the small queue in which hits do not count.
    #[cold]
    fn is_new(&self, slot: Slot) -> bool {
        let newer = self.entered - self.entries.get(slot).copied().unwrap_or(0);
        !self.is_in_main(slot) && (newer as f64) <= self.params.skip * self.small.used() as f64
    }

    fn is_in_main(&self, slot: Slot) -> bool {
        self.marks[slot] & IN_MAIN != 0
    }
}

impl Policy for S3Fifo {
    type Params = S3FifoParams;

    const ABOUT: &'static str = "evicts new objects early unless they are requested soon; the rest by CLOCK";

    const FETCHES_AHEAD: bool = true;

    const KEEPS_NOTES: bool = true;

    fn new(_capacity: Capacity, params: S3FifoParams, _seed: u64) -> Self {
        Self {
            small_share: Share::new(params.small),
            ghost_share: Share::new(params.ghost),
            is_filling: params.fill == Fill::Main,
            params,
            links: Links::new(),
            small: Segment::new(),
            main: Segment::new(),
            ghosts: Ghosts::new(),
            returned: Ghosts::new(),
            marks: BySlot::new(),
            mark: 0,
            entries: BySlot::new(),
            entered: 0,
        }
    }

    #[inline]
    fn admit<R: Residents>(&mut self, new: &Object, residents: &R) -> bool {
        let name = Name::of_newcomer(new, residents);
        let is_ghost = self.ghosts.remove(name, residents).is_some();
        self.mark = match self.params.returns {
            1 if is_ghost => IN_MAIN,
            2 if is_ghost => RETURNED,
            2 if self.returned.remove(name, residents).is_some() => IN_MAIN,
            _ => 0,
        };
        true
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, residents: &R) {
        let mut mark = std::mem::take(&mut self.mark);
        if self.is_filling && self.is_small_full(residents) {
            mark = IN_MAIN;
        }
        self.marks.put(slot, mark);
        if mark == IN_MAIN {
            return self.main.push_front(&mut self.links, slot, residents);
        }
        if self.params.skip > 0.0 {
            self.entries.put(slot, self.entered);
            self.entered += residents.weight(slot);
        }
        self.small.push_front(&mut self.links, slot, residents);
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, _residents: &R) {
        if self.params.skip > 0.0 && self.is_new(slot) {
            return;
        }
        let mark = &mut self.marks[slot];
        *mark += u8::from(*mark & MOST_HITS < MOST_HITS);
    }

    #[inline(always)]
    fn evict<R: Residents>(&mut self, residents: &R) -> Option<Slot> {
        let capacity = residents.capacity();
        self.is_filling = false;
        let main_share = capacity.amount - self.small_share.of(capacity);
        if self.main.used() > main_share {
            return self.evict_main(residents);
        }
        self.evict_small(residents).or_else(|| self.evict_main(residents))
    }

    #[inline]
    fn on_remove<R: Residents>(&mut self, slot: Slot, residents: &R) {
        let queue = if self.is_in_main(slot) { &mut self.main } else { &mut self.small };
        queue.remove(&mut self.links, slot, residents);
    }

    fn heap_bytes(&self) -> usize {
        self.links.heap_bytes()
            + self.marks.heap_bytes()
            + self.ghosts.heap_bytes()
            + self.returned.heap_bytes()
            + self.entries.heap_bytes()
    }

    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        validate_all([&self.small, &self.main], &self.links, residents, |slot| {
            usize::from(self.is_in_main(slot))
        })?;
        self.ghosts.validate(residents)?;
        self.returned.validate(residents)
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::{By, Capacity, Object};
    use crate::{Spec, spread};

    /// Returns how many of the first ten objects stay in a cache for ten after one request for each of a hundred
    /// others.
    fn stay(spec: &str) -> usize {
        let capacity = Capacity { by: By::Entries, amount: 10 };
        let mut shard = Spec::parse(spec).expect("a valid spec").build(capacity, 1);
        for number in 0..110 {
            let object = Object { key: spread(number), size: 1, cost: 0 };
            let _stored = shard.insert(object, (), &mut Vec::new());
        }
        (0..10).filter(|&number| shard.peek(spread(number)).is_some()).count()
    }

    #[test]
    fn the_main_queue_fills_before_the_first_eviction_if_users_want_it() {
        assert_eq!(stay("s3fifo"), 0);
        assert_eq!(stay("s3fifo:fill=main"), 9);
    }

    /// Requests objects in sequence from a cache for ten. Returns the final residents.
    fn residents(spec: &str, requests: impl IntoIterator<Item = u32>) -> Vec<u32> {
        let capacity = Capacity { by: By::Entries, amount: 10 };
        let mut shard = Spec::parse(spec).expect("a valid spec").build(capacity, 1);
        for number in requests {
            if shard.get(spread(number)).is_none() {
                let object = Object { key: spread(number), size: 1, cost: 0 };
                let _stored = shard.insert(object, (), &mut Vec::new());
            }
        }
        (0..1_000).filter(|&number| shard.peek(spread(number)).is_some()).collect()
    }

    #[test]
    fn hits_in_the_new_part_of_the_small_queue_do_not_count() {
        // Object 500 is requested three times at once, and then leaves with the others, unless its hits count.
        let requests = || (0..10).chain([500; 3]).chain(10..30);
        assert!(residents("s3fifo:fill=main,small=0.4", requests()).contains(&500));
        assert!(!residents("s3fifo:fill=main,small=0.4,skip=0.5", requests()).contains(&500));
        // Three others come between its requests: it is in the old half of the queue.
        let apart = || (0..10).chain([500, 10, 11, 12, 500, 500]).chain(13..30);
        assert!(residents("s3fifo:fill=main,small=0.4,skip=0.5", apart()).contains(&500));
    }

    #[test]
    fn an_object_has_to_return_as_often_as_the_parameter_says() {
        // Object 500 leaves the small queue each time, and returns.
        let once = || (0..10).chain([500]).chain(10..14).chain([500]).chain(14..30);
        assert!(residents("s3fifo:fill=main", once()).contains(&500));
        assert!(!residents("s3fifo:fill=main,returns=2", once()).contains(&500));
        let twice =
            || (0..10).chain([500]).chain(10..14).chain([500]).chain(14..18).chain([500]).chain(18..30);
        assert!(residents("s3fifo:fill=main,returns=2", twice()).contains(&500));
    }
}
