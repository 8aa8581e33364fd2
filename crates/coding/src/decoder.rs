//! Decoders of the content codings, and of xz.

use std::io::{self, Read};

use larder_semantics::coding::Coding;
use lzma_rust2::XzReader;

/// Returns a reader of the content whose coded form is `input`. A form by zstd may need a window of two to this power.
///
/// # Errors
/// The decoder cannot be created.
#[inline(never)]
pub fn reader(coding: Coding, input: &[u8], window: u32) -> io::Result<Box<dyn Read + '_>> {
    Ok(match coding {
        Coding::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(input)),
        Coding::Brotli => Box::new(brotli::Decompressor::new(input, 64 << 10)),
        Coding::Zstd => {
            let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?;
            decoder.window_log_max(window)?;
            Box::new(decoder)
        }
    })
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
