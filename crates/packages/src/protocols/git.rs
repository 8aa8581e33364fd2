//! git over HTTP, in version 2 of its protocol (git-scm.com/docs/protocol-v2): packs of the objects that a request names.
//!
//! Equal requests may get the same pack: its client verifies each object by its name. What branches and tags mean is another
//! command, which only the server answers.

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use larder_words::{debug_as, with_defaults};

use crate::resource::Resource;

/// The length of the checksum at the end of a pack, in bytes.
const CHECKSUM: usize = 20;

/// Knows no path: requests for packs are POSTs, which [`pack_request`] reads.
pub(crate) fn resource(_: &str) -> Option<Resource<'_>> {
    None
}

/// A packet of the protocol (git-scm.com/docs/protocol-common).
#[derive(Clone, Copy, Debug, PartialEq)]
enum Packet<'b> {
    Data(&'b [u8]),
    Flush,
    Delimiter,
}

/// There is no packet at this place.
#[derive(Debug)]
struct NotPacket;

impl<'b> Packet<'b> {
    /// Returns the packet at the start of `bytes`, and its length; `None` if it is not whole.
    fn first(bytes: &'b [u8]) -> Result<Option<(Self, usize)>, NotPacket> {
        let Some(digits) = bytes.first_chunk::<4>() else { return Ok(None) };
        let digit = |byte: &u8| char::from(*byte).to_digit(16).ok_or(NotPacket);
        let length = digits.iter().try_fold(0, |length, byte| Ok(length << 4 | digit(byte)?))? as usize;
        match length {
            0 => Ok(Some((Self::Flush, 4))),
            1 => Ok(Some((Self::Delimiter, 4))),
            2..4 => Err(NotPacket),
            _ => Ok(bytes.get(4..length).map(|data| (Self::Data(data), length))),
        }
    }
}

/// A part of a request.
enum RequestPart {
    Command,
    Capabilities,
    Arguments,
}

/// Returns what this content of a request asks for, if it is a request for a pack whose answer depends on nothing but the names
/// of objects in it. Requests with the same result may get the same pack.
pub fn pack_request(mut content: &[u8]) -> Option<Vec<u8>> {
    let (mut part, mut asked, mut is_done) = (RequestPart::Command, Vec::new(), false);
    loop {
        let (packet, length) = Packet::first(content).ok()??;
        content = &content[length..];
        match (packet, &part) {
            (Packet::Data(line), _) => {
                let line = line.strip_suffix(b"\n").unwrap_or(line);
                match part {
                    RequestPart::Command if line == b"command=fetch" => part = RequestPart::Capabilities,
                    RequestPart::Capabilities if is_neutral(line) => {}
                    RequestPart::Arguments if is_fixed(line) => {
                        is_done |= line == b"done";
                        asked.extend_from_slice(line);
                        asked.push(b'\n');
                    }
                    _ => return None,
                }
            }
            (Packet::Delimiter, RequestPart::Capabilities) => part = RequestPart::Arguments,
            // Without `done`, the answer tells which objects the server has.
            (Packet::Flush, RequestPart::Arguments) => {
                return (is_done && content.is_empty()).then_some(asked);
            }
            _ => return None,
        }
    }
}

/// Whether a capability of the client leaves the pack as it is.
fn is_neutral(line: &[u8]) -> bool {
    let beginnings: [&[u8]; 2] = [b"agent=", b"session-id="];
    line == b"object-format=sha1" || beginnings.iter().any(|start| line.starts_with(start))
}

/// Whether an argument means the same at any time: none that has the name of a branch, or a date.
fn is_fixed(line: &[u8]) -> bool {
    const WORDS: [&[u8]; 11] = [
        b"want",
        b"have",
        b"done",
        b"shallow",
        b"deepen",
        b"deepen-relative",
        b"filter",
        b"thin-pack",
        b"no-progress",
        b"include-tag",
        b"ofs-delta",
    ];
    let is_known = line.split(|byte| *byte == b' ').next().is_some_and(|word| WORDS.contains(&word));
    // A filter may name the file that lists what is wanted, and with it a branch.
    is_known && !line.windows(7).any(|part| part == b"sparse:")
}

/// A part of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
enum AnswerPart {
    BeforePack,
    Pack,
    End,
    /// It is another answer, such as an error.
    Other,
}

with_defaults! {
    /// Examines an answer while it arrives: whether it is a whole pack.
    #[derive(Clone)]
    pub struct PackCheck {
        part: AnswerPart = AnswerPart::BeforePack,
        /// The beginning of a packet, at most 64 KiB and the last piece.
        unread: Vec<u8> = Vec::new(),
        /// Of the pack before its last bytes, which are its checksum.
        hash: Context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY),
        last: Vec<u8> = Vec::new(),
    }
}

debug_as!(PackCheck, |check| "PackCheck({:?})", check.part);

impl PackCheck {
    /// Adds the next piece of the answer.
    pub fn update(&mut self, piece: &[u8]) {
        let mut unread = std::mem::take(&mut self.unread);
        unread.extend_from_slice(piece);
        let mut rest = &unread[..];
        while self.part != AnswerPart::Other {
            match Packet::first(rest) {
                Ok(Some((packet, length))) => {
                    self.part = self.after(packet);
                    rest = &rest[length..];
                }
                Ok(None) => {
                    self.unread = rest.to_vec();
                    return;
                }
                Err(NotPacket) => self.part = AnswerPart::Other,
            }
        }
    }

