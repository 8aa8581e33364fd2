//! The store of responses.
//!
//! - [`Memory`] stores [`Entry`]s within one budget. Behind it are [`Tier`]s: [`Disks`] store responses that survive the process.
//! - [`Fill`] is a response in progress, which all its clients read while it arrives.
//! - [`Equivalents`] find responses stored for another query.
//! - [`Purges`] decide which stored responses must not be used any more.
//! - [`Arena`] holds bodies large enough for `sendfile`.
//!
//! `larder-semantics` decides whether a response may be stored or reused, and `larder-evict` which one is evicted.

pub mod arena;
pub mod body;
mod charge;
pub mod disks;
pub mod entry;
pub mod equivalents;
pub mod fill;
pub mod handover;
mod hash_keys;
mod head;
pub mod hints;
pub mod hit_for_miss;
pub mod lines;
mod listed_response;
mod mapping;
pub mod memory;
pub mod purges;
pub mod reclaim;
pub mod store;
pub mod tier;

pub use arena::{Arena, Extent};
pub use body::{Body, CodedBody, LongBody, PackedBody, Record, SlicePart, SlicedBody, Storage};
pub use disks::{DiskTier, Disks, Drive, PruneTotals};
pub use entry::Entry;
pub use equivalents::Equivalents;
pub use fill::{ContentEnd, Fill, FillWriter, Fills, JoinResult};
pub use hash_keys::HashKeys;
pub use hints::{HintSource, HintUsage, Hints};
pub use hit_for_miss::HitForMiss;
pub use larder_disk::{Directory, private};
pub use lines::{LinePool, Lines, LinesRef};
pub use listed_response::ListedResponse;
pub use memory::{Budget, Counts, Memory, Resident};
pub use purges::{Generation, Purges};
pub use store::Store;
pub use tier::{Tier, TierName};
