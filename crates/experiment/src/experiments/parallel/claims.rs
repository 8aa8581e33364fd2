//! Claims about many pages at once, and their verdicts.

use super::{
    AIOHTTP, Cell, CellResult, DISTANCES, EXECUTOR, HALF, HTTP2, HTTPX, LARDER, PLACES, RIVALS, THREADS,
    URLS, WORKERS, is_larder, seed,
};
use crate::experiments::LARDER as OURS;
use crate::findings::{Finding, Ruling};
use crate::{Bound, ClaimKind, ClaimSource, Host, Interval, Samples};

/// The number of workers at which the proxy and rivals are compared: the largest.
const MOST: usize = 64;
/// The threads of Python's default executor: the number of cores plus this, up to a maximum.
const MORE_THREADS: usize = 4;
const MOST_THREADS: usize = 32;
/// The utilisation from which a resource counts as the limit of a program.
const FULL: f64 = 0.85;

/// The compared value of two programs: larger is better.
type Value = fn(&CellResult) -> Option<f64>;

/// A claim that a system has a number of times the value of each rival.
struct Times<'a> {
    claim: String,
    source: ClaimSource,
    origin: &'a str,
    system: &'a str,
    /// The rivals, each with its number.
    rivals: &'a [(&'a str, f64)],
    value: Value,
    unit: &'static str,
}

/// The claimed factors of pages a second and of CPU time, against each program.
const NEAR: [(&str, f64); 4] = [(EXECUTOR, 2.0), (THREADS, 2.0), (AIOHTTP, 8.0), (HTTPX, 2.0)];
const LESS_WORK: [(&str, f64); 4] = [(EXECUTOR, 2.0), (THREADS, 2.0), (AIOHTTP, 10.0), (HTTPX, 2.0)];

pub(super) fn claims(cells: &[CellResult], host: Option<&Host>) -> Vec<Finding> {
    let cores = host.map_or(1, |host| host.cores);
    let mut found =
        vec![best_known(cells, cores), far(cells, cores), near(cells, cores), work(cells), tail(cells)];
    found.extend([stall(cells), memory(cells)]);
    found.extend(DISTANCES.map(|(origin, _)| streams(cells, origin)));
    found.extend([cost_of_streams(cells), slope(cells), efficiency(cells), weak_scaling(cells)]);
    found.extend([efficiency_of_asyncio(cells), half_full(cells)]);
    found
}

/// Compares streams of one connection with as many connections.
fn streams(cells: &[CellResult], origin: &str) -> Finding {
    let claim = format!(
        "{MOST} streams of one HTTP/2 connection fetch at least 0.95 times the pages a second of {MOST} HTTP/1.1 connections, from a \
         {origin} origin"
    );
    let unit = "times the pages a second";
    let rivals = &[(LARDER, 0.95)];
    let times = Times { claim, source: OURS, origin, system: HTTP2, rivals, value: throughput, unit };
    let rates = versions(cells, origin, throughput, "pages a second");
    let clients = versions(cells, origin, |one| one.driver_us, "us of CPU time of the clients for a page");
    times.decide(cells).saying(format!(
        "{rates} {clients} A connection is served by one thread of the proxy, so many connections use all cores, and one does not."
    ))
}

fn cost_of_streams(cells: &[CellResult]) -> Finding {
    let claim =
        "CPU time for a page is less with streams of one HTTP/2 connection than with HTTP/1.1".to_owned();
    let value: Value = |one| Some(1e6 / one.processor_us);
    let (origin, unit, rivals) = ("near", "times less CPU time", &[(LARDER, 1.0)]);
    let times = Times { claim, source: OURS, origin, system: HTTP2, rivals, value, unit };
    let text = versions(cells, origin, |one| Some(one.processor_us), "us of the proxy");
    times.decide(cells).aspect().saying(text).because(
        &[Ruling::Holds],
        "Requests that arrive together are read at once, and pages that are ready together are sent at once. Every page is new \
         here, so most of its time is the request to the origin, which is the same for both.",
    )
}

/// Returns the mean of `value` for both versions of HTTP, as a sentence.
fn versions(cells: &[CellResult], origin: &str, value: Value, unit: &str) -> String {
    match (mean(cells, (origin, HTTP2), value), mean(cells, (origin, LARDER), value)) {
        (Some(two), Some(one)) => {
            format!("On the longest list, HTTP/2: {two:.0} {unit}; HTTP/1.1: {one:.0}.")
        }
        _ => String::new(),
    }
}

