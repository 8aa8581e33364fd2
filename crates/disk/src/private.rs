//! Files and directories that no other user of the machine may read, replace or lock.
//!
//! Symbolic links are not followed in the last part of a name. Existing files must belong to this user or to root;
//! root may also use the directories and files of a service's user.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use rustix::fs::{Access, OFlags, PROC_SUPER_MAGIC, access, statfs};
use rustix::io::Errno;
use rustix::process::geteuid;

const DIRECTORY: u32 = 0o700;
const FILE: u32 = 0o600;
/// Rights of the group and of all others.
const FOREIGN: u32 = 0o077;
const WRITABLE_BY_ALL: u32 = 0o002;
/// In such a directory, users may remove their own files only.
const STICKY: u32 = 0o1000;

/// Creates the directory, and its parents, if they do not exist.
///
/// # Errors
/// The operating system's error, or that the directory belongs to another user, or that every user may
/// replace files in it.
pub fn make_directory(path: &Path) -> io::Result<()> {
    let made = DirBuilder::new().recursive(true).mode(DIRECTORY).create(path);
    made.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => Errno::NOTDIR.into(),
        _ => error,
    })?;
    judge(&fs::metadata(path)?)
}

/// Checks whether [`make_directory`] would succeed now, and files could be created in the directory. Changes nothing.
///
/// # Errors
/// The same as for [`make_directory`].
pub fn examine_directory(path: &Path) -> io::Result<()> {
    let mut nearest = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let about = loop {
        match (fs::metadata(nearest), nearest.parent()) {
            // It would be created in its parent.
            (Err(error), Some(parent)) if error.kind() == io::ErrorKind::NotFound => {
                nearest = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            }
            (about, _) => break about?,
        }
    };
    if !about.is_dir() {
        return Err(Errno::NOTDIR.into());
    }
    if nearest == path {
        judge(&about)?;
    }
    // Root has all rights below /proc and /sys (0x62656572 in statfs(2)), which keep no files.
    if matches!(statfs(nearest)?.f_type, PROC_SUPER_MAGIC | 0x6265_6572) {
        return Err(denied("the kernel keeps no files there"));
    }
    access(nearest, Access::WRITE_OK | Access::EXEC_OK).map_err(io::Error::from)
}

fn judge(about: &Metadata) -> io::Result<()> {
    if !is_trusted(about.uid()) && !geteuid().is_root() {
        return Err(denied("it belongs to another user"));
    }
    let mode = about.mode();
    if mode & WRITABLE_BY_ALL != 0 && mode & STICKY == 0 {
        return Err(denied("every user may write to it; chmod o-w it first"));
    }
    Ok(())
}

/// Opens a file with `options` from [`options`]. If other users could read the file, their access is removed.
///
/// # Errors
/// The operating system's error, or that the file is a symbolic link or belongs to another user.
pub fn open(options: &OpenOptions, path: &Path) -> io::Result<File> {
    let file = options.open(path).map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::LOOP) => denied(&format!("{} is a symbolic link", path.display())),
        _ => error,
    })?;
    let about = file.metadata()?;
    let is_mine = about.uid() == geteuid().as_raw();
    let owner_of_parent =
        || path.parent().and_then(|parent| fs::metadata(parent).ok()).map(|parent| parent.uid());
    let is_of_service = || geteuid().is_root() && owner_of_parent() == Some(about.uid());
    if !is_trusted(about.uid()) && !is_of_service() {
        return Err(denied(&format!("{} belongs to another user", path.display())));
    }
    if is_mine && about.mode() & FOREIGN != 0 {
        match file.set_permissions(Permissions::from_mode(FILE)) {
            Err(error) if error.kind() != io::ErrorKind::ReadOnlyFilesystem => return Err(error),
            _ => {}
        }
    }
    Ok(file)
}

/// Returns options for files here; the caller adds the kind of access.
pub fn options() -> OpenOptions {
    let mut options = File::options();
    options.mode(FILE).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    options
}

/// Creates a new file for writing, in place of a file with its name.
///
/// # Errors
/// The operating system's error.
pub fn replace(path: &Path) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => open(options().write(true).create_new(true), path),
    }
}

