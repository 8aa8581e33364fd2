//! Estimators of hit ratios from a sample of the keys, compared on the shipped traces with caches that see every request: plain sampling
//! (C. Waldspurger et al., SHARDS with adjustment, FAST 2015, and miniature simulations, ATC 2017), an exact head (D. Carra, G. Neglia,
//! ATC 2020), two samples behind an exact filter (X. Guo et al., FLOWS, EuroSys 2024), and the shadows of this crate.
//!
//! `cargo test -p larder-advise --test estimators -- --ignored --nocapture` prints the table in docs/internals/advise.md.

use std::collections::HashMap;

use larder_advise::{
    Answer, Change, Freshness, Heavy, Panel, PanelSettings, Request, Sample, Sums, Tier, Traffic,
};
use larder_evict::{By, Capacity, Object, Spec, spread};

/// The policies. The first one runs.
const POLICIES: [&str; 3] = ["lru", "sieve", "s3fifo"];
/// The running size as a share of all bytes, and all sizes as multiples of it, ascending.
const RUNNING: f64 = 0.1;
const FACTORS: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];
/// The times that a trace is replayed, of which the last one counts: a proxy has run for a while.
const PASSES: usize = 3;
/// The requests after which shadows that have seen too many of them see less, in the passes before the last.
const THINNED: usize = 1_024;
/// The time of the pass that counts, in another interval than those before.
const COUNTED: u32 = 600;

/// Requests: keys and sizes.
struct Trace {
    requests: Vec<(u64, u64)>,
    /// The sum of the sizes of all requests.
    bytes: f64,
    /// The mean size of an object, and the bytes of all objects.
    mean: f64,
    all: f64,
}

/// A hit ratio and a byte hit ratio.
type Ratios = [f64; 2];

/// The ratios of all sizes.
type Curve = [Ratios; FACTORS.len()];

/// An estimator. Its curve is that of a policy, from so large a share of the keys or, for shadows, of the requests. It returns the share
/// of the requests that were seen, too.
type Estimator = fn(&Trace, &str, f64, Sample) -> (Curve, f64);

const ESTIMATORS: [(&str, Estimator); 5] = [
    ("plain", plain),
    ("plain, as many requests", plain_with_as_many),
    ("Carra and Neglia", exact_head),
    ("FLOWS", flows),
    ("shadows", shadows),
];

impl Trace {
    /// Reads a trace in oracleGeneral form. Without sizes, objects have some of 500 bytes to 64 kB.
    fn read(name: &str) -> Self {
        let path = format!("{}/../../traces/{name}.oracleGeneral.zst", env!("CARGO_MANIFEST_DIR"));
        let bytes = zstd::decode_all(std::fs::File::open(path).expect("a trace")).expect("zstd");
        let records: Vec<_> = bytes.chunks_exact(24).collect();
        let number = |record: &[u8], at: usize| u32::from_le_bytes(record[at..at + 4].try_into().expect("4"));
        let is_sized = records.iter().any(|record| number(record, 12) > 1);
        let request = |record: &&[u8]| {
            let key = spread(number(record, 4));
            let size = if is_sized { u64::from(number(record, 12).max(1)) } else { 500 << (key % 8) };
            (key, size)
        };
        Self::new(records.iter().map(request).collect())
    }

    fn new(mut requests: Vec<(u64, u64)>) -> Self {
        // The size of an object is that of its first request, as in a cache that keeps it.
        let mut sizes = HashMap::new();
        requests.iter_mut().for_each(|(key, size)| *size = *sizes.entry(*key).or_insert(*size));
        let all = sizes.values().sum::<u64>() as f64;
        let bytes = requests.iter().map(|(_, size)| *size as f64).sum();
        Self { requests, bytes, mean: all / sizes.len() as f64, all }
    }

    /// Returns the requests of all passes, and whether they count.
    fn passes(&self) -> impl Iterator<Item = (bool, u64, u64)> {
        (1..=PASSES)
            .flat_map(|pass| self.requests.iter().map(move |&(key, size)| (pass == PASSES, key, size)))
    }

