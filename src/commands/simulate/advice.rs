//! `larder simulate --advise`: the table of `larder advise`, from a log.

use larder_advise::{
    Answer, Change, Freshness, Heavy, Panel, PanelSettings, Prices, Report, Request, Sample, Sums, Tier,
    Traffic,
};
use larder_evict::{By, Capacity, InsertResult, Object, Spec, spread};
use larder_lab::subject::{Size, Subject};

use super::args::Simulate;
use super::money;
use crate::cli::Failure;
use crate::commands::advise;

/// The share of all objects that the running cache has room for, if the user names no size.
const USUAL: f64 = 0.1;
/// The number of requests after which the heaviest keys are chosen.
const CHOSEN: usize = 1 << 12;
/// The most halvings of the keys that shadows see.
const MOST_HALVINGS: usize = 16;

/// Prints the table for a cache under the first policy that the user names, in comparison with the others.
pub(super) fn show(
    args: &Simulate,
    specs: &[Spec],
    subject: &Subject,
    (by, prices): (By, Option<Prices>),
) -> Result<(), Failure> {
    let size = args.capacity.first().copied().unwrap_or(Size::Share(USUAL));
    let capacity = subject.capacity(size, by).map_err(|why| Failure::Refused(why.to_string()))?;
    let (running, others) = match specs.split_first().filter(|_| !names_all(args)) {
        Some((running, [])) => (running.clone(), Panel::usual_policies()),
        Some((running, others)) => (running.clone(), others.to_vec()),
        None => (Spec::default(), Panel::usual_policies()),
    };
    let all = Sample::all(spread(args.seed as u32));
    let sample = std::iter::successors(Some(all), |sample| Some(sample.half()));
    let sample =
        sample.take(MOST_HALVINGS).find(|sample| sample.share() <= args.reading.sample).unwrap_or(all);
    let sizes = Panel::sizes_beside(capacity.amount, |kept| (kept, u64::MAX));
    let settings = PanelSettings { by, sizes, running, others, sample, share: 1.0 };
    let report = report(subject, capacity, settings, args.seed);
    advise::show(&Report { prices, ..report }, args.json);
    Ok(())
}

fn names_all(args: &Simulate) -> bool {
    args.policy.iter().any(|name| name == "all")
}

/// Shows the requests of a trace to shadows, and to a cache that serves them all.
fn report(subject: &Subject, capacity: Capacity, settings: PanelSettings, seed: u64) -> Report {
    let mut real = settings.running.build::<()>(capacity, seed);
    let mut panel = Panel::new(settings);
    let (mut heavy, mut left, trace) = (Heavy::default(), Heavy::DISTANCE, &subject.trace);
    for at in 0..trace.len() {
        let request = trace.request(at);
        let object = Object { key: spread(request.id), size: request.size, cost: request.cost };
        let is_hit = real.get(object.key).is_some();
        if !is_hit {
            let _stored: InsertResult<()> = real.insert(object, (), &mut Vec::new());
        }
        let asked = Sums { requests: 1.0, bytes: request.size as f64, ..Sums::default() };
        panel.count(0, Traffic { asked, hit: if is_hit { asked } else { Sums::default() } }, 0);
        let request = Request {
            object,
            now: 0,
            requests: 1,
            bytes: request.size,
            freshness: Some(Freshness { lifetime: u32::MAX, stale: 0 }),
            is_forced: false,
            is_shared: false,
            is_confirmed: false,
            change: Change::None,
        };
        if let Some(shadow) = panel.request(&request) {
            panel.compare(&request, shadow, if is_hit { Answer::Hit } else { Answer::Miss });
        }
        left = left.saturating_sub(Heavy::step(object.size));
        if left == 0 {
            left = Heavy::DISTANCE;
            heavy.count(object.key, object.size);
        }
        if at % CHOSEN == CHOSEN - 1 {
            panel.set_heavy(&heavy.choose(), heavy.largest());
        }
    }
    let mut report = panel.report(Tier::Memory, 0);
    report.window.seconds = money::window(subject).seconds;
    report
}
