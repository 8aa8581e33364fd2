//! Tests of the procedures on data with a known truth: the rate of false verdicts, and the rate at which true claims
//! are found.

use larder_lab::workload::Random;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, Normal};

use super::{Bound, Claim, ClaimKind, Evidence, FALSE_VERDICTS, Interval, Samples, Verdict, level};

const KINDS: [ClaimKind; 4] =
    [ClaimKind::Exists, ClaimKind::Always, ClaimKind::OnAverage, ClaimKind::DependsOn("condition")];
/// Of 1,000 draws with a probability of 0.05, more than this number are seen less than once in a million (mean 50,
/// deviation 6.9). Seeds are fixed, so the tests are deterministic.
const MOST: u32 = 85;

fn random() -> Random {
    Random::seed_from_u64(23)
}

/// Lists of requests with a common deviation in all conditions, and one for each condition.
fn samples(random: &mut Random, truths: &[f64], lists: u64) -> Samples {
    let normal = Normal::new(0.0, 1.0).unwrap();
    let common: Vec<f64> = (0..lists).map(|_| normal.sample(random)).collect();
    let mut samples = Samples::default();
    for (at, truth) in truths.iter().enumerate() {
        let values: Vec<_> =
            (0..).zip(&common).map(|(list, common)| (list, truth + common + normal.sample(random))).collect();
        samples.add(&at.to_string(), values);
    }
    samples
}

fn claim(random: &mut Random, kind: ClaimKind, truths: &[f64], lists: u64) -> Claim {
    let evidence = Evidence::Sampled(samples(random, truths, lists), Bound::Above(0.0));
    Claim { kind, evidence, unit: (1.0, "points") }
}

fn verdicts(claims: &[Claim]) -> Vec<Verdict> {
    let chances: Vec<f64> = claims.iter().filter_map(Claim::chance).collect();
    let level = level(&chances, FALSE_VERDICTS);
    claims.iter().map(|claim| claim.verdict(level)).collect()
}

fn is_decided(verdict: &Verdict) -> bool {
    !matches!(verdict, Verdict::Open(_))
}

#[test]
fn a_claim_on_its_threshold_is_decided_at_most_once_in_twenty() {
    for kind in KINDS {
        for (conditions, lists) in [(1, 3), (6, 3), (6, 20)] {
            let mut random = random();
            let truths = vec![0.0; conditions];
            let wrong = (0..1_000).filter(|_| {
                let claim = claim(&mut random, kind, &truths, lists);
                is_decided(&claim.verdict(FALSE_VERDICTS))
            });
            let wrong = wrong.count() as u32;
            assert!(wrong <= MOST, "{kind:?}, {conditions} conditions, {lists} lists: {wrong} of 1000");
        }
    }
}

#[test]
fn a_report_of_untrue_claims_rarely_has_a_verdict() {
    let mut random = random();
    let reports = 400;
    let wrong = (0..reports).filter(|_| {
        let claims: Vec<_> = (0..52).map(|at| claim(&mut random, KINDS[at % 4], &[0.0; 5], 5)).collect();
        verdicts(&claims).iter().any(is_decided)
    });
    let wrong = wrong.count();
    // Mean 20, deviation 4.4.
    assert!(wrong <= 42, "{wrong} of {reports}");
    // Without the correction, nearly every report would have a false verdict.
    let claims: Vec<_> = (0..52).map(|_| claim(&mut random, ClaimKind::OnAverage, &[0.0], 5)).collect();
    assert!(claims.iter().any(|claim| claim.chance().unwrap() <= FALSE_VERDICTS));
}

#[test]
fn always_is_not_said_of_what_fails_in_one_condition() {
    let mut random = random();
    let holds = (0..1_000).filter(|_| {
        let claim = claim(&mut random, ClaimKind::Always, &[0.0, 9.0, 9.0, 9.0], 8);
        claim.verdict(FALSE_VERDICTS) == Verdict::Holds
    });
    let holds = holds.count() as u32;
    assert!(holds <= MOST / 2 + 10, "{holds} of 1000");
}

#[test]
fn true_claims_are_found_among_others() {
    let mut random = random();
    let (mut found, mut wrong, mut all) = (0, 0, 0);
    for _ in 0..100 {
        let truth = |at: usize| if at < 26 { 4.0 } else { 0.0 };
        let claims: Vec<_> =
            (0..52).map(|at| claim(&mut random, ClaimKind::OnAverage, &[truth(at); 4], 6)).collect();
        let verdicts = verdicts(&claims);
        found += verdicts[..26].iter().filter(|verdict| **verdict == Verdict::Holds).count();
        wrong += verdicts[26..].iter().filter(|verdict| is_decided(verdict)).count();
        all += verdicts.iter().filter(|verdict| is_decided(verdict)).count();
    }
    assert!(found >= 2_500, "power: {found} of 2600");
    assert!(f64::from(wrong as u32) / f64::from(all as u32) <= FALSE_VERDICTS, "{wrong} of {all} are false");
}

