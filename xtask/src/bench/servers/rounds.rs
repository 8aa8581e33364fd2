//! `hits` and `misses`: CPU time per request, in interleaved rounds.

use super::Options;
use crate::bench::CONNECTIONS;
use crate::bench::client::Client;
use crate::bench::goal::Goal;
use crate::bench::load::Script;
use crate::bench::measure::{Expect, Object, Sample, median, sample};
use crate::bench::origin::{Origin, UNCACHEABLE};
use crate::bench::peers::Which;
use crate::bench::server::Running;
use crate::bench::table::{Cell, Row};
use anyhow::{Result, bail};
use std::thread::sleep;
use std::time::Duration;

/// The maximum cost of a hit over that of the cheapest peer, and of a miss over that of nginx.
const AS_CHEAP: f64 = 1.0;

/// The maximum number of requests for an object until it comes from the cache, and the pause between them.
const WARMING_TRIES: u32 = 50;
const WARMING_PAUSE: Duration = Duration::from_millis(50);

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
