//! Claims about many pages at once, and their verdicts.

use super::{
    AIOHTTP, CellResult, DISTANCES, EXECUTOR, HTTP2, LARDER, PLACES, REPORT, RIVALS, URLS, is_larder,
};
use crate::Host;
use crate::experiments::LARDER as OURS;
use crate::findings::{Finding, Ruling};
use crate::{Bound, ClaimKind, Interval, Samples};

/// The number of workers at which the proxy and rivals are compared: the largest.
const MOST: usize = 64;
/// The threads of Python's default executor: the number of cores plus this, up to a maximum.
const MORE_THREADS: usize = 4;
const MOST_THREADS: usize = 32;
/// The utilisation from which a resource counts as the limit of a program.
const FULL: f64 = 0.85;

/// The compared value of two programs: larger is better.
type Value = fn(&CellResult) -> Option<f64>;

/// A claim that a system has a number of times the value of a rival.
struct Times<'a> {
    claim: String,
    source: &'static str,
    origin: &'a str,
    system: &'a str,
    rival: &'a str,
    times: f64,
    value: Value,
    unit: &'static str,
}

pub(super) fn claims(cells: &[CellResult], host: Option<&Host>) -> Vec<Finding> {
    let cores = host.map_or(1, |host| host.cores);
    let mut found = vec![seed(cells, cores)];
    for (rival, name) in RIVALS.into_iter().filter(|(rival, _)| *rival != EXECUTOR) {
        found.push(rate(cells, cores, ("far", 1.1), (rival, name)));
    }
    for (rival, name) in RIVALS {
        let times = if rival == AIOHTTP { 8.0 } else { 2.0 };
        found.push(rate(cells, cores, ("near", times), (rival, name)));
    }
    found.extend(RIVALS.map(|rival| cost(cells, rival)));
    found.extend(
        RIVALS.into_iter().flat_map(|rival| [memory(cells, rival), tail(cells, rival), stall(cells, rival)]),
    );
    found.extend(DISTANCES.map(|(origin, _)| streams(cells, origin)));
    found.extend([cost_of_streams(cells), efficiency(cells), weak_scaling(cells)]);
    found
}

