//! The end of a command that failed, and the lines that commands print.

use std::io::{self, Write};

/// Why a command failed, in lines for the user.
pub(crate) enum Failure {
    /// It was tried, and failed.
    Failed(String),
    /// The arguments or the config are wrong, so nothing was tried.
    Refused(String),
}

/// Prints a line to standard output. A reader that has closed the pipe, as `head` does, is no failure.
pub(crate) fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
