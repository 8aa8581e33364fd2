//! Shadows are compared with caches that see every request.

mod adversary;
mod choice;
mod workload;

use larder_advise::{
    Advice, Answer, Cell, Change, Check, Freshness, Heavy, Panel, PanelSettings, Report, Request, Sample,
    Sums, Tier, Traffic,
};
use larder_evict::{By, Object, Spec, spread};
use proptest::prelude::*;

use workload::{Simulation, Workload};

const SEED: u64 = 0x5851_f42d_4c95_7f2d;
const FOREVER: Option<Freshness> = Some(Freshness { lifetime: u32::MAX, stale: 0 });

fn sums(requests: f64, bytes: f64) -> Sums {
    Sums { requests, bytes, micros: 0.0 }
}

fn spec(name: &str) -> Spec {
    name.parse().expect("a policy")
}

/// Returns the shadows beside a cache of `size` bytes that runs `policy`, for one key in 2^`halvings`.
fn panel(policy: &str, others: Vec<Spec>, size: u64, halvings: u32) -> Panel {
    Panel::new(PanelSettings {
        by: By::Bytes,
        sizes: Panel::sizes_beside(size, |kept| (kept, u64::MAX)),
        running: spec(policy),
        others,
        share: 1.0,
        sample: (0..halvings).fold(Sample::all(SEED), |sample, _| sample.half()),
    })
}

fn request(key: u64, size: u64) -> Request {
    let object = Object { key, size, cost: 0 };
    let (requests, bytes, change) = (1, size, Change::None);
    Request {
        object,
        now: 1,
        requests,
        bytes,
        freshness: FOREVER,
        is_forced: false,
        is_shared: false,
        is_confirmed: false,
        change,
    }
}

/// Asks shadows beside a cache that answers as the shadow of its configuration does.
fn ask(panel: &mut Panel, request: &Request) -> Option<Answer> {
    panel.request(request).inspect(|answer| panel.compare(request, *answer, *answer))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn shadows_equal_the_simulator_on_the_requests_of_the_sample(
        ids in prop::collection::vec(0..60_u32, 1..400),
        halvings in 0..3_u32,
    ) {
        let mut panel = panel("sieve", Panel::usual_policies(), 1_600, halvings);
        let sizes = |id: u32| u64::from(id % 13 + 1) * 7;
        let in_sample: Vec<_> = ids.iter().filter(|id| panel.sample().contains(spread(**id))).map(|id| (*id, sizes(*id))).collect();
        ids.iter().for_each(|id| _ = ask(&mut panel, &request(spread(*id), sizes(*id))));
        let asked = sums(in_sample.len() as f64, in_sample.iter().map(|(_, size)| *size as f64).sum());
        let stands_for = f64::from(1 << halvings);
        let all = sums(asked.requests * stands_for, asked.bytes * stands_for);
        let running = spec("sieve").select(Simulation(&in_sample, 1_600 >> halvings));
        let hit = sums(running.requests * stands_for, running.bytes * stands_for);
        panel.count(1, Traffic { asked: all, hit }, 0);
        for cell in panel.report(Tier::Memory, 0).cells {
            let hits = spec(&cell.policy).select(Simulation(&in_sample, cell.size >> halvings));
            let found = (cell.ratios.hit_ratio * asked.requests, cell.ratios.byte_hit_ratio * asked.bytes);
            let is_equal = (found.0 - hits.requests).abs() < 1e-6 && (found.1 - hits.bytes).abs() < 1e-3;
            prop_assert!(is_equal, "{} at {}: {found:?}, simulated {hits:?}", cell.policy, cell.size);
        }
    }

    #[test]
    fn shadows_answer_many_requests_at_once_as_one_by_one(
        ids in prop::collection::vec((0..60_u32, 1..4_u32), 1..300),
        halvings in 0..3_u32,
    ) {
        let sizes = |id: u32| u64::from(id % 13 + 1) * 700;
        let requests: Vec<_> = ids.iter().map(|&(id, requests)| {
            let one = request(spread(id), sizes(id));
            Request { requests, bytes: one.bytes * u64::from(requests), ..one }
        }).collect();
        let panels = || panel("sieve", Panel::usual_policies(), 160_000, halvings);
        let (mut alone, mut together) = (panels(), panels());
        let answers: Vec<_> = requests.iter().map(|request| alone.request(request)).collect();
        let mut found = vec![None; requests.len()];
        for (place, part) in requests.chunks(50).enumerate() {
            together.request_all(part, |_, at, answer| found[50 * place + at] = Some(answer));
        }
        prop_assert_eq!(answers, found);
        let asked = requests.iter().fold(sums(0.0, 0.0), |all, one| all + sums(one.requests.into(), one.bytes as f64));
        let cells = |mut panel: Panel| {
            panel.count(1, Traffic { asked, hit: asked * 0.5 }, 0);
            panel.report(Tier::Memory, 0).cells.iter().map(|cell| cell.ratios).collect::<Vec<_>>()
        };
        prop_assert_eq!(cells(alone), cells(together));
    }
}

