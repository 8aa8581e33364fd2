//! The encoding of one object as bytes. Independent of files.
//!
//! ```text
//! offset  size
//!  0      2  magic "LR"
//!  2      1  kind: 1 object, 2 removal, 3 clearing
//!  3      1  format version
//!  4      4  bytes of meta
//!  8      8  check of the other 56 bytes, keyed with the directory's key (SipHash-1-3)
//! 16      8  serial: of two records of one key, the higher is the later
//! 24      8  hash of the key
//! 32      8  bytes of body (48 bits), bytes of key (16 bits)
//! 40      8  sum of the table of block sums (XXH3, seeded with the serial, as all sums)
//! 48      8  sum of key and meta
//! 56      4  stored at, in seconds since 1970
//! 60      4  cost of fetching it again, in microseconds
//! 64         key, meta, body, one sum of 8 bytes for each block of 64 KiB; zeros up to a multiple of 64
//! ```
//! Numbers are little-endian. The key of the check is secret, so that a scan which resynchronises does not
//! mistake a body that contains the image of a record for a record.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;
use twox_hash::XxHash3_64;

/// The format that this version reads; records and segments of a later format are not touched.
pub(crate) const FORMAT: u8 = 1;
/// Records start at multiples of this.
pub(crate) const ALIGN: u64 = 64;
/// Bytes of the fixed part.
pub(crate) const FIXED: usize = 64;
/// Bytes of a body that have one sum.
pub(crate) const BLOCK: u64 = 64 << 10;
/// The longest key, in bytes.
pub(crate) const MOST_KEY: usize = u16::MAX as usize;
/// The longest meta, in bytes.
pub(crate) const MOST_META: usize = 1 << 20;
const MOST_BODY: u64 = (1 << 48) - 1;
const MAGIC: [u8; 2] = *b"LR";

/// The secret of a directory.
pub(crate) type Secret = [u8; 16];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    Object,
    /// Objects of this hash with a lower serial are removed.
    Removal,
    /// All objects with a lower serial are removed.
    Clearing,
}

/// The fixed part of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordPrefix {
    pub(crate) kind: RecordKind,
    pub(crate) serial: u64,
    pub(crate) hash: u64,
    pub(crate) key: u16,
    pub(crate) meta: u32,
    pub(crate) body: u64,
    pub(crate) sums: u64,
    pub(crate) names: u64,
    pub(crate) stored: u32,
    pub(crate) cost: u32,
}

impl RecordPrefix {
    /// Returns a mark of a removal; `hash` matters only for [`RecordKind::Removal`].
    pub(crate) fn mark(kind: RecordKind, serial: u64, hash: u64) -> Self {
        Self { kind, serial, hash, key: 0, meta: 0, body: 0, sums: 0, names: 0, stored: 0, cost: 0 }
    }

    /// Returns the bytes before the body.
    pub(crate) fn head(&self) -> u64 {
        FIXED as u64 + u64::from(self.key) + u64::from(self.meta)
    }

    /// Returns the bytes of the table of block sums.
    pub(crate) fn table(&self) -> u64 {
        table_len(self.body)
    }

    /// Returns the bytes of the whole record.
    pub(crate) fn len(&self) -> u64 {
        match self.kind {
            RecordKind::Object => record_len(self.head(), self.body),
            RecordKind::Removal | RecordKind::Clearing => ALIGN,
        }
    }

