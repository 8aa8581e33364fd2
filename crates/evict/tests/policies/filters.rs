//! The objects that the filters admit, and the objects that TinyLFU keeps.

use larder_evict::{AnyShard, By, Capacity, InsertResult, Object, Spec};

fn shard(spec: &str, by: By, amount: u64) -> AnyShard<u64> {
    Spec::parse(spec).expect("a valid spec").build(Capacity { by, amount }, 1)
}

/// Requests `key`, and stores it with `size` on a miss. Returns whether it is resident afterwards.
fn request(shard: &mut AnyShard<u64>, key: u64, size: u64) -> bool {
    shard.get(key).is_some()
        || matches!(shard.insert(Object { key, size, cost: 0 }, key, &mut Vec::new()), InsertResult::Stored)
}

fn hits(spec: &str, amount: u64, requests: impl Iterator<Item = (u64, u64)>) -> usize {
    let mut shard = shard(spec, By::Bytes, amount);
    let hit = |&(key, size): &(u64, u64)| {
        let is_hit = shard.get(key).is_some();
        if !is_hit {
            request(&mut shard, key, size);
        }
        is_hit
    };
    requests.filter(hit).count()
}

#[test]
fn size_limits_what_enters() {
    let mut shard = shard("size:max=10B+lru", By::Bytes, 100);
    assert_eq!([9, 10, 11, 100].map(|size| request(&mut shard, size, size)), [true, true, false, false]);
    assert_eq!(shard.len(), 2);
}

#[test]
fn second_hit_lets_in_what_comes_back() {
    let mut shard = shard("secondhit+lru", By::Entries, 100);
    assert!((0..50).all(|key| !request(&mut shard, key, 1)), "nothing enters at first");
    assert!((0..50).all(|key| request(&mut shard, key, 1)), "all is remembered");
    (1_000..11_000).for_each(|key| {
        request(&mut shard, key, 1);
    });
    assert!(!request(&mut shard, 50, 1) && shard.len() < 1_000);
}

#[test]
fn tinylfu_keeps_what_is_asked_for_more_often() {
    for spec in ["tinylfu", "tinylfu+fifo", "tinylfu+lfu", "wtinylfu:window=0,adaptive=false"] {
        let mut shard = shard(spec, By::Entries, 4);
        for key in [1, 2, 3, 4, 1, 2, 3, 4] {
            assert!(request(&mut shard, key, 1), "{spec}: there is room");
        }
        assert!(!request(&mut shard, 5, 1), "{spec}: once against twice");
        assert!(!request(&mut shard, 5, 1), "{spec}: twice against twice");
        assert!(request(&mut shard, 5, 1), "{spec}: three times against twice");
        assert_eq!(shard.len(), 4);
    }
}

#[test]
fn a_large_object_has_to_outweigh_all_that_would_leave_for_it() {
    for spec in ["tinylfu", "tinylfu+fifo", "wtinylfu:window=0,adaptive=false"] {
        let mut shard = shard(spec, By::Bytes, 4);
        (1..=4).for_each(|key| assert!(request(&mut shard, key, 1)));
        let admitted: Vec<_> = (0..4).map(|_| request(&mut shard, 9, 3)).collect();
        assert_eq!(admitted, [false, false, false, true], "{spec}: four times against three times once");
        assert_eq!((shard.len(), shard.used()), (2, 4));
    }
}

#[test]
fn a_request_for_the_next_victim_makes_another_object_the_next_victim() {
    let mut shard = shard("tinylfu+lru", By::Entries, 2);
    assert!(request(&mut shard, 1, 1) && request(&mut shard, 2, 1));
    assert!(!request(&mut shard, 3, 1), "1 waits to leave, and wins");
    assert!(request(&mut shard, 1, 1));
    assert!(request(&mut shard, 3, 1), "3 wins against 2");
    assert!(shard.peek(1).is_some() && shard.peek(2).is_none());
}

/// Repeated requests for ten objects, between a stream of objects that are requested once.
fn scan() -> impl Iterator<Item = (u64, u64)> {
    (0..20_000).map(|n| if n % 10 == 0 { (n / 10 % 10, 1) } else { (100 + n, 1) })
}

#[test]
fn a_scan_does_not_drive_out_what_is_asked_for() {
    assert_eq!(hits("lru", 50, scan()), 0);
    for spec in ["tinylfu", "wtinylfu", "tinylfu+fifo", "secondhit+lru"] {
        assert!(hits(spec, 50, scan()) > 1_800, "{spec}: {} of 1990", hits(spec, 50, scan()));
    }
}

#[test]
fn adaptsize_learns_to_keep_the_large_out() {
    let requests = || {
        let mut random = fastrand::Rng::with_seed(1);
        (0..100_000).map(move |_| match random.u8(..4) {
            0 => (random.u64(1_000..2_000), 10_000),
            _ => (random.u64(..500), 100),
        })
    };
    let (lru, adaptive) = (hits("lru", 60_000, requests()), hits("adaptsize+lru", 60_000, requests()));
    assert!(adaptive > 2 * lru, "{adaptive} and {lru} of 100000");
}
