//! The memory tier in an upgrade: what a process offers to its successor, and what that one takes.
//!
//! Heads are copied, in [slices](slice) of the tiers' common encoding. Large bodies stay where they are, in memory files that both
//! processes [have](crate::arena::inherited). Small bodies are [packed](crate::PackedBody) into such files first, behind the part of their
//! head that is theirs alone and a [record](crate::entry) of the rest, and leave them when one process is alone again. Requests are served meanwhile, so the copy is
//! consistent only at the end:
//!
//! 1. The tier begins to note its changes, and packs small bodies.
//! 2. Everything is copied, the response used last at the end: if the successor has less memory, it evicts the others first.
//! 3. What has changed since is copied again, some times: each time it is less.
//! 4. The cut: the earlier process accepts no connections any more, and sends the last changes and all purges in force.
//!    The successor serves only now. So each purge before the cut holds there.
//! 5. Requests still end in the earlier process. Each process tells the other one what its requests purge or change. The responses
//!    that the earlier one still stores follow. They count as fetched since the cut, so that every purge in the successor
//!    overrides them.
//!
//! The bytes come from another version of this program. What they say is checked before it is used; only their checksum says that
//! they are what that version has sent.

mod export;
mod hints;
mod import;
mod removals;
mod slice;

pub use export::{MemoryOffer, Piece};
pub use import::{MemoryImport, Taken};
pub use slice::{Malformed, VERSION};
