//! Several caches that share the keys, and the situations in which the report expected a larger gain.

use super::super::cell::CellResult;
use super::super::conditions::Way;
use super::super::conditions::{Cell, WRITES};
use super::super::plan::{INSTANCES, READ_MOSTLY, SITUATIONS};
use super::super::seed;
use super::{Bound, Conditions, LARDER, PERCENT, Ruling, SAME, average, paired, slower, slower_by, those};
use crate::findings::Finding;

pub(super) fn claims(cells: &[CellResult]) -> Vec<Finding> {
    let mut found = vec![three_and_one(cells), distribution(cells), three_and_two(cells)];
    found.extend(SITUATIONS.map(|situation| gain(cells, situation)));
    found
}

/// Returns the share by which `ones` caches are slower than `others`, by the number of clients.
fn against(cells: &[CellResult], ones: usize, others: usize) -> Conditions {
    let of = |count| move |cell: &Cell| cell.instances == count;
    let name = |clients| format!("{clients} clients");
    slower_by(cells, INSTANCES, |cell| cell.clients, name, of(ones), of(others))
}

fn three_and_one(cells: &[CellResult]) -> Finding {
    let hits = |count| {
        let of = those(cells, INSTANCES, |cell| cell.instances == count);
        average(&of, |measured| measured.gets.hit_ratio) * 100.0
    };
    let text = format!(
        "Clients select the cache by the hash of the path over 50 places. So no cache forwards a request to another, and each \
         key is in one cache only. The hit ratio is {:.1}% with three caches and {:.1}% with one. The claim allows {:.0}%.",
        hits(3),
        hits(1),
        SAME * 100.0
    );
    against(cells, 3, 1).decide(
        "Three caches are no slower than one",
        LARDER,
        Bound::Below(SAME),
        PERCENT,
        text,
    )
}

fn distribution(cells: &[CellResult]) -> Finding {
    let mut conditions = Conditions::default();
    for count in [2, 3] {
        let of = against(cells, count, 1);
        conditions
            .0
            .extend(of.0.into_iter().map(|(name, values)| (format!("{count} caches and {name}"), values)));
    }
    let text = "The value is the additional time of requests, compared with one cache.".to_owned();
    let claim = "Distributing the cache makes requests slower";
    let source = seed("In Figure 10 we can see that distributing the cache actually decreases performance.");
    conditions.decide(claim, source, Bound::Above(0.0), PERCENT, text).because(
        &[Ruling::Fails, Ruling::Depends, Ruling::Open],
        "In the seed report, any cache accepts a request and forwards it to the cache of its key, so most requests take one more \
         hop. Here clients know the places, so there is no such hop.",
    )
}

fn three_and_two(cells: &[CellResult]) -> Finding {
    let text = "The value is the additional time of requests with three caches, compared with two. In the seed report, three \
     caches were faster than two, without an explanation: with three, caches forward more requests."
        .to_owned();
    let claim = "Three caches are faster than two";
    let source = seed(
        "using three distributed caches over time will serve responses faster than two distributed caches.",
    );
    against(cells, 3, 2).decide(claim, source, Bound::Below(0.0), PERCENT, text)
}

/// Decides the gain from a cache in a situation.
fn gain(cells: &[CellResult], (name, about): (&'static str, &str)) -> Finding {
    let of = |way, written| those(cells, name, |cell| cell.way == way && cell.written == written);
    let mut conditions = Conditions::default();
    for written in [READ_MOSTLY, WRITES] {
        for (way, name) in [(Way::Always, "a validating cache"), (Way::Push, "a cache with push")] {
            let slower = paired(&of(way, written), &of(Way::Straight, written), slower);
            conditions.add(format!("{name}, {written}% writes"), slower);
        }
    }
    let three = |value: fn(&CellResult) -> f64, written| {
        let values = [Way::Straight, Way::Always, Way::Push].map(|way| average(&of(way, written), value));
        values.map(|value| format!("{value:.1}")).join(", ")
    };
    let (value, measure, why): (fn(&CellResult) -> f64, _, _) = match name {
        "far" => (
            |one| one.reads.p50,
            "Median time of GETs, in ms,",
            "The requests of a validating cache travel the whole distance, and save no time. Only a cache with push \
             answers without them.",
        ),
        "dear" => (
            |one| one.services_us / 1e3,
            "CPU time of the services for a request, in ms,",
            "To confirm an answer, the services make it again at full cost. A current answer costs them nothing.",
        ),
        _ => (
            |one| one.line_bytes.unwrap_or(0.0) / 1e3,
            "Bytes on the line for a request, in kB,",
            "A confirmed answer is not sent again.",
        ),
    };
    let text = format!(
        "The additional time of all requests, compared with no cache: {}. {measure} without a cache, with a validating \
         one, and with one with push: {} with {READ_MOSTLY}% writes, and {} with {WRITES}%.",
        conditions.means(|share| format!("{:+.0}%", share * 100.0)),
        three(value, READ_MOSTLY),
        three(value, WRITES),
    );
    let source = match name {
        "dear" => seed(
            "If response latency of the server is high due to expensive operations that have to be performed in the backend a proxy \
             cache can reduce response latency",
        ),
        _ => seed(
            "A strength of a proxy cache is that it can serve content closer to the source of requests, decreasing request latency.",
        ),
    };
    let claim = format!("A cache makes requests faster where the services are {about}");
    conditions
        .decide(claim, source, Bound::Below(0.0), PERCENT, text)
        .because(&[Ruling::Holds, Ruling::Depends], why)
}
