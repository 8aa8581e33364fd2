//! The lines of a text, in a reused buffer.

use std::borrow::Cow;
use std::io::{self, Read};
use std::ops::Range;

use memchr::memchr;

use super::{Fault, LineParser};
use crate::trace::TraceTooLong;
use crate::trace::input::LONGEST;
use crate::trace::sink::{Facts, Sink};
use crate::trace::summary::Exclusion;

/// The number of bytes in one read.
const CHUNK: usize = 256 << 10;

pub(super) enum LineContent<'l> {
    /// A request for an object identified by a number.
    Number(u64, Facts),
    /// A request for an object identified by a name.
    Name(Cow<'l, str>, Facts),
    /// A request for each of the objects with these numbers.
    Run(Range<u64>),
    /// An excluded request.
    LeftOut(Exclusion),
    /// No request, such as a comment.
    Nothing,
}

/// The content of a line, or the error in it.
pub(super) type LineResult<'l> = Result<LineContent<'l>, Cow<'static, str>>;

/// Parses each line with `parser`, and puts the result into `sink`.
pub(super) fn read(input: impl Read, sink: &mut Sink, parser: &LineParser) -> Result<(), Fault> {
    let mut lines = Lines::new(input);
    while let Some((number, line)) = lines.next()? {
        if line.len() >= LONGEST {
            sink.broken(number, || format!("longer than {LONGEST} bytes"));
            continue;
        }
        put(sink, number, parser.parse(line))?;
    }
    Ok(())
}

/// Puts the content of line `number` into `sink`.
#[inline]
pub(super) fn put(sink: &mut Sink, number: u64, parsed: LineResult<'_>) -> Result<(), TraceTooLong> {
    match parsed {
        Ok(LineContent::Number(key, facts)) => sink.number(key, facts)?,
        Ok(LineContent::Name(key, facts)) => sink.name(&key, facts)?,
        Ok(LineContent::Run(keys)) => {
            for key in keys {
                sink.number(key, Facts::NONE)?;
            }
        }
        Ok(LineContent::LeftOut(reason)) => sink.leave_out(reason),
        Ok(LineContent::Nothing) => {}
        Err(why) => sink.broken(number, || why.into_owned()),
    }
    Ok(())
}

/// The lines of an input.
pub(super) struct Lines<R> {
    input: R,
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    count: u64,
    ended: bool,
    /// Whether an overlong line was returned, and its end has not been reached.
    skipping: bool,
}

/// A line: its number, counted from 1, and its bytes without the line end; for an overlong line, at least the first
/// [`LONGEST`] bytes.
pub(super) type Line<'l> = (u64, &'l [u8]);

impl<R: Read> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, buffer: vec![0; CHUNK], begin: 0, end: 0, count: 0, ended: false, skipping: false }
    }

    /// Returns the next line that is not empty.
    #[inline]
    pub(super) fn next(&mut self) -> io::Result<Option<Line<'_>>> {
        loop {
            let Some((begin, end)) = self.bounds()? else { return Ok(None) };
            self.count += 1;
            if !self.buffer[begin..end].trim_ascii().is_empty() {
                let line = &self.buffer[begin..end];
                return Ok(Some((self.count, line.strip_suffix(b"\r").unwrap_or(line))));
            }
        }
    }

    /// Returns the position of the next line in the buffer.
    #[inline]
    fn bounds(&mut self) -> io::Result<Option<(usize, usize)>> {
        let mut searched = 0;
        loop {
            let from = self.begin + searched;
            if let Some(at) = memchr(b'\n', &self.buffer[from..self.end]) {
                let line = (self.begin, from + at);
                self.begin = line.1 + 1;
                if std::mem::take(&mut self.skipping) {
                    searched = 0;
                    continue;
                }
                return Ok(Some(line));
            }
            searched = self.end - self.begin;
            if self.skipping {
                (self.begin, searched) = (self.end, 0);
            }
            if self.ended || searched >= LONGEST {
                let line = (self.begin, self.end);
                self.begin = self.end;
                self.skipping = !self.ended;
                return Ok((searched > 0).then_some(line));
            }
            self.refill()?;
        }
    }

    fn refill(&mut self) -> io::Result<()> {
        self.buffer.copy_within(self.begin..self.end, 0);
        (self.begin, self.end) = (0, self.end - self.begin);
        if self.buffer.len() - self.end < CHUNK {
            self.buffer.resize(self.end + CHUNK, 0);
        }
        match self.input.read(&mut self.buffer[self.end..]) {
            Ok(0) => self.ended = true,
            Ok(read) => self.end += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
