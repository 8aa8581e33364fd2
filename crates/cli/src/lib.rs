//! The shared parts of the programs' command lines: how arguments are read, units and numbers, progress, and failures.
//!
//! Outside this crate: the commands, and anything about a running proxy.

mod choice;
mod exit_with_parent;
pub mod files;
pub mod numbers;
mod output;
mod program;
pub mod progress;
pub mod units;

pub use larder_words as words;

pub use choice::choice;
pub use exit_with_parent::exit_with_parent;
pub use output::{Failure, say};
pub use program::Program;
