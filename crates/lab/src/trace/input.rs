//! A file's content: decompressed if needed, with its beginning available, so that its format can be detected.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use zstd::stream::read::Decoder;

/// The bytes of a file that are examined to detect its format; more if they are a part of its first line.
const HEAD: usize = 64 << 10;

/// The maximum length of a line, in bytes: more than any line of a log has.
pub(super) const LONGEST: usize = 1 << 20;

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// The bytes before a text in UTF-8 that some editors and Windows' programs write.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// An open trace file.
pub(super) struct Input {
    head: Cursor<Vec<u8>>,
    rest: Box<dyn Read>,
}

impl Input {
    /// Opens the file at `path`; `-` means standard input.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        if path == Path::new("-") {
            return Self::new(io::stdin());
        }
        let file = File::open(path)?;
        if file.metadata()?.is_dir() { Err(io::Error::other("it is a directory")) } else { Self::new(file) }
    }

    /// Creates an input from `packed`, which is compressed by gzip, by zstd, or not at all.
    pub(super) fn new(mut packed: impl Read + 'static) -> io::Result<Self> {
        let magic = begin(&mut packed, ZSTD.len())?;
        let is_skippable = matches!(&magic[..], [0x50..=0x5f, 0x2a, 0x4d, 0x18]);
        let (gzip, zstd) = (magic.starts_with(GZIP), magic.starts_with(ZSTD) || is_skippable);
        let whole = Cursor::new(magic).chain(packed);
        let mut rest: Box<dyn Read> = match () {
            () if gzip => Box::new(MultiGzDecoder::new(whole)),
            () if zstd => Box::new(unpacked(whole)?),
            () => Box::new(whole),
        };
        let mut head = begin(&mut rest, HEAD)?;
        if memchr::memchr(b'\n', &head).is_none() {
            head.append(&mut begin(&mut rest, LONGEST)?);
        }
        if head.starts_with(BYTE_ORDER_MARK) {
            head.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(Self { head: Cursor::new(head), rest })
    }

    /// Returns the first bytes: the whole file, or [`HEAD`] bytes.
    pub(super) fn head(&self) -> &[u8] {
        self.head.get_ref()
    }
}

impl Read for Input {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.head.read(into)? {
            0 => self.rest.read(into),
            read => Ok(read),
        }
    }
}

/// Returns the content of a file that zstd compressed with any window, such as by `--long=31`.
fn unpacked(packed: impl Read) -> io::Result<impl Read> {
    let mut decoder = Decoder::new(packed)?;
    decoder.window_log_max(31)?;
    Ok(decoder)
}

/// Returns the next `most` bytes, or fewer at the end.
fn begin(source: &mut impl Read, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(most as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}