#[test]
fn one_key_in_four_predicts_all_cells() {
    let workload = Workload::zipf(20_000, 30_000);
    for policy in ["lru", "adaptive"] {
        let report = workload.watch(policy, 8_000_000, 2);
        workload.check(&report);
        let Check { predicted, measured } = report.check;
        assert!((predicted - measured).abs() < 0.02, "{policy}: {predicted} {measured}");
    }
}

#[test]
fn a_sample_that_grows_after_a_peak_predicts_all_cells() {
    let workload = Workload::zipf(20_000, 60_000);
    let report = workload.watch_and("lru", 8_000_000, 2, |at, panel| match at {
        5_000 => {
            while panel.sample().share() > 0.2 {
                panel.thin()
            }
        }
        10_000 => panel.grow(1.0),
        _ => {}
    });
    assert!((report.sample - 0.25).abs() < 1e-9, "{}", report.sample);
    workload.check(&report);
}

#[test]
fn keys_that_a_sample_gains_count_once_shadows_know_them() {
    let mut panel = panel("lru", vec![spec("sieve")], 10_000, 1);
    let counted =
        |panel: &mut Panel| (0..100).filter(|id| ask(panel, &request(spread(*id), 10)).is_some()).count();
    let half = counted(&mut panel);
    panel.grow(1.0);
    assert_eq!((panel.sample().share(), counted(&mut panel)), (1.0, half));
    (0..8).for_each(|_| _ = counted(&mut panel));
    assert_eq!(counted(&mut panel), 100);
}

#[test]
fn a_sample_beside_a_key_with_nearly_all_requests_remains() {
    let (mut panel, mut heavy) = (panel("lru", vec![spec("sieve")], 10_000, 1), Heavy::default());
    let key = (0..).map(spread).find(|key| !panel.sample().contains(*key)).expect("half of the keys");
    panel.set_heavy(&[key], Some(key));
    let mut ask_and_narrow = || {
        (0..100).for_each(|id| _ = panel.request(&request(if id < 90 { key } else { spread(id) }, 10)));
        let is_less = panel.narrow_heavy(&mut heavy);
        if !is_less {
            panel.thin();
        }
        is_less
    };
    assert_eq!([(); 9].map(|()| ask_and_narrow()), [true, true, true, true, true, true, true, false, false]);
    assert_eq!(panel.sample().share(), 0.5);
}

#[test]
fn a_key_with_nearly_half_of_the_requests_does_not_mislead() {
    let workload = Workload::zipf(20_000, 30_000).with_one(0.45, 500);
    workload.check(&workload.watch("lru", 8_000_000, 2));
}

#[test]
fn an_object_with_nearly_half_of_the_bytes_does_not_mislead() {
    let workload = Workload::zipf(20_000, 30_000).with_one(0.01, 200_000);
    let mut report = workload.watch("lru", 8_000_000, 2);
    // Under a policy that looks at sizes, a few requests more or less decide whether the object stays.
    let (by_size, others): (Vec<_>, Vec<_>) =
        report.cells.into_iter().partition(|cell| cell.policy == "gdsf");
    report.cells = others;
    workload.check(&report);
    for Cell { policy, size, ratios, .. } in by_size {
        let (_, real) = workload.real(&policy, size);
        assert!(
            (ratios.byte_hit_ratio - real).abs() < 2.0 * ratios.byte_hit_ratio_error + 0.01,
            "{size}: {ratios:?} {real}"
        );
    }
}

