//! Any bytes for a snapshot: no panic, and what is read can be written again.

#![no_main]

use larder_disk::check_snapshot;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, &[u8])| {
    let (repair, bytes) = input;
    check_snapshot(bytes, repair);
});
