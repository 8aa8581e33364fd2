//! Laws that the planner obeys for any input.

use std::collections::{HashMap, HashSet};

use larder_predict::association::{Association, CONFIDENCE, LastUrls, SUPPORT};
use larder_predict::budget::Share;
use larder_predict::sequence::NumberedUrl;
use larder_predict::{
    Answer, Candidate, ClientRequest, MOST_BYTES, Planner, Predictor, Predictors, PrefetchResult, Ticket,
};
use proptest::prelude::*;

const BOTH: Predictors = Predictors { association: true, sequence: true };

/// A request, its result, and the result of the oldest prefetch.
#[derive(Clone, Debug)]
struct Step {
    client: u64,
    /// The URL; also the number in its text.
    url: u64,
    range: Option<(u64, u64)>,
    /// Milliseconds since the last request.
    after: u64,
    is_stored: bool,
    bytes: u64,
    ending: u8,
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let range = prop_oneof![4 => Just(None), 1 => (0..8_u64).prop_map(|at| Some((at * 100, at * 100 + 99)))];
    let after = prop_oneof![8 => 0..500_u64, 1 => 0..100_000_u64];
    let step = (0..3_u64, 0..6_u64, range, after, prop::bool::weighted(0.9), 0..300_000_u64, 0..8_u8);
    let step = step.prop_map(|(client, url, range, after, is_stored, bytes, ending)| Step {
        client,
        url,
        range,
        after,
        is_stored,
        bytes,
        ending,
    });
    prop::collection::vec(step, 0..most)
}

/// A planner with simulated traffic, and the observed totals.
struct World {
    planner: Planner,
    share: Share,
    site: u64,
    now: u64,
    asked: u64,
    bytes: u64,
    running: Vec<(Ticket, Candidate)>,
    /// All wishes so far.
    wishes: Vec<Candidate>,
    refused: HashSet<u64>,
}

/// Returns the hash of a URL; it starts from 1, since 0 would be too simple.
fn id(url: &str) -> u64 {
    url.bytes().fold(1, |id, byte| (id ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3) ^ (id >> 29))
}

impl World {
    fn new(percent: f64) -> Self {
        Self {
            planner: Planner::default(),
            share: Share::percent(percent),
            site: 1,
            now: 0,
            asked: 0,
            bytes: 0,
            running: Vec::new(),
            wishes: Vec::new(),
            refused: HashSet::new(),
        }
    }

    fn take(&mut self, step: &Step, url: &str) {
        self.now += step.after;
        let ask = ClientRequest {
            now: self.now,
            client: step.client,
            site: self.site,
            host: 1,
            url: id(url),
            text: url,
            range: step.range,
            kinds: BOTH,
            share: self.share,
        };
        let mut wishes = Vec::new();
        self.planner.asked(&ask, &mut wishes);
        self.asked += 1;
        for wish in wishes {
            if let Some(ticket) = self.planner.start(&wish, id(&wish.url), self.site, self.now) {
                assert!(!self.refused.contains(&id(&wish.url)), "{wish:?} was refused before");
                self.running.push((ticket, wish.clone()));
            }
            self.wishes.push(wish);
        }
        let by_cache = step.ending.is_multiple_of(2);
        let answer =
            Answer { by_cache, is_stored: step.is_stored, bytes: Some(step.bytes), complete: Some(800) };
        self.planner.answered(&ask, &answer);
        self.bytes += step.bytes;
        if step.ending < 6 && !self.running.is_empty() {
            self.end(step.ending, step.bytes);
        }
    }

    fn end(&mut self, ending: u8, bytes: u64) {
        let (ticket, wish) = self.running.remove(0);
        let bytes = bytes.min(ticket.most());
        let ending = match ending {
            0..=2 => PrefetchResult::Stored(bytes),
            3 => PrefetchResult::Failed(bytes),
            4 => PrefetchResult::Refused(bytes),
            _ => PrefetchResult::Unsent,
        };
        if let PrefetchResult::Refused(_) = ending {
            self.refused.insert(id(&wish.url));
        }
        self.planner.ended(ticket, ending, self.now);
    }

    /// Returns the requests and bytes that were useless so far, or may become so.
    fn extra(&mut self) -> (u64, u64) {
        let figures = Predictor::ALL.map(|kind| self.planner.figures(kind, self.now));
        let requests = figures.iter().map(|figures| figures.started - figures.used - figures.unsent).sum();
        (requests, figures.iter().map(|figures| figures.unused_bytes).sum())
    }
}

