//! The hash of the files in a ZIP archive that arrives in pieces (APPNOTE.TXT by PKWARE).
//!
//! Readers of an archive go by its directory, which is at the end. Here the files are read as they arrive, so the directory
//! has to list the same files, in the same order, with nothing before, between or behind them: then all readers find the same.
//! This holds for the archives that Go's programs make.

use aws_lc_rs::digest::{Context, SHA256};
use flate2::{Crc, Decompress, FlushDecompress, Status};

/// The most bytes of a module's files (`golang.org/x/mod/zip`, `MaxZipFile`).
const MOST: u64 = 500 << 20;
/// The longest header, and the longest directory, in bytes.
const LONGEST: usize = 64 << 20;
/// Decoded bytes that are hashed at once.
const AT_ONCE: usize = 32 << 10;

const FILE: &[u8] = b"PK\x03\x04";
const DESCRIPTOR: &[u8] = b"PK\x07\x08";
const LISTED: &[u8] = b"PK\x01\x02";
const END: &[u8] = b"PK\x05\x06";

const ENCRYPTED: u16 = 1;
/// The sizes are behind the content, in a descriptor.
const DESCRIBED: u16 = 8;
const STORED: u16 = 0;
const DEFLATED: u16 = 8;

/// The files of an archive so far.
#[derive(Default)]
pub(crate) struct ArchiveHash {
    /// Bytes from this place in the archive on, of which some have been read.
    waiting: Vec<u8>,
    at: usize,
    read: usize,
    step: Step,
    files: Vec<ArchivedFile>,
    /// The length of all files but the present one.
    length: u64,
}

/// What comes next in the archive.
#[derive(Default)]
enum Step {
    #[default]
    Header,
    Content(Box<Content>),
    Descriptor,
    Directory,
    /// It has another form, or is no archive.
    Unknown,
}

/// A file whose content arrives.
struct Content {
    /// `None`: it is not compressed.
    inflater: Option<Decompress>,
    /// The length before decoding, if the header has it.
    announced: Option<u32>,
    packed: u32,
    sum: Context,
    check: Crc,
}

/// A file, with the numbers that the directory has to repeat.
struct ArchivedFile {
    name: String,
    at: usize,
    method: u16,
    check: u32,
    packed: u32,
    length: u32,
    sum: Vec<u8>,
}

impl ArchiveHash {
    /// Adds the next piece.
    pub(crate) fn update(&mut self, piece: &[u8]) {
        if matches!(self.step, Step::Unknown) {
            return;
        }
        self.waiting.extend_from_slice(piece);
        loop {
            match self.advance() {
                Some(true) => {}
                Some(false) if self.waiting.len() - self.read <= LONGEST => break,
                _ => {
                    self.step = Step::Unknown;
                    break;
                }
            }
        }
        self.waiting.drain(..self.read);
        self.at += self.read;
        self.read = 0;
    }

    /// Returns the names of all files with their SHA-256, sorted; `None` if it is not an archive of the form above.
    pub(crate) fn finish(self) -> Option<Vec<(String, Vec<u8>)>> {
        let Self { waiting, at, step, files, .. } = self;
        let mut rest = matches!(step, Step::Directory).then_some(&waiting[..])?;
        for file in &files {
            rest = file.listed(rest)?;
        }
        let count = u16::try_from(files.len()).ok()?;
        let is_end = rest.starts_with(END) && rest.len() == 22 && short(rest, 20)? == 0;
        let is_whole = [short(rest, 8)?, short(rest, 10)?] == [count, count]
            && long(rest, 12)? as usize == waiting.len() - rest.len()
            && long(rest, 16)? as usize == at;
        let mut sums: Vec<_> = files.into_iter().map(|file| (file.name, file.sum)).collect();
        sums.sort_unstable();
        let is_unique = sums.windows(2).all(|pair| pair[0].0 != pair[1].0);
        (is_end && is_whole && is_unique).then_some(sums)
    }

