//! The content coding `deflate`.

use std::io::{self, Read};

use flate2::{Decompress, FlushDecompress, Status};

/// Decodes deflate: the zlib format, or raw deflate data, which many senders use instead. The reader of `flate2`
/// accepts truncated streams as complete, so it is not used.
pub struct Inflater<'i> {
    input: &'i [u8],
    inner: Decompress,
    ended: bool,
}

impl<'i> Inflater<'i> {
    /// Returns a reader of the content whose coded form is `input`.
    pub fn new(input: &'i [u8]) -> Self {
        let zlib = matches!(input, [method, flags, ..]
            if method & 0x0f == 8 && u16::from_be_bytes([*method, *flags]).is_multiple_of(31));
        Self { input, inner: Decompress::new(zlib), ended: false }
    }
}

impl Read for Inflater<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.ended {
            return Ok(0);
        }
        let (read, made) = (self.inner.total_in(), self.inner.total_out());
        let status = self.inner.decompress(self.input, out, FlushDecompress::None)?;
        self.input = &self.input[(self.inner.total_in() - read) as usize..];
        self.ended = status == Status::StreamEnd;
        match (self.inner.total_out() - made) as usize {
            0 if !self.ended => Err(io::ErrorKind::UnexpectedEof.into()),
            count => Ok(count),
        }
    }
}
