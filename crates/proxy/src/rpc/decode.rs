//! Decodes content codings for clients that did not request any and cannot decode them.

use std::io::{self, Read};

use bytes::BytesMut;
use larder_coding::Inflater;
use larder_semantics::coding::Coding as Known;

use super::budget::{Obstacle, WholePage};

/// Bytes that are decoded at once.
const BLOCK: usize = 64 << 10;
/// Maximum window of a zstd page, as a power of two: the maximum of the format's own tools, 128 MiB.
const ZSTD_WINDOW: u32 = 27;

/// A supported content coding (RFC 9110 section 8.4.1, RFC 7932, RFC 8878).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Known(Known),
    Deflate,
}

impl Coding {
    /// Parses the value of `Content-Encoding`; `None` if there is no coding. Fails on an unknown coding, or several
    /// codings.
    pub(super) fn of(field: Option<&[u8]>) -> Result<Option<Self>, String> {
        let name = String::from_utf8_lossy(field.unwrap_or_default()).trim().to_ascii_lowercase();
        match name.as_str() {
            "" | "identity" => Ok(None),
            "deflate" => Ok(Some(Self::Deflate)),
            other => match Known::named(other.as_bytes()) {
                Some(known) => Ok(Some(Self::Known(known))),
                None => Err(format!("unknown content coding '{}'", other.escape_debug())),
            },
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Known(known) => known.token(),
            Self::Deflate => "deflate",
        }
    }
}

/// Decodes `coded`, up to `most` bytes.
pub(super) fn decode(coding: Coding, coded: WholePage, most: u64) -> Result<WholePage, Obstacle> {
    let WholePage { bytes: input, mut share } = coded;
    if input.is_empty() {
        return Ok(WholePage { bytes: input, share });
    }
    let name = coding.name();
    let broken =
        |error: io::Error| Obstacle::Broken(format!("the page is not in its content coding {name}: {error}"));
    let mut reader: Box<dyn Read> = match coding {
        Coding::Known(known) => larder_coding::reader(known, &input, ZSTD_WINDOW).map_err(broken)?,
        Coding::Deflate => Box::new(Inflater::new(&input)),
    };
    let mut whole = BytesMut::new();
    let mut block = vec![0; BLOCK];
    loop {
        let count = reader.read(&mut block).map_err(broken)?;
        if count == 0 {
            return Ok(WholePage { bytes: whole.freeze(), share });
        }
        if (whole.len() + count) as u64 > most {
            return Err(Obstacle::TooLong(most));
        }
        if !share.grow(count) {
            return Err(Obstacle::Crowded);
        }
        whole.extend_from_slice(&block[..count]);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::Ipv4Addr;

    use bytes::Bytes;
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;
    use crate::net::byte_budget::ByteBudget;
    use crate::rpc::budget;

    /// Encodes `page` in uncompressed blocks (RFC 7932 section 9.2), behind the bit of the smallest window.
    fn brotli(page: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for (number, block) in page.chunks(1 << 16).enumerate() {
            let header = (block.len() as u32 - 1) << 3 | 1 << 19;
            let header = if number == 0 { header << 1 } else { header };
            out.extend_from_slice(&header.to_le_bytes()[..3]);
            out.extend_from_slice(block);
        }
        out.push(3);
        out
    }

    fn undo(coding: Coding, bytes: &[u8], most: u64) -> Result<Bytes, Obstacle> {
        let coded = WholePage {
            bytes: Bytes::copy_from_slice(bytes),
            share: ByteBudget::new(budget::MOST).share(Ipv4Addr::LOCALHOST.into()),
        };
        decode(coding, coded, most).map(|page| page.bytes)
    }

    fn coded(page: &[u8]) -> Vec<(Coding, Vec<u8>)> {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
        let mut raw = DeflateEncoder::new(Vec::new(), Compression::best());
        for out in [&mut gzip as &mut dyn Write, &mut zlib, &mut raw] {
            out.write_all(page).unwrap();
        }
        vec![
            (Coding::Known(Known::Gzip), gzip.finish().unwrap()),
            (Coding::Deflate, zlib.finish().unwrap()),
            (Coding::Deflate, raw.finish().unwrap()),
            (Coding::Known(Known::Zstd), zstd::bulk::compress(page, 19).unwrap()),
        ]
    }

    #[test]
    fn a_decoded_page_equals_the_coded_one() {
        let page = b"page ".repeat(100_000);
        for (coding, bytes) in coded(&page).into_iter().chain([(Coding::Known(Known::Brotli), brotli(&page))])
        {
            assert_eq!(undo(coding, &bytes, 1 << 20).unwrap(), page, "{coding:?}");
        }
    }

    #[test]
    fn a_small_page_that_becomes_large_is_stopped() {
        let page = vec![0; 1 << 20];
        for (coding, bytes) in coded(&page) {
            assert!(bytes.len() < 5_000, "{coding:?}");
            assert_eq!(undo(coding, &bytes, 1 << 20).unwrap().len(), 1 << 20);
            assert_eq!(undo(coding, &bytes, (1 << 20) - 1), Err(Obstacle::TooLong((1 << 20) - 1)));
        }
    }

    #[test]
    fn a_page_cut_short_or_of_another_coding_is_no_page() {
        let page = b"hello, hello, hello, hello, hello";
        for (coding, bytes) in coded(page).into_iter().chain([(Coding::Known(Known::Brotli), brotli(page))]) {
            for end in 1..bytes.len() {
                let undone = undo(coding, &bytes[..end], 1 << 20);
                assert!(matches!(undone, Err(Obstacle::Broken(_))), "{coding:?} {end}: {undone:?}");
            }
        }
        for coding in [Coding::Known(Known::Gzip), Coding::Known(Known::Brotli), Coding::Known(Known::Zstd)] {
            assert!(matches!(undo(coding, b"<html>", 100), Err(Obstacle::Broken(_))), "{coding:?}");
        }
    }

    #[test]
    fn codings_have_names() {
        for (field, expected) in [
            (None, Ok(None)),
            (Some(&b"identity"[..]), Ok(None)),
            (Some(b"GZIP "), Ok(Some(Coding::Known(Known::Gzip)))),
            (Some(b"gzip, br"), Err("unknown content coding 'gzip, br'".to_owned())),
        ] {
            assert_eq!(Coding::of(field), expected);
        }
    }
}
