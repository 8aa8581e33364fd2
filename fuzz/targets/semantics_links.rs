//! Any bytes as a head: no panic, and each link is in the head and within the limits.

#![no_main]

use larder_semantics::early_hints::{MOST_BYTES, MOST_LINKS, links};
use larder_semantics::fields::HeadLines;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let head = HeadLines(bytes);
    let found: Vec<_> = links(&head).collect();
    let length: usize = found.iter().map(|link| link.len()).sum();
    assert!(found.len() <= MOST_LINKS && length <= MOST_BYTES.min(bytes.len()));
    assert!(found.iter().all(|link| link.starts_with(b"<") && !link.contains(&b'\n')));
});
