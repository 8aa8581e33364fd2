//! The end of the access log: a file or standard output, which gets whole lines.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// The open file, or standard output.
#[derive(Debug, Default)]
pub(super) struct Sink {
    /// `None`: standard output.
    file: Option<File>,
    /// Whether the last line was cut and could not be removed: it gets an end before the next line.
    is_torn: bool,
}

impl Sink {
    /// Continues `file`, which is the one at `path`.
    pub(super) fn new(file: File, path: &Path) -> Self {
        let is_torn = file.metadata().is_ok_and(|about| about.is_file() && about.len() > 0)
            && ends_within_line(path).unwrap_or(false);
        Self { file: Some(file), is_torn }
    }

    /// Writes `lines`, of which each ends with `\n`. Returns how many of them are lost.
    ///
    /// A disk that becomes full may take the beginning of a line. That is removed again, so that the file never ends
    /// within a line.
    pub(super) fn append(&mut self, lines: &[u8]) -> u64 {
        if self.is_torn && self.write_all(b"\n") == 1 {
            self.is_torn = false;
        }
        let written = self.write_all(lines);
        let whole = memchr::memrchr(b'\n', &lines[..written]).map_or(0, |last| last + 1);
        if whole < written && self.remove_last((written - whole) as u64).is_err() {
            self.is_torn = true;
        }
        memchr::memchr_iter(b'\n', &lines[whole..]).count() as u64
    }

    /// Returns how many bytes were written before an error.
    fn write_all(&mut self, bytes: &[u8]) -> usize {
        let mut written = 0;
        while written < bytes.len() {
            match self.write(&bytes[written..]) {
                Ok(0) => break,
                Ok(more) => written += more,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        written
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.file {
            Some(file) => file.write(bytes),
            // Without the buffer of `Stdout`, which keeps what it could not write.
            None => Ok(rustix::io::write(io::stdout(), bytes)?),
        }
    }

    /// Removes the bytes written last, unless another process has written behind them.
    fn remove_last(&mut self, bytes: u64) -> io::Result<()> {
        let file = self.file.as_mut().ok_or(ErrorKind::Unsupported)?;
        let end = file.stream_position()?;
        if file.metadata()?.len() != end {
            return Err(ErrorKind::Unsupported.into());
        }
        file.set_len(end - bytes)
    }
}

/// Whether the last line of a file has no end: a process was killed while it wrote.
fn ends_within_line(path: &Path) -> io::Result<bool> {
    let (mut file, mut last) = (File::open(path)?, [0]);
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last != *b"\n")
}