    fn sizes(&self) -> [f64; FACTORS.len()] {
        FACTORS.map(|factor| self.all * RUNNING * factor)
    }

    /// Returns the hits and their bytes in a cache of `size` bytes that sees each object with the probability that `chance` returns.
    /// Such an object stands for more than itself, and takes as much more of the room.
    fn hits(&self, policy: &str, size: f64, seen: impl Fn(u64, u64) -> Option<f64>) -> [Sums; 2] {
        let mut cache = spec(policy).build::<()>(Capacity { by: By::Bytes, amount: size as u64 }, 3);
        let [mut asked, mut hit] = [Sums::default(); 2];
        for (counts, key, size) in self.passes() {
            let Some(chance) = seen(key, size) else { continue };
            let request = if counts { sums(1.0 / chance, size as f64 / chance) } else { Sums::default() };
            asked += request;
            if cache.get(key).is_some() {
                hit += request;
            } else {
                let object = Object { key, size: (size as f64 / chance) as u64, cost: 0 };
                let _ = cache.insert(object, (), &mut Vec::new());
            }
        }
        [asked, hit]
    }

    /// Returns the ratios of a sample: what it has too many or too few requests is added to the hits.
    fn adjusted(&self, [asked, hit]: [Sums; 2]) -> Ratios {
        let all = [self.requests.len() as f64, self.bytes];
        let [requests, bytes] = [(asked.requests, hit.requests), (asked.bytes, hit.bytes)];
        let ratio = |(asked, hit): (f64, f64), all: f64| ((hit + all - asked) / all).clamp(0.0, 1.0);
        [ratio(requests, all[0]), ratio(bytes, all[1])]
    }

    fn exact(&self, policy: &str, size: f64) -> Ratios {
        self.adjusted(self.hits(policy, size, |_, _| Some(1.0)))
    }

    /// Returns the share of the requests that are seen.
    fn share(&self, seen: impl Fn(u64, u64) -> bool) -> f64 {
        let seen = self.requests.iter().filter(|(key, size)| seen(*key, *size)).count();
        seen as f64 / self.requests.len() as f64
    }
}

fn spec(name: &str) -> Spec {
    name.parse().expect("a policy")
}

fn sums(requests: f64, bytes: f64) -> Sums {
    Sums { requests, bytes, micros: 0.0 }
}

/// Returns the probability with which a sample would have to take each key so that it has this one.
fn mark(sample: Sample, key: u64) -> f64 {
    sample.mark(key) as f64 / u64::MAX as f64
}

/// SHARDS with adjustment, as a miniature simulation.
fn plain(trace: &Trace, policy: &str, rate: f64, sample: Sample) -> (Curve, f64) {
    let seen = |key, _| (mark(sample, key) <= rate).then_some(rate);
    let curve = trace.sizes().map(|size| trace.adjusted(trace.hits(policy, size, seen)));
    (curve, trace.share(|key, size| seen(key, size).is_some()))
}

/// The same from as many requests as the shadows see.
fn plain_with_as_many(trace: &Trace, policy: &str, rate: f64, sample: Sample) -> (Curve, f64) {
    plain(trace, policy, shadows(trace, policy, rate, sample).1, sample)
}

/// A small cache that sees all requests, and a plain sample for larger ones. It is corrected by what it lacks at the small size, and the
/// less the larger they are.
fn exact_head(trace: &Trace, policy: &str, rate: f64, sample: Sample) -> (Curve, f64) {
    let small = trace.mean * (1.0 / rate).log10() / rate;
    let seen = |key, _| (mark(sample, key) <= rate).then_some(rate);
    let sampled = |size| trace.adjusted(trace.hits(policy, size, seen));
    let (head, sampled_head) = (trace.exact(policy, small), sampled(small));
    let curve = trace.sizes().map(|size| {
        if size <= small {
            return trace.exact(policy, size);
        }
        let weight = (-(size - small) / (4.0 * small)).exp();
        let tail = sampled(size);
        [0, 1].map(|at| tail[at] + (head[at] - sampled_head[at]) * weight)
    });
    (curve, 1.0)
}

