//! Any bytes as the answer of a name server: no panic, and only records of the asked name are taken.

#![no_main]

use larder_proxy::origin::records::{addresses, services};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|answer: &[u8]| {
    let _ = services(answer);
    if let Ok(found) = addresses(answer) {
        assert!((1..=64).contains(&found.addresses.len()));
        // Without answers, nothing is found.
        let mut none = answer.to_vec();
        none[6..8].fill(0);
        assert!(addresses(&none).is_err());
    }
});
