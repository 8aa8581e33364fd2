//! Any bytes for a value of the second tier, its sum mended: no panic, and what is understood is written as it was read.

#![no_main]

use larder_cluster::record::{MAGIC, Piece, Record, sum};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = (Record::decode(bytes), Piece::decode(bytes));
    let value = [&MAGIC[..], &sum(bytes).to_le_bytes(), bytes].concat();
    if let Some(record) = Record::decode(&value) {
        assert_eq!(record.encode(), value);
    }
});
