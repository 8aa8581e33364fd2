//! The terminal that commands print to: its size, its colours, and the key that ends a command.

use std::env;
use std::io::{self, IsTerminal, Read};
use std::sync::OnceLock;
use std::{process, thread};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// A smaller number of columns is considered a mistake.
const LEAST_COLUMNS: usize = 40;
/// Clears the terminal.
pub(crate) const CLEAR: &str = "\x1b[H\x1b[J";

/// Returns lines and columns of standard output; `None` if it is not a terminal.
pub(crate) fn size() -> Option<(usize, usize)> {
    let size = io::stdout().is_terminal().then(|| tcgetwinsize(io::stdout()).ok()).flatten()?;
    // Some terminals do not know their size.
    (size.ws_row > 0 && size.ws_col > 0).then(|| (size.ws_row.into(), size.ws_col.into()))
}

/// Returns the columns that lines should fit: the terminal's, or those in `$COLUMNS`; `None` if lines may have any
/// length.
pub(crate) fn columns() -> Option<usize> {
    let set = || env::var("COLUMNS").ok()?.parse().ok();
    size().map(|(_, columns)| columns).or_else(set).filter(|columns| *columns >= LEAST_COLUMNS)
}

/// The highlighting of a text.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tone {
    Heading,
    Good,
    Fair,
    Bad,
}

/// Returns `text` in its colour, on a terminal without `$NO_COLOR`.
pub(crate) fn coloured(tone: Tone, text: &str) -> String {
    static SHOWS: OnceLock<bool> = OnceLock::new();
    let shows = || !wants_plain() && io::stdout().is_terminal();
    if !*SHOWS.get_or_init(shows) {
        return text.to_owned();
    }
    let code = match tone {
        Tone::Heading => 1,
        Tone::Good => 32,
        Tone::Fair => 33,
        Tone::Bad => 31,
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// Whether the user requests no colours (<https://no-color.org>), or the terminal has none.
pub(crate) fn wants_plain() -> bool {
    let is = |name: &str, wanted: fn(&str) -> bool| env::var(name).is_ok_and(|value| wanted(&value));
    is("NO_COLOR", |value| !value.is_empty()) || is("TERM", |value| value == "dumb")
}

/// Standard input that is read key by key; the line mode is restored at the end.
pub(crate) struct Keys(Option<Termios>);

impl Keys {
    /// Ends the process when `q` is typed, if standard input and output are a terminal.
    pub(crate) fn quit_on_q() -> Self {
        let is_live = io::stdin().is_terminal() && io::stdout().is_terminal();
        let Some(before) = is_live.then(|| tcgetattr(io::stdin()).ok()).flatten() else { return Self(None) };
        let mut by_key = before.clone();
        by_key.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        // The terminal's mode is changed only if the signals that end the process can restore it.
        let Ok(mut signals) = Signals::new([SIGINT, SIGTERM]) else { return Self(None) };
        if tcsetattr(io::stdin(), OptionalActions::Now, &by_key).is_err() {
            return Self(None);
        }
        let end = |before: Termios, code: i32| {
            restore(&before);
            process::exit(code);
        };
        let (of_signals, of_keys) = (before.clone(), before.clone());
        thread::spawn(move || signals.forever().next().map(|signal| end(of_signals, 128 + signal)));
        thread::spawn(move || {
            let typed =
                io::stdin().lock().bytes().map_while(Result::ok).any(|key| key.eq_ignore_ascii_case(&b'q'));
            if typed {
                end(of_keys, 0);
            }
        });
        Self(Some(before))
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.0.as_ref().map(restore);
    }
}

fn restore(modes: &Termios) {
    // If the terminal is gone, no restore is needed.
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, modes);
}