proptest! {
    #[test]
    fn useless_prefetches_never_exceed_their_share_of_the_traffic(
        steps in steps(600),
        percent in prop_oneof![Just(5.0), Just(0.1), Just(100.0), 0.0..50.0_f64],
    ) {
        let mut world = World::new(percent);
        for step in &steps {
            world.take(step, &format!("http://a/s{}", step.url));
            let (requests, bytes) = world.extra();
            let part = world.share.part();
            prop_assert!(requests as f64 <= part * world.asked as f64 + 1e-6, "{requests} of {}", world.asked);
            prop_assert!(bytes as f64 <= part * world.bytes as f64 + 1e-6, "{bytes} of {}", world.bytes);
        }
        // The same holds when all prefetches in flight were useless.
        world.now += 1_000_000;
        while !world.running.is_empty() {
            world.end(0, u64::MAX);
        }
        let (_, bytes) = world.extra();
        prop_assert!(bytes as f64 <= world.share.part() * world.bytes as f64 + 1e-6);
    }

    #[test]
    fn the_same_requests_lead_to_the_same_predictions(steps in steps(400)) {
        let mut worlds = [World::new(20.0), World::new(20.0)];
        for world in &mut worlds {
            steps.iter().for_each(|step| world.take(step, &format!("http://a/s{}", step.url)));
        }
        prop_assert_eq!(&worlds[0].wishes, &worlds[1].wishes);
        prop_assert_eq!(worlds[0].extra(), worlds[1].extra());
    }

    #[test]
    fn any_bytes_are_a_url_with_a_number_or_without(
        url in prop_oneof![".{0,60}", "(http://)?[a-z0-9/.?=-]{0,40}"],
    ) {
        if let Some(numbered) = NumberedUrl::of(&url) {
            prop_assert_eq!(numbered.with(numbered.number()), &*url);
            let next = numbered.with(numbered.number() + 1);
            prop_assert_eq!(NumberedUrl::of(&next).map(|next| next.template()), Some(numbered.template()), "{}", next);
        }
    }

    #[test]
    fn nothing_is_predicted_below_support_and_confidence(
        walks in prop::collection::vec(prop::collection::vec(0..7_u64, 2..6), 1..300),
    ) {
        let mut model = Association::default();
        let mut followed: HashMap<(Option<u64>, u64, u64), u32> = HashMap::new();
        for walk in walks {
            let mut past = LastUrls::default();
            for url in walk {
                model.follows(past, url, 7);
                if let Some(last) = past.last {
                    *followed.entry((None, last, url)).or_default() += 1;
                    *followed.entry((past.before, last, url)).or_default() += u32::from(past.before.is_some());
                }
                past = past.then(url);
                for next in model.occurs(past, 7) {
                    prop_assert!(next.support >= SUPPORT && next.support * 100 >= CONFIDENCE * next.of);
                    let truly = |before| followed.get(&(before, url, next.url)).copied().unwrap_or(0);
                    let most = truly(None).max(past.before.map_or(0, |before| truly(Some(before))));
                    prop_assert!(most >= next.support, "{next:?}, but followed {most} times");
                }
            }
        }
    }

    #[test]
    fn the_requests_of_another_client_change_no_prediction(
        walks in prop::collection::vec((prop::bool::ANY, prop::collection::vec(0..5_u64, 2..5)), 1..300),
    ) {
        let [mut alone, mut together] = [Association::default(), Association::default()];
        for (is_other, walk) in walks {
            let mut past = LastUrls::default();
            for url in walk {
                let occurs = |model: &mut Association| {
                    model.follows(past, url, u64::from(is_other));
                    model.occurs(past.then(url), u64::from(is_other)).collect::<Vec<_>>()
                };
                let predicted = occurs(&mut together);
                if !is_other {
                    prop_assert_eq!(predicted, occurs(&mut alone));
                }
                past = past.then(url);
            }
        }
    }
}

#[test]
fn memory_is_bounded_whatever_is_asked_for() {
    let mut random = fastrand::Rng::with_seed(27);
    let mut world = World::new(100.0);
    for round in 0..300_000_u64 {
        // Long URLs, most of them requested once, from new clients to new sites.
        let url = format!("http://a/{:0>480}/s{}", random.u64(..40_000), round % 7);
        let step = Step {
            client: random.u64(..),
            url: 0,
            range: (round % 5 == 0).then(|| (round, round + 9)),
            after: random.u64(..50),
            is_stored: true,
            bytes: 1 << 30,
            ending: random.u8(..8),
        };
        world.site = round % 4_096;
        world.take(&step, &url);
        world.wishes.clear();
    }
    let bytes = world.planner.heap_bytes();
    assert!(bytes <= MOST_BYTES, "{bytes}");
    assert!(bytes > MOST_BYTES / 4 * 3, "the test fills no memory: {bytes}");
}
