//! The store's access to its files: the only calls to the operating system, so that tests can inject faults.
//!
//! Names are flat, within one directory. This module does not depend on the content of files.

use std::fs;
use std::io::{self, IoSliceMut, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::{FlockOperation, flock, fstat, statvfs};
use rustix::io::{Errno, ReadWriteFlags, preadv2};

use crate::open_error::OpenError;
use crate::private;

/// The lock file of a directory in use, which contains the id of the process that uses it.
const LOCK: &str = "larder.lock";
/// Longer than a tick of any clock that file systems use.
const SETTLED: Duration = Duration::from_millis(50);

/// The files of one directory.
pub trait Files: Send + Sync + 'static {
    /// Returns the names of all files.
    ///
    /// # Errors
    /// The operating system's, here and below.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Opens an existing file, for reading and writing if that is allowed, otherwise for reading.
    #[allow(missing_docs, clippy::missing_errors_doc)]
    fn open(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Creates a new file; no file of this name may exist.
    #[allow(missing_docs, clippy::missing_errors_doc)]
    fn create(&self, name: &str) -> io::Result<Arc<dyn File>>;

    /// Renames a file; it replaces a file with the new name.
    #[allow(missing_docs, clippy::missing_errors_doc)]
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. Processes that have it open can still read it.
    #[allow(missing_docs, clippy::missing_errors_doc)]
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes added and removed names durable.
    #[allow(missing_docs, clippy::missing_errors_doc)]
    fn sync(&self) -> io::Result<()>;

    /// Lets another user lock the files. This one only reads files that it has open.
    fn unlock(&self) {}

    /// Returns the space of the file system, or an error where it is not available.
    #[allow(clippy::missing_errors_doc)]
    fn space(&self) -> io::Result<Space> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The space of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Space {
    /// Bytes that this process may still take.
    pub free: u64,
    /// All bytes of the file system.
    pub whole: u64,
}

/// One open file.
pub trait File: Send + Sync + 'static {
    /// Reads at most `into.len()` bytes from `at` on; 0 at the end of the file.
    ///
    /// # Errors
    /// The operating system's, here and below.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize>;

    /// Reads as [`read_at`](Self::read_at) does, but only bytes in memory. The error is `WouldBlock`
    /// if there are none, and `Unsupported` where this cannot be determined.
    #[allow(clippy::missing_errors_doc)]
    fn read_at_once(&self, _into: &mut [u8], _at: u64) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Writes some of `bytes` at `at`, and returns how many.
    #[allow(clippy::missing_errors_doc)]
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize>;

    /// Makes the bytes durable.
    #[allow(clippy::missing_errors_doc)]
    fn sync(&self) -> io::Result<()>;

    /// Returns the bytes in the file.
    #[allow(clippy::missing_errors_doc)]
    fn size(&self) -> io::Result<u64>;

    /// Returns a stamp that shows whether the file has changed. If it returns an error, each byte is verified
    /// each time.
    #[allow(clippy::missing_errors_doc)]
    fn stamp(&self) -> io::Result<Stamp> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Returns the file for `sendfile`; `None` where there is no real file.
    fn as_file(&self) -> Option<&fs::File>;
}

/// The size of a file, and the times of its last changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Bytes in the file.
    pub size: u64,
    /// The time at which its bytes changed, in nanoseconds since 1970. The file's owner may set this back.
    pub modified: i64,
    /// The time at which its bytes or its metadata changed, likewise. It can be set back only through the
    /// machine's clock.
    pub changed: i64,
}

impl Stamp {
    /// Whether any later change would have another time. File systems take the time from a clock that ticks
    /// every few milliseconds: two changes within one tick have the same time.
    pub(crate) fn is_settled(&self) -> bool {
        let Ok(now) = UNIX_EPOCH.elapsed() else { return false };
        let changed = Duration::from_nanos(u64::try_from(self.changed.max(self.modified)).unwrap_or(0));
        now.checked_sub(changed).is_some_and(|age| age > SETTLED)
    }
}

