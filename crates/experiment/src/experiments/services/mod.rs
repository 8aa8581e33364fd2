//! Three coupled services whose data changes, with and without a cache in front of them: repeats the microservice
//! report.
//!
//! Clients read and write as in YCSB, four reads to a write, over endpoints with Zipf popularity. A gateway beside the
//! services uses pools of entity-tags to decide whether a cached answer is current.

mod cell;
mod claims;
mod conditions;
mod couplings;
mod pictures;
mod places;
mod plan;
mod simulated;
mod ways;

use std::sync::OnceLock;

use larder_evict::Spec;
use serde::{Deserialize, Serialize};

use self::cell::{CellResult, Room, room, take};
use self::conditions::{Cell, ENTITIES};
use self::couplings::AvoidedWork;
use self::places::Savings;
use self::plan::{POLICIES, Plan, SIZE};
use self::simulated::{Growth, RequestRehearsal, SimulatedRatio};
use crate::findings::Findings;
use crate::{Bench, ClaimSource, Halt, Journal, Prices};

/// Returns the seed report as the source of what `sentence` claims.
const fn seed(sentence: &'static str) -> ClaimSource {
    ClaimSource::Seed("the seed report (Allison, proxy caching before microservices)", sentence)
}

/// The share of all hits that a policy keeps, by size, for a repetition's requests.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Curve {
    policy: String,
    repetition: u64,
    steps: Vec<SimulatedRatio>,
}

impl Curve {
    /// Returns the number of the largest size that is at most `percent` of all answers, and its hit ratio.
    fn at_percent(&self, percent: u32) -> Option<(usize, f64)> {
        // The last size is a tenth larger than all answers.
        let most = self.steps.last()?.capacity as f64 / 1.1 * f64::from(percent) / 100.0;
        let at = self.steps.iter().rposition(|step| step.capacity as f64 <= most)?;
        Some((at, self.steps[at].hit_ratio))
    }
}

struct Measurements {
    cells: Vec<CellResult>,
    rooms: Vec<Room>,
    curves: Vec<Curve>,
    growth: Vec<Growth>,
    prices: Option<Prices>,
}

pub(super) fn measure(bench: &mut Bench) -> Result<(), Halt> {
    bench.note_prices()?;
    let (scale, plan) = (bench.scale, Plan::new(bench.scale.size));
    let repetitions: Vec<u64> = (0..plan.repetitions).collect();
    bench.measure(&repetitions, |at| room_key(*at), |bench, at| room(bench, &plan.room(*at)))?;
    let lists: Vec<u64> = (0..plan.lists).collect();
    let rehearsals: Vec<OnceLock<RequestRehearsal>> = lists.iter().map(|_| OnceLock::new()).collect();
    let simulated = |bench: &Bench, at: u64| -> Result<Simulation<'_>, Halt> {
        let place = &rehearsals[at as usize];
        if place.get().is_none() {
            let rehearsed = RequestRehearsal::new(plan.requests, scale.of(at))?;
            _ = place.set(rehearsed);
        }
        // The number of storable bytes differs little between repetitions.
        let room: Option<Room> = bench.journal.get(&room_key(at % plan.repetitions));
        place.get().zip(room).ok_or_else(|| Halt::Failed("nothing is known of a cache with room".to_owned()))
    };
    let of = |policy| lists.iter().map(move |&at| (policy, at));
    let curves: Vec<_> = POLICIES.into_iter().flat_map(of).collect();
    bench.measure_together(
        &curves,
        |(policy, at)| format!("curve/{policy}/{at}"),
        |bench, &(policy, repetition)| {
            let (rehearsed, room) = simulated(bench, repetition)?;
            let overhead = rehearsed.overhead(&room);
            let steps = rehearsed.curve(&spec(policy)?, room.bytes, overhead, plan.simulated);
            Ok(Curve { policy: policy.to_owned(), repetition, steps })
        },
    )?;
    let lru = spec("lru")?;
    bench.measure_together(
        &lists,
        |at| format!("growth/{at:02}"),
        |bench, at| Ok(simulated(bench, *at)?.0.growth(*at, &lru)),
    )?;
    bench.measure_together(
        &lists,
        |at| format!("unasked/{at:02}"),
        |_, at| AvoidedWork::new(plan.requests, scale.of(*at), *at),
    )?;
    bench.measure_together(
        &lists,
        |at| format!("places/{at:02}"),
        |_, at| Ok(Savings::all(plan.requests, scale.of(*at), *at)),
    )?;
    let taken = |bench: &Bench, cell: &Cell| -> Result<CellResult, Halt> {
        let (rehearsed, room) = simulated(bench, cell.repetition % plan.repetitions)?;
        let mut measured = take(bench, cell, room.bytes)?;
        if cell.part == SIZE {
            let overhead = rehearsed.overhead(&room);
            let ratio = rehearsed.hit_ratio(&spec(&cell.policy)?, measured.capacity, overhead);
            measured.simulated = Some(ratio);
        }
        Ok(measured)
    };
    let (waiting, others): (Vec<_>, Vec<_>) = plan.all().into_iter().partition(Cell::waits);
    bench.measure_together(&waiting, Cell::key, taken)?;
    bench.measure(&others, Cell::key, taken)
}

