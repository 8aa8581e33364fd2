//! The reasons why a store cannot be opened, in words.

use std::path::PathBuf;
use std::{fmt, io};

use crate::event::words;

/// The smallest store, in bytes.
pub(crate) const LEAST: u64 = 1 << 20;

/// The reason why a store cannot be opened.
#[derive(Debug)]
pub enum OpenError {
    /// Another process, or another part of this one, uses the directory.
    InUse {
        /// The directory.
        path: PathBuf,
        /// The id of the process that uses it, if the lock file contains it.
        pid: Option<u32>,
    },
    /// A later version of the store wrote a file. No file was changed.
    Future {
        /// The file.
        name: String,
        /// Its format's version.
        format: u32,
    },
    /// The size is below the minimum.
    TooSmall {
        /// The requested size, in bytes.
        size: u64,
    },
    /// The operating system returned an error.
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

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse { path, pid: Some(pid) } => {
                write!(f, "{} is in use by process {pid}", path.display())
            }
            Self::InUse { path, pid: None } => write!(f, "{} is in use by another process", path.display()),
            Self::Future { name, format } => {
                let ours = crate::record::FORMAT;
                write!(f, "{name} has format {format}, and this version reads up to format {ours}")
            }
            Self::TooSmall { size } => {
                write!(f, "a disk cache of {size} bytes is too small; the least is {LEAST} bytes")
            }
            Self::Io { what, error } => write!(f, "{what}: {}", cause(error)),
        }
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
        _ => words(error),
    }
}

impl std::error::Error for OpenError {}
