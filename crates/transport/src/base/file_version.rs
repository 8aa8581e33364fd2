//! Versions of files that are read again when they change.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The version of a file. It differs after a change of the content, the permissions or the file itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileVersion {
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds of the last change (`ctime`).
    changed: (i64, i64),
}

impl FileVersion {
    /// Returns the version of the file at `path`; `None` if there is no such file.
    pub fn of(path: &Path) -> Option<Self> {
        let file = fs::metadata(path).ok()?;
        Some(Self { inode: file.ino(), size: file.size(), changed: (file.ctime(), file.ctime_nsec()) })
    }
}
