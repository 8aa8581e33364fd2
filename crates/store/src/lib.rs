//! Where stored responses live.
//!
//! [`Memory`] finds, keeps and forgets [`Entry`]s within one budget; [`Disks`] keeps what outlives the
//! process; [`Equivalents`] lead to what is stored for another query; [`Fill`] is a response on its way in, read by everybody who asked for it while it still
//! arrives; [`Purges`] say which of it must not be used any more; [`Arena`] holds bodies large enough to
//! leave by `sendfile`. What may be stored or reused is not decided here but in
//! `larder-semantics`; who dies when space is short is decided in `larder-evict`.

pub mod arena;
pub mod body;
pub mod disks;
pub mod entry;
pub mod equivalents;
pub mod fill;
pub mod lines;
pub mod markers;
pub mod memory;
pub mod purges;
pub mod reclaim;
pub mod store;

pub use arena::{Arena, Extent};
pub use body::Body;
pub use disks::{DiskTier, Disks, Drive, Record};
pub use entry::Entry;
pub use equivalents::Equivalents;
pub use fill::{Ending, Fill, Fills, Joined};
pub use larder_disk::private;
pub use lines::{LinePool, Lines, LinesRef};
pub use markers::Markers;
pub use memory::{Memory, Resident};
pub use purges::{Effect, Generation, Purges, Scope};
pub use store::{Pruned, Store};
