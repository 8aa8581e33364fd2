//! Whether a cache reduces latency: against the cost of answers, the number of clients, and the number of earlier
//! requests.

use super::super::cell::CellResult;
use super::super::conditions::Cell;
use super::super::conditions::Way;
use super::super::plan::{CLIENTS, COST_US, LATENCY, SHARES};
use super::super::seed;
use super::super::simulated::Growth;
use super::{
    Bound, Conditions, LARDER, PERCENT, POINTS, Ruling, SAME, average, distinct, mean, paired, slower_by,
    those,
};
use crate::ClaimKind;
use crate::findings::Finding;

pub(super) fn claims(cells: &[CellResult], growth: &[Growth]) -> Vec<Finding> {
    vec![
        never_slower(cells, Way::Always),
        never_slower(cells, Way::Push),
        no_gain(cells),
        crowded(cells),
        hits_grow(growth),
        latency_stays(cells),
        beside(cells),
        stale(cells),
    ]
}

/// Returns the share by which `way` is slower than no cache, by the cost of answers.
fn by_cost(cells: &[CellResult], way: Way) -> Conditions {
    beside_none(cells, way, LATENCY, |cell| cell.endpoint.cost_us, endpoint)
}

/// Returns the same by the number of clients.
fn by_clients(cells: &[CellResult], way: Way) -> Conditions {
    beside_none(cells, way, CLIENTS, |cell| cell.clients, |clients| format!("{clients} clients"))
}

/// Returns the same by the share of writes.
fn by_writes(cells: &[CellResult], way: Way) -> Conditions {
    beside_none(cells, way, SHARES, |cell| cell.written, |written| format!("{written}% writes"))
}

fn beside_none<T: Copy + Ord>(
    cells: &[CellResult],
    way: Way,
    part: &str,
    field: fn(&Cell) -> T,
    name: fn(T) -> String,
) -> Conditions {
    slower_by(cells, part, field, name, |cell| cell.way == way, |cell| cell.way == Way::Straight)
}

fn endpoint(cost_us: u32) -> String {
    format!("{} ms", f64::from(cost_us) / 1e3)
}

fn percent(share: f64) -> String {
    format!("{:+.0}%", share * 100.0)
}

fn never_slower(cells: &[CellResult], way: Way) -> Finding {
    let mut conditions = Conditions::default();
    let all = by_cost(cells, way);
    let dear =
        distinct(&those(cells, LATENCY, |cell| cell.endpoint.cost_us > 1_000), |cell| cell.endpoint.cost_us);
    let dear: Vec<_> = dear.into_iter().map(endpoint).collect();
    let (many, written) = (by_clients(cells, way), by_writes(cells, way));
    conditions.0.extend(written.0.iter().cloned());
    conditions.0.extend(all.0.iter().filter(|(name, _)| dear.contains(name)).cloned());
    let text = format!(
        "Mean time of all requests, including writes, compared with the services alone. With the seed report's 20% writes: {}. \
         With 2 ms endpoints and fewer writes: {}. These are runs of one client; with more clients: {}.{}",
        all.means(percent),
        written.means(percent),
        many.means(percent),
        crowd(cells, way)
    );
    let claim = format!(
        "With a cache ({}), one client never waits longer for answers of 2 ms and more than without one",
        way.name()
    );
    conditions.decide_as(ClaimKind::Always, claim, LARDER, Bound::Below(0.0), PERCENT, text).because(
        &[Ruling::Fails],
        "After each write, the services make a pool of answers again. The remaining hits have to save the time of one or two \
         more hops.",
    )
}

/// Returns the parts of the time with the largest number of clients.
fn crowd(cells: &[CellResult], way: Way) -> String {
    let all = those(cells, CLIENTS, |_| true);
    let Some(most) = distinct(&all, |cell| cell.clients).pop_last() else { return String::new() };
    let of = |way| those(cells, CLIENTS, |cell| cell.way == way && cell.clients == most);
    let busy = |way| {
        let of = of(way);
        let each = average(&of, |measured| measured.proxies_us + measured.services_us);
        let rate = average(&of, |measured| measured.cell.requests as f64 / measured.seconds);
        (each, rate)
    };
    let ((none, none_rate), (with, with_rate)) = (busy(Way::Straight), busy(way));
    format!(
        " With {most} clients, the services, the gateway and the cache take {with:.0} us of CPU time for a request at \
         {with_rate:.0} requests a second; the services alone take {none:.0} us at {none_rate:.0} requests a second. The clients \
         run on the same machine."
    )
}

