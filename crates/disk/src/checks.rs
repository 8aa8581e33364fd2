//! The parsers of bytes from the disk, for fuzzing: none may panic on any bytes.

use std::fs;
use std::io;
use std::ops::ControlFlow;

use crate::files::File;
use crate::record::{ALIGN, FIXED, RecordPrefix, Secret, sum};
use crate::scan::scan;
use crate::snapshot::Snapshot;

const SECRET: Secret = [0; 16];

/// Reads `bytes` as a segment's records and returns how many there are. With `repair`, the check of every
/// possible head is corrected first, which otherwise requires the secret of the directory.
pub fn check_records(bytes: &[u8], repair: bool) -> u64 {
    let mut bytes = bytes.to_vec();
    for head in bytes.chunks_exact_mut(ALIGN as usize).filter(|_| repair) {
        RecordPrefix::repair(head, &SECRET);
    }
    let (mut records, mut end, len) = (0, 0, bytes.len() as u64);
    scan(&Bytes(bytes), (0, len), &SECRET, &mut |at, fixed| {
        assert!(at >= end && at % ALIGN == 0 && at + fixed.len() <= len, "records lie one behind the other");
        assert!(fixed.len() >= FIXED as u64 && fixed.len() % ALIGN == 0);
        (records, end) = (records + 1, at + fixed.len());
        ControlFlow::Continue(())
    });
    records
}

/// Reads `bytes` as a snapshot and returns the number of objects in it, if it is one. With `repair`, the
/// checksum at its end is corrected first.
pub fn check_snapshot(bytes: &[u8], repair: bool) -> Option<usize> {
    let mut bytes = bytes.to_vec();
    if repair {
        bytes.extend(sum(&bytes, 0).to_le_bytes());
    }
    let mut snapshot = Snapshot::decode(&bytes).ok()?;
    let objects = snapshot.objects.len();
    let again = Snapshot::decode(&snapshot.encode());
    assert_eq!(again.map(|again| again.objects.len()), Ok(objects), "it can be written again");
    Some(objects)
}

struct Bytes(Vec<u8>);

impl File for Bytes {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let rest = self.0.get(usize::try_from(at).unwrap_or(usize::MAX)..).unwrap_or_default();
        let len = rest.len().min(into.len());
        into[..len].copy_from_slice(&rest[..len]);
        Ok(len)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }

    fn as_file(&self) -> Option<&fs::File> {
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::record::RecordKind;

    #[test]
    fn a_scan_finds_its_way_again() {
        let mark = |serial| RecordPrefix::mark(RecordKind::Removal, serial, 1).encode(&SECRET);
        let noise = [0xA5; 640];
        let segment = [&mark(1)[..], &noise, &mark(2), &[0; 6400], &mark(3), &noise[..10]].concat();
        assert_eq!(check_records(&segment, false), 3);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_left_out(
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(0)], 0..1000),
            kinds in proptest::collection::vec(1..5_u8, 0..16),
            repair in any::<bool>(),
        ) {
            let mut bytes = bytes;
            for (head, kind) in bytes.chunks_exact_mut(64).zip(kinds) {
                head[..4].copy_from_slice(&[b'L', b'R', kind, 1]);
            }
            check_records(&bytes, repair);
            check_snapshot(&bytes, repair);
        }
    }
}