    pub(crate) fn encode(&self, secret: &Secret) -> [u8; FIXED] {
        let mut bytes = [0; FIXED];
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[2] = match self.kind {
            RecordKind::Object => 1,
            RecordKind::Removal => 2,
            RecordKind::Clearing => 3,
        };
        bytes[3] = FORMAT;
        bytes[4..8].copy_from_slice(&self.meta.to_le_bytes());
        let sizes = self.body | u64::from(self.key) << 48;
        for (at, number) in
            [(16, self.serial), (24, self.hash), (32, sizes), (40, self.sums), (48, self.names)]
        {
            bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
        }
        bytes[56..60].copy_from_slice(&self.stored.to_le_bytes());
        bytes[60..].copy_from_slice(&self.cost.to_le_bytes());
        let check = check(&bytes, secret);
        bytes[8..16].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    /// Corrects the check of a possible fixed part.
    pub(crate) fn repair(bytes: &mut [u8], secret: &Secret) {
        if let Ok(bytes) = <&mut [u8; FIXED]>::try_from(bytes) {
            let check = check(bytes, secret);
            bytes[8..16].copy_from_slice(&check.to_le_bytes());
        }
    }

    /// Returns `None` unless [`encode`](Self::encode) made the bytes with the same secret.
    pub(crate) fn decode(bytes: &[u8], secret: &Secret) -> Option<Self> {
        let bytes: &[u8; FIXED] = bytes.get(..FIXED)?.try_into().ok()?;
        if bytes[..2] != MAGIC || bytes[3] != FORMAT || check(bytes, secret) != number(bytes, 8) {
            return None;
        }
        let kind = match bytes[2] {
            1 => RecordKind::Object,
            2 => RecordKind::Removal,
            3 => RecordKind::Clearing,
            _ => return None,
        };
        let (sizes, last, meta) = (number(bytes, 32), number(bytes, 56), number(bytes, 0) >> 32);
        if meta > MOST_META as u64 || kind != RecordKind::Object && (meta > 0 || sizes > 0) {
            return None;
        }
        Some(Self {
            kind,
            serial: number(bytes, 16),
            hash: number(bytes, 24),
            key: (sizes >> 48) as u16,
            meta: meta as u32,
            body: sizes & MOST_BODY,
            sums: number(bytes, 40),
            names: number(bytes, 48),
            stored: last as u32,
            cost: (last >> 32) as u32,
        })
    }

    /// Whether it is worth trying to [`mend`](Self::mend) a record that begins with `bytes`: quick, and
    /// seldom true for other bytes.
    pub(crate) fn is_alike(bytes: &[u8]) -> bool {
        let image = [(0, MAGIC[0]), (1, MAGIC[1]), (3, FORMAT)];
        let flipped = image.map(|(at, byte)| bytes.get(at).map_or(u8::BITS, |b| (b ^ byte).count_ones()));
        flipped.iter().sum::<u32>() <= 1
    }

    /// Returns the fixed part that [`encode`](Self::encode) made before one bit of `bytes` flipped; `None` if
    /// there is none.
    pub(crate) fn mend(bytes: &[u8], secret: &Secret) -> Option<Self> {
        let mut bytes: [u8; FIXED] = bytes.get(..FIXED)?.try_into().ok()?;
        (0..FIXED * 8).find_map(|bit| {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let mended = Self::decode(&bytes, secret);
            bytes[bit / 8] ^= 1 << (bit % 8);
            mended
        })
    }

    /// Whether `body`, and `table` behind it, are the written ones.
    pub(crate) fn is_body(&self, body: &[u8], table: &[u8]) -> bool {
        let mut blocks = (0..).zip(body.chunks(BLOCK as usize));
        sum(table, self.serial) == self.sums
            && blocks.all(|(n, block)| is_block(block, n, self.serial, table))
    }

    /// Returns key and meta in `bytes`, which follow the fixed part; `None` if they differ from the written ones.
    pub(crate) fn names<'a>(&self, bytes: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let names = bytes.get(..usize::from(self.key) + self.meta as usize)?;
        (sum(names, self.serial) == self.names).then(|| names.split_at(usize::from(self.key)))
    }
}

