//! Purges that survive the process: a file beside the segments, to which each rule is appended.
//!
//! Responses stored before a purge may stay on the disk for a long time, so the rules of the purge stay
//! there, too. The file begins with a header; each record behind it is one rule:
//!
//! | bytes | meaning                                          |
//! |-------|--------------------------------------------------|
//! | 8     | hash of the scope                                |
//! | 4     | second of the purge (UNIX)                       |
//! | 2     | length of the prefix, or lengths of the glob     |
//! | 1     | kind of scope, as an index into [`PurgeKind::ALL`] |
//! | 1     | effect, as an index into [`Effect::ALL`]         |
//! | 8     | checksum of these fields                         |
//!
//! Numbers are little-endian. If the file contains anything else, the earlier purges are unknown: then all responses
//! received before have to be validated. A long file is rewritten, and the new file replaces the old one once it is
//! durable. Rules that cannot be written are in force nevertheless, and are written with the next ones.

use std::fs::{self, File};
use std::hash::Hasher;
use std::io::{self, BufReader, ErrorKind, Read, Write};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use siphasher::sip::SipHasher13;

use larder_semantics::purge::Effect;

use crate::private;
use crate::purges::{self, JournalPurge, PurgeKind, Purges};

/// The name of the file.
pub(super) const NAME: &str = "purges";
/// The name of a new file until it is complete.
const NEW: &str = "purges.new";
const SIZE: usize = 24;
const HEADER: &[u8; SIZE] = b"larder purges, layout 1\n";
/// A file with more records than this is rewritten.
const LONG: usize = 4 * (purges::MOST + purges::MOST_OF_ALL);

/// The journal of one directory.
pub(super) struct Journal {
    directory: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// `None`: the file has to be rewritten.
    file: Option<File>,
    records: usize,
}

/// The contents of a file.
enum Contents {
    /// This number of rules.
    Rules(usize),
    /// The file is not a journal, or is damaged.
    Damaged,
}

impl Journal {
    /// Restores the rules in `directory` to `purges`, as rules of an earlier process. Errors: the fault of the file.
    /// Then everything received up to `second` (UNIX) counts as invalid.
    pub(super) fn open(directory: &Path, purges: &Purges, second: u32) -> (Self, io::Result<()>) {
        let path = directory.join(NAME);
        // These have to be added to the file.
        let has_more = !purges.is_empty();
        let read = match private::open(private::options().read(true), &path) {
            Ok(file) => load(&mut BufReader::new(file), purges),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Contents::Rules(LONG)),
            Err(error) => Err(error),
        };
        let damage = match read {
            Ok(Contents::Rules(records)) => {
                let file = private::open(private::options().append(true), &path)
                    .ok()
                    .filter(|_| records < LONG && !has_more);
                let state = Mutex::new(State { file, records });
                return (Self { directory: directory.to_owned(), state }, Ok(()));
            }
            Ok(Contents::Damaged) => io::Error::new(ErrorKind::InvalidData, "not what was written"),
            Err(error) => error,
        };
        purges.restore(JournalPurge::everything_invalid(second));
        (Self { directory: directory.to_owned(), state: Mutex::default() }, Err(damage))
    }

    /// Appends `rules`, which are in force in `purges` already.
    pub(super) fn append(&self, rules: &[JournalPurge], purges: &Purges) -> io::Result<()> {
        let mut state = self.state.lock();
        if state.records.saturating_add(rules.len()) > LONG {
            state.file = None;
        }
        let Some(mut file) = state.file.take() else { return self.rewrite(&mut state, purges) };
        file.write_all(&bytes(rules))?;
        state.records += rules.len();
        state.file = Some(file);
        Ok(())
    }

    /// Makes the written rules durable, and writes those that could not be written before. Blocks while the
    /// disk syncs.
    pub(super) fn sync(&self, purges: &Purges) -> io::Result<()> {
        let mut state = self.state.lock();
        match &state.file {
            Some(file) => file.sync_data(),
            None if purges.is_empty() => Ok(()),
            None => self.rewrite(&mut state, purges),
        }
    }

    fn rewrite(&self, state: &mut State, purges: &Purges) -> io::Result<()> {
        let (new, rules) = (self.directory.join(NEW), purges.written());
        let mut file = private::replace(&new)?;
        file.write_all(HEADER)?;
        file.write_all(&bytes(&rules))?;
        file.sync_data()?;
        fs::rename(&new, self.directory.join(NAME))?;
        File::open(&self.directory)?.sync_all()?;
        *state = State { file: Some(file), records: rules.len() };
        Ok(())
    }
}

