//! The frozen format of what a process hands to its successor. Every version reads and writes it, older and newer ones
//! alike, so it never changes: what changes is the version of a part.
//!
//! | bytes | field                                                    |
//! |-------|----------------------------------------------------------|
//! | 8     | [`MAGIC`]                                                |
//! | 4     | version of this header: [`HEADER_VERSION`]               |
//!
//! Parts follow until the stream ends:
//!
//! | bytes | field                                                    |
//! |-------|----------------------------------------------------------|
//! | 2     | length of the name                                       |
//! | n     | name, in ASCII                                           |
//! | 4     | version of the content                                   |
//! | 8     | length of the content, at most [`MAX_CONTENT`]           |
//! | 8     | checksum of the content                                  |
//! | 8     | checksum of the fields above                             |
//! | m     | content                                                  |
//!
//! Numbers are little-endian; checksums are SipHash-1-3 with a key of zeros, which detects damage and no attacker.
//! A reader skips parts and versions that it does not know, and refuses a damaged part alone. File descriptors travel
//! beside the bytes; contents name them by number, in the order in which they were sent, from 0.

use std::hash::Hasher;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;

use siphasher::sip::SipHasher13;

/// The first bytes of each direction.
const MAGIC: [u8; 8] = *b"LARDERUP";
/// The version of the header.
const HEADER_VERSION: u32 = 1;
/// The most bytes of one part's content. What is longer is divided into several parts with one name.
pub(crate) const MAX_CONTENT: usize = 64 << 20;
/// The most bytes of a name.
const MAX_NAME: usize = 255;

/// A destination of parts.
pub(crate) trait Sink {
    /// Sends a part whose content `write` writes. Errors: the error of `write`, content longer than [`MAX_CONTENT`], or
    /// the receiver has gone.
    fn part(
        &mut self,
        name: &str,
        version: u32,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()>;

    /// Sends `descriptor` with the next part. Returns its number, by which that part or a later one names it. Errors:
    /// there are too many descriptors in one part.
    fn descriptor(&mut self, descriptor: OwnedFd) -> io::Result<u32>;
}

/// A channel that carries bytes, and descriptors beside them.
pub(crate) trait Carrier: Write {
    /// Sends `descriptor` with the next bytes. Errors: there are too many at once.
    fn attach(&mut self, descriptor: OwnedFd) -> io::Result<()>;
}

/// A channel that brings bytes, and descriptors beside them.
pub(crate) trait Source: Read {
    /// Returns the descriptor with this number, once, if it has arrived.
    fn detach(&mut self, number: u32) -> Option<OwnedFd>;
}

/// Writes the header and parts.
pub(crate) struct Writer<C> {
    carrier: C,
    descriptors: u32,
}

/// Reads the header and parts.
pub(crate) struct Reader<S> {
    source: S,
}

/// A part.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) name: String,
    /// The version of the content.
    pub(crate) version: u32,
    pub(crate) content: Result<Vec<u8>, ChecksumMismatch>,
}

/// The content of a part does not have its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChecksumMismatch;

impl<C: Carrier> Writer<C> {
    /// Writes the header. Errors: the receiver has gone.
    pub(crate) fn new(mut carrier: C) -> io::Result<Self> {
        carrier.write_all(&[&MAGIC[..], &HEADER_VERSION.to_le_bytes()].concat())?;
        Ok(Self { carrier, descriptors: 0 })
    }

    /// Returns the channel.
    pub(crate) fn into_carrier(self) -> C {
        self.carrier
    }
}

impl<C: Carrier> Sink for Writer<C> {
    fn part(
        &mut self,
        name: &str,
        version: u32,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut content = Vec::new();
        write(&mut content)?;
        if content.len() > MAX_CONTENT || name.len() > MAX_NAME || !name.is_ascii() {
            let text = format!("the part {name} has {} bytes: too many", content.len());
            return Err(io::Error::new(ErrorKind::InvalidInput, text));
        }
        let mut head = (name.len() as u16).to_le_bytes().to_vec();
        head.extend_from_slice(name.as_bytes());
        head.extend_from_slice(&version.to_le_bytes());
        head.extend_from_slice(&(content.len() as u64).to_le_bytes());
        head.extend_from_slice(&checksum(&content).to_le_bytes());
        head.extend_from_slice(&checksum(&head).to_le_bytes());
        self.carrier.write_all(&head)?;
        self.carrier.write_all(&content)
    }

    fn descriptor(&mut self, descriptor: OwnedFd) -> io::Result<u32> {
        self.carrier.attach(descriptor)?;
        self.descriptors += 1;
        Ok(self.descriptors - 1)
    }
}

impl<S: Source> Reader<S> {
    /// Reads the header. Errors: it is missing, or of another version.
    pub(crate) fn new(mut source: S) -> io::Result<Self> {
        let mut magic = [0; MAGIC.len()];
        source.read_exact(&mut magic)?;
        if magic != MAGIC {
            return Err(invalid("this is no handover of larder".to_owned()));
        }
        match u32::from_le_bytes(array(&mut source)?) {
            HEADER_VERSION => Ok(Self { source }),
            other => Err(invalid(format!("the header has version {other}, not {HEADER_VERSION}"))),
        }
    }

