//! Sequences of a client's requests: URLs that differ in a number, such as the segments of HLS (RFC 8216) and DASH
//! (ISO/IEC 23009-1), and consecutive ranges of one URL.
//!
//! A prediction needs evidence from this client: two requests with consecutive numbers, three with another constant
//! step (DASH's `$Time$`), or two ranges of which the second begins where the first ends.

use crate::{WINDOW, mix};

/// The maximum length of a predicted range, in bytes.
pub const LONGEST_RANGE: u64 = 8 << 20;
/// The maximum number of sequences that are tracked for a client, such as those of pictures and sound.
const RUNS: usize = 4;
/// The maximum number of digits: more than counters have.
const DIGITS: usize = 18;

/// A URL split at its significant number: the last one in the name of its file, without the extension, or otherwise in
/// its query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberedUrl<'u> {
    before: &'u str,
    digits: &'u str,
    after: &'u str,
}

impl<'u> NumberedUrl<'u> {
    /// Returns the parts of `url`, or `None` if there is no such number.
    pub fn of(url: &'u str) -> Option<Self> {
        let start = url.find("://").map_or(0, |at| at + 3);
        let path = start + url[start..].find('/')?;
        let query = url[path..].find('?').map_or(url.len(), |at| path + at);
        let name = url[..query].rfind('/').map_or(path, |at| at + 1);
        let stem = url[name..query].rfind('.').map_or(query, |at| name + at);
        Self::within(url, name, stem).or_else(|| Self::within(url, query, url.len()))
    }

    /// Splits `url` at its last number between the bytes `from` and `to`.
    fn within(url: &'u str, from: usize, to: usize) -> Option<Self> {
        let part = &url.as_bytes()[from..to];
        let end = part.iter().rposition(u8::is_ascii_digit)? + 1;
        let begin = part[..end].iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |at| at + 1);
        let (begin, end) = (from + begin, from + end);
        (end - begin <= DIGITS).then(|| Self {
            before: &url[..begin],
            digits: &url[begin..end],
            after: &url[end..],
        })
    }

    /// Returns the number.
    pub fn number(&self) -> u64 {
        self.digits.parse().unwrap_or(u64::MAX)
    }

    /// Returns the same URL with another number, padded with zeros to the same width if the original was.
    pub fn with(&self, number: u64) -> String {
        let width = if self.digits.starts_with('0') { self.digits.len() } else { 0 };
        format!("{}{number:0width$}{}", self.before, self.after)
    }

    /// Returns a hash that is equal for all URLs that differ only in the number.
    pub fn template(&self) -> u64 {
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        let bytes = self.before.bytes().chain([0]).chain(self.after.bytes());
        mix(bytes.fold(0xcbf2_9ce4_8422_2325, step))
    }
}

/// The requested range of a URL: first and last byte.
pub type Range = (u64, u64);

/// The sequences of a client.
#[derive(Clone, Copy, Debug, Default)]
pub struct Runs([Run; RUNS]);

#[derive(Clone, Copy, Debug, Default)]
struct Run {
    /// The template of the URLs, or the URL of the ranges.
    template: u64,
    /// Consecutive requests with the same step; 0 for an unused entry.
    requests: u8,
    /// The last number, or the start of the next range.
    at: u64,
    step: u64,
    /// The last requested URL.
    url: u64,
    /// The length of the content; 0 if unknown.
    end: u64,
    asked: u64,
}

impl Runs {
    /// Records a request at `now` for a URL with its number. Returns the predicted next number, if there is enough
    /// evidence, and the URL that was requested before this one.
    pub fn number(&mut self, template: u64, (url, number): (u64, u64), now: u64) -> Option<(u64, u64)> {
        let run = self.run(template, now);
        if run.requests > 0 && run.at == number {
            return None;
        }
        let step = number.checked_sub(run.at).filter(|_| run.requests > 0);
        run.requests = match step {
            None => 1,
            Some(step) if step == run.step => run.requests.saturating_add(1),
            Some(_) => 2,
        };
        (run.at, run.step) = (number, step.unwrap_or(0));
        let (needed, before) = (if run.step == 1 { 2 } else { 3 }, std::mem::replace(&mut run.url, url));
        let next = number.checked_add(run.step).filter(|_| run.requests >= needed);
        next.map(|next| (next, before))
    }

    /// Records a request at `now` for a range of the URL. Returns the predicted next range, if there is enough
    /// evidence.
    pub fn range(&mut self, url: u64, (first, last): Range, now: u64) -> Option<Range> {
        let run = self.run(ranges_of(url), now);
        let is_next = run.requests > 0 && run.at == first;
        run.requests = if is_next { 2 } else { 1 };
        run.at = last.saturating_add(1);
        let length = run.at.checked_sub(first).filter(|length| (1..=LONGEST_RANGE).contains(length))?;
        let end = if run.end > 0 { run.end } else { u64::MAX };
        let next = (run.at, run.at.saturating_add(length).min(end).saturating_sub(1));
        (is_next && next.0 <= next.1).then_some(next)
    }

