//! Any bytes as a segment: no panic, and the records do not overlap.

#![no_main]

use larder_disk::check_records;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (bool, &[u8])| {
    let (repair, bytes) = input;
    check_records(bytes, repair);
});
