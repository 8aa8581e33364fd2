//! S3-FIFO: three queues, of which the first evicts most new objects.

use crate::parts::by_slot::BySlot;
use crate::parts::ghost::{Ghosts, Name};
use crate::parts::list::Links;
use crate::parts::segment::{Segment, validate_all};
use crate::parts::share::Share;
use crate::policy::{Capacity, Object, Param, Params, Policy, Residents, Slot, read_count, read_share};

/// New objects enter a small queue. An object that leaves it without enough hits is evicted, and its key becomes a ghost;
/// with enough hits, or when a ghost is requested, the object enters the main queue, a CLOCK with two bits.
///
/// Until the first eviction, new objects enter the main queue once the small queue has reached its share, unless `fill`
/// says otherwise.
///
/// An object larger than the small queue enters it like any other. The queue is then reduced to its share when room is
/// needed, and the object leaves unless it has enough hits by then.
pub struct S3Fifo {
    params: S3FifoParams,
    links: Links,
    small: Segment,
    main: Segment,
    ghosts: Ghosts,
    /// Hits, at most [`MOST_HITS`], and a flag for the main queue.
    marks: BySlot<u8>,
    /// Whether the object admitted last was remembered.
    returning: bool,
    small_share: Share,
    ghost_share: Share,
    /// Whether there has been no eviction.
    is_filling: bool,
}

const MOST_HITS: u8 = 0b011;
const IN_MAIN: u8 = 0b100;

/// The parameters of [`S3Fifo`].
#[derive(Clone, Debug, PartialEq)]
pub struct S3FifoParams {
    small: f64,
    ghost: f64,
    threshold: u32,
    fill: Fill,
}

/// The queue of new objects before the first eviction, once the small queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fill {
    Main,
    Small,
}

impl Default for S3FifoParams {
    fn default() -> Self {
        Self { small: 0.1, ghost: 0.9, threshold: 2, fill: Fill::Main }
    }
}

impl Params for S3FifoParams {
    const ALL: &'static [Param] = &[
        Param { name: "small", about: "share of the capacity for the small queue: 0 to 1" },
        Param {
            name: "ghost",
            about: "size of the evicted objects whose keys are remembered, as a share of the capacity: 0 to 1",
        },
        Param { name: "threshold", about: "hits that move an object to the main queue: 1 to 3" },
        Param {
            name: "fill",
            about: "queue that new objects fill before the first eviction: main or small (the paper)",
        },
    ];

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "small" => self.small = read_share(value)?,
            "ghost" => self.ghost = read_share(value)?,
            "fill" => {
                self.fill = match value {
                    "main" => Fill::Main,
                    "small" => Fill::Small,
                    _ => return Err("main or small".into()),
                };
            }
            _ => self.threshold = read_count(value, 1..=u32::from(MOST_HITS))?,
        }
        Ok(())
    }

    fn get(&self, name: &str) -> String {
        match name {
            "small" => self.small.to_string(),
            "ghost" => self.ghost.to_string(),
            "fill" => match self.fill {
                Fill::Main => "main",
                Fill::Small => "small",
            }
            .into(),
            _ => self.threshold.to_string(),
        }
    }
}

impl S3Fifo {
    #[inline]
    fn evict_small<R: Residents>(&mut self, residents: &R) -> Option<Slot> {
        loop {
            let slot = self.small.pop_back(&mut self.links, residents)?;
            if u32::from(self.marks[slot]) < self.params.threshold {
                let bound = self.ghost_share.of(residents.capacity());
                self.ghosts.insert(Name::of(slot, residents), residents.weight(slot), (), bound, residents);
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

    fn is_in_main(&self, slot: Slot) -> bool {
        self.marks[slot] & IN_MAIN != 0
    }
}

impl Policy for S3Fifo {
    type Params = S3FifoParams;

    const ABOUT: &'static str = "evicts new objects early unless they are requested soon; the rest by CLOCK";

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
            marks: BySlot::new(),
            returning: false,
        }
    }

    #[inline]
    fn admit<R: Residents>(&mut self, new: &Object, residents: &R) -> bool {
        self.returning = self.ghosts.remove(Name::of_newcomer(new, residents), residents).is_some();
        true
    }

    #[inline]
    fn on_insert<R: Residents>(&mut self, slot: Slot, residents: &R) {
        let is_in_main =
            std::mem::take(&mut self.returning) || self.is_filling && self.is_small_full(residents);
        self.marks.put(slot, if is_in_main { IN_MAIN } else { 0 });
        let queue = if is_in_main { &mut self.main } else { &mut self.small };
        queue.push_front(&mut self.links, slot, residents);
    }

    #[inline]
    fn on_hit<R: Residents>(&mut self, slot: Slot, _residents: &R) {
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
        self.links.heap_bytes() + self.marks.heap_bytes() + self.ghosts.heap_bytes()
    }

    fn validate<R: Residents>(&self, residents: &R) -> Result<(), String> {
        validate_all([&self.small, &self.main], &self.links, residents, |slot| {
            usize::from(self.is_in_main(slot))
        })?;
        self.ghosts.validate(residents)
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::{By, Capacity, Object};
    use crate::{AnyShard, Spec, spread};

    /// Returns how many of the first ten objects stay in a cache for ten after one request for each of a hundred
    /// others.
    fn stay(spec: &str) -> usize {
        let capacity = Capacity { by: By::Entries, amount: 10 };
        let mut shard: Box<dyn AnyShard<()>> = Spec::parse(spec).expect("a valid spec").build(capacity, 1);
        for number in 0..110 {
            let object = Object { key: spread(number), size: 1, cost: 0 };
            let _stored = shard.insert(object, (), &mut Vec::new());
        }
        (0..10).filter(|&number| shard.peek(spread(number)).is_some()).count()
    }

    #[test]
    fn the_main_queue_fills_before_the_first_eviction() {
        assert_eq!(stay("s3fifo"), 9);
        assert_eq!(stay("s3fifo:fill=small"), 0);
    }
}