    /// Reads a packet, and returns the part that it leads to.
    fn after(&mut self, packet: Packet<'_>) -> AnswerPart {
        let is_of_shallow = |line: &[u8]| line.starts_with(b"shallow") || line.starts_with(b"unshallow ");
        match (self.part, packet) {
            (AnswerPart::BeforePack, Packet::Data(b"packfile\n" | b"packfile")) => AnswerPart::Pack,
            (AnswerPart::BeforePack, Packet::Data(line)) if is_of_shallow(line) => AnswerPart::BeforePack,
            (AnswerPart::BeforePack, Packet::Delimiter) => AnswerPart::BeforePack,
            (AnswerPart::Pack, Packet::Data([1, data @ ..])) => {
                self.last.extend_from_slice(data);
                let before = self.last.len().saturating_sub(CHECKSUM);
                self.hash.update(&self.last[..before]);
                self.last.drain(..before);
                AnswerPart::Pack
            }
            // Progress, for people.
            (AnswerPart::Pack, Packet::Data([2, ..])) => AnswerPart::Pack,
            (AnswerPart::Pack, Packet::Flush) => AnswerPart::End,
            _ => AnswerPart::Other,
        }
    }

    /// Whether the answer is a pack, all of it, with the checksum of its bytes.
    pub fn is_whole(self) -> bool {
        let is_at_end = self.part == AnswerPart::End && self.unread.is_empty();
        is_at_end && self.hash.finish().as_ref() == self.last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(data: &[u8]) -> Vec<u8> {
        [format!("{:04x}", data.len() + 4).as_bytes(), data].concat()
    }

    fn request(capability: &str, arguments: &[&str]) -> Vec<u8> {
        let arguments = arguments.iter().flat_map(|line| packet(format!("{line}\n").as_bytes()));
        let head = [packet(b"command=fetch"), packet(capability.as_bytes()), b"0001".to_vec()].concat();
        head.into_iter().chain(arguments).chain(*b"0000").collect()
    }

    #[test]
    fn a_request_for_objects_by_name_is_the_same_for_each_client() {
        let arguments = ["thin-pack", "ofs-delta", "want 11", "have 22", "deepen 1", "done"];
        let asked = pack_request(&request("agent=git/2.39", &arguments)).unwrap();
        assert_eq!(asked, b"thin-pack\nofs-delta\nwant 11\nhave 22\ndeepen 1\ndone\n");
        assert_eq!(pack_request(&request("agent=jgit", &arguments)), Some(asked));
    }

    #[test]
    fn requests_that_depend_on_the_server_are_not_read() {
        for (capability, arguments) in [
            ("agent=a", &["want 11", "have 22"][..]),
            ("agent=a", &["want-ref refs/heads/main", "done"]),
            ("agent=a", &["want 11", "deepen-since 1", "done"]),
            ("agent=a", &["want 11", "filter sparse:oid=main:spec", "done"]),
            ("object-format=sha256", &["want 11", "done"]),
            ("server-option=x", &["want 11", "done"]),
        ] {
            assert_eq!(pack_request(&request(capability, arguments)), None, "{arguments:?}");
        }
        let whole = request("agent=a", &["want 11", "done"]);
        assert_eq!(pack_request(&whole[..whole.len() - 1]), None);
        assert_eq!(pack_request(&[&whole[..], b"0000"].concat()), None);
        assert_eq!(pack_request(&[&packet(b"command=ls-refs")[..], b"00010000"].concat()), None);
    }

    fn answer(pack: &[u8], progress: &[u8]) -> Vec<u8> {
        let (start, end) = pack.split_at(9);
        let data = |part: &[u8]| packet(&[&[1], part].concat());
        [packet(b"packfile\n"), data(start), packet(progress), data(end), b"0000".to_vec()].concat()
    }

    #[test]
    fn a_pack_is_whole_only_with_its_end_and_its_checksum() {
        let content = b"PACK and its objects";
        let checksum = aws_lc_rs::digest::digest(&SHA1_FOR_LEGACY_USE_ONLY, content);
        let pack = [content, checksum.as_ref()].concat();
        let is_whole = |answer: &[u8], size: usize| {
            let mut check = PackCheck::default();
            answer.chunks(size).for_each(|piece| check.update(piece));
            check.is_whole()
        };
        let good = answer(&pack, b"\x02counting");
        let shallow =
            [packet(b"shallow-info\n"), packet(b"shallow 11"), b"0001".to_vec(), good.clone()].concat();
        for size in [1, 7, 1000] {
            assert!(is_whole(&good, size) && is_whole(&shallow, size));
            assert!(!is_whole(&good[..good.len() - 4], size), "no end");
            assert!(!is_whole(&[&good[..], b"0"].concat(), size), "more than the end");
            assert!(!is_whole(&answer(&pack[..39], b"\x02counting"), size), "a pack that ends early");
            assert!(!is_whole(&answer(&pack, b"\x03fatal"), size), "an error in between");
            assert!(!is_whole(&packet(b"ERR upload-pack: not our ref"), size), "an error");
        }
    }
}
