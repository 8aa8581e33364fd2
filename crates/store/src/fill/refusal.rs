//! The reasons why memory does not store a response.

/// The reason why memory does not store a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreRefusal {
    /// It is [`StoragePlace::Nowhere`](super::StoragePlace::Nowhere).
    Unwanted,
    /// The response is larger than the limit.
    TooLarge,
    /// The budget of responses in progress is used up.
    NoRoom,
    /// The kernel refused to extend a memory file.
    Refused,
    /// The response is only for a disk, which takes no writes at the moment.
    NotWritten,
    /// A disk stores it.
    OnDisk,
    /// The policy of the memory does not admit it.
    NotAdmitted,
    /// A purge has reached it, or a newer response.
    Outdated,
}
