//! The reasons why a store cannot be opened, in words.

use std::io;
use std::path::PathBuf;

/// The smallest store, in bytes.
pub(crate) const LEAST: u64 = 1 << 20;

/// The reason why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process, or another part of this one, uses the directory.
    #[error("{} is in use by {}", .path.display(), .pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}")))]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The id of the process that uses it, if the lock file contains it.
        pid: Option<u32>,
    },
    /// A later version of the store wrote a file. No file was changed.
    #[error("{name} has format {format}, and this version reads up to format {}", crate::record::FORMAT)]
    Future {
        /// The file.
        name: String,
        /// Its format's version.
        format: u32,
    },
    /// The size is below the minimum.
    #[error("a disk cache of {size} bytes is too small; the least is {LEAST} bytes")]
    TooSmall {
        /// The requested size, in bytes.
        size: u64,
    },
    /// The operating system returned an error.
    #[error("{what}: {}", cause(.error))]
    Io {
        /// The attempted operation.
        what: String,
        /// The error.
        error: io::Error,
    },
}

impl OpenError {
    pub(crate) fn io(what: String, error: io::Error) -> Self {
        Self::Io { what, error }
    }
}

/// Returns the operating system's error in words; an error created by this crate has them already.
fn cause(error: &io::Error) -> String {
    if error.raw_os_error().is_none() {
        return error.to_string();
    }
    match error.kind() {
        // The result of creating a directory at the path of another kind of file.
        io::ErrorKind::AlreadyExists | io::ErrorKind::NotADirectory => "it is not a directory".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::StorageFull => "no space is left".to_owned(),
        io::ErrorKind::NotFound => "there is no such directory".to_owned(),
        _ => larder_words::cause(error),
    }
}
