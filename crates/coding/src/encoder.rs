//! Encoders of the content codings.

use std::io::{self, Read, Write};

use brotli::enc::BrotliEncoderParams;
use flate2::write::GzEncoder;
use larder_semantics::coding::Coding;

/// How much time and memory an encoder takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effort {
    /// The content has this many bytes, and its form is sent often.
    Stored(u64),
    /// The content is sent once, while it arrives. The encoder takes about a mebibyte.
    Passing,
}

/// Encodes content into a buffer.
pub struct Encoder(Box<dyn Library>);

/// An encoder of a library. Behind a pointer, so that other crates have no copies of its code.
trait Library: Write + Send + Sync {
    fn out(&mut self) -> &mut Output;
    fn end(self: Box<Self>) -> io::Result<Output>;
}

/// The coded bytes: `most` are accepted, and more fail.
struct Output {
    bytes: Vec<u8>,
    most: usize,
    is_full: bool,
}

/// The bytes that the encoder of brotli gathers before it writes.
const BUFFER: usize = 4 << 10;
/// The windows as powers of two. That of stored forms is within the 8 MiB that browsers support (RFC 9659), and so is
/// that of zstd at its level.
const WINDOW: i32 = 22;
const WINDOW_PASSING: u32 = 18;

impl Encoder {
    /// Returns an encoder for content that is sent while it arrives.
    ///
    /// # Errors
    /// That of the library.
    pub fn new(coding: Coding) -> io::Result<Self> {
        Self::with(coding, Effort::Passing, usize::MAX)
    }

    #[inline(never)]
    fn with(coding: Coding, effort: Effort, most: usize) -> io::Result<Self> {
        let out = Output { bytes: Vec::new(), most, is_full: false };
        Ok(Self(match (coding, effort) {
            (Coding::Gzip, _) => {
                let level = if effort == Effort::Passing { 5 } else { 8 };
                Box::new(GzEncoder::new(out, flate2::Compression::new(level)))
            }
            (Coding::Brotli, Effort::Stored(length)) => brotli(out, 7, WINDOW, length),
            (Coding::Brotli, Effort::Passing) => brotli(out, 4, WINDOW_PASSING as i32, 0),
            (Coding::Zstd, Effort::Stored(length)) => {
                let mut encoder = zstd::Encoder::new(out, 12)?;
                encoder.set_pledged_src_size(Some(length))?;
                Box::new(encoder)
            }
            (Coding::Zstd, Effort::Passing) => {
                let mut encoder = zstd::Encoder::new(out, 3)?;
                encoder.window_log(WINDOW_PASSING)?;
                Box::new(encoder)
            }
        }))
    }

    /// Returns the writer for content. Its `flush` makes all content so far decodable.
    pub fn content(&mut self) -> &mut dyn Write {
        &mut *self.0
    }

    /// Returns the buffer of the coded bytes.
    pub fn coded(&mut self) -> &mut Vec<u8> {
        &mut self.0.out().bytes
    }

    /// Ends the content, and returns the coded bytes in the buffer.
    ///
    /// # Errors
    /// That of the library.
    pub fn finish(self) -> io::Result<Vec<u8>> {
        self.0.end().map(|out| out.bytes)
    }
}

fn brotli(out: Output, quality: i32, lgwin: i32, length: u64) -> Box<dyn Library> {
    let params =
        BrotliEncoderParams { quality, lgwin, size_hint: length as usize, ..BrotliEncoderParams::default() };
    Box::new(brotli::CompressorWriter::with_params(out, BUFFER, &params))
}

impl Library for GzEncoder<Output> {
    fn out(&mut self) -> &mut Output {
        self.get_mut()
    }

    fn end(self: Box<Self>) -> io::Result<Output> {
        self.finish()
    }
}

impl Library for brotli::CompressorWriter<Output> {
    fn out(&mut self) -> &mut Output {
        self.get_mut()
    }

    fn end(self: Box<Self>) -> io::Result<Output> {
        Ok(self.into_inner())
    }
}

impl Library for zstd::Encoder<'static, Output> {
    fn out(&mut self) -> &mut Output {
        self.get_mut()
    }

    fn end(self: Box<Self>) -> io::Result<Output> {
        self.finish()
    }
}

/// Returns `content`, which has `length` bytes, in `coding`, for a form that is sent often; `None` if that is longer than
/// `most` bytes.
///
/// # Errors
/// Those of the content and of the library.
#[inline(never)]
pub fn encode(coding: Coding, content: &mut dyn Read, length: u64, most: u64) -> io::Result<Option<Vec<u8>>> {
    let mut encoder = Encoder::with(coding, Effort::Stored(length), most as usize)?;
    let copied = io::copy(content, encoder.content());
    if encoder.0.out().is_full {
        return Ok(None);
    }
    copied?;
    match encoder.0.end() {
        Ok(Output { is_full: true, .. }) => Ok(None),
        Ok(Output { mut bytes, .. }) => {
            bytes.shrink_to_fit();
            Ok(Some(bytes))
        }
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => Ok(None),
        Err(error) => Err(error),
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.is_full |= self.most - self.bytes.len() < bytes.len();
        if self.is_full {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decode;

    #[test]
    fn a_compressed_form_decodes_to_its_content_and_noise_gets_none() {
        for coding in Coding::ALL {
            for len in [1, 1000, 200_000] {
                let text: Vec<u8> = (0..len).map(|at: u32| b"some text "[at as usize % 10]).collect();
                let len = u64::from(len);
                let form = encode(coding, &mut &text[..], len, len + 100).unwrap().unwrap();
                assert_eq!(decode(coding, &form, 23, len), Some(text), "{coding:?} of {len} bytes");
            }
            let noise: Vec<u8> = (0..5000).map(|_| fastrand::u8(..)).collect();
            let form = encode(coding, &mut &noise[..], 5000, 4500).unwrap();
            assert_eq!(form, None, "{coding:?} of noise");
        }
    }
}