/// Replaces the file at `path` by one with these bytes, atomically: other processes and the next start find
/// the old bytes or the new ones.
///
/// # Errors
/// The operating system's error.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // Two processes may do the same at once.
    let mut draft = path.as_os_str().to_owned();
    draft.push(format!(".{}", std::process::id()));
    let draft = Path::new(&draft);
    let mut file = replace(draft)?;
    file.write_all(bytes)?;
    file.sync_data()?;
    fs::rename(draft, path)
}

/// Returns the bytes of a file.
///
/// # Errors
/// Those of [`open`].
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(options().read(true), path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Whether files of this user are safe to use.
fn is_trusted(uid: u32) -> bool {
    uid == geteuid().as_raw() || uid == 0
}

fn denied(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, why)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).expect("it is there").mode() & 0o777
    }

    #[test]
    fn new_files_and_directories_are_readable_by_their_owner_alone() {
        let outer = tempfile::tempdir().expect("a directory");
        let inner = outer.path().join("a/b");
        make_directory(&inner).expect("made");
        replace(&inner.join("file")).expect("made");
        assert_eq!(
            (mode(&outer.path().join("a")), mode(&inner), mode(&inner.join("file"))),
            (0o700, 0o700, 0o600)
        );
    }

    #[test]
    fn a_file_is_no_directory() {
        let outer = tempfile::tempdir().expect("a directory");
        let file = outer.path().join("file");
        fs::write(&file, "").expect("written");
        for wrong in [&file, &file.join("below")] {
            let error = make_directory(wrong).expect_err("a file");
            assert_eq!(error.kind(), io::ErrorKind::NotADirectory, "{}", wrong.display());
        }
    }

    #[test]
    fn a_directory_is_examined_without_being_made() {
        let outer = tempfile::tempdir().expect("a directory");
        let (file, inner) = (outer.path().join("file"), outer.path().join("a/b"));
        fs::write(&file, "").expect("written");
        examine_directory(outer.path()).expect("it can be used");
        examine_directory(&inner).expect("it can be made");
        assert!(!outer.path().join("a").exists());
        for wrong in [&file, &file.join("below")] {
            let error = examine_directory(wrong).expect_err("a file");
            assert_eq!(error.kind(), io::ErrorKind::NotADirectory, "{wrong:?}");
            assert!(make_directory(wrong).is_err());
        }
        for kernels in ["/proc", "/proc/none", "/sys/none/below"] {
            assert!(examine_directory(Path::new(kernels)).is_err(), "{kernels}");
        }
        make_directory(&inner).expect("made");
        fs::set_permissions(&inner, Permissions::from_mode(0o777)).expect("our own");
        let (examined, made) = (examine_directory(&inner), make_directory(&inner));
        assert_eq!(examined.expect_err("for all").to_string(), made.expect_err("for all").to_string());
    }

    #[test]
    fn opening_a_file_that_others_can_read_closes_it_to_them() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        fs::write(&path, "old").expect("written");
        fs::set_permissions(&path, Permissions::from_mode(0o644)).expect("our own");
        open(options().read(true), &path).expect("opened");
        assert_eq!(mode(&path), 0o600);
    }

    #[test]
    fn a_written_file_takes_the_place_of_the_old_one() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        for bytes in [&b"a long one"[..], b"new"] {
            write(&path, bytes).expect("written");
            assert_eq!((read(&path).expect("read"), mode(&path)), (bytes.to_vec(), 0o600));
        }
        assert_eq!(fs::read_dir(directory.path()).expect("a directory").count(), 1);
    }

    #[test]
    fn links_and_directories_that_all_users_can_write_are_refused() {
        let directory = tempfile::tempdir().expect("a directory");
        let (link, target) = (directory.path().join("link"), directory.path().join("target"));
        fs::write(&target, "kept").expect("written");
        symlink(&target, &link).expect("a link");
        let error = open(options().write(true).create(true).truncate(true), &link).expect_err("a link");
        assert!(error.to_string().ends_with("link is a symbolic link"), "{error}");
        assert_eq!(fs::read(&target).expect("there"), b"kept");
        fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).expect("our own");
        assert!(make_directory(directory.path()).is_err());
    }
}
