//! Checks that each workload matches its description, and is the same for the same seed.

use std::collections::HashMap;

use larder_lab::workload::{
    self, Crud, Dataset, Latency, Method, Order, Pages, Rate, Sizes, WorkloadRequest,
};

const PAGES: Pages =
    Pages { sizes: Sizes::Lognormal { median: 8192.0, sigma: 1.3 }, latency: Latency::Constant(20_000) };

fn steps(order: &Order, seed: u64) -> Vec<WorkloadRequest> {
    workload::pages(order, &PAGES, Rate(10.0), seed).steps.collect()
}

fn crud(seed: u64) -> Vec<WorkloadRequest> {
    let crud = Crud { requests: 20_000, entities: 100, writes: 0.2, exponent: 0.99 };
    crud.workload(&PAGES, Rate(10.0), seed).steps.collect()
}

fn counts(steps: &[WorkloadRequest]) -> HashMap<&str, usize> {
    let mut counts = HashMap::new();
    steps.iter().for_each(|step| *counts.entry(step.path.as_str()).or_default() += 1);
    counts
}

fn orders() -> Vec<Order> {
    vec![
        Order::Shuffle { pages: 40, copies: 7..=16 },
        Order::Staged { pages: 40, rounds: 50, locality: 0.0 },
        Order::Zipf { requests: 5_000, pages: 300, exponent: 0.9 },
        Order::Browsing(Dataset::One),
        Order::Browsing(Dataset::Two),
        Order::Web(workload::Web::default()),
        Order::Scan { requests: 5_000, pages: 300, exponent: 0.9, every: 1_000, length: 200 },
        Order::Burst { requests: 5_000, pages: 300, exponent: 0.9, span: (2_000, 3_000), share: 0.8 },
    ]
}

#[test]
fn the_same_seed_makes_the_same_workload() {
    for order in orders() {
        let once = steps(&order, 7);
        assert!(!once.is_empty());
        assert_eq!(once, steps(&order, 7), "{}", order.describe());
        assert_ne!(once, steps(&order, 8), "{}", order.describe());
        assert!(once.is_sorted_by_key(|step| step.time));
    }
    assert_eq!(crud(7), crud(7));
}

#[test]
fn a_page_keeps_its_size_and_cost() {
    for order in orders() {
        let mut seen = HashMap::new();
        for step in steps(&order, 7) {
            let first = *seen.entry(step.path.clone()).or_insert((step.size, step.cost));
            assert_eq!(first, (step.size, step.cost), "{}", order.describe());
        }
    }
}

#[test]
fn shuffled_pages_come_seven_to_sixteen_times() {
    let steps = steps(&orders()[0], 1);
    let counts = counts(&steps);
    assert_eq!(counts.len(), 40);
    assert!(counts.values().all(|count| (7..=16).contains(count)), "{counts:?}");
    assert!(counts.values().any(|&count| count < 9) && counts.values().any(|&count| count > 14));
}

#[test]
fn stages_go_from_small_to_the_largest() {
    let steps = steps(&orders()[1], 1);
    let largest = steps.iter().map(|step| step.size).max().unwrap();
    let rounds: Vec<_> = steps.chunks(8).collect();
    assert_eq!(rounds.len(), 50);
    for round in rounds {
        let sizes: Vec<_> = round.iter().map(|step| step.size).collect();
        assert_eq!(sizes[7], largest);
        assert!(sizes[..5].iter().max() <= sizes[5..7].iter().min(), "{sizes:?}");
    }
}

#[test]
fn with_locality_stages_repeat_pages_of_the_round_before() {
    let repeated = |locality| {
        let steps = steps(&Order::Staged { pages: 100, rounds: 400, locality }, 1);
        let rounds: Vec<Vec<&str>> =
            steps.chunks(8).map(|round| round.iter().map(|step| step.path.as_str()).collect()).collect();
        let again =
            rounds.windows(2).map(|pair| pair[1][..7].iter().filter(|page| pair[0].contains(page)).count());
        again.sum::<usize>() as f64 / (7 * (rounds.len() - 1)) as f64
    };
    // With even draws, 5 of 70 small pages and 2 of 29 larger ones are repeated by chance.
    assert!((0.05..0.09).contains(&repeated(0.0)), "{}", repeated(0.0));
    assert!((0.5..0.57).contains(&repeated(0.5)), "{}", repeated(0.5));
    assert_eq!(repeated(1.0), 1.0);
}

#[test]
fn ranks_follow_zipf() {
    let steps = steps(&Order::Zipf { requests: 200_000, pages: 1_000, exponent: 1.0 }, 1);
    let counts = counts(&steps);
    let expected = 200_000.0 / (1..=1_000).map(|rank| 1.0 / f64::from(rank)).sum::<f64>();
    for (page, rank) in [("/page/0", 1.0), ("/page/1", 2.0), ("/page/9", 10.0)] {
        let share = counts[page] as f64 * rank / expected;
        assert!((0.93..1.07).contains(&share), "{page}: {share} of what is expected");
    }
}

#[test]
fn walks_visit_pages_once() {
    let steps = steps(&orders()[6], 1);
    let counts = counts(&steps);
    let walked: Vec<_> = steps[1_000..1_200].iter().map(|step| counts[step.path.as_str()]).collect();
    assert_eq!(walked, [1; 200]);
}

#[test]
fn a_burst_begins_and_ends() {
    let steps = steps(&orders()[7], 1);
    let sudden =
        |range: std::ops::Range<usize>| steps[range].iter().filter(|step| step.path == "/page/300").count();
    assert_eq!((sudden(0..2_000), sudden(3_000..5_000)), (0, 0));
    assert!((760..840).contains(&sudden(2_000..3_000)), "{}", sudden(2_000..3_000));
}

#[test]
fn one_request_in_five_changes_something_and_is_valid() {
    let steps = crud(1);
    let writes: Vec<_> = steps.iter().filter(|step| step.method != Method::Get).collect();
    assert!((3_800..4_200).contains(&writes.len()), "{}", writes.len());
    for step in &steps {
        let needs_body = matches!(step.method, Method::Post | Method::Put | Method::Patch);
        assert_eq!(step.body.starts_with('{') && step.body.ends_with('}'), needs_body, "{step:?}");
        let parts = step.path.split('/').count();
        assert!(step.method != Method::Post || parts == 2, "a collection is added to: {step:?}");
        assert!(
            matches!(step.method, Method::Get | Method::Post) || parts == 3,
            "a thing is changed: {step:?}"
        );
    }
}
