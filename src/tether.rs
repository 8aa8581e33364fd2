//! Ends a child with its parent: the child's standard input closes when the parent ends, for whatever reason.

use std::io;
use std::{process, thread};

use crate::Failure;

/// Ends this process as soon as its standard input ends.
pub(crate) fn tether() -> Result<(), Failure> {
    let wait = || {
        // Whether it ends or cannot be read, nobody is there any more.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        process::exit(1);
    };
    let thread = thread::Builder::new().name("tether".to_owned()).spawn(wait);
    thread.map(drop).map_err(|error| Failure::Failed(format!("cannot watch standard input: {error}")))
}
