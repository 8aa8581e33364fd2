//! The end of a command that failed, and the lines that commands print.

use std::io::{self, Write};

/// The reason why a command failed, in lines for the user.
pub enum Failure {
    /// The command ran, and failed.
    Failed(String),
    /// The arguments or the config are wrong, so the command did nothing.
    Refused(String),
    /// Another program that the command has run ended with this exit code.
    Ended(u8),
}

/// Prints a line to standard output. A reader that has closed the pipe, such as `head`, is not a failure.
pub fn say(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}
