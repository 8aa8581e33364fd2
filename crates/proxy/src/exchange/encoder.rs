//! Encoders of the content codings.

use std::io::{self, Write};

use brotli::enc::BrotliEncoderParams;
use flate2::write::GzEncoder;
use larder_semantics::coding::Coding;

/// How much time and memory an encoder takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effort {
    /// The content has this many bytes, and its form is sent often.
    Stored(u64),
    /// The content is sent once, while it arrives. The encoder takes about a mebibyte.
    Passing,
}

/// Writes what it gets to `W`, in a coding.
pub(crate) enum Encoder<W: Write> {
    Gzip(GzEncoder<W>),
    Brotli(Box<brotli::CompressorWriter<W>>),
    Zstd(Box<zstd::Encoder<'static, W>>),
}

/// The bytes that the encoder of brotli gathers before it writes.
const BUFFER: usize = 4 << 10;
/// The windows as powers of two. That of stored forms is within the 8 MiB that browsers support (RFC 9659), and so is
/// that of zstd at its level.
const WINDOW: i32 = 22;
const WINDOW_PASSING: u32 = 18;

impl<W: Write> Encoder<W> {
    /// # Errors
    /// That of the library.
    pub(crate) fn new(coding: Coding, effort: Effort, out: W) -> io::Result<Self> {
        Ok(match (coding, effort) {
            (Coding::Gzip, _) => {
                let level = if effort == Effort::Passing { 5 } else { 8 };
                Self::Gzip(GzEncoder::new(out, flate2::Compression::new(level)))
            }
            (Coding::Brotli, Effort::Stored(length)) => brotli(out, 7, WINDOW, length),
            (Coding::Brotli, Effort::Passing) => brotli(out, 4, WINDOW_PASSING as i32, 0),
            (Coding::Zstd, Effort::Stored(length)) => {
                let mut encoder = zstd::Encoder::new(out, 12)?;
                encoder.set_pledged_src_size(Some(length))?;
                Self::Zstd(Box::new(encoder))
            }
            (Coding::Zstd, Effort::Passing) => {
                let mut encoder = zstd::Encoder::new(out, 3)?;
                encoder.window_log(WINDOW_PASSING)?;
                Self::Zstd(Box::new(encoder))
            }
        })
    }

    /// Returns the writer for content. Its `flush` makes all content so far decodable.
    pub(crate) fn content(&mut self) -> &mut dyn Write {
        match self {
            Self::Gzip(encoder) => encoder,
            Self::Brotli(encoder) => encoder,
            Self::Zstd(encoder) => encoder,
        }
    }

    /// Returns the writer of the coded bytes.
    pub(crate) fn out(&mut self) -> &mut W {
        match self {
            Self::Gzip(encoder) => encoder.get_mut(),
            Self::Brotli(encoder) => encoder.get_mut(),
            Self::Zstd(encoder) => encoder.get_mut(),
        }
    }

    /// Ends the content, and returns the writer of the coded bytes. Errors: that of the writer.
    pub(crate) fn finish(self) -> io::Result<W> {
        match self {
            Self::Gzip(encoder) => encoder.finish(),
            Self::Brotli(encoder) => Ok(encoder.into_inner()),
            Self::Zstd(encoder) => encoder.finish(),
        }
    }
}

fn brotli<W: Write>(out: W, quality: i32, lgwin: i32, length: u64) -> Encoder<W> {
    let params =
        BrotliEncoderParams { quality, lgwin, size_hint: length as usize, ..BrotliEncoderParams::default() };
    Encoder::Brotli(Box::new(brotli::CompressorWriter::with_params(out, BUFFER, &params)))
}
