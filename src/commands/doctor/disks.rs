//! The disk tier: room on the file system. `larder check` examines the rights.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use larder_proxy::settings::DiskTier;
use rustix::fs::statvfs;

use super::Finding;
use crate::cli::units::{about_size, show_size};

const DISK: &str = "disk";

/// Compares the size of a disk tier with the room on its file system.
pub(super) fn space(disk: &DiskTier) -> Finding {
    let path = disk.path.display();
    // A missing directory will be made.
    let Some(existing) = disk.path.ancestors().find(|path| path.exists()).map(or_here) else {
        return Finding::problem(
            DISK,
            format!("{path} is on no file system"),
            "write a path that can be made",
        );
    };
    let free = match statvfs(existing) {
        Ok(system) => system.f_bavail.saturating_mul(system.f_frsize),
        Err(error) => {
            let found = format!("{path}: the file system does not tell its free space ({error})");
            return Finding::warning(DISK, found, "make sure that disk.size fits");
        }
    };
    judge(disk, used(&disk.path), free)
}

/// Returns the current directory for the empty path.
fn or_here(path: &Path) -> &Path {
    if path.as_os_str().is_empty() { Path::new(".") } else { path }
}

/// Returns the bytes on the disk of the files in `directory`.
fn used(directory: &Path) -> u64 {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    files.filter_map(|file| Some(file.metadata().ok()?.blocks() * 512)).sum()
}

/// Judges a disk tier whose files take `used` bytes, with `free` bytes beside them.
fn judge(disk: &DiskTier, used: u64, free: u64) -> Finding {
    let (path, size) = (disk.path.display(), show_size(disk.size));
    let (taken, left) = (about_size(used), about_size(free));
    let found = format!("{path}: disk.size {size}, of which {taken} are used, and {left} are free");
    match used.saturating_add(free) >= disk.size {
        true => Finding::ok(DISK, found),
        false => Finding::problem(
            DISK,
            found,
            "lower disk.size, or make room: on a full disk, nothing more is stored there",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::doctor::Level;

    #[test]
    fn files_of_the_disk_tier_count_as_its_room() {
        let disk = DiskTier { size: 10 << 30, ..DiskTier::at("/cache".into()) };
        assert_eq!(judge(&disk, 8 << 30, 2 << 30).level, Level::Ok);
        let full = judge(&disk, 7 << 30, 2 << 30);
        assert_eq!(full.level, Level::Problem);
        assert_eq!(full.found, "/cache: disk.size 10GiB, of which 7.00 GiB are used, and 2.00 GiB are free");
    }

    #[test]
    fn no_file_system_has_room_for_the_largest_size() {
        let folder = tempfile::tempdir().unwrap();
        let disk = |size| DiskTier { size, ..DiskTier::at(folder.path().join("not/yet")) };
        assert_eq!(space(&disk(u64::MAX)).level, Level::Problem);
        assert_eq!(space(&disk(1)).level, Level::Ok);
    }
}
