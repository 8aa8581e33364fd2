//! The automatic choice of the policy, by shadows of simulated caches.

use larder_advise::{Answer, Auto, Panel, PanelSettings, Report, Request, Sample, Sums, Tier, Traffic};
use larder_evict::{By, spread};

use super::{SEED, ask, request, spec, sums};

/// Shows requests to shadows beside caches of 100 entries in windows of 20 minutes, and lets `auto` choose.
struct AutoRun {
    panel: Panel,
    auto: Auto,
    now: u32,
    switches: Vec<String>,
    /// The windows in which the better policy may have been better by chance.
    chances: u32,
}

impl AutoRun {
    fn new(policies: &[&str]) -> Self {
        let settings = PanelSettings {
            by: By::Entries,
            sizes: Panel::sizes_beside(100, |kept| (kept, u64::MAX)),
            running: spec(policies[0]),
            others: policies.iter().map(|name| spec(name)).collect(),
            share: 1.0,
            sample: Sample::all(SEED),
        };
        let (panel, auto) = (Panel::new(settings), Auto::default());
        Self { panel, auto, now: 1, switches: Vec::new(), chances: 0 }
    }

    /// Returns the hits of the policy that runs, and those of the best.
    fn window(&mut self, ids: impl Iterator<Item = u32>) -> [u32; 2] {
        let (mut hits, from) = (0, self.now);
        for id in ids {
            let answer = ask(&mut self.panel, &Request { now: self.now, ..request(spread(id), 1) });
            let is_hit = answer == Some(Answer::Hit);
            let asked = sums(1.0, 1.0);
            let hit = if is_hit { asked } else { Sums::default() };
            self.panel.count(self.now, Traffic { asked, hit }, 0);
            hits += u32::from(is_hit);
        }
        self.now += 1_200;
        let Report { cells, window, advice, doubt, .. } = self.panel.report(Tier::Memory, from);
        let ratios = cells.iter().filter(|cell| cell.size == 100).map(|cell| cell.ratios.hit_ratio);
        let best = ratios.fold(0.0, f64::max) * window.requests as f64;
        self.chances += u32::from(doubt.is_some_and(|doubt| doubt.ends_with("which may be chance")));
        let running = self.panel.policy().to_string();
        if let Some(switch) = self.auto.judge(self.now, &running, advice) {
            self.panel.run(&spec(&switch.to.policy));
            self.switches.push(switch.to.policy);
        }
        [hits, best.round() as u32]
    }
}

/// Where requests are independent of those before, FIFO and random eviction hit equally often (E. Gelenbe, 1973).
#[test]
fn equal_policies_are_not_exchanged_in_1000_hours_of_requests() {
    let (mut run, mut random) = (AutoRun::new(&["fifo", "rand"]), fastrand::Rng::with_seed(5));
    for _ in 0..3_000 {
        let _ = run.window((0..50).map(|_| (10_000_f64.powf(random.f64())) as u32));
    }
    assert_eq!(run.switches, Vec::<String>::new());
    assert!(run.chances > 100, "{} of 3,000 windows had enough evictions", run.chances);
}

#[test]
fn auto_follows_a_workload_that_changes_twice() {
    // A loop over more objects than fit, then recent objects again and again, then the loop: 13 hours of three windows each.
    let policies = ["lru", "rand"];
    let ids = |window: u32| {
        (0..300).map(move |at| match window / 39 {
            1 => 10_000 + (window * 300 + at) / 3 + spread(at) as u32 % 60,
            _ => (window * 300 + at) % 150,
        })
    };
    let windows = |mut run: AutoRun| -> (Vec<_>, usize) {
        let hits = (0..117).map(|window| run.window(ids(window))).collect();
        (hits, run.switches.len())
    };
    let total = |windows: &[[u32; 2]]| {
        windows.iter().fold([0, 0], |all, [hits, best]| [all[0] + hits, all[1] + best])
    };
    let fixed = policies.map(|policy| total(&windows(AutoRun::new(&[policy])).0)[0]);
    let (all, switches) = windows(AutoRun::new(&policies));
    assert!((2..=4).contains(&switches), "{switches} switches");
    let (hits, best) = (total(&all)[0], fixed.into_iter().max().unwrap_or(0));
    assert!(hits + 117 * 300 / 50 >= best, "{hits} of 35,100 hit, and {fixed:?} of fixed policies");
    // A policy runs once it was better for an hour, an hour after the one before at the earliest.
    for (hour, all) in all.chunks(3).enumerate().filter(|(hour, _)| hour % 13 > 1) {
        let [hits, best] = total(all);
        assert!(hits + 900 / 50 >= best, "hour {hour}: {hits} of 900 hit, and {best} of the best policy");
    }
}