/// Decides the seed report's own comparison.
fn best_known(cells: &[CellResult], cores: usize) -> Finding {
    let threads = (cores + MORE_THREADS).min(MOST_THREADS);
    let claim = format!(
        "With {MOST} in flight and a far origin, at least 3.2 times the pages a second of asyncio with blocking fetches in its default \
         executor"
    );
    let source = seed(
        "The throughput of our server is about 3X better than asyncio, 128 requests per/sec compared to 40 requests/sec when using 64 \
         threads (Figure 6).",
    );
    let (value, unit, rivals): (Value, _, _) = (throughput, "times its pages a second", &[(EXECUTOR, 3.2)]);
    let times = Times { claim, source, origin: "far", system: LARDER, rivals, value, unit };
    times.decide(cells).saying(limits(cells, cores, "far", &[EXECUTOR])).because(
        &[Ruling::Holds],
        format!(
            "The default executor has four threads more than the machine has cores, {threads} here. These limit its requests in \
             flight, independent of the number of places. The advantage is over this default, not over asyncio."
        ),
    )
}

fn far(cells: &[CellResult], cores: usize) -> Finding {
    let away = DISTANCES.iter().find(|(known, _)| *known == "far").map_or(0, |(_, away)| *away);
    let rivals = [THREADS, AIOHTTP, HTTPX];
    let claim = format!(
        "With {MOST} in flight and a far origin, at least 1.1 times the pages a second of the programs of asyncio with as many places"
    );
    let ceiling = MOST as f64 * 1e3 / away.max(1) as f64;
    let rivals_at = rivals.map(|rival| (rival, 1.1));
    let rate =
        Times { claim, origin: "far", ..Times::near(&rivals_at, throughput, "times their pages a second") };
    rate.decide(cells).saying(limits(cells, cores, "far", &rivals)).because(
        &[Ruling::Fails, Ruling::Depends],
        format!(
            "{MOST} places and {away} ms to the origin allow at most {ceiling:.0} pages a second for any program. A program that \
             comes near this rate is limited by its places, like the proxy."
        ),
    )
}

fn near(cells: &[CellResult], cores: usize) -> Finding {
    let claim = format!(
        "With {MOST} in flight and a near origin, at least 2 times the pages a second of each program of asyncio, and 8 times those of \
         aiohttp"
    );
    let rate = Times { claim, ..Times::near(&NEAR, throughput, "times their pages a second") };
    rate.decide(cells).saying(limits(cells, cores, "near", &NEAR.map(|(rival, _)| rival))).because(
        &[Ruling::Fails, Ruling::Depends],
        "The origin and the clients share the machine's cores with the proxy.",
    )
}

fn throughput(one: &CellResult) -> Option<f64> {
    Some(one.throughput())
}

fn work(cells: &[CellResult]) -> Finding {
    let claim = "CPU time for a page is at most half of that of each program of asyncio, and a tenth of that of aiohttp".to_owned();
    let value: Value = |one| Some(1e6 / one.processor_us);
    let less = Times { claim, ..Times::near(&LESS_WORK, value, "times less CPU time") };
    let text = means(cells, |one| Some(one.processor_us), "us of CPU time for a page (user and system)");
    less.decide(cells).aspect().saying(text).because(
        &[Ruling::Fails, Ruling::Depends],
        "The proxy does more for a page than a client: it reads a request, sends one, receives the page, stores it, and \
         forwards it, over two connections instead of one. Most of this is work of the kernel.",
    )
}

fn memory(cells: &[CellResult]) -> Finding {
    let claim =
        "The proxy takes less memory at its peak than each program of asyncio, though it stores all pages"
            .to_owned();
    let value: Value = |one| Some(1.0 / one.peak?);
    let rivals = RIVALS.map(|(rival, _)| (rival, 1.0));
    let less = Times { claim, ..Times::near(&rivals, value, "times less memory") };
    let text = means(cells, |one| Some(one.peak? / f64::from(1 << 20)), "MiB");
    less.decide(cells).saying(text).because(
        &[Ruling::Fails, Ruling::Depends],
        "The proxy keeps the pages that the programs forget, and has threads with buffers for many more connections.",
    )
}

