//! The index as one file, so that a start need not read every record.
//!
//! ```text
//! magic "LARDERIX", format u32, next segment u32, next serial u64, segments u64, objects u64,
//! for each segment: number u32, zeros u32, known up to u64, oldest serial u64, bytes of marks u64
//! for each object, the least recently used first: hash u64, segment u32, offset / 64 u32, length / 64 u32,
//!     cost u32, last used u32
//! sum of all bytes above u64 (XXH3)
//! ```
//! Numbers are little-endian. The records of a segment behind "known up to" are read again at the start.

use std::io;

use crate::files::{Files, read_all, write_all};
use crate::index::{Location, ObjectLocation};
use crate::record::{self, ALIGN, FORMAT};

/// The name of the snapshot.
pub(crate) const NAME: &str = "index.larder";
/// The name while it is written.
pub(crate) const UNFINISHED: &str = "index.larder.new";
const MAGIC: [u8; 8] = *b"LARDERIX";
const HEAD: usize = 40;
const SEGMENT: usize = 32;
const OBJECT: usize = 28;

/// The snapshot's data about a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentSummary {
    pub(crate) number: u32,
    pub(crate) up_to: u64,
    pub(crate) oldest: u64,
    pub(crate) marks: u64,
}

/// The index at one moment between two writes.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) next_segment: u32,
    pub(crate) next_serial: u64,
    pub(crate) segments: Vec<SegmentSummary>,
    pub(crate) objects: Vec<(u64, ObjectLocation)>,
}

/// The reason why a snapshot cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SnapshotFault {
    /// There is no snapshot.
    #[error("there is none")]
    Absent,
    /// Its format is a later one.
    #[error("format {0} is a later one")]
    Future(u32),
    /// It differs from the written one.
    #[error("{0}")]
    Damaged(String),
}

impl Snapshot {
    /// Returns the snapshot as bytes; sorts the objects by their last use.
    pub(crate) fn encode(&mut self) -> Vec<u8> {
        self.objects.sort_by_key(|(_, place)| place.used());
        let len = HEAD + self.segments.len() * SEGMENT + self.objects.len() * OBJECT + 8;
        let mut bytes = Vec::with_capacity(len);
        bytes.extend(MAGIC);
        bytes.extend(u32::from(FORMAT).to_le_bytes());
        bytes.extend(self.next_segment.to_le_bytes());
        bytes.extend(self.next_serial.to_le_bytes());
        bytes.extend((self.segments.len() as u64).to_le_bytes());
        bytes.extend((self.objects.len() as u64).to_le_bytes());
        for known in &self.segments {
            for number in [u64::from(known.number), known.up_to, known.oldest, known.marks] {
                bytes.extend(number.to_le_bytes());
            }
        }
        for (hash, place) in &self.objects {
            let location = place.location();
            bytes.extend(hash.to_le_bytes());
            // Both fit: they were made from 32 bits.
            let (at, len) = (location.at() / ALIGN, place.len() / ALIGN);
            for number in [location.segment.get(), at as u32, len as u32, place.cost(), place.used()] {
                bytes.extend(number.to_le_bytes());
            }
        }
        bytes.extend(record::sum(&bytes, 0).to_le_bytes());
        bytes
    }