    /// Reads the next part, and returns whether it has arrived; `None` if it is none.
    fn advance(&mut self) -> Option<bool> {
        match self.step {
            Step::Header => self.header(),
            Step::Content(_) => self.content(),
            Step::Descriptor => {
                let rest = &self.waiting[self.read..];
                // The directory repeats what it says.
                let is_here = rest.len() >= 16;
                if is_here {
                    self.read += if rest.starts_with(DESCRIPTOR) { 16 } else { 12 };
                    self.step = Step::Header;
                }
                Some(is_here)
            }
            Step::Directory | Step::Unknown => Some(false),
        }
    }

    fn header(&mut self) -> Option<bool> {
        let head = &self.waiting[self.read..];
        if head.starts_with(LISTED) || head.starts_with(END) {
            self.step = Step::Directory;
            return Some(false);
        }
        if head.len() < 30 {
            return Some(false);
        }
        let end = 30 + usize::from(short(head, 26)?);
        let whole = end + usize::from(short(head, 28)?);
        if head.len() < whole {
            return head.starts_with(FILE).then_some(false);
        }
        let flags = short(head, 6).filter(|flags| head.starts_with(FILE) && flags & ENCRYPTED == 0)?;
        let announced = if flags & DESCRIBED == 0 { Some(long(head, 18)?) } else { None };
        let method = short(head, 8)?;
        let inflater = match method {
            STORED if announced.is_some() => None,
            DEFLATED => Some(Decompress::new(false)),
            _ => return None,
        };
        let name = str::from_utf8(&head[30..end]).ok().filter(|name| !name.contains('\n'))?.to_owned();
        let (at, sum) = (self.at + self.read, Vec::new());
        self.files.push(ArchivedFile { name, at, method, check: 0, packed: 0, length: 0, sum });
        let (sum, check) = (Context::new(&SHA256), Crc::new());
        self.step = Step::Content(Box::new(Content { inflater, announced, packed: 0, sum, check }));
        self.read += whole;
        Some(true)
    }

    fn content(&mut self) -> Option<bool> {
        let Step::Content(content) = &mut self.step else { return None };
        let (taken, is_whole) = content.read(&self.waiting[self.read..], MOST - self.length)?;
        self.read += taken;
        if !is_whole {
            return Some(false);
        }
        let file = self.files.last_mut()?;
        (file.packed, file.length, file.check) =
            (content.packed, content.check.amount(), content.check.sum());
        self.length += u64::from(file.length);
        let is_as_announced = content.announced.is_none_or(|announced| announced == content.packed);
        let next = if content.announced.is_none() { Step::Descriptor } else { Step::Header };
        if let Step::Content(content) = std::mem::replace(&mut self.step, next) {
            file.sum = content.sum.finish().as_ref().to_vec();
        }
        is_as_announced.then_some(true)
    }
}

impl Content {
    /// Reads the beginning of `packed` that belongs to the file. Returns its length, and whether the file ends there; `None` if
    /// it is malformed, or longer than `most` bytes.
    fn read(&mut self, packed: &[u8], most: u64) -> Option<(usize, bool)> {
        let (mut taken, mut is_whole) = (0, false);
        match &mut self.inflater {
            None => {
                let left = (self.announced? - self.packed) as usize;
                taken = left.min(packed.len());
                self.sum.update(&packed[..taken]);
                self.check.update(&packed[..taken]);
                is_whole = taken == left;
            }
            Some(inflater) => {
                let mut decoded = [0; AT_ONCE];
                while !is_whole {
                    let (read, written) = (inflater.total_in(), inflater.total_out());
                    let status = inflater.decompress(&packed[taken..], &mut decoded, FlushDecompress::None);
                    is_whole = status.ok()? == Status::StreamEnd;
                    let (read, written) = (inflater.total_in() - read, inflater.total_out() - written);
                    let piece = &decoded[..written as usize];
                    self.sum.update(piece);
                    self.check.update(piece);
                    taken += read as usize;
                    if (read, written) == (0, 0) || inflater.total_out() > most {
                        break;
                    }
                }
            }
        }
        self.packed = self.packed.checked_add(u32::try_from(taken).ok()?)?;
        (u64::from(self.check.amount()) <= most).then_some((taken, is_whole))
    }
}