fn tail(cells: &[CellResult]) -> Finding {
    let claim = format!(
        "With {MOST} in flight and a near origin, the 99th percentile of page times is at most half of that with each program of asyncio"
    );
    let value: Value = |one| Some(1.0 / one.p99_ms?);
    let rivals = RIVALS.map(|(rival, _)| (rival, 2.0));
    let faster = Times { claim, ..Times::near(&rivals, value, "times as fast at the 99th percentile") };
    faster.decide(cells).aspect().saying(means(cells, |one| one.p99_ms, "ms"))
}

fn stall(cells: &[CellResult]) -> Finding {
    let claim =
        "At overload, the slowest page of a near origin takes no longer than with each program of asyncio"
            .to_owned();
    let value: Value = |one| Some(1.0 / one.slowest_ms?);
    let rivals = RIVALS.map(|(rival, _)| (rival, 1.0));
    let faster = Times { claim, ..Times::near(&rivals, value, "times as fast at the slowest page") };
    faster.decide(cells).aspect().saying(means(cells, |one| one.slowest_ms, "ms"))
}

/// Decides whether pages that are stored already make the others no slower.
fn half_full(cells: &[CellResult]) -> Finding {
    let source = seed(
        "A server with a partial filled cache will certainly handle more requests/sec than a server with no cache or one with an empty \
         cache",
    );
    let mut samples = Samples::default();
    for (origin, _) in DISTANCES {
        for half in cells.iter().filter(|one| one.cell.system == HALF && one.cell.origin == origin) {
            let Cell { urls, workers, repetition, .. } = half.cell;
            let empty = find(cells, LARDER, origin, Some(urls), workers);
            let same = empty.into_iter().find(|one| one.cell.repetition == repetition);
            let ratio = same.map(|empty| (repetition, half.throughput() / empty.throughput()));
            samples.extend(&format!("{origin} origin, {urls} URLs, {workers} workers"), ratio);
        }
    }
    let claim = "A cache that has half of the pages serves more pages a second than an empty one";
    let kind = ClaimKind::DependsOn("origin");
    Finding::sampled(claim, source, kind, (samples, Bound::Above(1.0)), (1.0, "times the pages a second"))
        .saying("Half of the pages were requested before. The same requests go to both.")
}

impl<'a> Times<'a> {
    /// Returns this report's claim, yet without words, that the proxy has a number of times the value of each of `rivals`
    /// with a near origin.
    fn near(rivals: &'a [(&'a str, f64)], value: Value, unit: &'static str) -> Self {
        Self { claim: String::new(), source: OURS, origin: "near", system: LARDER, rivals, value, unit }
    }

    /// Decides the claim from ratios by list, with each rival and number of URLs as a condition. With several rivals,
    /// values are multiples of the claimed ones.
    fn decide(self, cells: &[CellResult]) -> Finding {
        let Self { claim, source, origin, system, rivals, value, unit } = self;
        let mut samples = Samples::default();
        let is_one = rivals.len() == 1;
        for &(rival, times) in rivals {
            for urls in URLS.into_iter().chain([super::MANY]) {
                let others = find(cells, rival, origin, Some(urls), MOST);
                let ratio = |one: &&CellResult| {
                    let other = others.iter().find(|other| other.cell.repetition == one.cell.repetition)?;
                    let ratio = value(one)? / value(other)?;
                    Some((one.cell.repetition, if is_one { ratio } else { ratio / times }))
                };
                let ours = find(cells, system, origin, Some(urls), MOST);
                let name = if is_one { format!("{urls} URLs") } else { format!("{rival}, {urls} URLs") };
                samples.add(&name, ours.iter().filter_map(ratio));
            }
        }
        let (least, kind) = match rivals {
            [(_, times)] => (*times, ClaimKind::DependsOn("number of URLs")),
            _ => (1.0, ClaimKind::DependsOn("program and number of URLs")),
        };
        let unit = if is_one { unit } else { "times what was claimed" };
        Finding::sampled(claim, source, kind, (samples, Bound::Above(least)), (1.0, unit))
    }
}

/// Returns the means of `value` for all programs on near pages, as a sentence.
fn means(cells: &[CellResult], value: Value, unit: &str) -> String {
    let of = |(system, name): (&str, &str)| {
        Some(format!("{:.1} of {name}", mean(cells, ("near", system), value)?))
    };
    let all: Vec<_> = [(LARDER, "the proxy")].into_iter().chain(RIVALS).filter_map(of).collect();
    if all.is_empty() { String::new() } else { format!("In {unit}: {}.", all.join("; ")) }
}