    /// Records the length of the URL's content, in bytes.
    pub fn ends(&mut self, url: u64, complete: u64) {
        let template = ranges_of(url);
        let run = self.0.iter_mut().find(|run| run.requests > 0 && run.template == template);
        run.into_iter().for_each(|run| run.end = complete);
    }

    /// Returns the run of `template`, or a new one in place of the least recently requested run.
    fn run(&mut self, template: u64, now: u64) -> &mut Run {
        let known = self.0.iter().position(|run| run.requests > 0 && run.template == template);
        let oldest = || (0..RUNS).min_by_key(|at| (self.0[*at].requests > 0, self.0[*at].asked));
        let at = known.or_else(oldest).unwrap_or_default();
        let run = &mut self.0[at];
        if known.is_none() || now.saturating_sub(run.asked) > WINDOW {
            *run = Run { template, ..Run::default() };
        }
        run.asked = now;
        run
    }
}

fn ranges_of(url: u64) -> u64 {
    mix(url ^ 0x2545_f491_4f6c_dd1d)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_that_counts_is_the_last_of_the_files_name() {
        let table = [
            ("http://a/hls/seg-00009.ts", Some("http://a/hls/seg-00010.ts")),
            ("http://a/hls/seg-99.ts", Some("http://a/hls/seg-100.ts")),
            ("http://a/v2/1080p/chunk-stream0-00005.m4s", Some("http://a/v2/1080p/chunk-stream0-00006.m4s")),
            ("http://a/seg7.mp4?token=12", Some("http://a/seg8.mp4?token=12")),
            ("http://a/list?size=10&page=3", Some("http://a/list?size=10&page=4")),
            ("http://a/099", Some("http://a/100")),
            ("http://a1:8080/index.m3u8", None),
            ("http://a/1/index.html", None),
            ("http://a", None),
            ("a/x1", Some("a/x2")),
            ("/x1", Some("/x2")),
            ("http://a/1234567890123456789", None),
        ];
        for (url, expected) in table {
            let next = NumberedUrl::of(url).map(|numbered| numbered.with(numbered.number() + 1));
            assert_eq!(next.as_deref(), expected, "{url}");
        }
        let template = |url| NumberedUrl::of(url).map(|numbered| numbered.template());
        assert_eq!(template("http://a/s9.ts"), template("http://a/s10.ts"));
        assert_ne!(template("http://a/s9.ts"), template("http://a/t9.ts"));
    }

    #[test]
    fn numbers_are_predicted_after_two_steps_of_one_or_three_of_another() {
        let table: &[(&[u64], Option<u64>)] = &[
            (&[5], None),
            (&[5, 6], Some(7)),
            (&[5, 6, 7], Some(8)),
            (&[5, 6, 6], None),
            (&[5, 6, 6, 7], Some(8)),
            (&[5, 7], None),
            (&[5, 7, 9], Some(11)),
            (&[5, 7, 8], Some(9)),
            (&[900, 180_900, 360_900], Some(540_900)),
            (&[7, 6, 5], None),
            (&[u64::MAX - 8, u64::MAX - 7], Some(u64::MAX - 6)),
        ];
        for (numbers, expected) in table {
            let mut runs = Runs::default();
            let mut before = 0;
            for (at, number) in numbers.iter().enumerate() {
                let next = runs.number(1, (*number + 7, *number), 0);
                if at + 1 == numbers.len() {
                    assert_eq!(next.map(|(next, _)| next), *expected, "{numbers:?}");
                }
                assert!(next.is_none_or(|(_, url)| url == before), "{numbers:?}");
                before = if *number + 7 == before { before } else { *number + 7 };
            }
        }
    }

    #[test]
    fn interleaved_sequences_do_not_disturb_each_other_and_pauses_end_them() {
        let mut runs = Runs::default();
        for (template, number, expected) in [(1, 1, None), (2, 1, None), (1, 2, Some(3)), (2, 2, Some(3))] {
            assert_eq!(runs.number(template, (0, number), 0).map(|(next, _)| next), expected);
        }
        assert_eq!(runs.number(1, (0, 3), WINDOW), Some((4, 0)));
        assert_eq!(runs.number(1, (0, 4), 2 * WINDOW + 1), None);
    }

    #[test]
    fn the_range_behind_two_consecutive_ones_is_predicted_up_to_the_end() {
        let mut runs = Runs::default();
        assert_eq!(runs.range(1, (0, 99), 0), None);
        runs.ends(1, 350);
        assert_eq!(runs.range(1, (100, 199), 0), Some((200, 299)));
        assert_eq!(runs.range(1, (200, 299), 0), Some((300, 349)));
        assert_eq!(runs.range(1, (300, 349), 0), None);
        assert_eq!(runs.range(1, (0, 99), 0), None);
        // Gaps, excessive lengths and reversed ranges give no prediction.
        assert_eq!(runs.range(1, (200, 299), 0), None);
        let mut runs = Runs::default();
        runs.range(2, (0, LONGEST_RANGE), 0);
        assert_eq!(runs.range(2, (LONGEST_RANGE + 1, 2 * LONGEST_RANGE + 1), 0), None);
        assert_eq!(runs.range(2, (9, 3), 0), None);
        assert_eq!(runs.range(2, (u64::MAX, u64::MAX), 0), None);
    }
}
