//! `hits` and `misses`: CPU time per request, in interleaved rounds.

use super::entrant::Entrant;
use super::{Options, as_run};
use crate::bench::CONNECTIONS;
use crate::bench::goal::Goal;
use crate::bench::measure::{Expect, Object, Sample, median, sample};
use crate::bench::origin::{Origin, UNCACHEABLE};
use crate::bench::peers::Which;
use crate::bench::server::RunningServer;
use crate::bench::table::{Cell, Row};
use crate::client::Client;
use anyhow::{Result, bail};
use std::thread::sleep;
use std::time::Duration;

/// The maximum cost of a hit over that of the cheapest peer, and of a miss over that of nginx.
const AS_CHEAP: f64 = 1.0;

/// The maximum number of requests for an object until it comes from the cache, and the pause between them.
const WARMING_TRIES: u32 = 50;
const WARMING_PAUSE: Duration = Duration::from_millis(50);

/// The maximum cost of a miss that is stored, over that of a miss that nginx passes on.
const STORED: f64 = 0.9;

/// Returns the tables of hits, one object after the other, and their goals. Fails if the load cannot be set up. A
/// server that fails is omitted and named in `failures`.
pub(super) fn hits(
    options: &Options,
    servers: &[RunningServer],
    origin: &Origin,
    failures: &mut Vec<String>,
) -> Result<(Vec<Row>, Vec<Goal>)> {
    let (mut rows, mut goals) = (Vec::new(), Vec::new());
    for object in &options.objects {
        let warmed = servers.iter().filter(|server| {
            let result = warm(server, object, origin);
            note(server, object, result, failures).is_some()
        });
        let entrants = warmed.map(|server| Entrant::new(server, *object)).collect();
        let entrants = rounds(options, entrants, Expect::Cached, origin, failures)?;
        rows.extend(summary(&entrants, "x floor", "floor"));
        if options.as_run {
            goals.extend(as_run::goals(&entrants));
            continue;
        }
        let all: Vec<_> = entrants.iter().collect();
        let is_peer = |entrant: &&Entrant| ![Which::Floor, Which::Larder].contains(&entrant.server.which);
        let peers: Vec<_> = all.iter().copied().filter(is_peer).collect();
        let what = format!("CPU of a {} hit / the cheapest peer's", object.name);
        goals.extend(goal(what, AS_CHEAP, own_of(&all), &peers));
    }
    Ok((rows, goals))
}

/// Returns the table of misses and their goals: for 1 KiB that must not be stored, and for 1 KiB that Larder stores.
pub(super) fn misses(
    options: &Options,
    servers: &[RunningServer],
    origin: &Origin,
    failures: &mut Vec<String>,
) -> Result<(Vec<Row>, Vec<Goal>)> {
    let passed = Object { name: "1k", path: UNCACHEABLE, length: 1024, connections: CONNECTIONS };
    let stored = Object { name: "1k stored", path: "/1k/", ..passed };
    let own = servers.iter().filter(|server| server.which == Which::Larder);
    let entrants = servers.iter().map(|server| Entrant::new(server, passed));
    let entrants = entrants.chain(own.map(|server| Entrant::new(server, stored))).collect();
    let entrants = rounds(options, entrants, Expect::Passed, origin, failures)?;
    let (keeping, passing): (Vec<_>, Vec<_>) =
        entrants.iter().partition(|entrant| entrant.object.name == stored.name);
    let nginx: Vec<_> = passing.iter().copied().filter(|entrant| entrant.server.name == "nginx").collect();
    let goals = [
        goal("CPU of a miss that is not stored / nginx's".to_owned(), AS_CHEAP, own_of(&passing), &nginx),
        goal(
            "CPU of a miss that is stored / nginx's of one that is not".to_owned(),
            STORED,
            own_of(&keeping),
            &nginx,
        ),
    ];
    Ok((summary(&entrants, "x nginx", "nginx"), goals.into_iter().flatten().collect()))
}

/// Returns Larder, if it takes part.
fn own_of<'e>(entrants: &[&'e Entrant<'e>]) -> Option<&'e Entrant<'e>> {
    entrants.iter().copied().find(|entrant| entrant.server.which == Which::Larder)
}

/// Returns the goal that `own`, if it takes part, needs at most `most` times the CPU time of any of the `peers`: the
/// median of the rounds.
fn goal(what: String, most: f64, own: Option<&Entrant>, peers: &[&Entrant]) -> Option<Goal> {
    let own = own?;
    let ratio = |peer: &&Entrant| {
        median(own.samples.iter().zip(&peer.samples).map(|(own, peer)| own.cpu / peer.cpu).collect())
    };
    Some(Goal::new(what, most, peers.iter().map(ratio).fold(f64::NAN, f64::max)))
}

/// Fetches until no more requests reach the origin.
fn warm(server: &RunningServer, object: &Object, origin: &Origin) -> Result<()> {
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

/// Runs the rounds, each over every server that has not failed. One more comes first and does not count: what a program does
/// in its first seconds, such as shadow caches that begin, is not the cost of a request.
fn rounds<'a>(
    options: &Options,
    mut entrants: Vec<Entrant<'a>>,
    expect: Expect,
    origin: &Origin,
    failures: &mut Vec<String>,
) -> Result<Vec<Entrant<'a>>> {
    for round in 0..=options.common.rounds {
        eprintln!("round {round} of {}", options.common.rounds);
        entrants.retain_mut(|entrant| {
            let object = &entrant.object;
            let result = object.script(round).and_then(|script| {
                sample(entrant.server, object, expect, options.common.duration, origin, &script)
            });
            entrant.server.empty_logs();
            match note(entrant.server, object, result, failures) {
                Some(sample) if round > 0 => entrant.samples.push(sample),
                Some(_) => {}
                None => return false,
            }
            true
        });
    }
    Ok(entrants)
}

/// Returns a success; adds a failure with the server and the object to `failures`.
fn note<T>(
    server: &RunningServer,
    object: &Object,
    result: Result<T>,
    failures: &mut Vec<String>,
) -> Option<T> {
    result.map_err(|error| failures.push(format!("{} at {}: {error:#}", server.name, object.name))).ok()
}

/// Returns a row for each entrant, by medians; ratios are to the sample of `base` in the same round.
fn summary(entrants: &[Entrant], ratio_name: &'static str, base: &str) -> Vec<Row> {
    let base = entrants.iter().find(|entrant| entrant.server.name == base);
    entrants
        .iter()
        .filter(|entrant| !entrant.samples.is_empty())
        .map(|entrant| {
            let of = |figure: fn(&Sample) -> f64| median(entrant.samples.iter().map(figure).collect());
            let pairs = base.iter().flat_map(|base| entrant.samples.iter().zip(&base.samples));
            let ratio = median(pairs.map(|(own, base)| own.cpu / base.cpu).collect());
            vec![
                ("size", Cell::word(entrant.object.name)),
                ("server", Cell::word(entrant.server.name)),
                ("CPU us/request", Cell::number(of(|sample| sample.cpu), 2)),
                (ratio_name, Cell::number(ratio, 2)),
                ("requests/s", Cell::number(of(|sample| sample.per_second), 0)),
                ("memory MiB", Cell::number(of(|sample| sample.memory as f64) / f64::from(1 << 20), 1)),
            ]
        })
        .collect()
}
