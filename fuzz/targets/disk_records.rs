//! Any bytes for a segment: no panic, and records that lie one behind the other.

#![no_main]

use larder_disk::check_records;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, &[u8])| {
    let (repair, bytes) = input;
    check_records(bytes, repair);
});