/// Fills `into` from `at` on. The error is `UnexpectedEof` if the file ends before.
pub(crate) fn read_all(file: &dyn File, mut into: &mut [u8], mut at: u64) -> io::Result<()> {
    while !into.is_empty() {
        match file.read_at(into, at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => (into, at) = (&mut into[read..], at + read as u64),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes all of `bytes` at `at`. If it fails, some of them may have been written.
pub(crate) fn write_all(file: &dyn File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => (bytes, at) = (&bytes[written..], at + written as u64),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A real directory, locked against a second user while this value exists.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    lock: fs::File,
}

impl Directory {
    /// Creates the directory if it does not exist, and locks it.
    ///
    /// # Errors
    /// [`OpenError::InUse`] if another user has locked it; [`OpenError::Io`] if it cannot be created or used.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, OpenError> {
        let path = path.into();
        let lock = lock(&path)?;
        Ok(Self { path, lock })
    }

    /// Checks whether [`Directory::open`] could create and use the directory. Changes nothing, and does not
    /// check whether it is in use.
    ///
    /// # Errors
    /// [`OpenError::Io`] if it could not.
    pub fn examine(path: &Path) -> Result<(), OpenError> {
        match private::examine_directory(path) {
            // The objects in it can still be read.
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem && path.is_dir() => Ok(()),
            examined => examined.map_err(|error| unusable(path, error)),
        }
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Checks that there is a directory at `path` in which a store was once created. Changes nothing.
    ///
    /// # Errors
    /// [`OpenError::Io`] if there is none.
    pub fn must_exist(path: &Path) -> Result<(), OpenError> {
        let failed = |error| OpenError::io(format!("no disk cache is in {}", path.display()), error);
        match fs::metadata(path.join(LOCK)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && path.is_dir() => {
                Err(failed(io::Error::other(format!("it has no file {LOCK}"))))
            }
            looked => looked.map(drop).map_err(failed),
        }
    }
}

fn unusable(path: &Path, error: io::Error) -> OpenError {
    OpenError::io(format!("cannot use {} for the disk cache", path.display()), error)
}

fn lock(path: &Path) -> Result<fs::File, OpenError> {
    let failed = |error| unusable(path, error);
    private::make_directory(path).map_err(failed)?;
    let (read, write) = (private::options().read(true).clone(), path.join(LOCK));
    let file = match private::open(read.clone().write(true).create(true).truncate(false), &write) {
        Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => private::open(&read, &write)
            .map_err(|absent| match absent.kind() {
                io::ErrorKind::NotFound => error,
                _ => absent,
            }),
        other => other,
    }
    .map_err(failed)?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        let mut pid = String::new();
        // The process that holds the lock may not have written its id yet.
        let _ = Read::take(&file, 32).read_to_string(&mut pid);
        return Err(OpenError::InUse { path: path.into(), pid: pid.trim().parse().ok() });
    }
    // The id only helps the operator to find the holder of the lock.
    let _ = file.set_len(0).and_then(|()| writeln!(&file, "{}", std::process::id()));
    Ok(file)
}

impl Files for Directory {
    fn unlock(&self) {
        // Without an unlock, the end of the process unlocks.
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            // The store's file names are UTF-8.
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let path = self.path.join(name);
        let file = match private::open(private::options().read(true).write(true), &path) {
            Err(error) if is_refused(&error) => private::open(private::options().read(true), &path)?,
            other => other?,
        };
        Ok(Arc::new(OsFile(file)))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let options = private::options().read(true).write(true).create_new(true).clone();
        let file = private::open(&options, &self.path.join(name))?;
        Ok(Arc::new(OsFile(file)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path.join(from), self.path.join(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path.join(name))
    }

    fn sync(&self) -> io::Result<()> {
        fs::File::open(&self.path)?.sync_all()
    }

    fn space(&self) -> io::Result<Space> {
        let found = statvfs(&self.path)?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(Space { free: bytes(found.f_bavail), whole: bytes(found.f_blocks) })
    }
}

fn is_refused(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
}

fn nanos(seconds: i64, nanos: i64) -> i64 {
    seconds.saturating_mul(1_000_000_000).saturating_add(nanos)
}

struct OsFile(fs::File);

impl File for OsFile {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        FileExt::read_at(&self.0, into, at)
    }

    fn read_at_once(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        match preadv2(&self.0, &mut [IoSliceMut::new(into)], at, ReadWriteFlags::NOWAIT) {
            // The file system does not support the flag.
            Err(Errno::OPNOTSUPP) => Err(io::ErrorKind::Unsupported.into()),
            other => Ok(other?),
        }
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        FileExt::write_at(&self.0, bytes, at)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn stamp(&self) -> io::Result<Stamp> {
        let stat = fstat(&self.0)?;
        Ok(Stamp {
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: nanos(stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: nanos(stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        })
    }

    fn as_file(&self) -> Option<&fs::File> {
        Some(&self.0)
    }
}
