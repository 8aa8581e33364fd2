//! The `larder` program, with its allocator.

use std::process::ExitCode;

fn main() -> ExitCode {
    larder::run(larder_heap::watch)
}
