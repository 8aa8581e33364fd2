//! A progress bar on a terminal, and no output elsewhere.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

const LOOK: &str = "{msg} {wide_bar} {percent}% {eta} left";
const WAIT: &str = "{spinner} {msg} {elapsed}";

/// The progress of long work.
pub struct Bar(ProgressBar);

impl Bar {
    /// Creates a bar for `requests` over all cells.
    pub fn new(name: &str, requests: usize) -> Self {
        Self::shown(Some(requests as u64), LOOK, name.to_owned())
    }

    /// Creates a sign of work whose end is not known, such as "reading web.lcs".
    pub fn wait(what: String) -> Self {
        Self::shown(None, WAIT, what)
    }

    fn shown(length: Option<u64>, look: &str, message: String) -> Self {
        let target = match io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr_with_hz(10),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(length, target);
        let style = ProgressStyle::with_template(look).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = bar.with_style(style).with_message(message).with_finish(ProgressFinish::AndClear);
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// Advances the bar by `requests`.
    pub fn advance(&self, requests: usize) {
        self.0.inc(requests as u64);
    }

    /// Whether the bar is visible.
    pub fn is_shown(&self) -> bool {
        !self.0.is_hidden()
    }

    /// Sets the message beside the bar.
    pub fn say(&self, what: String) {
        self.0.set_message(what);
    }

    /// Sets how many of all are done.
    pub fn set(&self, done: u64) {
        self.0.set_position(done);
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}