/// Decides the report's conclusion.
fn no_gain(cells: &[CellResult]) -> Finding {
    let conditions = by_cost(cells, Way::Always);
    let of = those(cells, LATENCY, |cell| cell.way == Way::Always && cell.endpoint.cost_us == COST_US);
    let (hits, unasked) =
        (average(&of, |measured| measured.gets.hit_ratio), average(&of, |measured| measured.gets.unasked));
    let text = format!(
        "The value is the additional time of requests with a cache, by the cost of an answer. {:.0}% of the GETs are hits, but \
         for only {:.0}% of the GETs the services do no work.",
        hits * 100.0,
        unasked * 100.0,
    );
    let source = seed(
        "We can surely say that proxy caching does not increase the performance of the Employee Evolution Tree.",
    );
    conditions.decide("A proxy cache does not make requests faster", source, Bound::Above(0.0), PERCENT, text).because(
        &[Ruling::Holds, Ruling::Depends],
        "A write empties the pool of many stored answers, and the services make the same answers again. Such a hit saves bytes, \
         but no time. The other hits have to save the time of two more hops, so the cost of an answer decides.",
    )
}

fn crowded(cells: &[CellResult]) -> Finding {
    let conditions = by_clients(cells, Way::Always);
    let text = format!(
        "The additional time of requests with a validating cache: {}. In the seed report, latency grew equally for all.",
        conditions.means(percent)
    );
    let claim = "With more clients, the services alone remain faster than with the cache";
    let source = seed(
        "We can also see that the response latency of the backend increases similarly, but for each amount of threads performs better \
         than the cache.",
    );
    conditions.decide(claim, source, Bound::Above(0.0), PERCENT, text)
}

/// Decides whether hits increase during a run.
fn hits_grow(growth: &[Growth]) -> Finding {
    let mut conditions = Conditions::default();
    conditions.add("all", growth.iter().map(|one| (one.repetition, one.all - one.first)).collect());
    let text = "All GETs of a list of requests, compared with the first tenth. Simulated with room for all answers: live hit ratios \
         are those of the simulation, in a validating cache and in one with push."
        .to_owned();
    let claim = "The hit ratio grows with the number of requests";
    let source = seed("the amount of responses served from the cache increases overtime.");
    conditions
        .decide(claim, source, Bound::Above(0.0), POINTS, text)
        .because(&[Ruling::Holds], "The first request for each endpoint is a miss.")
}

/// Decides whether the mean time stays constant while hits increase.
fn latency_stays(cells: &[CellResult]) -> Finding {
    let of = those(cells, LATENCY, |cell| cell.way == Way::Always && cell.endpoint.cost_us == COST_US);
    let change = |measured: &&CellResult| {
        let (first, last) = (measured.course.first()?, measured.course.last()?);
        let change = last.mean_ms / first.mean_ms - 1.0;
        (first.requests < last.requests).then_some((measured.cell.repetition, change))
    };
    let mut conditions = Conditions::default();
    conditions.add("a validating cache", of.iter().filter_map(change).collect());
    let unasked =
        |at: fn(&CellResult) -> Option<f64>| mean(&of.iter().filter_map(|one| at(one)).collect::<Vec<_>>());
    let text = format!(
        "The value is the mean time of all requests over that of the first requests, minus 1; the claim allows {:.0}% less. GETs \
         for which the services do no work grow from {:.0}% to {:.0}%.",
        SAME * 100.0,
        unasked(|one| Some(one.course.first()?.gets.unasked)) * 100.0,
        unasked(|one| Some(one.course.last()?.gets.unasked)) * 100.0,
    );
    let claim = "The mean time of requests does not decrease with the number of requests";
    let source = seed("Here we can see that the latency does not drop as the amount of requests increase.");
    conditions.decide(claim, source, Bound::Above(-SAME), PERCENT, text)
}

/// Decides the cost of the gateway without a cache.
fn beside(cells: &[CellResult]) -> Finding {
    let conditions = by_cost(cells, Way::Beside);
    let of = those(cells, LATENCY, |cell| cell.way == Way::Beside && cell.endpoint.cost_us == COST_US);
    let straight =
        those(cells, LATENCY, |cell| cell.way == Way::Straight && cell.endpoint.cost_us == COST_US);
    let beyond = paired(&of, &straight, |one, other| (one.all.mean - other.all.mean) * 1e3);
    let text = format!(
        "Clients without a cache send no tags, so each request goes through the gateway to the services: {}. With 2 ms \
         endpoints, the gateway adds {:.0} us to a request.",
        conditions.means(percent),
        mean(&beyond.iter().map(|(_, beyond)| *beyond).collect::<Vec<_>>())
    );
    let claim = "A gateway without a cache adds at most a tenth to an answer's time";
    conditions.decide(claim, LARDER, Bound::Below(0.1), PERCENT, text)
}

fn stale(cells: &[CellResult]) -> Finding {
    let reads: u64 = cells.iter().map(|measured| measured.read_count).sum();
    let stale: u64 = cells.iter().map(|measured| measured.stale).sum();
    let claim = "No answer is older than a write that was acknowledged before the request";
    let found = Finding::counted(claim, LARDER, ClaimKind::Always, (reads.saturating_sub(stale), reads));
    let found = if reads > 0 {
        found.with_effect(format!("{stale} of {reads} answers to GETs are older"))
    } else {
        found
    };
    found.saying(
        "Answers contain the versions of all their data, and clients compare these with the acknowledged writes. All answers of \
         all runs are cases.",
    )
}