/// Compares streams of one connection with as many connections.
fn streams(cells: &[CellResult], origin: &str) -> Finding {
    let claim = format!(
        "{MOST} streams of one HTTP/2 connection fetch at least 0.95 times the pages a second of {MOST} HTTP/1.1 connections, from a \
         {origin} origin"
    );
    let unit = "times the pages a second";
    let times = Times {
        claim,
        source: OURS,
        origin,
        system: HTTP2,
        rival: LARDER,
        times: 0.95,
        value: throughput,
        unit,
    };
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
    let (origin, unit) = ("near", "times less CPU time");
    let times = Times { claim, source: OURS, origin, system: HTTP2, rival: LARDER, times: 1.0, value, unit };
    times.decide(cells).saying(versions(cells, origin, |one| Some(one.processor_us), "us of the proxy")).because(
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
fn seed(cells: &[CellResult], cores: usize) -> Finding {
    let (rival, threads) = (EXECUTOR, (cores + MORE_THREADS).min(MOST_THREADS));
    let claim = format!(
        "With {MOST} in flight and a far origin, at least 3.2 times the pages a second of asyncio with blocking fetches in its default \
         executor"
    );
    let times = Times {
        claim,
        source: REPORT,
        origin: "far",
        system: LARDER,
        rival,
        times: 3.2,
        value: throughput,
        unit: "times its pages a second",
    };
    times.decide(cells).saying(limits(cells, cores, ("far", rival))).because(
        &[Ruling::Holds],
        format!(
            "The default executor has four threads more than the machine has cores, {threads} here. These limit its requests in \
             flight, independent of the number of places. The advantage is over this default, not over asyncio."
        ),
    )
}

fn rate(
    cells: &[CellResult],
    cores: usize,
    (origin, times): (&'static str, f64),
    (rival, name): (&'static str, &str),
) -> Finding {
    let away = DISTANCES.iter().find(|(known, _)| *known == origin).map_or(0, |(_, away)| *away);
    let claim = format!(
        "With {MOST} in flight and a {origin} origin, at least {times} times the pages a second of {name}"
    );
    let decided = Times {
        claim,
        source: OURS,
        origin,
        system: LARDER,
        rival,
        times,
        value: throughput,
        unit: "times its pages a second",
    };
    let ceiling = MOST as f64 * 1e3 / away.max(1) as f64;
    decided.decide(cells).saying(limits(cells, cores, (origin, rival))).because(
        &[Ruling::Fails],
        match origin {
            "far" => format!(
                "{MOST} places and {away} ms to the origin allow at most {ceiling:.0} pages a second for any program. Both \
                 programs come near this rate, so the places limit both."
            ),
            _ => "The origin and the clients share the machine's cores with the proxy.".to_owned(),
        },
    )
}

fn throughput(one: &CellResult) -> Option<f64> {
    Some(one.throughput())
}

fn cost(cells: &[CellResult], (rival, name): (&'static str, &str)) -> Finding {
    let (times, part) = if rival == AIOHTTP { (10.0, "a tenth") } else { (2.0, "half") };
    let claim = format!("CPU time for a page is at most {part} of that of {name}");
    let value: Value = |one| Some(1e6 / one.processor_us);
    let decided = Times::near(claim, rival, times, value, "times less CPU time").decide(cells);
    decided.saying(work(cells, rival)).because(
        &[Ruling::Fails],
        "The proxy does more for a page than a client: it reads a request, sends one, receives the page, stores it, and \
         forwards it, over two connections instead of one. Most of this is work of the kernel.",
    )
}

fn memory(cells: &[CellResult], (rival, name): (&'static str, &str)) -> Finding {
    let claim = format!("The proxy takes less memory than {name}, though it stores all pages");
    let value: Value = |one| Some(1.0 / one.resident?);
    let decided = Times::near(claim, rival, 1.0, value, "times less memory").decide(cells);
    decided.saying(means(cells, rival, |one| Some(one.resident? / f64::from(1 << 20)), "MiB"))
}

fn tail(cells: &[CellResult], (rival, name): (&'static str, &str)) -> Finding {
    let claim = format!(
        "With {MOST} in flight and a near origin, the 99th percentile of page times is at most half of that with {name}"
    );
    let value: Value = |one| Some(1.0 / one.p99_ms?);
    let decided = Times::near(claim, rival, 2.0, value, "times as fast at the 99th percentile").decide(cells);
    decided.saying(means(cells, rival, |one| one.p99_ms, "ms"))
}

fn stall(cells: &[CellResult], (rival, name): (&'static str, &str)) -> Finding {
    let claim = format!("At overload, the slowest page of a near origin takes no longer than with {name}");
    let value: Value = |one| Some(1.0 / one.slowest_ms?);
    let decided = Times::near(claim, rival, 1.0, value, "times as fast at the slowest page").decide(cells);
    decided.saying(means(cells, rival, |one| one.slowest_ms, "ms"))
}

impl<'a> Times<'a> {
    /// Returns the claim that the proxy has `times` the value of `rival` with a near origin.
    fn near(claim: String, rival: &'a str, times: f64, value: Value, unit: &'static str) -> Self {
        Self { claim, source: OURS, origin: "near", system: LARDER, rival, times, value, unit }
    }

    /// Decides the claim from ratios by list, with each number of URLs as a condition.
    fn decide(self, cells: &[CellResult]) -> Finding {
        let Self { claim, source, origin, system, rival, times, value, unit } = self;
        let mut samples = Samples::default();
        let lists = URLS.into_iter().chain([super::MANY]);
        for urls in lists {
            let others = find(cells, rival, origin, Some(urls), MOST);
            let ratio = |one: &&CellResult| {
                let other = others.iter().find(|other| other.cell.repetition == one.cell.repetition)?;
                Some((one.cell.repetition, value(one)? / value(other)?))
            };
            let ours = find(cells, system, origin, Some(urls), MOST);
            samples.add(&format!("{urls} URLs"), ours.iter().filter_map(ratio));
        }
        let decided = (samples, Bound::Above(times));
        Finding::sampled(claim, source, ClaimKind::DependsOn("number of URLs"), decided, (1.0, unit))
    }
}

/// Returns the mean of `value` for both programs on near pages, as a sentence.
fn means(cells: &[CellResult], rival: &str, value: Value, unit: &str) -> String {
    match (mean(cells, ("near", LARDER), value), mean(cells, ("near", rival), value)) {
        (Some(ours), Some(theirs)) => format!("Proxy: {ours:.1} {unit}; other program: {theirs:.1} {unit}."),
        _ => String::new(),
    }
}

/// Returns the mean over the longest list that a program was measured with.
fn mean(cells: &[CellResult], (origin, system): (&str, &str), value: Value) -> Option<f64> {
    let all = find(cells, system, origin, None, MOST);
    let most = all.iter().map(|one| one.cell.urls).max()?;
    let those = all.iter().filter(|one| one.cell.urls == most).filter_map(|one| value(one));
    Interval::of(&those.collect::<Vec<_>>()).map(|interval| interval.mean)
}

/// Returns the processor time of a page for the proxy and a rival, as a sentence.
fn work(cells: &[CellResult], rival: &str) -> String {
    let cost: Value = |one| Some(one.processor_us);
    match (mean(cells, ("near", LARDER), cost), mean(cells, ("near", rival), cost)) {
        (Some(ours), Some(theirs)) => format!(
            "CPU time for a page (user and system): {ours:.0} us of the proxy, {theirs:.0} us of the other program."
        ),
        _ => String::new(),
    }
}

/// Returns the limiting resources of the proxy and a rival on the longest list, as a sentence.
fn limits(cells: &[CellResult], cores: usize, (origin, rival): (&str, &str)) -> String {
    let of = |system: &str| {
        let rate = mean(cells, (origin, system), throughput)?;
        let limit = limit(cells, cores, (origin, system), rate)?;
        let name = if system == LARDER { "the proxy" } else { "the other program" };
        Some(format!("{name} fetches {rate:.0} pages a second, limited by {limit}"))
    };
    match (of(LARDER), of(rival)) {
        (Some(ours), Some(theirs)) => format!("On the longest list, {ours}; {theirs}."),
        _ => String::new(),
    }
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

fn efficiency(cells: &[CellResult]) -> Finding {
    let mut samples = Samples::default();
    for workers in [2, 4, 8, 16, 32] {
        let Some(urls) = longest(cells, workers) else { continue };
        let values = efficiencies(cells, LARDER, "far", Some(urls), workers);
        samples.add(&format!("{workers} workers and {urls} URLs"), values);
    }
    let short = possible(URLS[0], 32);
    let claim = "Efficiency is at least 0.9 from 2 to 32 workers on a far origin";
    Finding::sampled(claim, OURS, ClaimKind::Always, (samples, Bound::Above(0.9)), (1.0, "of perfect"))
        .saying(format!(
            "Efficiency is the throughput of each worker relative to that of a single worker, on the longest list for each \
             number of workers. In the last round, some places are empty, which limits it: with {} URLs and 32 workers, no \
             program can exceed {short:.2}.",
            URLS[0]
        ))
        .because(&[Ruling::Holds], "A worker is a place in a queue, not a thread, so more workers have no cost.")
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
    Finding::sampled(claim, REPORT, ClaimKind::Always, (samples, Bound::Below(0.05)), (100.0, "% apart")).saying(
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
        let (resident, p99_ms, slowest_ms) = (Some(1e6), Some(60.0), Some(70.0));
        CellResult {
            cell,
            seconds,
            processor_us: 50.0,
            origin_us: 10.0,
            driver_us: None,
            resident,
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