/// FLOWS. Half of the rate samples keys alike, for hits; the other half samples them by their sizes, for bytes and for the room that
/// objects take. A filter of the last objects sees all requests, and answers those for hot ones exactly; it is a part of LRU.
/// Another policy has miniature caches of both samples.
fn flows(trace: &Trace, policy: &str, rate: f64, sample: Sample) -> (Curve, f64) {
    let (alike, by_size) = (rate / 2.0, |size: u64| (rate / 2.0 * size as f64 / trace.mean).min(1.0));
    if policy == "lru" {
        return (Filtered::new(trace, alike, sample).curve(by_size), 1.0);
    }
    let seen = |key, size| {
        let chance = by_size(size).max(alike);
        (mark(sample, key) <= chance).then_some(chance)
    };
    let curve = trace.sizes().map(|size| trace.adjusted(trace.hits(policy, size, seen)));
    (curve, trace.share(|key, size| seen(key, size).is_some()))
}

/// The LRU curve of FLOWS.
struct Filtered<'t> {
    trace: &'t Trace,
    alike: f64,
    sample: Sample,
    /// The places of objects in the order of their last use: all objects in the filter, and sampled ones behind it.
    places: HashMap<u64, usize>,
    filter: Distances,
    behind: Distances,
    /// Reuse distances in bytes, and the requests and bytes that they stand for.
    found: Vec<(f64, Sums)>,
}

/// Sums over places (P. Fenwick, 1994).
struct Distances(Vec<f64>);

impl Distances {
    fn add(&mut self, place: usize, bytes: f64) {
        let mut at = place + 1;
        while at < self.0.len() {
            self.0[at] += bytes;
            at += at & at.wrapping_neg();
        }
    }

    fn before(&self, place: usize) -> f64 {
        let (mut at, mut sum) = (place, 0.0);
        while at > 0 {
            sum += self.0[at];
            at -= at & at.wrapping_neg();
        }
        sum
    }

    /// Returns the bytes at `place` and behind it.
    fn since(&self, place: usize) -> f64 {
        self.before(self.0.len() - 1) - self.before(place)
    }
}

impl<'t> Filtered<'t> {
    fn new(trace: &'t Trace, alike: f64, sample: Sample) -> Self {
        let sums = || Distances(vec![0.0; PASSES * trace.requests.len() + 1]);
        let (places, found) = Default::default();
        Self { trace, alike, sample, places, filter: sums(), behind: sums(), found }
    }

    fn curve(mut self, by_size: impl Fn(u64) -> f64) -> Curve {
        let rate = 2.0 * self.alike;
        let most = ((1.0 / rate).log10() / rate).max(1.0) as u64;
        let mut cache = spec("lru").build::<(u64, u64)>(Capacity { by: By::Entries, amount: most }, 3);
        let mut seen = Sums::default();
        let mut used = 0.0;
        let mut dropped = Vec::new();
        for (now, (counts, key, size)) in self.trace.passes().enumerate() {
            let chosen = mark(self.sample, key);
            let (mut distance, mut request) = (None, sums(1.0, size as f64));
            if cache.get(key).is_some() {
                let before = self.places.insert(key, now).expect("in the filter");
                distance = Some(self.filter.since(before));
                self.filter.add(before, -(size as f64));
            } else {
                request.requests = if chosen <= self.alike { 1.0 / self.alike } else { 0.0 };
                request.bytes = if chosen <= by_size(size) { size as f64 / by_size(size) } else { 0.0 };
                if let Some(before) = self.places.insert(key, now) {
                    distance = Some(self.behind.since(before) + used);
                    self.behind.add(before, -request.bytes);
                }
                let _ = cache.insert(Object { key, size, cost: 0 }, (key, size), &mut dropped);
                used += size as f64;
            }
            if counts {
                seen += request;
                self.found.extend(distance.map(|distance| (distance, request)));
            }
            self.filter.add(now, size as f64);
            for (key, size) in dropped.drain(..) {
                used -= size as f64;
                let before = self.places.insert(key, now).expect("it was in the filter");
                self.filter.add(before, -(size as f64));
                if mark(self.sample, key) <= by_size(size) {
                    self.behind.add(now, size as f64 / by_size(size));
                }
            }
        }
        self.adjusted(seen, used)
    }

