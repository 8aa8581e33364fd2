//! Any bytes for the field and for two queries, separated by line ends: no panic, and the equivalence of queries is
//! symmetric.

#![no_main]

use larder_semantics::no_vary_search::Variation;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut lines = bytes.splitn(3, |&byte| byte == b'\n');
    let Some(variation) = lines.next().and_then(Variation::parse) else { return };
    let (one, other) = (lines.next(), lines.next());
    let same = variation.canonical(one) == variation.canonical(other);
    assert_eq!(variation.equivalent(one, other), same);
    assert_eq!(variation.equivalent(other, one), same);
    assert!(variation.canonical(one).len() <= 8 * one.map_or(0, <[u8]>::len) + 8);
});
