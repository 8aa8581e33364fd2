//! One file a format: what a record or line of it says.

mod lines;
pub(super) mod oracle;
mod plain;
mod records;

use std::io;

use super::input::Input;
use super::sink::Sink;
use super::{Format, TooMany};

/// Why reading stopped before the end.
pub(super) enum Fault {
    Io(io::Error),
    TooMany(TooMany),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<TooMany> for Fault {
    fn from(error: TooMany) -> Self {
        Self::TooMany(error)
    }
}

/// Puts everything in `input` into `sink`.
pub(super) fn read(format: Format, input: Input, sink: &mut Sink<'_>) -> Result<(), Fault> {
    match format {
        Format::OracleGeneral => oracle::read(input, sink),
        Format::Plain => lines::read(input, sink, plain::parse),
    }
}
