//! The access log: one line per request, on standard output or in a file. [`forms`] defines the lines.
//!
//! Each line is written at once with a single write. So no line is lost when the file is moved and reopened, and
//! several processes may share a file. A request does not fail if the log cannot be written; lost lines are counted.

mod forms;

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use rustix::fs::{Access, access};

use self::forms::Entry;
use super::memo::{RequestRecord, RequestResult};
use crate::base::clock;
use crate::base::error::{Error, cause};
use crate::base::settings::AccessLog;

const FAILED: &str = "cannot write the access log";

/// The destination of the lines.
#[derive(Debug)]
pub(crate) struct Log {
    /// `None`: to standard output.
    file: ArcSwapOption<File>,
    lost: AtomicU64,
}

impl Log {
    /// Opens a log at the end of this file, or on standard output.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, Error> {
        let file = path.map(append_to).transpose();
        let file = file.map_err(|error| Error::new(FAILED, error))?;
        Ok(Self { file: ArcSwapOption::new(file), lost: AtomicU64::new(0) })
    }

    /// Continues in the file that has this name now. If it cannot be opened, the open file stays in use.
    pub(crate) fn reopen(&self, path: Option<&Path>) {
        match path.map(append_to).transpose() {
            Ok(file) => self.file.store(file),
            Err(error) => tracing::error!("{FAILED}: {error}; the one that is open stays"),
        }
    }

    /// Writes the line of a request that took `took`.
    pub(crate) fn write(&self, form: AccessLog, memo: &RequestRecord, ended: &RequestResult, took: Duration) {
        let mut line = String::with_capacity(256);
        Entry { memo, ended, took, millis: clock::unix_millis() }.write(form, &mut line);
        let written = match &*self.file.load() {
            Some(file) => (&**file).write_all(line.as_bytes()),
            None => io::stdout().write_all(line.as_bytes()),
        };
        if written.is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the number of lines that could not be written.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// Checks whether a log could be written to this file, without any change.
///
/// # Errors
/// The reason why not, with the same message as `Log::open`.
pub fn examine(path: &Path) -> Result<(), Error> {
    let failed = |error: io::Error| Error::new(FAILED, explain(path, &error));
    let (examined, right) = match std::fs::metadata(path) {
        Ok(about) if about.is_dir() => return Err(failed(io::ErrorKind::IsADirectory.into())),
        Ok(_) => (path, Access::WRITE_OK),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            (folder(path), Access::WRITE_OK | Access::EXEC_OK)
        }
        Err(error) => return Err(failed(error)),
    };
    access(examined, right).map_err(|error| failed(error.into()))
}

/// Opens the file for appending. A new file is readable for the operator's group, for programs that read logs. A
/// symbolic link is followed.
fn append_to(path: &Path) -> Result<Arc<File>, String> {
    let file = OpenOptions::new().append(true).create(true).mode(0o640).open(path);
    file.map(Arc::new).map_err(|error| explain(path, &error))
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn explain(path: &Path, error: &io::Error) -> String {
    let (path, folder) = (path.display(), folder(path).display());
    match error.kind() {
        io::ErrorKind::NotFound => format!("{path}: there is no directory {folder}"),
        io::ErrorKind::NotADirectory => format!("{path}: {folder} is not a directory"),
        io::ErrorKind::IsADirectory => format!("{path}: it is a directory"),
        io::ErrorKind::PermissionDenied => format!("{path}: permission denied"),
        io::ErrorKind::ReadOnlyFilesystem => format!("{path}: the file system is read-only"),
        _ => format!("{path}: {}", cause(error)),
    }
}
