//! Largest first: the space of one large object is enough for many smaller ones.

use crate::parts::priority::{ByPriority, Priority};
use crate::policy::{Residents, Slot};

/// Evicts the largest object and, among equals, the least recently requested.
pub type Maxs = ByPriority<Smallness>;

/// The priority of [`Maxs`].
pub struct Smallness;

impl Priority for Smallness {
    const ABOUT: &'static str = "evicts the largest object, so that many small ones can stay";

    #[inline]
    fn of<R: Residents>(slot: Slot, residents: &R) -> u64 {
        u64::MAX - residents.object(slot).size
    }
}
