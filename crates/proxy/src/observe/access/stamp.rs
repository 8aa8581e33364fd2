//! The time in a line of the access log, formatted once for all lines of the same moment.
//!
//! The coarse clock moves every few milliseconds, in which a worker may write hundreds of lines.

use jiff::Timestamp;

/// The last formatted time.
#[derive(Default)]
pub(super) struct Stamp {
    millis: u64,
    form: &'static str,
    text: String,
}

impl Stamp {
    /// Returns the time, in milliseconds since the UNIX epoch, in this form of `strftime`.
    pub(super) fn at(&mut self, millis: u64, form: &'static str) -> &str {
        if (self.millis, self.form) != (millis, form) {
            let time = Timestamp::from_millisecond(millis as i64).unwrap_or_default();
            *self = Self { millis, form, text: time.strftime(form).to_string() };
        }
        &self.text
    }
}