/// Returns the little-endian number in the 8 bytes at `at`.
pub(crate) fn number(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn check(bytes: &[u8; FIXED], secret: &Secret) -> u64 {
    let mut hasher = SipHasher13::new_with_key(secret);
    hasher.write(&bytes[..8]);
    hasher.write(&bytes[16..]);
    hasher.finish()
}

/// Returns the checksum of `bytes`.
pub(crate) fn sum(bytes: &[u8], seed: u64) -> u64 {
    XxHash3_64::oneshot_with_seed(seed, bytes)
}

/// Returns the bytes of the sums of `body` bytes.
pub(crate) fn table_len(body: u64) -> u64 {
    body.div_ceil(BLOCK) * 8
}

/// Returns the bytes of a record whose body begins at `head` and has `body` bytes.
pub(crate) fn record_len(head: u64, body: u64) -> u64 {
    (head + body + table_len(body)).next_multiple_of(ALIGN)
}

/// The sums of a body that arrives in pieces.
#[derive(Debug)]
pub(crate) struct Sums {
    seed: u64,
    table: Vec<u8>,
    partial: Vec<u8>,
}

impl Sums {
    pub(crate) fn new(serial: u64) -> Self {
        Self { seed: serial, table: Vec::new(), partial: Vec::new() }
    }

    pub(crate) fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BLOCK as usize - self.partial.len()));
            bytes = later;
            if self.partial.is_empty() && now.len() == BLOCK as usize {
                self.push(sum(now, self.seed_of_next()));
                continue;
            }
            self.partial.extend_from_slice(now);
            if self.partial.len() == BLOCK as usize {
                self.flush();
            }
        }
    }

    /// Returns the table, as it is stored behind the body.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        if !self.partial.is_empty() {
            self.flush();
        }
        self.table
    }

    fn seed_of_next(&self) -> u64 {
        self.seed.wrapping_add(self.table.len() as u64 / 8)
    }

    fn push(&mut self, sum: u64) {
        self.table.extend_from_slice(&sum.to_le_bytes());
    }

    fn flush(&mut self) {
        self.push(sum(&self.partial, self.seed_of_next()));
        self.partial.clear();
    }
}

/// Whether `bytes` are block `block` of the record with `serial`, whose table is `table`.
pub(crate) fn is_block(bytes: &[u8], block: u64, serial: u64, table: &[u8]) -> bool {
    let at = block as usize * 8;
    at + 8 <= table.len() && number(table, at) == sum(bytes, serial.wrapping_add(block))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECRET: Secret = *b"0123456789abcdef";

    fn example() -> RecordPrefix {
        RecordPrefix {
            kind: RecordKind::Object,
            serial: 7,
            hash: 0x0123_4567_89AB_CDEF,
            key: 3,
            meta: 5,
            body: 100_000,
            sums: 11,
            names: 12,
            stored: 1_700_000_000,
            cost: 13,
        }
    }

    #[test]
    fn the_format_does_not_change_unnoticed() {
        let golden = "4c52010105000000ecb04bf685fc66310700000000000000efcdab8967452301\
                      a0860100000003000b000000000000000c0000000000000000f153650d000000";
        assert_eq!(larder_words::hex(&example().encode(&SECRET)), golden);
        assert_eq!(example().len(), 64 + 8 + 100_000 + 16 + 8);
    }

    #[test]
    fn every_flipped_bit_is_noticed_and_one_can_be_mended() {
        let bytes = example().encode(&SECRET);
        assert_eq!(RecordPrefix::decode(&bytes, &SECRET), Some(example()));
        for bit in 0..FIXED * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(RecordPrefix::decode(&bytes, &SECRET), None, "bit {bit}");
            assert!(RecordPrefix::is_alike(&bytes), "bit {bit}");
            assert_eq!(RecordPrefix::mend(&bytes, &SECRET), Some(example()), "bit {bit}");
            assert_eq!(RecordPrefix::mend(&bytes, b"another secret!!"), None, "bit {bit}");
            let next = bit / 8 * 8 + (bit + 1) % 8;
            bytes[next / 8] ^= 1 << (next % 8);
            assert_eq!(RecordPrefix::mend(&bytes, &SECRET), None, "bits {bit} and {next}");
        }
        assert_eq!(RecordPrefix::decode(&bytes, b"another secret!!"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_no_record_by_chance(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(RecordPrefix::decode(&bytes, &SECRET), None);
            prop_assert_eq!(RecordPrefix::mend(&bytes, &SECRET), None);
        }

        #[test]
        fn sums_do_not_depend_on_how_a_body_is_cut(
            body in proptest::collection::vec(any::<u8>(), 0..300_000),
            piece in 1..200_000_usize,
        ) {
            let mut whole = Sums::new(9);
            whole.add(&body);
            let mut cut = Sums::new(9);
            body.chunks(piece).for_each(|piece| cut.add(piece));
            let table = whole.finish();
            prop_assert_eq!(table.len() as u64, table_len(body.len() as u64));
            for (block, bytes) in (0..).zip(body.chunks(BLOCK as usize)) {
                prop_assert!(is_block(bytes, block, 9, &table));
                prop_assert!(!is_block(bytes, block, 10, &table));
            }
            prop_assert_eq!(table, cut.finish());
        }
    }
}
