//! Any bytes for a head: no panic, and no name that is not in it.

#![no_main]

use larder_semantics::fields::HeadLines;
use larder_semantics::groups::{groups, tags};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let head = HeadLines(bytes);
    let names: usize = groups(&head).iter().map(String::len).sum();
    let tags: usize = tags(&head).map(<[u8]>::len).sum();
    assert!(names + tags <= bytes.len());
});