/// A repetition's requests with the services' answers, and the room that a cache needs for the answers.
type Simulation<'a> = (&'a RequestRehearsal, Room);

fn room_key(repetition: u64) -> String {
    format!("room/{repetition}")
}

fn spec(policy: &str) -> Result<Spec, Halt> {
    Spec::parse(policy).map_err(|error| Halt::Failed(error.to_string()))
}

pub(super) fn conclude(journal: &Journal) -> Findings {
    let seen = Measurements {
        cells: journal.all("cell/"),
        rooms: journal.all("room/"),
        curves: journal.all("curve/"),
        growth: journal.all("growth/"),
        prices: journal.get(Bench::PRICES),
    };
    let mut findings = claims::claims(&seen);
    let unasked = journal.all("unasked/");
    findings.extend([couplings::claim(&unasked), couplings::discovery(&unasked)]);
    let savings: Vec<Savings> = journal.all::<Vec<Savings>>("places/").into_iter().flatten().collect();
    findings.push(places::claim(&savings));
    let mut tables = pictures::tables(&seen);
    tables.push(places::table(&savings));
    Findings { setup: setup(&seen), findings, figures: pictures::pictures(&seen), tables }
}

fn setup(seen: &Measurements) -> Vec<String> {
    let data = format!(
        "Three services have users, learning paths and skills, each with its own database and {ENTITIES} entries at the start. \
         Four of five requests are GETs, for some 900 endpoints with Zipf popularity (exponent 0.99); the others are POST, PUT, \
         PATCH and DELETE in equal parts. A write to a service blanks the tags of all its endpoints. A write to users also \
         blanks those of paths and skills, which show users. Answers have some 100 to 1,000 bytes. Unless stated otherwise, an \
         answer takes 2 ms of waiting, one client sends each request after the previous answer, and caches are empty at the \
         start."
    );
    let ways = "There are four configurations. Without a cache, clients send requests to the services. With the gateway alone, a \
     proxy beside the services makes and blanks entity tags. A validating cache (validate = \"always\") sends the tag of its \
     stored answer with each request, and the gateway confirms current tags. A cache with push (push = true) receives \
     invalidations with the gateway's answers, and sends no such requests."
        .to_owned();
    let hits = "A hit is a GET with content from the cache, as in the seed report. There are two kinds: hits without any work of \
     the services, and hits for which the services made the whole answer again, so that the gateway could compare its tag."
        .to_owned();
    let room = seen.rooms.first().map(|room| {
        format!(
            "A cache with room for all answers had {} answers in {:.2} MB at the end; its process took {:.0} MB of memory.",
            room.objects,
            room.bytes as f64 / 1e6,
            room.resident as f64 / 1e6
        )
    });
    [data, ways, hits].into_iter().chain(room).collect()
}
