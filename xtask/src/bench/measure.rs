//! `hits` and `misses`: CPU time per request, in interleaved rounds.

use super::client::Client;
use super::goal::Goal;
use super::load::{self, Script};
use super::origin::{Origin, UNCACHEABLE};
use super::peers::Which;
use super::server::Running;
use super::table::{Cell, Row};
use super::{CONNECTIONS, Object, Options, process};
use anyhow::{Result, bail};
use std::thread::sleep;
use std::time::Duration;

/// The maximum cost of a hit over that of the cheapest peer, and of a miss over that of nginx.
const AS_CHEAP: f64 = 1.0;

/// The maximum number of requests for an object until it comes from the cache, and the pause between them.
const WARMING_TRIES: u32 = 50;
const WARMING_PAUSE: Duration = Duration::from_millis(50);

/// One measurement of one server.
pub(super) struct Sample {
    /// CPU time per request, in microseconds.
    pub(super) cpu: f64,
    pub(super) per_second: f64,
    /// Resident bytes after the load.
    memory: u64,
}

/// The condition on the origin's count while a server is measured.
#[derive(Clone, Copy)]
pub(super) enum Expect {
    Cached,
    Passed,
}

/// A measured server, and its sample of each round.
struct Entrant<'a> {
    server: &'a Running,
    samples: Vec<Sample>,
}

/// Returns the tables of hits, one object after the other, and their goals.
///
/// # Errors
/// If the load cannot be set up. A server that fails is omitted and named in `failures`.
pub(super) fn hits(
    options: &Options,
    servers: &[Running],
    origin: &Origin,
    failures: &mut Vec<String>,
) -> Result<(Vec<Row>, Vec<Goal>)> {
    let (mut rows, mut goals) = (Vec::new(), Vec::new());
    for object in &options.objects {
        let warmed = servers.iter().filter(|server| {
            let result = warm(server, object, origin);
            note(server, object, result, failures).is_some()
        });
        let entrants = warmed.map(|server| Entrant { server, samples: Vec::new() }).collect();
        let entrants = rounds(options, entrants, object, Expect::Cached, origin, failures)?;
        rows.extend(summary(&entrants, object, "x floor", "floor"));
        let peers =
            entrants.iter().filter(|entrant| ![Which::Floor, Which::Larder].contains(&entrant.server.which));
        let what = format!("CPU of a {} hit / the cheapest peer's", object.name);
        goals.extend(goal(what, &entrants, peers.collect()));
    }
    Ok((rows, goals))
}

/// Returns the table of misses, for 1 KiB that must not be stored, and their goal.
///
/// # Errors
/// The same as for [`hits`].
pub(super) fn misses(
    options: &Options,
    servers: &[Running],
    origin: &Origin,
    failures: &mut Vec<String>,
) -> Result<(Vec<Row>, Vec<Goal>)> {
    let object = Object { name: "1k", path: UNCACHEABLE, length: 1024, connections: CONNECTIONS };
    let entrants = servers.iter().map(|server| Entrant { server, samples: Vec::new() }).collect();
    let entrants = rounds(options, entrants, &object, Expect::Passed, origin, failures)?;
    let peers = entrants.iter().filter(|entrant| entrant.server.name == "nginx").collect();
    let goal = goal("CPU of a miss that is not stored / nginx's".to_owned(), &entrants, peers);
    Ok((summary(&entrants, &object, "x nginx", "nginx"), goal.into_iter().collect()))
}

/// Returns the goal that the larder, if it takes part, needs no more CPU time than any of the `peers`: the median of
/// the rounds.
fn goal(what: String, entrants: &[Entrant], peers: Vec<&Entrant>) -> Option<Goal> {
    let own = entrants.iter().find(|entrant| entrant.server.which == Which::Larder)?;
    let ratio = |peer: &Entrant| {
        median(own.samples.iter().zip(&peer.samples).map(|(own, peer)| own.cpu / peer.cpu).collect())
    };
    Some(Goal::new(what, AS_CHEAP, peers.into_iter().map(ratio).fold(f64::NAN, f64::max)))
}

/// Fetches until no more requests reach the origin.
fn warm(server: &Running, object: &Object, origin: &Origin) -> Result<()> {
    let mut client = Client::connect(server.port)?;
    for _ in 0..WARMING_TRIES {
        let before = origin.requests();
        let length = client.get(object.path)?;
        if length != object.length {
            bail!("a body of {length} bytes, not {}", object.length);
        }
        if origin.requests() == before {
            return Ok(());
        }
        sleep(WARMING_PAUSE);
    }
    bail!("asks the origin each time, {WARMING_TRIES} times")
}

/// Runs the rounds, each over every server that has not failed.
fn rounds<'a>(
    options: &Options,
    mut entrants: Vec<Entrant<'a>>,
    object: &Object,
    expect: Expect,
    origin: &Origin,
    failures: &mut Vec<String>,
) -> Result<Vec<Entrant<'a>>> {
    let script = Script::one()?;
    for round in 1..=options.rounds {
        eprintln!("{} round {round} of {}", object.name, options.rounds);
        entrants.retain_mut(|entrant| {
            let result = sample(entrant.server, object, expect, options.duration, origin, &script);
            match note(entrant.server, object, result, failures) {
                Some(sample) => entrant.samples.push(sample),
                None => return false,
            }
            true
        });
    }
    Ok(entrants)
}

