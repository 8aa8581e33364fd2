//! Several caches that share the keys; and the situations in which the report expected a larger gain.

use super::super::REPORT;
use super::super::cell::{Measured, WRITES};
use super::super::plan::{INSTANCES, READ_MOSTLY, SITUATIONS};
use super::super::ways::Way;
use super::{Bound, Conditions, LARDER, PERCENT, Ruling, SAME, average, distinct, paired, slower, those};
use crate::live::findings::Finding;

pub(super) fn claims(cells: &[Measured]) -> Vec<Finding> {
    let mut found = vec![three_and_one(cells), distribution(cells), three_and_two(cells)];
    found.extend(SITUATIONS.map(|situation| gain(cells, situation)));
    found
}

/// By which share `ones` caches are slower than `others`, by the number of clients.
fn against(cells: &[Measured], ones: usize, others: usize) -> Conditions {
    let mut conditions = Conditions::default();
    let all = those(cells, INSTANCES, |_| true);
    for clients in distinct(&all, |cell| cell.clients) {
        let of = |count| those(cells, INSTANCES, |cell| cell.instances == count && cell.clients == clients);
        conditions.add(format!("{clients} clients"), paired(&of(ones), &of(others), slower));
    }
    conditions
}

fn three_and_one(cells: &[Measured]) -> Finding {
    let hits = |count| {
        let of = those(cells, INSTANCES, |cell| cell.instances == count);
        average(&of, |measured| measured.hit_ratio) * 100.0
    };
    let text = format!(
        "Clients pick the cache by the hash of the path over 50 places, so that no cache passes a request to another, and a key is in \
         one cache only: the hit ratio is {:.1}% with three and {:.1}% with one. 'No slower' allows for {:.0}%.",
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

fn distribution(cells: &[Measured]) -> Finding {
    let mut conditions = Conditions::default();
    for count in [2, 3] {
        let of = against(cells, count, 1);
        conditions
            .0
            .extend(of.0.into_iter().map(|(name, values)| (format!("{count} caches and {name}"), values)));
    }
    let text = "How much longer requests take than with one cache.".to_owned();
    let claim = "Distributing the cache makes requests slower";
    conditions.decide(claim, REPORT, Bound::Above(0.0), PERCENT, text).because(
        &[Ruling::Fails, Ruling::Depends, Ruling::Open],
        "In the seed report any cache takes a request and passes it to the one that it belongs to, so that most requests take one hop \
         more. Here clients know the places, and there is no such hop.",
    )
}

fn three_and_two(cells: &[Measured]) -> Finding {
    let text = "How much longer requests take with three than with two. The seed report saw three ahead of two, and had no cause for \
         it: with three, more requests have to be passed on, not fewer."
        .to_owned();
    let claim = "Three caches are faster than two";
    against(cells, 3, 2).decide(claim, REPORT, Bound::Below(0.0), PERCENT, text)
}

/// What a cache saves in a situation.
fn gain(cells: &[Measured], (name, about): (&'static str, &str)) -> Finding {
    let of = |way, written| those(cells, name, |cell| cell.way == way && cell.written == written);
    let mut conditions = Conditions::default();
    for written in [READ_MOSTLY, WRITES] {
        for (way, who) in [(Way::Always, "asks"), (Way::Push, "is told")] {
            let slower = paired(&of(way, written), &of(Way::Straight, written), slower);
            conditions.add(format!("a cache that {who}, {written}% writes"), slower);
        }
    }
    let three = |value: fn(&Measured) -> f64, written| {
        let values = [Way::Straight, Way::Always, Way::Push].map(|way| average(&of(way, written), value));
        values.map(|value| format!("{value:.1}")).join(", ")
    };
    let (value, measure, why): (fn(&Measured) -> f64, _, _) = match name {
        "far" => (
            |one| one.reads.p50,
            "Half of the GETs take no more ms than",
            "Asking goes the same way as the answer, and saves none of it; only a cache that is told answers from near.",
        ),
        "dear" => (
            |one| one.services_us / 1e3,
            "The services compute for a request, in ms,",
            "An answer that is made again to find it the same has been paid for; what is current costs nothing.",
        ),
        _ => (
            |one| one.line_bytes.unwrap_or(0.0) / 1e3,
            "Over the line go, in kB for a request,",
            "An answer that the services make again to find it the same is not sent again.",
        ),
    };
    let text = format!(
        "How much longer all requests take than without a cache: {}. {measure} without a cache, with one that \
         asks, and with one that is told: {} with {READ_MOSTLY}% writes, and {} with {WRITES}%.",
        conditions.means(|share| format!("{:+.0}%", share * 100.0)),
        three(value, READ_MOSTLY),
        three(value, WRITES),
    );
    let claim = format!("A cache makes requests faster where the services are {about}");
    conditions
        .decide(claim, REPORT, Bound::Below(0.0), PERCENT, text)
        .because(&[Ruling::Holds, Ruling::Depends], why)
}
