//! The words that syslog writes before a message: `Feb  6 12:14:14 host program[7]: message`, the same with a date in
//! ISO 8601, or `<134>1 2009-02-06T12:14:14Z host program 7 - - message` (RFC 5424); and those of Kubernetes:
//! `2009-02-06T12:14:14Z stdout F message`.

use super::words::word;

/// The most words of a date, a host and a program.
const WORDS: usize = 5;

/// Returns the message of `line`, if it begins as syslog writes it.
pub(super) fn message(line: &[u8]) -> Option<&[u8]> {
    let mut rest = line;
    let first = word(&mut rest)?;
    if first.starts_with(b"<") && first.ends_with(b">1") {
        // Date, host, program, process and message, then structured data: `-`, or elements in brackets.
        for _ in 0..5 {
            word(&mut rest)?;
        }
        rest = rest.trim_ascii_start();
        let data = if rest.starts_with(b"[") { memchr::memmem::find(rest, b"] ")? + 1 } else { 1 };
        return Some(rest.get(data..)?.trim_ascii_start());
    }
    for _ in 1..WORDS {
        match word(&mut rest)? {
            b"stdout" | b"stderr" => return rest.strip_prefix(b" F "),
            // The first word with a colon at its end is the program.
            program if program.ends_with(b":") => return Some(rest.trim_ascii_start()),
            _ => {}
        }
    }
    None
}