/// Returns the mean over the longest list that a program was measured with.
fn mean(cells: &[CellResult], (origin, system): (&str, &str), value: Value) -> Option<f64> {
    let all = find(cells, system, origin, None, MOST);
    let most = all.iter().map(|one| one.cell.urls).max()?;
    let those = all.iter().filter(|one| one.cell.urls == most).filter_map(|one| value(one));
    Interval::of(&those.collect::<Vec<_>>()).map(|interval| interval.mean)
}

/// Returns the limiting resources of the proxy and its rivals on the longest list, as a sentence.
fn limits(cells: &[CellResult], cores: usize, origin: &str, rivals: &[&str]) -> String {
    let of = |system: &&str| {
        let rate = mean(cells, (origin, system), throughput)?;
        let limit = limit(cells, cores, (origin, system), rate)?;
        let name = RIVALS.iter().find(|(rival, _)| rival == system).map_or("the proxy", |(_, name)| name);
        Some(format!("{name} fetches {rate:.0} pages a second, limited by {limit}"))
    };
    let all: Vec<_> = std::iter::once(&LARDER).chain(rivals).filter_map(of).collect();
    if all.len() > 1 { format!("On the longest list, {}.", all.join("; ")) } else { String::new() }
}

/// Returns the limiting resource of a program at a rate: the first that is nearly fully used.
fn limit(
    cells: &[CellResult],
    cores: usize,
    (origin, system): (&str, &str),
    rate: f64,
) -> Option<&'static str> {
    let away = DISTANCES.iter().find(|(known, _)| *known == origin).map(|(_, away)| *away)?;
    let seconds = |value: Value| Some(mean(cells, (origin, system), value)? * rate / 1e6);
    let own = seconds(|one| Some(one.processor_us))?;
    let origins = seconds(|one| Some(one.origin_us))?;
    let all = own + origins + seconds(|one| Some(one.driver_us.unwrap_or(0.0)))?;
    let round_trips = rate * away as f64 / 1e3;
    let threads = (cores + MORE_THREADS).min(MOST_THREADS) as f64;
    let is_python = !is_larder(system);
    Some(match () {
        () if system == EXECUTOR && round_trips >= threads * FULL => "the threads of its executor",
        () if round_trips >= PLACES as f64 * FULL => "its places",
        () if is_python && own >= FULL => "the one core that its interpreter can use",
        () if origins >= FULL => "the origin, which has one thread",
        () if all >= cores as f64 * FULL => "the machine's cores, which origin and clients share",
        () => "no measured part: none is used to the full",
    })
}

fn find<'a>(
    cells: &'a [CellResult],
    system: &str,
    origin: &str,
    urls: Option<u32>,
    workers: usize,
) -> Vec<&'a CellResult> {
    let is_it = |measured: &&CellResult| {
        let cell = &measured.cell;
        cell.system == system
            && cell.origin == origin
            && cell.workers == workers
            && urls.is_none_or(|urls| urls == cell.urls)
    };
    cells.iter().filter(is_it).collect()
}

/// Returns the throughput per worker in relation to that of a single worker, of cells with `workers`, with the
/// repetition.
pub(super) fn efficiencies(
    cells: &[CellResult],
    system: &str,
    origin: &str,
    urls: Option<u32>,
    workers: usize,
) -> Vec<(u64, f64)> {
    let alone = find(cells, system, origin, None, 1);
    let alone: Vec<f64> = alone.iter().map(|measured| measured.throughput()).collect();
    let Some(alone) = Interval::of(&alone) else { return Vec::new() };
    let many = find(cells, system, origin, urls, workers);
    let each = |one: &&CellResult| (one.cell.repetition, one.throughput() / workers as f64 / alone.mean);
    many.iter().map(each).collect()
}

/// Returns the number of pages for the comparison of workers: the largest of those with the most measurements.
fn longest(cells: &[CellResult], workers: usize) -> Option<u32> {
    let own = find(cells, LARDER, "far", None, workers);
    let repetitions = |urls: u32| own.iter().filter(|measured| measured.cell.urls == urls).count();
    own.iter().map(|measured| measured.cell.urls).max_by_key(|&urls| (repetitions(urls), urls))
}

