//! The memory tier's figure for its memory equals the allocator's, after any stores, validations and removals.

use std::alloc::System;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use larder_evict::{By, Capacity, Spec};
use larder_semantics::freshness::Freshness;
use larder_store::entry::Parts;
use larder_store::{Body, Entry, Generation, Memory};
use proptest::prelude::*;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes that the index, the policy and the pool may hold beyond the tier's figure: their tables do not shrink.
const SLACK: u64 = 128 << 10;

#[derive(Clone, Debug)]
enum Step {
    /// Stores responses of these keys, with heads and bodies of this many bytes; `unique` fields of each are unique.
    Store {
        keys: std::ops::Range<u16>,
        variant: u8,
        head: u16,
        body: u16,
        unique: u8,
    },
    /// Validates the responses of these keys with new heads, as a 304 does.
    Validate {
        keys: std::ops::Range<u16>,
        head: u16,
        unique: u8,
    },
    Remove(std::ops::Range<u16>),
}

fn keys() -> impl Strategy<Value = std::ops::Range<u16>> {
    (0..500_u16, 1..300_u16).prop_map(|(from, count)| from..from + count)
}

fn step() -> impl Strategy<Value = Step> {
    let head = || prop_oneof![200..1_000_u16, 1_000..16_000_u16];
    prop_oneof![
        4 => (keys(), 0..3_u8, head(), 0..4_000_u16, 0..6_u8)
            .prop_map(|(keys, variant, head, body, unique)| Step::Store { keys, variant, head, body, unique }),
        3 => (keys(), head(), 0..6_u8).prop_map(|(keys, head, unique)| Step::Validate { keys, head, unique }),
        1 => keys().prop_map(Step::Remove),
    ]
}

/// Returns four fields with `size` bytes together.
fn fields(size: u16, unique: u8, number: u64) -> HeaderMap {
    let each = usize::from(size) / 4;
    let field = |at: u8| {
        let name = HeaderName::try_from(format!("x-field-{at}")).expect("a name");
        let number = if at < unique { number } else { 0 };
        (name, HeaderValue::try_from(format!("{number:0>each$}")).expect("digits"))
    };
    (0..4).map(field).collect()
}

fn store(memory: &Memory, key: u16, variant: u8, fields: &HeaderMap, body: u16) {
    let key = format!("http://site.test/{key}");
    let signature = [b'v', variant];
    let parts = Parts {
        key: key.as_bytes(),
        signature: if variant == 0 { &[] } else { &signature },
        status: StatusCode::OK,
        freshness: Freshness::default(),
        cost: 0,
        born: Generation::default(),
        fields: &memory.keep(fields, 0),
        body: Body::Heap(vec![0; usize::from(body)].into()),
    };
    memory.put(Entry::new(parts).expect("a short key"), None);
}

fn validate(memory: &Memory, key: u16, fields: &HeaderMap) {
    let key = format!("http://site.test/{key}");
    let Some(resident) = memory.peek(key.as_bytes(), memory.hash(key.as_bytes())) else { return };
    let old = &resident.variants()[0];
    let new =
        old.refreshed(old.signature(), &memory.keep(fields, 0), Freshness::default(), Generation::default());
    memory.put(new.expect("a short key"), Some(old));
}

fn held() -> u64 {
    let stats = HEAP.stats();
    let grown = stats.bytes_allocated as i64 - stats.bytes_deallocated as i64;
    grown.max(0) as u64
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn the_memory_tier_accounts_for_the_memory_that_it_holds(steps in prop::collection::vec(step(), 1..30)) {
        let before = held();
        let budget = 4 << 20;
        let memory = Memory::new(Capacity { by: By::Bytes, amount: budget }, &Spec::default(), 3);
        let (fixed, mut number) = (held() - before, 1_u64);
        for step in &steps {
            match step.clone() {
                Step::Store { keys, variant, head, body, unique } => for key in keys {
                    number += 1;
                    store(&memory, key, variant, &fields(head, unique, number), body);
                }
                Step::Validate { keys, head, unique } => for key in keys {
                    number += 1;
                    validate(&memory, key, &fields(head, unique, number));
                }
                Step::Remove(keys) => for key in keys {
                    memory.remove(format!("http://site.test/{key}").as_bytes());
                }
            }
            let (accounted, grown) = (memory.usage().bytes, held() - before - fixed);
            prop_assert!(accounted <= budget, "{accounted} bytes accounted for");
            let mut content = 0;
            memory.list(&mut |resident, _| {
                content += resident.variants().iter().map(|entry| entry.body().len()).sum::<u64>();
            });
            prop_assert_eq!(memory.usage().content, content);
            prop_assert!(grown <= accounted + accounted * 15 / 100 + SLACK, "{grown} held, {accounted} accounted for");
        }
        memory.clear();
        prop_assert_eq!(memory.usage().content, 0);
        prop_assert_eq!(memory.usage().bytes, 0);
    }
}
