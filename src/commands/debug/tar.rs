//! Writes a tar archive of small files in the format of POSIX (ustar).

use std::io::{self, Write};

const BLOCK: usize = 512;

/// An archive that is being written.
pub(super) struct Tar<W> {
    out: W,
    /// The time of its files, in seconds since 1970.
    time: u64,
}

impl<W: Write> Tar<W> {
    pub(super) fn new(out: W, time: u64) -> Self {
        Self { out, time }
    }

    /// Appends a file. Its name has at most 100 bytes. Errors: those of the output, and a longer name.
    pub(super) fn append(&mut self, name: &str, content: &[u8]) -> io::Result<()> {
        self.out.write_all(&header(name, content.len(), self.time)?)?;
        self.out.write_all(content)?;
        self.out.write_all(&vec![0; content.len().next_multiple_of(BLOCK) - content.len()])
    }

    /// Writes the end, and returns the output. Errors: those of the output.
    pub(super) fn finish(mut self) -> io::Result<W> {
        self.out.write_all(&[0; 2 * BLOCK])?;
        Ok(self.out)
    }
}

fn header(name: &str, size: usize, time: u64) -> io::Result<[u8; BLOCK]> {
    let mut block = [0; BLOCK];
    let mut fill = |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
    if name.len() > 100 {
        return Err(io::Error::other(format!("the name {name} is too long for a tar archive")));
    }
    fill(0, name);
    // Mode, owner, group, size, time, and spaces in place of the checksum; numbers are octal.
    fill(100, &format!("0000600\0{:07o}\0{:07o}\0{size:011o}\0{time:011o}\0        0", 0, 0));
    fill(257, "ustar\x0000");
    let sum: u32 = block.iter().copied().map(u32::from).sum();
    block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
    Ok(block)
}