#[test]
fn intervals_hold_the_truth_95_times_in_100_where_lists_are_shared() {
    let mut random = random();
    let holds = (0..1_000).filter(|_| {
        let samples = samples(&mut random, &[1.0, 2.0, 3.0], 5);
        let overall = samples.overall(Bound::Above(0.0)).unwrap();
        (overall.mean - 2.0).abs() <= overall.margin().unwrap()
    });
    let holds = holds.count();
    assert!((920..=980).contains(&holds), "{holds} of 1000");
}

#[test]
fn power_of_20_lists_is_80_percent() {
    let mut random = random();
    let normal = Normal::new(0.0, 1.0).unwrap();
    let draw = |random: &mut Random, truth: f64| -> Vec<f64> {
        (0..20).map(|_| truth + normal.sample(random)).collect()
    };
    // The deviation is known here: 1, so that the error is 1/sqrt(20), and the distance about 0.66.
    let distance = Interval::of(&draw(&mut random, 0.0)).unwrap().detectable(0.05).unwrap();
    assert!((0.45..0.9).contains(&distance), "{distance}");
    let found =
        (0..1_000).filter(|_| Interval::of(&draw(&mut random, 0.66)).unwrap().chance_above(0.0) <= 0.025);
    let found = found.count();
    assert!((740..=860).contains(&found), "{found} of 1000");
}

#[test]
fn each_kind_has_its_own_rule() {
    let decide = |kind, conditions: &[f64]| {
        let mut samples = Samples::default();
        for (at, truth) in conditions.iter().enumerate() {
            let values = [-0.01, 0.0, 0.01, 0.005].map(|noise| truth + noise);
            samples.add(&format!("{}0%", at + 1), (0..).zip(values));
        }
        Claim { kind, evidence: Evidence::Sampled(samples, Bound::Above(0.0)), unit: (1.0, "") }.verdict(0.05)
    };
    let mixed = [1.0, -0.2];
    assert_eq!(decide(ClaimKind::Exists, &mixed), Verdict::Holds);
    assert_eq!(decide(ClaimKind::Always, &mixed), Verdict::Fails);
    assert_eq!(decide(ClaimKind::OnAverage, &mixed), Verdict::Holds);
    let depends = Verdict::Depends("it holds at 10%, and the contrary holds at 20%".to_owned());
    assert_eq!(decide(ClaimKind::DependsOn("size"), &mixed), depends);
    for kind in KINDS {
        assert_eq!(
            (decide(kind, &[1.0, 0.5]), decide(kind, &[-1.0, -0.5])),
            (Verdict::Holds, Verdict::Fails)
        );
        assert!(!is_decided(&decide(kind, &[])), "{kind:?}");
        assert!(matches!(decide(kind, &[-0.001, 0.001]), Verdict::Open(why) if why.contains("4 lists")));
    }
}

#[test]
fn an_open_verdict_tells_what_the_mean_over_the_conditions_shows() {
    let mut samples = Samples::default();
    for (name, noise) in [("10%", [-2.0, 2.0, -2.0, 2.0]), ("20%", [2.1, -2.0, 2.0, -2.05])] {
        samples.add(name, (0..).zip(noise.map(|noise| noise - 1.0)));
    }
    let evidence = Evidence::Sampled(samples, Bound::Above(0.0));
    let verdict = Claim { kind: ClaimKind::DependsOn("size"), evidence, unit: (1.0, "ms") }.verdict(0.05);
    let Verdict::Open(why) = verdict else { panic!("{verdict:?}") };
    assert!(
        why.starts_with("4 lists of requests are too few to decide it in any single condition; "),
        "{why}"
    );
    assert!(why.ends_with("; on average over the conditions, the contrary holds"), "{why}");
}

#[test]
fn counted_cases_decide_by_examples() {
    let decide = |kind, so, of| {
        Claim { kind, evidence: Evidence::Counted { so, of }, unit: (1.0, "") }.verdict(FALSE_VERDICTS)
    };
    assert_eq!(decide(ClaimKind::Exists, 1, 400), Verdict::Holds);
    assert!(!is_decided(&decide(ClaimKind::Exists, 0, 400)));
    assert_eq!(decide(ClaimKind::Always, 399, 400), Verdict::Fails);
    assert_eq!(decide(ClaimKind::Always, 400, 400), Verdict::Holds);
    assert!(!is_decided(&decide(ClaimKind::Always, 40, 40)) && !is_decided(&decide(ClaimKind::Always, 0, 0)));
    // The rule: if the true share is 5 of 100, 59 cases contain none of them in fewer than 5 of 100 tries.
    assert!(0.95_f64.powi(59) < 0.05 && 0.95_f64.powi(58) > 0.05);
}
