//! Ends a child process with its parent: the child's standard input closes when the parent ends, for any reason.

use std::io;
use std::{process, thread};

use crate::Failure;

/// Ends this process as soon as its standard input ends.
///
/// # Errors
/// The system has no resources for a thread.
pub fn exit_with_parent() -> Result<(), Failure> {
    let wait = || {
        // An error means the same as the end of the input: the parent is gone.
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        process::exit(1);
    };
    let thread = thread::Builder::new().name("parent".to_owned()).spawn(wait);
    thread.map(drop).map_err(|error| Failure::Failed(format!("cannot watch standard input: {error}")))
}
