//! Text for people: the nearest valid word for a misspelt one, and foreign text without terminal control characters.

pub(crate) use larder_cli::words::{hint, nearest};
/// Returns `text` with its hidden characters escaped, for text without escapes.
pub(crate) use larder_proxy::base::shown::visible as printable;