impl ArchivedFile {
    /// Returns what follows this file in the directory, if it is listed there as it is.
    fn listed<'d>(&self, directory: &'d [u8]) -> Option<&'d [u8]> {
        let lengths = [short(directory, 28)?, short(directory, 30)?, short(directory, 32)?].map(usize::from);
        let name = directory.get(46..46 + lengths[0])?;
        let is_it = directory.starts_with(LISTED)
            && name == self.name.as_bytes()
            && short(directory, 10)? == self.method
            && [16, 20, 24].map(|at| long(directory, at)) == [self.check, self.packed, self.length].map(Some)
            && long(directory, 42)? as usize == self.at;
        directory.get(46 + lengths.iter().sum::<usize>()..).filter(|_| is_it)
    }
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use crate::digest::{Algorithm, Digest, Verifier};

    /// A module of two files, by `archive/zip` of Go, and its hash, by `golang.org/x/mod/sumdb/dirhash`.
    const ARCHIVE: &str = "\
        UEsDBBQACAAIAAAAAAAAAAAAAAAAAAAAAAAZAAAAcnNjLmlvL3RpbnlAdjEuMC4wL2dvLm1vZMrNTynNSVUoKk7Wy8zXL8nMq+QC\
        BAAA//9QSwcIhTntAxkAAAATAAAAUEsDBBQACAAIAAAAAAAAAAAAAAAAAAAAAAAXAAAAcnNjLmlvL3RpbnlAdjEuMC4wL2EuZ28q\
        SEzOTkxPVSjJzKvk4tLXVwjJzKtUyCxWKM5NzMnRGxUZFRkVoatIcn5ecQlE0FbBkAsQAAD//1BLBwiBvm+1OAAAAKEDAABQSwEC\
        FAAUAAgACAAAAAAAhTntAxkAAAATAAAAGQAAAAAAAAAAAAAAAAAAAAAAcnNjLmlvL3RpbnlAdjEuMC4wL2dvLm1vZFBLAQIUABQA\
        CAAIAAAAAACBvm+1OAAAAKEDAAAXAAAAAAAAAAAAAAAAAGAAAAByc2MuaW8vdGlueUB2MS4wLjAvYS5nb1BLBQYAAAAAAgACAIwA\
        AADdAAAAAAA=";
    const HASH: &str = "h1:y70RtXNT8ywtWeu0lqlw1oJroaJPCbKhlxIFFyiV8aI=";

    fn archive() -> Vec<u8> {
        STANDARD.decode(ARCHIVE).unwrap()
    }

    fn is_verified(archive: &[u8], at_once: usize) -> bool {
        let mut verifier = Verifier::new(vec![Digest::go(Algorithm::GoZip, HASH).unwrap()]).unwrap();
        archive.chunks(at_once).for_each(|piece| verifier.update(piece));
        verifier.finish().is_ok()
    }

    #[test]
    fn the_hash_is_that_of_the_files_in_pieces_of_any_length() {
        for at_once in [1, 7, 100, 1000] {
            assert!(is_verified(&archive(), at_once), "{at_once}");
        }
    }

    #[test]
    fn an_archive_that_readers_could_read_differently_has_another_hash() {
        let whole = archive();
        for length in 0..whole.len() {
            assert!(!is_verified(&whole[..length], 64), "{length}");
        }
        assert!(!is_verified(&[&whole, &b"x"[..]].concat(), 64));
        assert!(!is_verified(&[b"x", &whole[..]].concat(), 64));
        // The directory, which readers go by, names another file, or another place, or another check.
        let directory = whole.windows(4).position(|four| four == super::LISTED).unwrap();
        for at in [16, 20, 24, 42, 46] {
            let mut other = whole.clone();
            other[directory + at] ^= 1;
            assert!(!is_verified(&other, 64), "{at}");
        }
    }
}
