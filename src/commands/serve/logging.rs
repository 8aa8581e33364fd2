//! The log of the process on standard error: one plain line for each event.
//!
//! `LARDER_LOG` filters by level and module, as `RUST_LOG` does; without either, the command chooses the level.

use std::env;
use std::io::{self, IsTerminal, Stderr, Write};

use larder_proxy::base::shown::is_hidden;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::cli::terminal::wants_plain;

/// The variables with a filter, the first of which counts.
pub(super) const FILTERS: &[&str] = &["LARDER_LOG", "RUST_LOG"];

/// Starts the log of this process, at the level `default` if none of the `variables` names one. Call it once. Errors: a line,
/// if the filter is invalid.
pub(crate) fn start(default: &str, variables: &[&str]) -> Result<(), String> {
    let filter = variables.iter().find_map(|name| env::var(name).ok()).unwrap_or_else(|| default.to_owned());
    let parsed = filter.parse::<Targets>();
    let filter = parsed.map_err(|error| format!("cannot read the log filter '{filter}': {error}"))?;
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(|| VisibleStderr(io::stderr()))
        .with_ansi(io::stderr().is_terminal() && !wants_plain())
        .with_target(false)
        .log_internal_errors(false);
    tracing_subscriber::registry().with(filter).with(lines).init();
    Ok(())
}

/// Standard error, on which hidden characters of other alphabets than ASCII are escaped. A line is written at once.
struct VisibleStderr(Stderr);

impl Write for VisibleStderr {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let is_odd = |c: char| !c.is_ascii() && is_hidden(c);
        match str::from_utf8(line) {
            Ok(text) if text.contains(is_odd) => {
                let shown = |c: char| if is_odd(c) { c.escape_default().collect() } else { String::from(c) };
                self.0.write_all(text.chars().map(shown).collect::<String>().as_bytes())?;
            }
            _ => self.0.write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