    /// Decodes bytes of [`encode`](Self::encode); others are an error.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, SnapshotFault> {
        let damaged = |why: &str| SnapshotFault::Damaged(why.into());
        if bytes.len() < HEAD + 8 || bytes[..8] != MAGIC {
            return Err(damaged("not a snapshot"));
        }
        let (whole, sum) = bytes.split_at(bytes.len() - 8);
        if record::sum(whole, 0) != record::number(sum, 0) {
            return Err(damaged("wrong checksum"));
        }
        let both = record::number(whole, 8);
        let (format, next_segment) = (both as u32, (both >> 32) as u32);
        if format != u32::from(FORMAT) {
            return Err(SnapshotFault::Future(format));
        }
        let (segments, objects) = (record::number(whole, 24), record::number(whole, 32));
        let len = u128::from(segments) * SEGMENT as u128 + u128::from(objects) * OBJECT as u128;
        if len != (whole.len() - HEAD) as u128 {
            return Err(damaged("counts and length disagree"));
        }
        let (segments, objects) = whole[HEAD..].split_at(segments as usize * SEGMENT);
        let objects = objects.chunks_exact(OBJECT).map(object).collect::<Option<_>>();
        Ok(Self {
            next_segment,
            next_serial: record::number(whole, 16),
            segments: segments.chunks_exact(SEGMENT).map(known).collect(),
            objects: objects.ok_or_else(|| damaged("an object is in no segment"))?,
        })
    }

    /// Replaces the earlier snapshot, durably. Errors: the operating system's error; the earlier snapshot then still
    /// exists.
    pub(crate) fn write(&mut self, files: &dyn Files) -> io::Result<()> {
        match files.remove(UNFINISHED) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = files.create(UNFINISHED)?;
        write_all(&*file, &self.encode(), 0)?;
        file.sync()?;
        files.rename(UNFINISHED, NAME)?;
        files.sync()
    }

    pub(crate) fn read(files: &dyn Files) -> Result<Self, SnapshotFault> {
        let unreadable = |error: io::Error| SnapshotFault::Damaged(error.to_string());
        let file = match files.open(NAME) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(SnapshotFault::Absent),
            other => other.map_err(unreadable)?,
        };
        let size = usize::try_from(file.size().map_err(unreadable)?).unwrap_or(usize::MAX);
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size).map_err(|error| SnapshotFault::Damaged(error.to_string()))?;
        bytes.resize(size, 0);
        read_all(&*file, &mut bytes, 0).map_err(unreadable)?;
        Self::decode(&bytes)
    }
}

fn known(bytes: &[u8]) -> SegmentSummary {
    let number = |at| record::number(bytes, at);
    SegmentSummary { number: number(0) as u32, up_to: number(8), oldest: number(16), marks: number(24) }
}

fn object(bytes: &[u8]) -> Option<(u64, ObjectLocation)> {
    let half = |at: usize| (record::number(bytes, at & !7) >> (at % 8 * 8)) as u32;
    let used = u32::from_le_bytes(bytes[24..].try_into().ok()?);
    let location = Location::new(half(8), u64::from(half(12)) * ALIGN)?;
    let place = ObjectLocation::new(location, u64::from(half(16)) * ALIGN, half(20), used)?;
    Some((record::number(bytes, 0), place))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn example() -> Snapshot {
        let place = |n: u64, used| {
            ObjectLocation::new(Location::new(3, n * 64).unwrap(), 640 + n * 64, n as u32, used).unwrap()
        };
        Snapshot {
            next_segment: 4,
            next_serial: 99,
            segments: vec![SegmentSummary { number: 3, up_to: 64_000, oldest: 5, marks: 128 }],
            objects: vec![(1, place(1, 30)), (2, place(2, 10)), (3, place(3, 20))],
        }
    }

    #[test]
    fn a_snapshot_is_read_back_in_the_order_of_last_use() {
        let read = Snapshot::decode(&example().encode()).unwrap();
        assert_eq!((read.next_segment, read.next_serial, &read.segments), (4, 99, &example().segments));
        let objects: Vec<_> = read.objects.iter().map(|(hash, place)| (*hash, place.used())).collect();
        assert_eq!(objects, [(2, 10), (3, 20), (1, 30)]);
        let place = &read.objects[2].1;
        assert_eq!((place.location().at(), place.len(), place.cost()), (64, 704, 1));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let bytes = example().encode();
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Snapshot::decode(&bytes).is_err(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(Snapshot::decode(&bytes[..len]).is_err(), "{len} bytes");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_behind_a_right_sum_are_read_or_refused(
            mut bytes in proptest::collection::vec(any::<u8>(), 40..300),
            counts in proptest::option::of((0..4_u64, 0..4_u64)),
        ) {
            bytes[..8].copy_from_slice(&MAGIC);
            bytes[8..12].copy_from_slice(&1_u32.to_le_bytes());
            if let Some((segments, objects)) = counts {
                bytes[24..32].copy_from_slice(&segments.to_le_bytes());
                bytes[32..40].copy_from_slice(&objects.to_le_bytes());
            }
            let sum = record::sum(&bytes, 0);
            bytes.extend(sum.to_le_bytes());
            let _ = Snapshot::decode(&bytes);
        }
    }
}