/// Decides whether each further worker adds more than the first has.
fn slope(cells: &[CellResult]) -> Finding {
    let speedups = |workers: usize| -> Vec<(u64, f64)> {
        let Some(urls) = longest(cells, workers) else { return Vec::new() };
        let efficiencies = efficiencies(cells, LARDER, "far", Some(urls), workers);
        efficiencies.into_iter().map(|(repetition, each)| (repetition, each * workers as f64)).collect()
    };
    let mut samples = Samples::default();
    for pair in WORKERS[..5].windows(2) {
        let (small, large) = (speedups(pair[0]), speedups(pair[1]));
        let slope = |(repetition, speedup): &(u64, f64)| {
            let (_, other) = small.iter().find(|(other, _)| other == repetition)?;
            Some((*repetition, (speedup - other) / (pair[1] - pair[0]) as f64))
        };
        samples.add(&format!("from {} to {} workers", pair[0], pair[1]), large.iter().filter_map(slope));
    }
    let claim = "On a far origin, each further worker adds more than the pages a second of one worker, up to 16 workers";
    let source = seed(
        "Speedup of our proxy server is quite good, with a slope > 1 for all input sizes until 16 threads in the pool (Figure 4).",
    );
    let kind = ClaimKind::DependsOn("number of workers");
    Finding::sampled(claim, source, kind, (samples, Bound::Above(1.0)), (1.0, "times one worker's pages a second"))
        .because(
            &[Ruling::Fails, Ruling::Depends, Ruling::Open],
            "A worker waits for the origin, so twice as many workers have at most twice as many answers. A slope above 1 needs \
             something that the first worker pays for all: the seed report's first worker also opened the connections.",
        )
}

/// Shows that a worker costs nothing here.
fn efficiency(cells: &[CellResult]) -> Finding {
    let of = |workers: usize| {
        let values = efficiencies(cells, LARDER, "far", Some(longest(cells, workers)?), workers);
        let values: Vec<f64> = values.into_iter().map(|(_, value)| value).collect();
        Some((workers, Interval::of(&values)?.mean))
    };
    let all: Vec<(usize, f64)> = [2, 4, 8, 16, 32].into_iter().filter_map(of).collect();
    let short = possible(URLS[0], 32);
    let claim = "Efficiency is at least 0.9 from 2 to 32 workers on a far origin";
    let why = "A worker is a place in a queue, not a thread, so more workers have no cost.";
    let is_so = (!all.is_empty()).then(|| all.iter().all(|(_, mean)| *mean >= 0.9));
    let told: Vec<_> =
        all.iter().map(|(workers, mean)| format!("{mean:.2} with {workers} workers")).collect();
    let finding = Finding::given(claim, OURS, why, is_so);
    let finding = if told.is_empty() { finding } else { finding.with_effect(told.join(", ")) };
    finding.saying(format!(
        "Efficiency is the throughput of each worker relative to that of a single worker, on the longest list for each number of \
         workers. In the last round, some places are empty, which limits it: with {} URLs and 32 workers, no program can exceed \
         {short:.2}.",
        URLS[0]
    ))
}

/// Decides the seed report's observation on asyncio.
fn efficiency_of_asyncio(cells: &[CellResult]) -> Finding {
    let of = |workers| efficiencies(cells, EXECUTOR, "far", Some(URLS[0]), workers);
    let (few, many) = (of(8), of(MOST));
    let few: Vec<f64> = few.into_iter().map(|(_, efficiency)| efficiency).collect();
    let few = Interval::of(&few).map(|few| few.mean);
    let ratios = many.into_iter().filter_map(|(repetition, many)| Some((repetition, many / few?)));
    let mut samples = Samples::default();
    samples.add("64 places", ratios);
    let claim = format!(
        "The efficiency of asyncio's default executor falls by half or more from 8 to {MOST} places, on a far origin"
    );
    let source = seed(
        "Efficiency of asyncio drops sharply as the number of threads increases past 8, for all input sizes.",
    );
    let kind = ClaimKind::OnAverage;
    Finding::sampled(claim, source, kind, (samples, Bound::Below(0.5)), (100.0, "% of that with 8 places"))
        .because(
            &[Ruling::Holds],
            "The executor has four threads more than there are cores, whatever the number of places.",
        )
}

