//! A progress bar on a terminal, and nothing elsewhere.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const LOOK: &str = "{msg} {wide_bar} {percent}% {eta} left";

/// How far a trace's replays are.
pub(super) struct Bar(ProgressBar);

impl Bar {
    /// A bar for `requests` over all cells.
    pub(super) fn new(name: &str, requests: usize) -> Self {
        let target = match io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr_with_hz(10),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(requests as u64), target);
        let style = ProgressStyle::with_template(LOOK).unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = bar.with_style(style).with_message(name.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        Self(bar)
    }

    /// So many requests more are done.
    pub(super) fn advance(&self, requests: usize) {
        self.0.inc(requests as u64);
    }

    /// Takes the bar away.
    pub(super) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