/// The workloads of different seeds have other requests for the keys of a sample, and for those of its parts.
#[test]
fn two_errors_cover_the_truth_in_nine_of_ten_cells() {
    let (mut cells, mut covered) = (0, 0);
    for seed in 1..=8 {
        let workload = Workload::seeded(seed, 10_000, 10_000);
        let report = workload.watch("lru", 2_000_000, 3);
        for (difference, error) in workload.differences(&report) {
            cells += 1;
            covered += u32::from(difference.abs() <= 2.0 * error + 0.001);
        }
    }
    assert!(10 * covered >= 9 * cells, "{covered} of {cells}");
}

#[test]
fn errors_include_what_the_running_shadow_gets_wrong() {
    let mut panel = panel("lru", vec![spec("sieve")], 100_000, 0);
    let all = sums(2_000.0, 20_000.0);
    for at in 0..2_000 {
        let request = request(spread(at % 100), 10);
        let shadow = panel.request(&request).expect("all keys are seen");
        // A tenth of the requests missed in reality.
        let real = if at % 100 < 10 { Answer::Miss } else { shadow };
        panel.compare(&request, shadow, real);
    }
    panel.count(1, Traffic { asked: all, hit: sums(1_710.0, 17_100.0) }, 0);
    for Cell { policy, size, ratios, current, .. } in panel.report(Tier::Memory, 0).cells {
        let missed = 1_900.0 / 2_000.0 - ratios.hit_ratio;
        assert!(
            current || ratios.hit_ratio_error > 0.09 && missed.abs() < 1e-9,
            "{policy} {size}: {ratios:?}"
        );
    }
}

#[test]
fn a_better_policy_is_advised_once_the_cache_evicts() {
    let workload = Workload::zipf(20_000, 30_000);
    let report = workload.watch("fifo", 2_000_000, 0);
    let Some(Advice { gain, error, .. }) = report.advice else { panic!("{:?}", report.doubt) };
    assert!(gain > 0.02 && gain > 2.0 * error, "{gain} {error}");
    let large = workload.watch("fifo", 4_000_000_000, 0);
    assert_eq!(large.advice, None);
    assert!(large.doubt.is_some_and(|doubt| doubt.contains("only 0 objects were evicted")));
    // A loop over twice the objects that fit never hits under LRU, but the cache did.
    let mut wrong = panel("lru", vec![spec("sieve")], 500, 0);
    for at in 0..1_000 {
        let request = request(spread(at % 100), 10);
        let shadow = wrong.request(&request).expect("all keys are seen");
        wrong.compare(&request, shadow, if at % 2 == 0 { Answer::Hit } else { shadow });
    }
    wrong.count(1, Traffic { asked: sums(1_000.0, 10_000.0), hit: sums(500.0, 5_000.0) }, 0);
    let Report { advice, doubt, .. } = wrong.report(Tier::Memory, 0);
    assert_eq!(advice, None);
    let doubt = doubt.expect("a doubt");
    assert!(
        doubt.starts_with("the running configuration was predicted to hit 0.0%, and hit 50.0%"),
        "{doubt}"
    );
}

#[test]
fn lifetimes_and_purges_hold_in_shadows() {
    let mut panel = panel("lru", Vec::new(), 10_000, 0);
    let fresh = Some(Freshness { lifetime: 60, stale: 0 });
    let stale = Some(Freshness { lifetime: 60, stale: 30 });
    let at = |now, freshness, change| Request { now, freshness, change, ..request(1, 10) };
    let mut expect = |request: Request, is_hit: bool| {
        let answer = panel.request(&request).map(|answer| answer == Answer::Hit);
        assert_eq!(answer, Some(is_hit), "{request:?}");
    };
    expect(at(100, fresh, Change::None), false);
    expect(at(159, fresh, Change::None), true);
    expect(at(160, fresh, Change::None), false);
    expect(at(219, fresh, Change::None), true);
    expect(at(220, fresh, Change::Refreshed(200)), true);
    expect(at(221, fresh, Change::Removed), false);
    expect(at(222, fresh, Change::Expired), false);
    expect(at(223, fresh, Change::None), true);
    expect(at(300, stale, Change::None), true);
    expect(at(301, stale, Change::Expired), false);
    expect(Request { is_forced: true, ..at(302, fresh, Change::None) }, false);
    expect(at(400, None, Change::None), false);
    expect(at(401, None, Change::None), false);
}

