//! The result of joining a fetch.

use super::{FillWriter, Reader};

/// What [`Fills::join_reload`](super::Fills::join_reload) found.
pub enum Reloading {
    /// No reload fetches this: you do.
    Writer(FillWriter),
    /// Another one does that began later than you came: read what it gets.
    Follow(Reader),
    /// Another one does that began earlier. Look again when its verdict is known.
    Wait(Reader),
}

/// What [`Fills::join`](super::Fills::join) found.
pub enum Joined {
    /// No fetch of this is in flight: the caller fetches it.
    Writer(FillWriter),
    /// Somebody does: read what they get.
    Follow(Reader),
}