/// Returns a success; adds a failure with the server and the object to `failures`.
fn note<T>(server: &Running, object: &Object, result: Result<T>, failures: &mut Vec<String>) -> Option<T> {
    result.map_err(|error| failures.push(format!("{} at {}: {error:#}", server.name, object.name))).ok()
}

/// Measures one server once, and checks that it answered from the expected source.
pub(super) fn sample(
    server: &Running,
    object: &Object,
    expect: Expect,
    duration: Duration,
    origin: &Origin,
    script: &Script,
) -> Result<Sample> {
    let processes = server.processes()?;
    let asked_before = origin.requests();
    let cpu_before = process::cpu_time(&processes)?;
    let load = load::run(script, server.port, object.path, object.connections, duration)?;
    let used = process::cpu_time(&processes)?.saturating_sub(cpu_before);
    check_origin(expect, origin.requests() - asked_before, load.requests)?;
    check_bytes(load.bytes, load.requests, object)?;
    Ok(Sample {
        cpu: used.as_secs_f64() * 1e6 / load.requests as f64,
        per_second: load.requests as f64 / load.elapsed.as_secs_f64(),
        memory: process::resident(&processes)?,
    })
}

/// Checks the origin's count. Cached: it received no requests. Passed: it received each request, and those that were
/// cut off at the end.
fn check_origin(expect: Expect, asked: u64, answered: u64) -> Result<()> {
    match expect {
        Expect::Cached if asked > 0 => bail!("asked the origin {asked} times for what it had stored"),
        Expect::Passed if asked < answered => bail!("asked the origin {asked} times for {answered} requests"),
        _ => Ok(()),
    }
}

/// Checks that the bytes received contain each complete body, and not much more: heads are under 2 KiB. Answers that
/// were cut off at the end are included in the bytes, but not in the requests: at most one for each connection.
fn check_bytes(bytes: u64, requests: u64, object: &Object) -> Result<()> {
    let length = object.length;
    let most = (requests + u64::from(object.connections)) * (length + 2048);
    if bytes < requests * length || bytes > most {
        bail!("{bytes} bytes in {requests} answers of {length} bytes");
    }
    Ok(())
}

/// Returns a row for each entrant, by medians; ratios are to the sample of `base` in the same round.
fn summary(entrants: &[Entrant], object: &Object, ratio_name: &'static str, base: &str) -> Vec<Row> {
    let base = entrants.iter().find(|entrant| entrant.server.name == base);
    entrants
        .iter()
        .filter(|entrant| !entrant.samples.is_empty())
        .map(|entrant| {
            let of = |figure: fn(&Sample) -> f64| median(entrant.samples.iter().map(figure).collect());
            let pairs = base.iter().flat_map(|base| entrant.samples.iter().zip(&base.samples));
            let ratio = median(pairs.map(|(own, base)| own.cpu / base.cpu).collect());
            vec![
                ("size", Cell::word(object.name)),
                ("server", Cell::word(entrant.server.name)),
                ("CPU us/request", Cell::number(of(|sample| sample.cpu), 2)),
                (ratio_name, Cell::number(ratio, 2)),
                ("requests/s", Cell::number(of(|sample| sample.per_second), 0)),
                ("memory MiB", Cell::number(of(|sample| sample.memory as f64) / f64::from(1 << 20), 1)),
            ]
        })
        .collect()
}

/// Returns the percentile `share` of `sorted`; NaN if it is empty.
pub(super) fn percentile(sorted: &[f64], share: f64) -> f64 {
    let rank = (share / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}

/// Returns the middle value, or the mean of the two middle ones; NaN if there are none.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::OBJECTS;
    use super::{Expect, check_bytes, check_origin, median, percentile};

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        for (share, value) in [(0.0, 1.0), (50.0, 50.0), (99.0, 99.0), (99.5, 100.0), (100.0, 100.0)] {
            assert_eq!(percentile(&hundred, share), value, "{share}");
        }
        assert_eq!(percentile(&[7.0], 50.0), 7.0);
        assert!(percentile(&[], 50.0).is_nan());
    }

    #[test]
    fn the_median_is_in_the_middle() {
        for (values, middle) in
            [(vec![3.0], 3.0), (vec![9.0, 1.0, 2.0], 2.0), (vec![4.0, 1.0, 2.0, 9.0], 3.0)]
        {
            assert_eq!(median(values), middle);
        }
        assert!(median(Vec::new()).is_nan());
    }

    #[test]
    fn the_origins_count_tells_hits_from_misses() {
        for (expect, asked, answered, holds) in [
            (Expect::Cached, 0, 1000, true),
            (Expect::Cached, 1, 1000, false),
            (Expect::Passed, 1000, 1000, true),
            (Expect::Passed, 1064, 1000, true),
            (Expect::Passed, 999, 1000, false),
        ] {
            assert_eq!(check_origin(expect, asked, answered).is_ok(), holds, "{asked} of {answered}");
        }
    }

    #[test]
    fn bytes_prove_that_bodies_came_whole() {
        let object = &OBJECTS[0];
        assert!(check_bytes(1000 * 1300, 1000, object).is_ok());
        assert!(check_bytes(1000 * 1000, 1000, object).is_err());
        assert!(check_bytes(1000 * 9000, 1000, object).is_err());
    }
}
