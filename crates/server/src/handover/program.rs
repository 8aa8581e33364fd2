//! The program of this process, from which its successor is started.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf, absolute};

use rustix::io::Errno;

use crate::base::error::cause;

/// What Linux appends to the path of a program whose file was removed or replaced.
const DELETED: &[u8] = b" (deleted)";

/// The file of this process's program, as it was at the start, and the arguments.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(super) file: PathBuf,
    pub(super) arguments: Vec<OsString>,
}

impl Program {
    /// Returns the program of this process. Call it at the start: relative paths change with the working directory.
    pub(crate) fn of_this_process() -> Self {
        let mut words = env::args_os();
        let name = words.next().unwrap_or_default();
        // Without /proc, the program is searched for again.
        let running = env::current_exe().map_or_else(|_| PathBuf::from(&name), without_mark);
        let path = env::var_os("PATH").unwrap_or_default();
        Self { file: file(&name, &running, &path), arguments: words.collect() }
    }
}

/// Returns why `file` could not be started: what the system does not say with its `error`.
pub(super) fn why_not(file: &Path, error: &io::Error) -> String {
    let of_program = match error.kind() {
        _ if file.is_dir() => "it is a directory",
        ErrorKind::PermissionDenied if file.is_file() => "the user of this process may not execute it",
        ErrorKind::NotFound if file.exists() => "the interpreter or the loader that it needs is missing",
        _ if Errno::from_io_error(error) == Some(Errno::NOEXEC) => "it is no program for this machine",
        _ => return cause(error),
    };
    of_program.to_owned()
}

/// Returns the file that was started as `name`, which may be a link to the one that is `running`: the next version is
/// where the link leads then.
fn file(name: &OsStr, running: &Path, path: &OsStr) -> PathBuf {
    if name.as_bytes().contains(&b'/') {
        return absolute(name).unwrap_or_else(|_| name.into());
    }
    let is_it = |file: &PathBuf| fs::canonicalize(file).is_ok_and(|file| file == running);
    let named = env::split_paths(path).map(|folder| folder.join(name)).find(is_it);
    named.unwrap_or_else(|| running.to_owned())
}

/// Returns the path of a program without the mark of a removed file.
fn without_mark(path: PathBuf) -> PathBuf {
    match path.as_os_str().as_bytes().strip_suffix(DELETED) {
        Some(stripped) if !path.exists() => OsStr::from_bytes(stripped).into(),
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_program_is_started_again_where_it_was_found() {
        let folder = tempfile::tempdir().unwrap();
        let (running, link) = (folder.path().join("larder-1"), folder.path().join("larder"));
        fs::write(&running, "").unwrap();
        symlink(&running, &link).unwrap();
        let running = fs::canonicalize(running).unwrap();
        let found = |name: &OsStr| file(name, &running, folder.path().as_os_str());
        assert_eq!(found(link.as_os_str()), link, "as a path");
        assert_eq!(found("larder".as_ref()), link, "in the search path");
        assert_eq!(found("other".as_ref()), running);
        assert_eq!(found("./larder".as_ref()), absolute("larder").unwrap());
    }

    #[test]
    fn a_replaced_file_is_where_the_old_one_was() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().join("larder (deleted)");
        assert_eq!(without_mark("/none/larder (deleted)".into()), Path::new("/none/larder"));
        fs::write(&real, "").unwrap();
        assert_eq!(without_mark(real.clone()), real);
    }
}
