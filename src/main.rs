//! The `larder` program, with its allocator.

mod allocator;

use std::process::ExitCode;

fn main() -> ExitCode {
    larder::run(allocator::watch)
}