fn load(file: &mut impl Read, purges: &Purges) -> io::Result<Contents> {
    if next(file)?.as_ref() != Some(HEADER) {
        return Ok(Contents::Damaged);
    }
    let mut records = 0;
    loop {
        match next(file) {
            Ok(Some(record)) => match decode(&record) {
                Some(rule) => purges.restore(rule),
                None => return Ok(Contents::Damaged),
            },
            Ok(None) => return Ok(Contents::Rules(records)),
            // A crash has cut the last record off.
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Contents::Damaged),
            Err(error) => return Err(error),
        }
        records += 1;
    }
}

/// Reads the next record; returns `None` at the end. The error is `UnexpectedEof` for an incomplete record.
fn next(file: &mut impl Read) -> io::Result<Option<[u8; SIZE]>> {
    let mut record = [0; SIZE];
    let first = loop {
        match file.read(&mut record) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            read => break read?,
        }
    };
    if first == 0 {
        return Ok(None);
    }
    file.read_exact(&mut record[first..])?;
    Ok(Some(record))
}

fn bytes(rules: &[JournalPurge]) -> Vec<u8> {
    rules.iter().flat_map(encode).collect()
}

fn encode(rule: &JournalPurge) -> [u8; SIZE] {
    let mut record = [0; SIZE];
    record[..8].copy_from_slice(&rule.hash.to_le_bytes());
    record[8..12].copy_from_slice(&rule.second.get().to_le_bytes());
    record[12..14].copy_from_slice(&rule.length.to_le_bytes());
    (record[14], record[15]) = (rule.kind as u8, rule.effect as u8);
    let sum = sum(&record[..16]);
    record[16..].copy_from_slice(&sum.to_le_bytes());
    record
}

fn decode(record: &[u8; SIZE]) -> Option<JournalPurge> {
    let (about, written_sum) = record.split_last_chunk()?;
    if u64::from_le_bytes(*written_sum) != sum(about) {
        return None;
    }
    let (hash, rest) = about.split_first_chunk()?;
    let (second, rest) = rest.split_first_chunk()?;
    let (length, rest) = rest.split_first_chunk()?;
    let [kind, effect] = *rest else { return None };
    Some(JournalPurge {
        hash: u64::from_le_bytes(*hash),
        second: NonZeroU32::new(u32::from_le_bytes(*second))?,
        length: u16::from_le_bytes(*length),
        kind: *PurgeKind::ALL.get(usize::from(kind))?,
        effect: *Effect::ALL.get(usize::from(effect))?,
        origin: 0,
    })
}

fn sum(bytes: &[u8]) -> u64 {
    let mut sum = SipHasher13::new();
    sum.write(bytes);
    sum.finish()
}

#[cfg(test)]
mod tests {
    use larder_semantics::purge::Scope;
    use proptest::prelude::*;

    use super::*;

    fn tag(n: u32) -> Scope {
        Scope::Tag(n.to_string().into_bytes())
    }

    /// Returns the rules that a process finds in `directory`, and whether the file was undamaged.
    fn found(directory: &Path) -> (Vec<JournalPurge>, bool) {
        let purges = Purges::default();
        let (_, read) = Journal::open(directory, &purges, 1_000);
        (sorted(&purges), read.is_ok())
    }

