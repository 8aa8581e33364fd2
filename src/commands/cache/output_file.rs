//! The output of `larder cache`: standard output, or a file. A reader that has closed the pipe, such as `head`, is not
//! an error.

use std::fs::File;
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use crate::cli::files::unwritten;

/// Bytes that are buffered before a write.
const BUFFER: usize = 64 << 10;
/// The most bytes of a head: stored heads are shorter.
const LONGEST_HEAD: usize = 4 << 20;

/// An output that is opened at the first write.
pub(super) struct OutputFile {
    file: Option<PathBuf>,
    sink: Option<BufWriter<Box<dyn Write>>>,
    failed: Option<io::Error>,
}

impl OutputFile {
    /// Creates an output to `file`, or to standard output.
    pub(super) fn to(file: Option<&Path>) -> Self {
        Self { file: file.map(Path::to_owned), sink: None, failed: None }
    }

    /// Writes `bytes`; returns false if no more can be written.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> bool {
        if self.failed.is_none() {
            self.failed = self.sink().and_then(|sink| sink.write_all(bytes)).err();
        }
        self.failed.is_none()
    }

    /// Writes a line.
    pub(super) fn line(&mut self, line: &str) -> bool {
        self.bytes(line.as_bytes()) && self.bytes(b"\n")
    }

    /// Writes the buffered bytes. Creates the file even if there was nothing to write. The error is the reason why not
    /// everything was written.
    pub(super) fn end(mut self) -> Result<(), String> {
        if self.failed.is_none() {
            self.failed = self.sink().and_then(Write::flush).err();
        }
        match (self.failed, self.file) {
            (None, _) => Ok(()),
            (Some(error), Some(file)) => {
                Err(format!("cannot write '{}': {}", file.display(), unwritten(&error)))
            }
            (Some(error), None) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            (Some(error), None) => Err(format!("cannot print: {error}")),
        }
    }

    fn sink(&mut self) -> io::Result<&mut BufWriter<Box<dyn Write>>> {
        if self.sink.is_none() {
            let sink: Box<dyn Write> = match &self.file {
                Some(file) => Box::new(File::create(file)?),
                None => Box::new(io::stdout()),
            };
            self.sink = Some(BufWriter::with_capacity(BUFFER, sink));
        }
        self.sink.as_mut().ok_or_else(|| ErrorKind::NotConnected.into())
    }
}

/// The output of a stored response, with or without its head.
pub(super) struct Dump {
    out: OutputFile,
    include: bool,
    /// The part of the head so far; `None` once the head is complete.
    head: Option<Vec<u8>>,
}

impl Dump {
    /// Creates a dump to `out`, with the head if `include` is set.
    pub(super) fn new(out: OutputFile, include: bool) -> Self {
        Self { out, include, head: Some(Vec::new()) }
    }

    /// Takes the next bytes of head and content; returns false if no more can be written.
    pub(super) fn take(&mut self, piece: &[u8]) -> bool {
        let Some(head) = &mut self.head else { return self.out.bytes(piece) };
        head.extend_from_slice(piece);
        let Some(end) = head.windows(4).position(|window| window == b"\r\n\r\n") else {
            return head.len() < LONGEST_HEAD;
        };
        let bytes = self.head.take().unwrap_or_default();
        self.out.bytes(&bytes[if self.include { 0 } else { end + 4 }..])
    }

    /// Writes the buffered bytes. The error is the reason why not everything was written.
    pub(super) fn end(self) -> Result<(), String> {
        match self.head {
            None => self.out.end(),
            Some(_) => Err("the stored object has no head".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_distinguished_from_content_wherever_pieces_end() {
        let (directory, all) = (tempfile::tempdir().unwrap(), b"HTTP/1.1 200 OK\r\na: b\r\n\r\nx\r\n\r\ny");
        let file = directory.path().join("out");
        for size in 1..=all.len() {
            for (include, expected) in [(true, &all[..]), (false, b"x\r\n\r\ny")] {
                let mut dump = Dump::new(OutputFile::to(Some(&file)), include);
                assert!(all.chunks(size).all(|piece| dump.take(piece)));
                assert_eq!(dump.end(), Ok(()));
                assert_eq!(std::fs::read(&file).unwrap(), expected, "pieces of {size}");
            }
        }
    }

    #[test]
    fn a_dump_without_a_complete_head_leaves_no_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("out");
        let mut dump = Dump::new(OutputFile::to(Some(&file)), true);
        assert!(dump.take(b"HTTP/1.1 200 OK\r\n"));
        assert!(dump.end().is_err() && !file.exists());
    }
}