    /// Returns the curve. What the samples have too many or too few requests changes the counts at middle distances in proportion.
    fn adjusted(mut self, seen: Sums, filter: f64) -> Curve {
        let (trace, rate) = (self.trace, 2.0 * self.alike);
        let end = filter + trace.mean / rate * (1.0 / rate).log2() * 100.0;
        let is_middle = |distance: f64| filter < distance && distance <= end;
        let missing = sums(trace.requests.len() as f64 - seen.requests, trace.bytes - seen.bytes);
        let middle = self.found.iter().filter(|(distance, _)| is_middle(*distance));
        let middle = middle.fold(Sums::default(), |sum, (_, request)| sum + *request);
        let factor = |missing: f64, middle: f64| if middle > 0.0 { 1.0 + missing / middle } else { 1.0 };
        let (requests, bytes) =
            (factor(missing.requests, middle.requests), factor(missing.bytes, middle.bytes));
        for (_, request) in self.found.iter_mut().filter(|(distance, _)| is_middle(*distance)) {
            *request = sums(request.requests * requests, request.bytes * bytes);
        }
        trace.sizes().map(|size| {
            let hits = self.found.iter().filter(|(distance, _)| *distance <= size);
            let hit = hits.fold(Sums::default(), |sum, (_, request)| sum + *request);
            [hit.requests / trace.requests.len() as f64, hit.bytes / trace.bytes]
                .map(|ratio| ratio.clamp(0.0, 1.0))
        })
    }
}

/// The shadows of this crate beside a cache that runs, as in a proxy.
fn shadows(trace: &Trace, policy: &str, rate: f64, sample: Sample) -> (Curve, f64) {
    let size = trace.sizes()[2] as u64;
    let mut panel = Panel::new(PanelSettings {
        by: By::Bytes,
        sizes: Panel::sizes_beside(size, |kept| (kept, u64::MAX)),
        running: spec(POLICIES[0]),
        others: POLICIES.map(spec).to_vec(),
        share: 1.0,
        sample,
    });
    let (mut heavy, mut left, mut seen, mut recent) = (Heavy::default(), Heavy::DISTANCE, 0_u32, 0_u32);
    let mut real = spec(POLICIES[0]).build::<()>(Capacity { by: By::Bytes, amount: size }, 3);
    for (at, (counts, key, size)) in trace.passes().enumerate() {
        let now = if counts { COUNTED } else { 1 };
        let is_hit = real.get(key).is_some();
        if !is_hit {
            let _ = real.insert(Object { key, size, cost: 0 }, (), &mut Vec::new());
        }
        let (asked, real) = (sums(1.0, size as f64), if is_hit { Answer::Hit } else { Answer::Miss });
        panel.count(now, Traffic { asked, hit: if is_hit { asked } else { Sums::default() } }, 0);
        let request = Request { now, ..request(key, size) };
        if let Some(shadow) = panel.request(&request) {
            panel.compare(&request, shadow, real);
            recent += 1;
            seen += u32::from(counts);
        }
        left = left.saturating_sub(Heavy::step(size));
        if left == 0 {
            left = Heavy::DISTANCE;
            heavy.count(key, size);
        }
        if at % 4_096 == 4_095 {
            panel.set_heavy(&heavy.choose(), heavy.largest());
        }
        if at % THINNED == THINNED - 1 {
            // As in a proxy whose time for shadows is over. Half of less would be too little.
            let is_exceeded = f64::from(std::mem::take(&mut recent)) > 2.0 * rate * THINNED as f64;
            if is_exceeded && !counts && !panel.narrow_heavy(&mut heavy) {
                panel.thin();
            }
        }
    }
    let cells = panel.report(Tier::Memory, COUNTED).cells.into_iter().filter(|cell| cell.policy == policy);
    let ratios: Vec<_> = cells.map(|cell| [cell.ratios.hit_ratio, cell.ratios.byte_hit_ratio]).collect();
    (ratios.try_into().expect("all sizes"), f64::from(seen) / trace.requests.len() as f64)
}