    /// Returns the next part; `None` at the end of the stream. Errors: the fields before the content are damaged, so
    /// that the next part cannot be found, or the stream ends in a part.
    pub(crate) fn next(&mut self) -> io::Result<Option<Part>> {
        let mut head = Vec::new();
        self.source.by_ref().take(2).read_to_end(&mut head)?;
        let length = match head[..] {
            [] => return Ok(None),
            [low, high] => usize::from(u16::from_le_bytes([low, high])),
            _ => return Err(ErrorKind::UnexpectedEof.into()),
        };
        self.source.by_ref().take(length as u64).read_to_end(&mut head)?;
        let version: [u8; 4] = array(&mut self.source)?;
        let size: [u8; 8] = array(&mut self.source)?;
        let sum: [u8; 8] = array(&mut self.source)?;
        [&version[..], &size, &sum].into_iter().for_each(|field| head.extend_from_slice(field));
        let is_whole = u64::from_le_bytes(array(&mut self.source)?) == checksum(&head);
        let name = head.get(2..2 + length).and_then(|name| str::from_utf8(name).ok());
        let size = usize::try_from(u64::from_le_bytes(size)).ok().filter(|size| *size <= MAX_CONTENT);
        let (Some(name), Some(size), true) = (name, size, is_whole) else {
            return Err(invalid("a part has damaged fields".to_owned()));
        };
        let mut content = Vec::with_capacity(size);
        self.source.by_ref().take(size as u64).read_to_end(&mut content)?;
        if content.len() < size {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        let content = match checksum(&content) == u64::from_le_bytes(sum) {
            true => Ok(content),
            false => Err(ChecksumMismatch),
        };
        Ok(Some(Part { name: name.to_owned(), version: u32::from_le_bytes(version), content }))
    }

    /// Returns the channel.
    pub(crate) fn source(&mut self) -> &mut S {
        &mut self.source
    }

    /// Returns the descriptor with this number, once, if it has arrived.
    pub(crate) fn take(&mut self, number: u32) -> Option<OwnedFd> {
        self.source.detach(number)
    }
}

fn array<const N: usize>(source: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    source.read_exact(&mut bytes)?;
    Ok(bytes)
}

fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(bytes);
    hasher.finish()
}

fn invalid(text: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, text)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// A channel within one process, for tests.
    #[derive(Default)]
    pub(crate) struct Loop {
        pub(crate) bytes: VecDeque<u8>,
        descriptors: Vec<Option<OwnedFd>>,
    }

    impl Write for Loop {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.bytes.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Read for Loop {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.bytes.read(into)
        }
    }

    impl Carrier for Loop {
        fn attach(&mut self, descriptor: OwnedFd) -> io::Result<()> {
            self.descriptors.push(Some(descriptor));
            Ok(())
        }
    }

    impl Source for Loop {
        fn detach(&mut self, number: u32) -> Option<OwnedFd> {
            self.descriptors.get_mut(number as usize)?.take()
        }
    }

    fn sent(parts: &[(&str, &[u8])]) -> Loop {
        let mut writer = Writer::new(Loop::default()).unwrap();
        for (name, content) in parts {
            writer.part(name, 7, |out| out.write_all(content)).unwrap();
        }
        writer.into_carrier()
    }

    #[test]
    fn parts_arrive_in_order_with_their_versions() {
        let mut reader = Reader::new(sent(&[("one", b"first"), ("two", b"")])).unwrap();
        let part = |name: &str, content: &[u8]| Part {
            name: name.to_owned(),
            version: 7,
            content: Ok(content.to_vec()),
        };
        assert_eq!(reader.next().unwrap(), Some(part("one", b"first")));
        assert_eq!(reader.next().unwrap(), Some(part("two", b"")));
        assert_eq!(reader.next().unwrap(), None);
    }

    #[test]
    fn no_damaged_byte_is_taken_for_content() {
        let whole = sent(&[("one", b"first"), ("two", b"second")]);
        for damaged in 0..whole.bytes.len() {
            let mut channel = Loop { bytes: whole.bytes.clone(), ..Loop::default() };
            channel.bytes[damaged] ^= 1;
            let Ok(mut reader) = Reader::new(channel) else { continue };
            let mut whole = Vec::new();
            while let Ok(Some(part)) = reader.next() {
                whole.extend(part.content.ok().map(|content| (part.name, content)));
            }
            assert!(whole.len() < 2, "byte {damaged}: {whole:?}");
            for (name, content) in whole {
                assert_eq!(content, if name == "one" { &b"first"[..] } else { b"second" });
            }
        }
    }

    #[test]
    fn a_header_of_another_version_is_refused_with_both_versions() {
        for other in [HEADER_VERSION - 1, HEADER_VERSION + 1] {
            let mut channel = sent(&[("one", b"first")]);
            channel.bytes[MAGIC.len()] = other as u8;
            let refused = Reader::new(channel).err().unwrap().to_string();
            assert_eq!(refused, format!("the header has version {other}, not {HEADER_VERSION}"));
        }
    }

    #[test]
    fn a_damaged_part_is_refused_alone() {
        let mut channel = sent(&[("one", b"first"), ("two", b"second")]);
        let at = channel.bytes.iter().position(|byte| *byte == b'f').unwrap();
        channel.bytes[at] ^= 1;
        let mut reader = Reader::new(channel).unwrap();
        assert_eq!(reader.next().unwrap().unwrap().content, Err(ChecksumMismatch));
        assert_eq!(reader.next().unwrap().unwrap().content, Ok(b"second".to_vec()));
    }
}
