//! Any bytes as a head: no panic, and each group's name is in the head.

#![no_main]

use larder_semantics::fields::HeadLines;
use larder_semantics::groups::{groups, tags};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let head = HeadLines(bytes);
    let names: usize = groups(&head).iter().map(String::len).sum();
    let tags: usize = tags(&head).map(<[u8]>::len).sum();
    // A member of `Surrogate-Key` with commas is several tags, and one as a whole.
    assert!(names + tags <= 2 * bytes.len());
});