fn request(key: u64, size: u64) -> Request {
    Request {
        object: Object { key, size, cost: 0 },
        now: 1,
        requests: 1,
        bytes: size,
        freshness: Some(Freshness { lifetime: u32::MAX, stale: 0 }),
        is_forced: false,
        is_shared: false,
        is_confirmed: false,
        change: Change::None,
    }
}

/// The mean absolute differences of an estimator, in points of hit ratio and byte hit ratio, and the mean share of the requests seen.
fn differences(estimator: Estimator, trace: &Trace, policies: &[&str], rate: f64, seeds: u32) -> [f64; 3] {
    let (mut sum, mut cells, mut share) = ([0.0; 2], 0.0, 0.0);
    for policy in policies {
        let real = trace.sizes().map(|size| trace.exact(policy, size));
        for seed in 0..seeds {
            let (curve, seen) = estimator(trace, policy, rate, Sample::all(spread(seed)));
            share += seen / f64::from(seeds) / policies.len() as f64;
            // What the running cache does is known.
            let known = |size: &usize| (*policy, *size) == (POLICIES[0], 2);
            for size in (0..FACTORS.len()).filter(|size| !known(size)) {
                (0..2).for_each(|at| sum[at] += 100.0 * (curve[size][at] - real[size][at]).abs());
                cells += 1.0;
            }
        }
    }
    [sum[0] / cells, sum[1] / cells, share]
}

#[test]
#[ignore = "a table that takes minutes"]
fn table_of_all_estimators() {
    let names = ["adaptsize_web", "semicomplete_weblog", "cache2k_web07", "cache2k_web12"];
    let traces = names.map(Trace::read);
    println!(
        "| share | estimator | requests seen | `lru`: hits | bytes | others: hits | bytes |\n|---|---|---|---|---|---|---|"
    );
    for rate in [4, 16, 64] {
        for (name, estimator) in ESTIMATORS {
            let mean = |policies: &[&str]| {
                let all = traces
                    .each_ref()
                    .map(|trace| differences(estimator, trace, policies, 1.0 / f64::from(rate), 3));
                [0, 1, 2].map(|at| all.iter().map(|one| one[at]).sum::<f64>() / all.len() as f64)
            };
            let ([hits, bytes, seen], others) = (mean(&POLICIES[..1]), mean(&POLICIES[1..]));
            let seen = 100.0 * seen;
            let [other_hits, other_bytes, _] = others;
            println!(
                "| 1/{rate} | {name} | {seen:.0}% | {hits:.1} | {bytes:.1} | {other_hits:.1} | {other_bytes:.1} |"
            );
        }
    }
}

/// A sample of one key in four has many of each kind. What plain sampling needs is more requests of popular keys and large objects.
#[test]
fn shadows_are_closer_than_a_plain_sample_of_as_many_requests() {
    let trace = Trace::read("semicomplete_weblog");
    let of = |estimator| differences(estimator, &trace, &POLICIES, 0.25, 2);
    let ([hits, bytes, _], [plain_hits, plain_bytes, _]) = (of(shadows), of(plain_with_as_many));
    assert!(hits < plain_hits && bytes < plain_bytes, "{hits} {bytes}, plain {plain_hits} {plain_bytes}");
}
