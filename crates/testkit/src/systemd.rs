//! A systemd of a test's own, for Larder's unit.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio, id};

use rustix::process::Pid;
use tempfile::TempDir;

use crate::{Process, children, eventually, not_tested, programs, stderr, stdout};

/// Its namespaces, in the words of `unshare` and `nsenter`.
const NAMESPACES: [&str; 6] = ["--net", "--cgroup", "--ipc", "--mount", "--pid", "--uts"];

/// A systemd in namespaces of its own. It ends with the test, and everything that it has started.
pub struct Systemd {
    /// The ancestor of the others, outside of their namespaces.
    first: Process,
    manager: Pid,
    /// The control group of all.
    group: PathBuf,
    /// The options of `unshare` and `nsenter` for its namespaces.
    namespaces: &'static [&'static str],
    _folder: TempDir,
}

impl Systemd {
    /// Starts it with Larder as the packages install it, in this network. Returns `None` where that is not possible, after
    /// a message or, under `CI`, a panic.
    pub fn start() -> Option<Self> {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        Self::start_with(&[repository, programs::larder()], &NAMESPACES[1..])
    }

    /// Starts it without Larder, in a network of its own. Returns `None` as [`Self::start`] does.
    pub fn without_larder() -> Option<Self> {
        Self::start_with(&[], &NAMESPACES)
    }

    fn start_with(larder: &[PathBuf], namespaces: &'static [&'static str]) -> Option<Self> {
        let started = Self::try_start(larder, namespaces);
        started.map_err(|why| not_tested(&format!("a systemd of its own ({})", why.trim()))).ok()
    }

    fn try_start(larder: &[PathBuf], namespaces: &'static [&'static str]) -> Result<Self, String> {
        let group = groups().ok_or("no control groups of version 2")?;
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let group = group.join(format!("larder-test-{}-{number}", id()));
        fs::create_dir(&group).map_err(|why| format!("{}: {why}", group.display()))?;
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path().join("top");
        fs::create_dir(&top).expect("a folder");
        let said = folder.path().join("said");
        let mut command = Command::new("sh");
        command.args(["-euc", "echo $$ > \"$0/cgroup.procs\"; exec \"$@\""]).arg(&group);
        command.arg("unshare").args(namespaces).args(["--fork", "--kill-child"]);
        command.args(["sh", "-euc", include_str!("systemd.sh"), "sh"]).arg(&top);
        command.args(larder);
        command.stdout(File::create(folder.path().join("out")).expect("a file"));
        command.stderr(File::create(&said).expect("a file"));
        let first = Process::start(&mut command).expect("sh starts");
        let mut own = Self { first, manager: Pid::INIT, group, namespaces, _folder: folder };
        let is_up = eventually("a systemd", || {
            if own.first.try_wait().expect("a child").is_some() {
                return Some(false);
            }
            own.manager = children(own.first.id()).pop()?;
            let state = stdout(&own.run(&["systemctl", "is-system-running"]));
            ["running\n", "degraded\n"].contains(&&*state).then_some(true)
        });
        if is_up { Ok(own) } else { Err(fs::read_to_string(said).unwrap_or_default()) }
    }

    /// Runs a command beside it, as root.
    pub fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new("nsenter");
        command.args(self.namespaces).arg("--target");
        command.arg(self.manager.as_raw_nonzero().to_string()).args(words);
        command.env_clear().env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").output().expect("nsenter runs")
    }

    /// Runs `systemctl` with these words, which must succeed, and returns its standard output.
    pub fn control(&self, words: &[&str]) -> String {
        let said = self.run(&[&["systemctl"], words].concat());
        let journal = || stdout(&self.run(&["journalctl", "--no-pager", "--boot", "--output=cat"]));
        assert!(said.status.success(), "{words:?}: {}{}", stderr(&said), journal());
        stdout(&said).trim().to_owned()
    }

    /// Returns the path of a file of its root, for this process.
    pub fn file(&self, path: &str) -> PathBuf {
        Path::new("/proc").join(self.manager.as_raw_nonzero().to_string()).join("root").join(path)
    }
}

impl Drop for Systemd {
    fn drop(&mut self) {
        self.first.end();
        let mut remove = Command::new("find");
        remove
            .arg(&self.group)
            .args(["-depth", "-type", "d", "-exec", "rmdir", "{}", "+"])
            .stderr(Stdio::null());
        eventually("the end of all", || remove.status().expect("find runs").success().then_some(()));
    }
}

/// Returns the folder of this process's control group of version 2.
fn groups() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mount = mounts.lines().find(|line| line.contains(" - cgroup2 "))?.split(' ').nth(4)?;
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    Some(Path::new(mount).join(own))
}
