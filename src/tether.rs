//! What ties a child to the program that started it: its standard input, which ends with that program however it ends.

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
