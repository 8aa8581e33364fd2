//! The result of joining a fetch.

use super::{FillWriter, Reader};

/// The result of [`Fills::join_reload`](super::Fills::join_reload).
pub enum ReloadResult {
    /// No reload fetches this: the caller leads the fetch.
    Writer(FillWriter),
    /// A reload is in flight that began later than the caller's request arrived: the caller reads its response.
    Follow(Reader),
    /// A reload is in flight that began earlier. The caller joins again when its verdict is known.
    Wait(Reader),
}

/// The result of [`Fills::join`](super::Fills::join).
pub enum JoinResult {
    /// No fetch of this is in flight: the caller fetches it.
    Writer(FillWriter),
    /// A fetch is in flight: the caller reads its response.
    Follow(Reader),
}
