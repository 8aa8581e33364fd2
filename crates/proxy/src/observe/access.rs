//! The access log: one line per request, on standard output or in a file. [`forms`] defines the lines.
//!
//! Lines wait for others on the [page](pages) of their worker, for a moment only: a write for each line would cost more
//! than the hit that it reports. A write has whole lines, so that several processes may share a file. A request does not
//! fail if the log cannot be written; lost lines are counted.

mod forms;
mod pages;
mod sink;
mod stamp;

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Access, access};

use self::forms::Entry;
use self::pages::Pages;
use self::sink::Sink;
use super::memo::{RequestRecord, RequestResult};
use crate::base::clock;
use crate::base::error::{Error, cause};
use crate::base::settings::Settings;

const FAILED: &str = "cannot write the access log";

/// The destination of the lines.
pub struct Log(Pages);

impl Log {
    /// Opens the log of `settings` at the end of its file, or on standard output. Fails when the file cannot be opened.
    pub(crate) fn open(settings: &Settings) -> Result<Self, Error> {
        let file = settings.access_log_file.as_deref().map(append_to).transpose();
        let sink = file.map_err(|error| Error::new(FAILED, error))?.unwrap_or_default();
        Ok(Self(Pages::new(settings.threads, sink)))
    }

    /// Continues in the file that has this name now. If it cannot be opened, the open file stays in use.
    pub(crate) fn reopen(&self, path: Option<&Path>) {
        match path.map(append_to).transpose() {
            Ok(file) => self.0.redirect(file.unwrap_or_default()),
            Err(error) => tracing::error!("{FAILED}: {error}; the one that is open stays"),
        }
    }

    /// Adds the line of a request to a worker that took `took`, in the form of `settings`.
    pub(crate) fn write(
        &self,
        worker: usize,
        settings: &Settings,
        (memo, ended, took): (&RequestRecord, &RequestResult, Duration),
    ) {
        let (millis, client) = (clock::unix_millis(), settings.access_log_client);
        let entry = Entry { memo, ended, took, millis, client };
        let write = |line: &mut _, stamp: &mut _| entry.write(settings.access_log, line, stamp);
        self.0.append(worker, settings.access_log_by_line, write);
    }

    /// Writes all lines that wait for others.
    pub fn flush(&self) {
        self.0.flush();
    }

    /// Returns the number of lines that could not be written.
    pub fn lost(&self) -> u64 {
        self.0.lost()
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
fn append_to(path: &Path) -> Result<Sink, String> {
    let file = OpenOptions::new().append(true).create(true).mode(0o640).open(path);
    file.map(|file| Sink::new(file, path)).map_err(|error| explain(path, &error))
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