#[test]
fn a_validation_saves_bytes_and_a_hit_also_time() {
    let mut panel = panel("lru", Vec::new(), 10_000, 0);
    let object = Object { key: 1, size: 10, cost: 3_000 };
    let fresh = Some(Freshness { lifetime: 60, stale: 0 });
    for (now, is_confirmed) in [(100, false), (110, false), (200, true), (300, false)] {
        ask(&mut panel, &Request { object, now, is_confirmed, freshness: fresh, ..request(1, 10) });
    }
    panel.count(300, Traffic { asked: sums(4.0, 40.0), hit: sums(1.0, 20.0) }, 0);
    for Cell { ratios, size, .. } in panel.report(Tier::Memory, 0).cells {
        let found = (ratios.hit_ratio, ratios.byte_hit_ratio, ratios.saved_ms);
        assert_eq!(found, (0.25, 0.5, 0.75), "{size}");
    }
}

#[test]
fn lost_requests_change_no_ratio() {
    let mut panel = panel("lru", vec![spec("sieve")], 10_000, 0);
    let ids = std::iter::repeat_n(0, 40).chain(1..16);
    ids.for_each(|id| _ = ask(&mut panel, &request(spread(id), 10)));
    // Half of the requests were lost. The others were for one key mostly, whose requests hit.
    let asked = sums(110.0, 1_100.0);
    panel.count(1, Traffic { asked, hit: sums(78.0, 780.0) }, 55);
    for Cell { policy, size, ratios, .. } in panel.report(Tier::Memory, 0).cells {
        assert!((ratios.hit_ratio - 39.0 / 55.0).abs() < 1e-9, "{policy} of {size}: {ratios:?}");
    }
}

#[test]
fn a_report_looks_back_in_steps_of_five_minutes() {
    let mut panel = panel("lru", Vec::new(), 10_000, 0);
    for now in [10, 299, 300, 650] {
        panel.request(&Request { now, ..request(1, 10) });
        panel.count(now, Traffic { asked: sums(1.0, 10.0), hit: sums(0.0, 0.0) }, 0);
    }
    let asked = [0, 299, 300, 301, 600, 651].map(|since| panel.report(Tier::Memory, since).window.requests);
    assert_eq!(asked, [4, 4, 2, 1, 1, 0]);
}

#[test]
fn withheld_memory_makes_every_size_smaller() {
    let mut panel = panel("lru", Vec::new(), 200, 0);
    let hits = |panel: &mut Panel| {
        let ask = |id| panel.request(&request(spread(id), 10)) == Some(Answer::Hit);
        (0..15).map(ask).filter(|is_hit| *is_hit).count()
    };
    assert_eq!((hits(&mut panel), hits(&mut panel)), (0, 15));
    panel.use_share(0.5);
    assert_eq!((hits(&mut panel), hits(&mut panel)), (0, 0));
    panel.use_share(1.0);
    assert_eq!((hits(&mut panel), hits(&mut panel)), (10, 15));
}

#[test]
fn a_disk_behind_memory_is_asked_for_what_memory_lacks() {
    let (mut memory, mut disk) = (panel("lru", Vec::new(), 100, 0), panel("lru", Vec::new(), 400, 0));
    for real in [Answer::Miss, Answer::Hit, Answer::Hit, Answer::Hit] {
        for id in 0..30 {
            let request = request(spread(id), 10);
            let answer = memory.request(&request).expect("all keys are seen");
            disk.request_behind(&request, answer, real);
        }
    }
    let all = sums(120.0, 1_200.0);
    disk.count(1, Traffic { asked: all, hit: sums(90.0, 900.0) }, 0);
    let ratios = disk.report(Tier::Disk, 0).cells.into_iter().map(|cell| cell.ratios.hit_ratio);
    // Thirty objects in a loop need 300 bytes.
    assert_eq!(ratios.collect::<Vec<_>>(), [0.0, 0.0, 0.75, 0.75, 0.75]);
}

#[test]
fn shadows_take_less_than_16_megabytes() {
    let mut panel = panel("adaptive", Panel::usual_policies(), 1 << 40, 0);
    let requests: Vec<_> = (0..100_000).map(|id| request(spread(id), 1 << 27)).collect();
    requests.chunks(256).for_each(|part| panel.request_all(part, |_, _, _| ()));
    assert!(panel.sample().share() < 0.2, "{}", panel.sample().share());
    assert!(panel.bytes() < 16_000_000, "{} {}", panel.bytes(), panel.sample().share());
}