/// Returns the maximum possible efficiency: used places over all places of all rounds.
pub(super) fn possible(urls: u32, workers: usize) -> f64 {
    let rounds = (urls as usize).div_ceil(workers);
    f64::from(urls) / (rounds * workers) as f64
}

/// Decides the claim that twice the pages with twice the workers take the same time.
fn weak_scaling(cells: &[CellResult]) -> Finding {
    let mut samples = Samples::default();
    for (urls, workers) in [(164, 8), (164, 16), (164, 32), (328, 16), (328, 32), (656, 32)] {
        let small = find(cells, LARDER, "far", Some(urls), workers);
        let large = find(cells, LARDER, "far", Some(urls * 2), workers * 2);
        let ratio = |one: &&CellResult| {
            let other = large.iter().find(|other| other.cell.repetition == one.cell.repetition)?;
            Some((one.cell.repetition, (other.seconds / one.seconds - 1.0).abs()))
        };
        samples.add(&format!("{urls} URLs and {workers} workers"), small.iter().filter_map(ratio));
    }
    let claim = "Twice the pages with twice the workers take the same time, within 5% (weak scaling), on a far origin";
    let source = seed("However, our server nearly exhibits weak scalability.");
    Finding::sampled(claim, source, ClaimKind::Always, (samples, Bound::Below(0.05)), (100.0, "% apart")).saying(
        "Both have the same number of rounds, and connections are open before the measurement. They differ in the processor's \
         work for twice the pages, and in the number of empty places in the last round.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use crate::experiments::parallel::Cell;

    fn measured(system: &str, urls: u32, workers: usize, repetition: u64, seconds: f64) -> CellResult {
        let (system, origin) = (system.to_owned(), "far".to_owned());
        let cell = Cell { system, origin, urls, workers, repetition };
        let (peak, p99_ms, slowest_ms) = (Some(1e6), Some(60.0), Some(70.0));
        CellResult {
            cell,
            seconds,
            processor_us: 50.0,
            origin_us: 10.0,
            driver_us: None,
            peak,
            p99_ms,
            slowest_ms,
        }
    }

    #[test]
    fn no_more_than_full_rounds_is_possible() {
        assert_eq!((possible(164, 1), possible(128, 64)), (1.0, 1.0));
        assert!((possible(164, 32) - 164.0 / 192.0).abs() < 1e-12);
    }

    #[test]
    fn workers_are_judged_by_what_was_measured_most() {
        let runs = [(40, 2, 0), (40, 2, 1), (80, 2, 0), (80, 2, 1), (1_324, 2, 0)];
        let cells: Vec<_> =
            runs.map(|(urls, workers, at)| measured(LARDER, urls, workers, at, 1.0)).into_iter().collect();
        assert_eq!((longest(&cells, 2), longest(&cells, 4)), (Some(80), None));
    }

    #[test]
    fn the_limit_of_a_program_is_the_part_in_full_use() {
        // 64 places and 50 ms allow 1,280 pages a second.
        let limit_of = |system: &str, seconds: f64| {
            let cells = [measured(system, 1_324, 64, 0, seconds)];
            limit(&cells, 2, ("far", system), 1_324.0 / seconds).unwrap()
        };
        assert_eq!(limit_of(LARDER, 1.1), "its places");
        assert_eq!(limit_of(EXECUTOR, 11.1), "the threads of its executor");
        assert_eq!(limit_of(AIOHTTP, 5.0), "no measured part: none is used to the full");
        let mut busy = measured(AIOHTTP, 1_324, 64, 0, 1_324.0 / 900.0);
        busy.processor_us = 1_050.0;
        assert_eq!(
            limit(&[busy], 2, ("far", AIOHTTP), 900.0),
            Some("the one core that its interpreter can use")
        );
    }

    #[test]
    fn a_claim_of_so_many_times_is_judged_pair_by_pair() {
        let mut cells = Vec::new();
        for (at, seconds) in [(0, 1.0), (1, 1.1), (2, 0.9)] {
            cells.push(measured(LARDER, 164, 64, at, seconds));
            cells.push(measured(EXECUTOR, 164, 64, at, seconds * (4.0 + at as f64 / 50.0)));
        }
        let findings = claims(&cells, None);
        let decided = findings[0].decide(0.05);
        assert_eq!(decided.verdict, Verdict::Holds);
        assert!(
            decided.effect.starts_with("+4.02 times its pages a second (95% between "),
            "{}",
            decided.effect
        );
    }
}
