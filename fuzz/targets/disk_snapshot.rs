//! Any bytes as a snapshot: no panic, and a decoded snapshot can be encoded again.

#![no_main]

use larder_disk::check_snapshot;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, &[u8])| {
    let (repair, bytes) = input;
    check_snapshot(bytes, repair);
});
