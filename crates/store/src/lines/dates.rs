//! `Date` and `Last-Modified` at rest: numbers instead of lines of 37 and 46 bytes, which two responses seldom share.
//!
//! A line becomes a number only if it would be written identically again. Any other stays a line.

use larder_semantics::date;

/// A line `Date` of the year 1970, as a template.
pub(super) const DATE: [u8; 37] = *b"Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
/// The same for `Last-Modified`.
pub(super) const MODIFIED: [u8; 46] = *b"Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
/// The offsets of the values in them.
const DATE_NAME: usize = 6;
const MODIFIED_NAME: usize = 15;
/// Bytes of a value.
const VALUE: usize = 29;

/// The two lines as numbers: seconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dates {
    /// The time of the last line, if that is a `Date`.
    pub(crate) date: Option<u32>,
    /// The first `Last-Modified` that can be stored as a number.
    pub(crate) modified: Option<LastModified>,
}

/// A line `Last-Modified` as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastModified {
    pub(crate) time: u32,
    /// The place of the line: the bytes of other lines before it.
    pub(crate) at: u16,
}

/// Removes the two lines from `lines`, if they can be stored as numbers.
pub(super) fn take(lines: &mut Vec<u8>) -> Dates {
    let end = lines.len().checked_sub(DATE.len()).filter(|&at| begins(lines, at));
    let found = end.and_then(|at| Some((at, time(&lines[at..], &DATE, DATE_NAME)?)));
    if let Some((at, _)) = found {
        lines.truncate(at);
    }
    let modified = find_modified(lines);
    if let Some(LastModified { at, .. }) = modified {
        lines.drain(usize::from(at)..usize::from(at) + MODIFIED.len());
    }
    Dates { date: found.map(|(_, time)| time), modified }
}

fn find_modified(lines: &[u8]) -> Option<LastModified> {
    let mut at = 0;
    lines.split_inclusive(|&byte| byte == b'\n').find_map(|line| {
        let start = at;
        at += line.len();
        let line = Some(line).filter(|line| line.len() == MODIFIED.len())?;
        Some(LastModified { time: time(line, &MODIFIED, MODIFIED_NAME)?, at: start.try_into().ok()? })
    })
}

/// Whether a line begins at `at`.
fn begins(lines: &[u8], at: usize) -> bool {
    at == 0 || lines[at - 1] == b'\n'
}

/// Returns the time in `line`, if the line is `form` with another date.
fn time(line: &[u8], form: &[u8], name: usize) -> Option<u32> {
    let is_named = line[..name] == form[..name] && line[name + VALUE..] == *b"\r\n";
    let value = is_named.then(|| &line[name..name + VALUE])?;
    date::parse(value).filter(|&time| value == date::format(time))
}

pub(super) fn date_line(time: u32) -> [u8; DATE.len()] {
    let mut line = DATE;
    put(&mut line, DATE_NAME, time);
    line
}

/// Returns the line `Last-Modified` for this time.
pub(super) fn modified_line(time: u32) -> [u8; MODIFIED.len()] {
    let mut line = MODIFIED;
    put(&mut line, MODIFIED_NAME, time);
    line
}

/// Appends the line `Date` for this time.
#[inline]
pub(super) fn write_date(out: &mut Vec<u8>, time: u32) {
    let start = out.len();
    out.extend_from_slice(&DATE);
    put(&mut out[start..], DATE_NAME, time);
}

/// Appends the line `Last-Modified` for this time.
#[inline]
pub(super) fn write_modified(out: &mut Vec<u8>, time: u32) {
    let start = out.len();
    out.extend_from_slice(&MODIFIED);
    put(&mut out[start..], MODIFIED_NAME, time);
}

/// Writes the value of `line` in place, behind its name. Copying a value just written in small parts would
/// take longer.
#[inline]
fn put(line: &mut [u8], name: usize, time: u32) {
    if let Some(value) = line[name..].first_chunk_mut() {
        date::write(time, value);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SOME: &str = "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n";

    fn taken(lines: &str) -> (String, Dates) {
        let mut lines = lines.as_bytes().to_vec();
        let dates = take(&mut lines);
        (String::from_utf8(lines).unwrap(), dates)
    }

    #[test]
    fn only_what_is_written_as_we_write_it_becomes_a_number() {
        let cases = [
            ("Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n", Some(1_767_225_600)),
            ("Last-Modified: thu, 01 jan 2026 00:00:00 gmt\r\n", None),
            ("Last-Modified: Fri, 01 Jan 2026 00:00:00 GMT\r\n", None),
            ("Last-Modified: Thursday, 01-Jan-26 00:00:00 GMT\r\n", None),
            ("Last-Modified: Fri, 31 Dec 9999 23:59:59 GMT\r\n", None),
            ("last-modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n", None),
            ("Last-Modified:  Thu, 01 Jan 2026 00:00:00 GMT\r\n", None),
            ("X-Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n", None),
            ("Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT \r\n", None),
            ("Last-Modified: 0\r\n", None),
        ];
        for (line, time) in cases {
            let (left, dates) = taken(line);
            assert_eq!(dates.modified.map(|modified| modified.time), time, "{line}");
            assert_eq!(left.is_empty(), time.is_some(), "{line}");
        }
    }

    #[test]
    fn a_second_one_stays_a_line() {
        let both = format!("ETag: v\r\n{SOME}{SOME}Date: Thu, 01 Jan 1970 00:00:01 GMT\r\n");
        let (left, dates) = taken(&both);
        assert_eq!(left, format!("ETag: v\r\n{SOME}"));
        let modified = Some(LastModified { time: 1_767_225_600, at: 9 });
        assert_eq!(dates, Dates { date: Some(1), modified });
    }

    proptest! {
        #[test]
        fn any_bytes_are_looked_at_without_a_panic(mut bytes: Vec<u8>) {
            take(&mut bytes);
        }
    }
}