    fn sorted(purges: &Purges) -> Vec<JournalPurge> {
        let mut rules = purges.written();
        rules.sort_unstable_by_key(|rule| (rule.hash, rule.effect));
        rules
    }

    /// Orders some purges and writes them to the journal.
    fn journal(directory: &Path) -> Purges {
        let purges = Purges::default();
        let (journal, read) = Journal::open(directory, &purges, 1_000);
        read.expect("nothing is there yet");
        let glob = Scope::Glob { start: b"abc".to_vec(), end: b"d".to_vec() };
        let scopes = [Scope::All, Scope::Prefix(b"abc".to_vec()), glob, Scope::Host(b"h".to_vec()), tag(0)];
        for (n, scope) in scopes.into_iter().enumerate() {
            for effect in [Effect::Stale, Effect::Invalid] {
                let (_, rules) = purges.put(&[scope.clone(), tag(n as u32)], effect, 10 + n as u32);
                journal.append(&rules, &purges).expect("there is room");
            }
        }
        purges
    }

    #[test]
    fn another_process_finds_what_was_written() {
        let directory = tempfile::tempdir().expect("a directory");
        let purges = journal(directory.path());
        assert_eq!(found(directory.path()), (sorted(&purges), true));
        assert_eq!(found(directory.path()).0.len(), 2 * 9);
    }

    #[test]
    fn a_long_file_is_rewritten() {
        let directory = tempfile::tempdir().expect("a directory");
        let purges = Purges::default();
        let (journal, _) = Journal::open(directory.path(), &purges, 1_000);
        for second in 0..(LONG as u32 / 100 + 10) {
            let scopes: Vec<_> = (0..100).map(tag).collect();
            let (_, rules) = purges.put(&scopes, Effect::Stale, second);
            journal.append(&rules, &purges).expect("there is room");
        }
        let len = directory.path().join(NAME).metadata().expect("it is there").len();
        assert!(len < (LONG * SIZE / 10) as u64, "{len}");
        assert_eq!(found(directory.path()), (sorted(&purges), true));
    }

    #[test]
    fn a_purge_rule_that_failed_to_write_is_written_with_the_next() {
        let directory = tempfile::tempdir().expect("a directory");
        let purges = Purges::default();
        let (journal, _) = Journal::open(directory.path(), &purges, 1_000);
        let blocker = directory.path().join(NEW);
        fs::create_dir(&blocker).expect("a directory of our own");
        let (_, rules) = purges.put(&[tag(1)], Effect::Remove, 5);
        assert!(journal.append(&rules, &purges).is_err());
        fs::remove_dir(&blocker).expect("it is empty");
        let (_, rules) = purges.put(&[tag(2)], Effect::Remove, 6);
        journal.append(&rules, &purges).expect("there is room");
        assert_eq!(found(directory.path()), (sorted(&purges), true));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>, is_ours: bool) {
            let header = if is_ours { &HEADER[..] } else { b"" };
            let purges = Purges::default();
            let read = load(&mut &[header, &bytes].concat()[..], &purges);
            let is_whole = is_ours && bytes.is_empty();
            prop_assert_eq!(matches!(read, Ok(Contents::Rules(0))), is_whole);
        }

        #[test]
        fn a_damaged_file_makes_everything_invalid(place: prop::sample::Index, flip in 1_u8.., cut: bool) {
            let directory = tempfile::tempdir().expect("a directory");
            journal(directory.path());
            let path = directory.path().join(NAME);
            let mut bytes = fs::read(&path).expect("it is there");
            let at = place.index(bytes.len());
            if cut { bytes.truncate(at) } else { bytes[at] ^= flip }
            fs::write(&path, &bytes).expect("it can be written");
            let (rules, is_whole) = found(directory.path());
            let cut_between = cut && at % SIZE == 0 && at > 0;
            prop_assert_eq!(is_whole, cut_between);
            prop_assert_eq!(rules.contains(&JournalPurge::everything_invalid(1_000)), !is_whole);
        }
    }
}
