//! The requests of a trace whose objects are numbered.

/// One request of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The object's number: below [`Shape::objects`].
    pub id: u32,
    /// The size in bytes if the object is stored now. A resident object keeps the size with which it was stored.
    pub size: u64,
    /// The cost to fetch the object, in microseconds; 0 if unknown.
    pub cost: u32,
    /// The number of the next request for the object, counted from 1; `u64::MAX` for never. Only offline policies read
    /// it.
    pub next: u64,
}

/// The properties that differ between the requests of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The number of objects: fewer than 2^31.
    pub objects: u32,
    /// Whether sizes differ; if not, every size is taken as 1.
    pub sized: bool,
    /// Whether costs differ; if not, every cost is taken as 0.
    pub costed: bool,
}

/// Returns the key of the object numbered `id`: keys are unique, and all bits look random.
#[inline]
pub fn spread(id: u32) -> u64 {
    let mut key = u64::from(id).wrapping_add(0x9E37_79B9_7F4A_7C15);
    key = (key ^ key >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    key = (key ^ key >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    key ^ key >> 31
}
