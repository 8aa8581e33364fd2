//! Words that users write and read: enums whose values have names, structs whose fields have defaults, the nearest valid word for a misspelt one, and causes of errors.

mod cause;
mod defaults;
mod hex;
mod named;
mod nearest;

pub use cause::{cause, is_hidden, part};
pub use hex::hex;
pub use nearest::{hint, nearest};
