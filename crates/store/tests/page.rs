//! The memory of an ordinary page beyond its content, by the store's count and by the allocator's.

use std::alloc::System;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use larder_evict::{By, Capacity, Spec};
use larder_semantics::date;
use larder_semantics::freshness::Freshness;
use larder_store::entry::Parts;
use larder_store::{Body, Entry, Generation, Memory};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static HEAP: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PAGES: u32 = 60_000;
const CONTENT: usize = 1024;
/// The most bytes of a page beyond its content.
const MOST: u64 = 300;
const NOW: u32 = 1_790_000_000;

fn fields(number: u32) -> HeaderMap {
    let modified = date::format(NOW - 7 * number);
    let tag = format!("\"{:x}-400\"", 0x6955_b900 + number);
    let lines: [(&'static str, &[u8]); 5] = [
        ("content-type", b"text/html; charset=utf-8"),
        ("server", b"origin/1.0"),
        ("cache-control", b"public, max-age=86400"),
        ("last-modified", &modified),
        ("etag", tag.as_bytes()),
    ];
    let line = |(name, value)| (HeaderName::from_static(name), HeaderValue::from_bytes(value).expect("text"));
    lines.into_iter().map(line).collect()
}

fn key(number: u32) -> String {
    format!("http://127.0.0.1:40000/documents/section/{:03}/page-{number:08}.html", number % 1000)
}

fn store(memory: &Memory, number: u32) -> bool {
    let (key, date) = (key(number), NOW + number / 1000);
    let parts = Parts {
        key: key.as_bytes(),
        signature: &[],
        status: StatusCode::OK,
        freshness: Freshness { received: date, date, lifetime: 86_400, ..Freshness::default() },
        cost: 900,
        born: Generation::default(),
        fields: &memory.keep(&fields(number), date),
        body: Body::Heap(vec![1; CONTENT].into()),
    };
    memory.put(Entry::new(parts).expect("a short key"), None)
}

fn held() -> u64 {
    let stats = HEAP.stats();
    (stats.bytes_allocated - stats.bytes_deallocated) as u64
}

/// Tests one budget with room for all pages, and one with room for a third of the pages stored.
#[test]
fn an_ordinary_page_takes_at_most_300_bytes_beyond_its_content() {
    for (budget, most) in [(512 << 20, PAGES), (24 << 20, 3 * PAGES / 4)] {
        let before = held();
        let memory = Memory::new(Capacity { by: By::Bytes, amount: budget }, &Spec::default(), 3);
        let fixed = held() - before;
        for number in 0..most {
            let stored = store(&memory, number);
            assert!(stored || budget < 512 << 20, "page {number}");
        }
        let (usage, grown) = (memory.usage(), held() - before - fixed);
        let (accounted, grown) = (usage.bytes / usage.objects, grown / usage.objects);
        let beyond = accounted - CONTENT as u64;
        println!("{} pages: {beyond} bytes accounted for, {} held", usage.objects, grown - CONTENT as u64);
        assert!(usage.objects > 10_000, "{} pages", usage.objects);
        assert!(beyond <= MOST, "{beyond} bytes beyond the content");
        assert!(grown * 100 <= accounted * 115, "{grown} bytes held, {accounted} accounted for");
        assert!(accounted * 100 <= grown * 115, "{grown} bytes held, {accounted} accounted for");
    }
}
