//! Decoders of the content codings, and of xz.

use std::io::{self, BufRead, Read};
use std::mem;

use brotli_decompressor::{BrotliDecoderParameter, Decompressor};
use flate2::bufread::GzDecoder;

use larder_semantics::coding::Coding;
use lzma_rust2::XzReader;

/// Returns a reader of the content whose coded form is `input`. A form by zstd may need a window of two to this power.
///
/// # Errors
/// The decoder cannot be created.
#[inline(never)]
pub fn reader(coding: Coding, input: &[u8], window: u32) -> io::Result<Box<dyn Read + '_>> {
    Ok(match coding {
        Coding::Gzip => Box::new(Members::new(input)),
        Coding::Brotli => Box::new(brotli(input)),
        Coding::Zstd => Box::new(zstd(input, window)?),
    })
}

/// Decodes the members of a form by gzip. Bytes behind a member that do not begin another one are padding, as for `gzip`.
struct Members<R> {
    member: GzDecoder<R>,
    place: Place,
}

/// What is read next of a form by gzip.
#[derive(Clone, Copy)]
enum Place {
    Member,
    MemberOrEnd,
    Padding,
}

impl<R: BufRead> Members<R> {
    fn new(input: R) -> Self {
        Self { member: GzDecoder::new(input), place: Place::Member }
    }
}

impl<R: BufRead + Default> Read for Members<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Place::Member = self.place {
                match self.member.read(to)? {
                    0 => self.place = Place::MemberOrEnd,
                    read => return Ok(read),
                }
            }
            let input = self.member.get_mut();
            match (input.fill_buf()?, self.place) {
                ([], _) => return Ok(0),
                ([0x1f] | [0x1f, 0x8b, ..], Place::MemberOrEnd) => {
                    let input = mem::take(input);
                    self.member.reset(input);
                    self.place = Place::Member;
                }
                (padding, _) => {
                    let len = padding.len();
                    input.consume(len);
                    self.place = Place::Padding;
                }
            }
        }
    }
}

fn zstd<'d, R: BufRead>(input: R, window: u32) -> io::Result<zstd::Decoder<'d, R>> {
    let mut decoder = zstd::Decoder::with_buffer(input)?;
    decoder.window_log_max(window)?;
    Ok(decoder)
}

fn brotli<R: Read>(input: R) -> Decompressor<R> {
    let mut decoder = Decompressor::new(input, BUFFER);
    // Windows of up to 1 GiB are no part of the coding `br` (RFC 7932), which has 16 MiB at most.
    decoder.set_parameter(BrotliDecoderParameter::BROTLI_DECODER_PARAM_LARGE_WINDOW, 0);
    decoder
}

/// The coded bytes that the decoder of brotli reads at once.
const BUFFER: usize = 64 << 10;

/// Decodes content that arrives in pieces.
pub struct StreamDecoder(Box<dyn Library>);

/// A decoder of a library, and the bytes that it has not read.
trait Library: Read + Send + Sync {
    fn arrived(&mut self) -> &mut CodedInput;
}

/// Coded bytes that have arrived. A reader of the last one learns that more follow, or that this is the end.
#[derive(Default)]
struct CodedInput {
    bytes: Vec<u8>,
    at: usize,
    is_end: bool,
}

impl StreamDecoder {
    /// Returns a decoder of `coding`. A form by zstd may need a window of two to the power of `window`.
    ///
    /// # Errors
    /// The decoder cannot be created.
    pub fn new(coding: Coding, window: u32) -> io::Result<Self> {
        let none = CodedInput::default();
        Ok(Self(match coding {
            Coding::Gzip => Box::new(Members::new(none)),
            Coding::Brotli => Box::new(brotli(none)),
            Coding::Zstd => Box::new(zstd(none, window)?),
        }))
    }

    /// Adds coded bytes, once [`read`](Self::read) has returned 0.
    pub fn put(&mut self, coded: &[u8]) {
        if !coded.is_empty() {
            let arrived = self.0.arrived();
            arrived.bytes.drain(..mem::take(&mut arrived.at));
            arrived.bytes.extend_from_slice(coded);
        }
    }

    /// Notes that all coded bytes have arrived.
    pub fn end(&mut self) {
        self.0.arrived().is_end = true;
    }

    /// Decodes some of what has arrived, and returns the number of bytes; 0 if more has to arrive, or after the end.
    ///
    /// # Errors
    /// The bytes are not in the coding, end early, or need a larger window.
    pub fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        // Content without a byte has no coding, whatever its fields say.
        if self.0.arrived().bytes.is_empty() {
            return Ok(0);
        }
        match self.0.read(to) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            // The decoder of brotli stops at the end of the content, and fails later if it has read bytes behind that.
            Ok(0) if !self.0.arrived().fill_buf().unwrap_or_default().is_empty() => Err(behind_the_end()),
            Ok(0) => self.0.read(to),
            read => read,
        }
    }
}

