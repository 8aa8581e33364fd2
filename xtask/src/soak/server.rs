//! Proxies under test: their configs, their ports, their processes.

use anyhow::{Context, Result};
use larder_testkit::{Process, free_ports};
use rustix::process::{Pid, Signal, kill_process};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The proxy's memory budget for responses, in bytes.
pub(super) const BUDGET: u64 = 64 << 20;

/// A user of the hostile site, as `htpasswd -B -C 10` writes it.
const USERS: &str = "a:$2y$10$kTb6CD33HQu5TaNPdAbYNujtpQj1pW5VBgqhBLfyhnd.v0UWCPJza\n";

const START: Duration = Duration::from_secs(30);

/// Returns the maximum of resident bytes for a budget of `budget` bytes for responses.
pub(super) fn most_resident(budget: u64) -> u64 {
    budget + budget * 15 / 100 + (64 << 20)
}

/// A process with a separate working directory, which ends when this value is dropped.
pub(super) struct Larder {
    /// The port of its sites.
    pub(super) site: u16,
    pub(super) admin: u16,
    program: PathBuf,
    folder: tempfile::TempDir,
    child: Process,
    /// The process that has taken over from `child`, if there is one.
    successor: Option<Pid>,
}

impl Larder {
    pub(super) fn start(program: &Path, config: &str) -> Result<Self> {
        let folder = tempfile::tempdir().context("cannot make a folder")?;
        let file = folder.path().join("larder.toml");
        std::fs::write(&file, config).with_context(|| format!("cannot write {}", file.display()))?;
        let [site, admin] = free_ports();
        let child = spawn(program, folder.path(), [site, admin])?;
        let mut larder = Self { site, admin, program: program.to_owned(), folder, child, successor: None };
        larder.wait()?;
        Ok(larder)
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills the process.
    pub(super) fn kill(&mut self) {
        self.child.end();
    }

    /// Starts it again with the contents of its folder, on the same ports.
    pub(super) fn start_again(&mut self) -> Result<()> {
        (self.child, self.successor) =
            (spawn(&self.program, self.folder.path(), [self.site, self.admin])?, None);
        self.wait()
    }

    /// Returns the process that serves.
    pub(super) fn process(&self) -> Pid {
        self.successor.unwrap_or_else(|| Pid::from_child(&self.child))
    }

    /// Starts an upgrade. It ends with the returned command, whose output is a pipe. Fails if the command does not
    /// start.
    pub(super) fn upgrade(&self) -> Result<Process> {
        let mut command = Command::new(&self.program);
        command.args(["upgrade", "--admin", &format!("127.0.0.1:{}", self.admin)]);
        Process::start(command.stdout(Stdio::piped()).stderr(Stdio::null()))
            .context("cannot start `larder upgrade`")
    }

    /// Records that `process` serves.
    pub(super) fn is_succeeded_by(&mut self, process: Pid) {
        self.successor = Some(process).filter(|process| *process != Pid::from_child(&self.child));
    }

    /// Whether a process accepts connections.
    pub(super) fn listens(&self) -> bool {
        TcpStream::connect(("127.0.0.1", self.site)).is_ok()
    }

    fn wait(&mut self) -> Result<()> {
        let places = [self.site, self.admin].map(|port| ("127.0.0.1", port));
        self.child.listens(&places, START).context("the proxy")
    }
}

impl Drop for Larder {
    fn drop(&mut self) {
        if let Some(successor) = self.successor {
            // It may have ended already.
            let _ = kill_process(successor, Signal::KILL);
        }
    }
}

fn spawn(program: &Path, folder: &Path, [site, admin]: [u16; 2]) -> Result<Process> {
    let mut command = Command::new(program);
    command.args(["serve", "--config", "larder.toml", "--access-log", "off", "--stats", "none"]);
    for (option, port) in [("--listen", site), ("--admin", admin)] {
        command.arg(option).arg(format!("127.0.0.1:{port}"));
    }
    command.current_dir(folder).env("STATE_DIRECTORY", folder).env("LARDER_LOG", "error");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    Process::start(&mut command).with_context(|| format!("cannot start {}", program.display()))
}

/// The ports of the proxy for ordinary and hostile clients, all on 127.0.0.1.
pub(super) struct Ports {
    /// The port of the sites `good.test` and `evil.test`.
    pub(super) site: u16,
    pub(super) forward: u16,
    pub(super) admin: u16,
    pub(super) onc: u16,
    /// The port of the hostile origin, which is not the proxy's own.
    pub(super) traps: u16,
}

/// The proxy for ordinary and hostile clients.
pub(super) struct Server {
    pub(super) ports: Ports,
    larder: Larder,
    /// The file of the users of the hostile site.
    _users: tempfile::NamedTempFile,
}

impl Server {
    /// Starts `larder` in front of the ordinary origin and the hostile one.
    pub(super) fn start(larder: &Path, ours: u16, traps: u16) -> Result<Self> {
        let [forward, onc] = free_ports();
        let users = tempfile::NamedTempFile::new().context("cannot make a file")?;
        std::fs::write(users.path(), USERS).context("cannot write the users")?;
        let config = format!(
            "[memory]\nsize = '{}MiB'\n[forward]\nlisten = '127.0.0.1:{forward}'\nallow_private = true\n\
             [onc]\nlisten = '127.0.0.1:{onc}'\n\
             [[site]]\nname = 'good'\nhosts = ['good.test']\norigin = 'http://127.0.0.1:{ours}'\n\
             [[site]]\nname = 'evil'\nhosts = ['evil.test']\norigin = 'http://127.0.0.1:{traps}'\n\
             compress = ['gzip']\n[[site.rule]]\nmatch = {{ path = '/members' }}\nusers = '{}'\n",
            BUDGET >> 20,
            users.path().display()
        );
        let larder = Larder::start(larder, &config)?;
        let ports = Ports { site: larder.site, forward, admin: larder.admin, onc, traps };
        Ok(Self { ports, larder, _users: users })
    }

    pub(super) fn id(&self) -> u32 {
        self.larder.id()
    }
}
