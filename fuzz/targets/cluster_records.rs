//! Any bytes of a value of the second tier, with a corrected checksum: no panic, and a decoded value is encoded to the
//! same bytes.

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