fn behind_the_end() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "there are bytes behind the end of the content")
}

impl Library for Members<CodedInput> {
    fn arrived(&mut self) -> &mut CodedInput {
        self.member.get_mut()
    }
}

impl Library for Decompressor<CodedInput> {
    fn arrived(&mut self) -> &mut CodedInput {
        self.get_mut()
    }
}

impl Library for zstd::Decoder<'static, CodedInput> {
    fn arrived(&mut self) -> &mut CodedInput {
        self.get_mut()
    }
}

impl Read for CodedInput {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(to)?;
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for CodedInput {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match &self.bytes[self.at..] {
            [] if !self.is_end => Err(io::ErrorKind::WouldBlock.into()),
            left => Ok(left),
        }
    }

    fn consume(&mut self, count: usize) {
        self.at += count;
    }
}

/// Returns the content whose coded form is `input`; `None` if it is not in that coding, needs a larger window, or has more
/// than `most` bytes.
#[inline(never)]
pub fn decode(coding: Coding, input: &[u8], window: u32, most: u64) -> Option<Vec<u8>> {
    read_all(&mut *reader(coding, input, window).ok()?, most)
}

/// Returns the content of an xz file; `None` if it is none, needs more than `memory` KiB, or has more than `most` bytes.
#[inline(never)]
pub fn decode_xz(file: &[u8], memory: u32, most: u64) -> Option<Vec<u8>> {
    read_all(&mut XzReader::new_mem_limit(file, true, memory), most)
}

/// Returns all that `reader` has, unless it has more than `most` bytes.
fn read_all(reader: &mut dyn Read, most: u64) -> Option<Vec<u8>> {
    let mut content = Vec::new();
    reader.take(most + 1).read_to_end(&mut content).ok()?;
    (content.len() as u64 <= most).then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode;

    /// Decodes `coded` in pieces of `piece` bytes.
    fn streamed(coding: Coding, coded: &[u8], piece: usize) -> io::Result<Vec<u8>> {
        let (mut decoder, mut content, mut part) = (StreamDecoder::new(coding, 23)?, Vec::new(), [0; 100]);
        let mut drain = |decoder: &mut StreamDecoder| loop {
            match decoder.read(&mut part)? {
                0 => return io::Result::Ok(()),
                read => content.extend_from_slice(&part[..read]),
            }
        };
        for coded in coded.chunks(piece) {
            decoder.put(coded);
            drain(&mut decoder)?;
        }
        decoder.end();
        drain(&mut decoder)?;
        Ok(content)
    }

    #[test]
    fn content_decodes_in_any_pieces_and_not_without_its_end() {
        let text = "some text, ".repeat(1000).into_bytes();
        let len = text.len() as u64;
        for coding in Coding::ALL {
            let coded = encode(coding, &mut &text[..], len, len).unwrap().unwrap();
            for piece in [1, 7, 50, coded.len()] {
                assert_eq!(streamed(coding, &coded, piece).unwrap(), text, "{coding:?} {piece}");
                assert!(streamed(coding, &coded[..coded.len() - 1], piece).is_err(), "{coding:?} {piece}");
            }
            assert!(streamed(coding, b"not coded", 3).is_err(), "{coding:?}");
            assert_eq!(streamed(coding, b"", 3).unwrap(), b"", "{coding:?}");
        }
        for coding in Coding::ALL {
            let mut coded = encode(coding, &mut &text[..], len, len).unwrap().unwrap();
            let end = coded.len();
            coded.extend_from_slice(&[b'x'; 100]);
            for piece in [1, 7, end, coded.len()] {
                match coding {
                    Coding::Gzip => assert_eq!(streamed(coding, &coded, piece).unwrap(), text, "{piece}"),
                    _ => assert!(streamed(coding, &coded, piece).is_err(), "{coding:?} {piece}"),
                }
            }
        }
        // An empty content, with a window of 1 GiB.
        assert!(streamed(Coding::Brotli, &[0x11, 0xde], 2).is_err());
        assert_eq!(decode(Coding::Brotli, &[0x11, 0xde], 23, len), None);
        let member = encode(Coding::Gzip, &mut &text[..], len, len).unwrap().unwrap();
        assert_eq!(streamed(Coding::Gzip, &member.repeat(2), 9).unwrap(), text.repeat(2));
        let padded = [&member.repeat(2)[..], &[0; 600]].concat();
        assert_eq!(streamed(Coding::Gzip, &padded, 512).unwrap(), text.repeat(2));
        assert_eq!(decode(Coding::Gzip, &padded, 23, 2 * len), Some(text.repeat(2)));
    }
}
