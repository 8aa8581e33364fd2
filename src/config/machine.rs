//! Properties of the machine that the config needs.

use std::fs;
use std::path::{Path, PathBuf};

/// The files in which the kernel describes this machine and this process.
#[derive(Debug)]
pub(crate) struct Machine {
    root: PathBuf,
}

impl Machine {
    /// Returns this machine.
    pub(crate) fn here() -> Self {
        Self::at(Path::new("/"))
    }

    /// Returns the machine whose files are below `root`.
    pub(crate) fn at(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Returns the text of the file at `path`, which has no slash in front, without spaces around it.
    pub(crate) fn read(&self, path: impl AsRef<Path>) -> Option<String> {
        Some(fs::read_to_string(self.root.join(path)).ok()?.trim().to_owned())
    }

    /// Whether there is a file at `path`, which has no slash in front.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.root.join(path).exists()
    }

    /// Returns the bytes of memory that this process may use: the machine's, or those of its control group.
    pub(crate) fn memory(&self) -> u64 {
        let machine = rustix::system::sysinfo();
        let installed = (machine.totalram as u64).saturating_mul(u64::from(machine.mem_unit));
        self.memory_limit().map_or(installed, |limit| installed.min(limit))
    }

    /// Returns the limit of the control group of this process: the least of its own and those above it, in bytes. In a
    /// container, the group is the top of the tree; in a service of systemd, it is below.
    pub(crate) fn memory_limit(&self) -> Option<u64> {
        let groups = self.read("proc/self/cgroup").unwrap_or_default();
        let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
        let limit =
            |group: &Path| self.read(Path::new("sys/fs/cgroup").join(group).join("memory.max"))?.parse().ok();
        Path::new(own).ancestors().filter_map(limit).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_a_service_and_the_groups_above_holds() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let machine = Machine::at(folder.path());
        assert_eq!(machine.memory_limit(), None);
        write("sys/fs/cgroup/memory.max", "max\n");
        write("proc/self/cgroup", "0::/system.slice/larder.service\n");
        assert_eq!(machine.memory_limit(), None);
        write("sys/fs/cgroup/system.slice/larder.service/memory.max", "max\n");
        write("sys/fs/cgroup/system.slice/memory.max", "4096\n");
        assert_eq!((machine.memory_limit(), machine.memory()), (Some(4_096), 4_096));
        write("sys/fs/cgroup/system.slice/larder.service/memory.max", "1024\n");
        assert_eq!(machine.memory_limit(), Some(1_024));
    }
}
