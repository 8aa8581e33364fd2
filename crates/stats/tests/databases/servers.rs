//! Real servers of Debian's packages, each in a temporary folder, on loopback, as a user without rights; they
//! end with the program. A bench starts them, too (`xtask/src/bench/observe`).

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

/// The time after which a scenario has failed. Long, because machines that run tests can be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until `condition` returns a value.
pub(crate) fn eventually<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(started.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A server that can be stopped, and restarted with its data.
pub(crate) struct Server {
    kind: Kind,
    folder: TempDir,
    port: u16,
    child: Option<Child>,
    made: AtomicU32,
}

#[derive(Clone, Copy)]
enum Kind {
    Mariadb,
    Postgres,
}

impl Server {
    pub(crate) fn mariadb() -> Self {
        let server = Self::new(Kind::Mariadb);
        let mut install = server.command("mariadb-install-db");
        let data = format!("--datadir={}", server.data().display());
        install.args(["--no-defaults", &data, "--auth-root-authentication-method=normal", "--skip-test-db"]);
        said(&mut install);
        server.started()
    }

    pub(crate) fn postgres() -> Self {
        let server = Self::new(Kind::Postgres);
        let mut install = server.command("initdb");
        install.args(["-A", "trust", "-U", "larder", "-E", "UTF8", "--locale=C", "-N", "-D"]);
        said(install.arg(server.data()));
        server.started()
    }

    fn new(kind: Kind) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").port();
        let server = Self { kind, folder, port, child: None, made: AtomicU32::new(0) };
        if let Some(user) = server.user() {
            std::os::unix::fs::chown(server.folder.path(), Some(user), Some(user)).expect("given away");
        }
        server
    }

    fn started(mut self) -> Self {
        self.start();
        self
    }

    /// Starts the server, and again if it ends at once: remains of the one before may still hold its files or
    /// its port.
    pub(crate) fn start(&mut self) {
        let mut child = self.spawn();
        eventually("a server that answers", || {
            if child.try_wait().expect("it can be waited for").is_some() {
                child = self.spawn();
            }
            self.answers("SELECT 1").then_some(())
        });
        self.child = Some(child);
    }

    fn spawn(&self) -> Child {
        let port = self.port.to_string();
        let folder = self.folder.path().display().to_string();
        let mut server = match self.kind {
            Kind::Mariadb => {
                let mut server = self.command("mariadbd");
                server.args(["--no-defaults", "--bind-address=127.0.0.1", "--skip-name-resolve"]);
                server.args(["--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=32M"]);
                server.args([format!("--datadir={folder}/data"), format!("--socket={folder}/socket")]);
                server.arg(format!("--port={port}"));
                server
            }
            Kind::Postgres => {
                let mut server = self.command("postgres");
                server.args(["-h", "127.0.0.1", "-p", &port, "-k", &folder, "-F", "-D"]).arg(self.data());
                server
            }
        };
        let log = fs::File::create(self.folder.path().join("log")).expect("a log");
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().expect("it starts")
    }

    /// Kills the server as a failing machine would.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        // PostgreSQL's other processes detect this, and release shared resources.
        eventually("a closed port", || TcpStream::connect(("127.0.0.1", self.port)).is_err().then_some(()));
    }

    /// Stops all work of the server until [`Server::resume`], with its connections open.
    pub(crate) fn freeze(&self) {
        self.processes().into_iter().for_each(|pid| kill_process(pid, Signal::STOP).expect("stopped"));
    }

    pub(crate) fn resume(&self) {
        self.processes().into_iter().for_each(|pid| kill_process(pid, Signal::CONT).expect("continued"));
    }

    /// Returns the server's process and its child processes.
    pub(crate) fn processes(&self) -> Vec<Pid> {
        let parent = self.child.as_ref().expect("a server").id();
        let children = fs::read_to_string(format!("/proc/{parent}/task/{parent}/children"));
        let children = children.unwrap_or_default();
        let all = children.split_whitespace().filter_map(|pid| pid.parse().ok()).chain([parent as i32]);
        all.filter_map(Pid::from_raw).collect()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Returns the user for the server, where this process is root: both servers refuse to run as root.
    fn user(&self) -> Option<u32> {
        let name = match self.kind {
            Kind::Mariadb => "mysql",
            Kind::Postgres => "postgres",
        };
        let id = || said(Command::new("id").args(["-u", name])).trim().parse().expect("a number");
        geteuid().is_root().then(id)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(find(program));
        command.current_dir(self.folder.path());
        if let Some(user) = self.user() {
            command.uid(user).gid(user);
        }
        command
    }

    fn client(&self, database: &str, sql: &str) -> Command {
        let port = self.port.to_string();
        let mut client = match self.kind {
            Kind::Mariadb => self.command("mariadb"),
            Kind::Postgres => self.command("psql"),
        };
        match self.kind {
            Kind::Mariadb => client.args(["--no-defaults", "-h127.0.0.1", "-P", &port, "-uroot"]),
            Kind::Postgres => client.args(["-X", "-q", "-h", "127.0.0.1", "-p", &port, "-U", "larder"]),
        };
        match self.kind {
            Kind::Mariadb => client.args(["-D", database, "-e", sql]),
            Kind::Postgres => client.args(["-v", "ON_ERROR_STOP=1", "-d", database, "-c", sql]),
        };
        client
    }

    /// Creates an empty database, and returns its URL.
    pub(crate) fn make(&self) -> String {
        let name = format!("stats{}", self.made.fetch_add(1, Ordering::Relaxed));
        said(&mut self.client(self.first(), &format!("CREATE DATABASE {name}")));
        match self.kind {
            Kind::Mariadb => format!("mariadb://root@127.0.0.1:{}/{name}", self.port),
            Kind::Postgres => format!("postgres://larder@127.0.0.1:{}/{name}", self.port),
        }
    }

    /// Runs statements in the database at `url`.
    pub(crate) fn run(&self, url: &str, sql: &str) {
        let (_, database) = url.rsplit_once('/').expect("a database");
        said(&mut self.client(database, sql));
    }

    fn answers(&self, sql: &str) -> bool {
        let mut client = self.client(self.first(), sql);
        client.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    /// Returns a database that exists in every server.
    fn first(&self) -> &'static str {
        match self.kind {
            Kind::Mariadb => "mysql",
            Kind::Postgres => "postgres",
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns the output of `command`, which must succeed.
fn said(command: &mut Command) -> String {
    let output = command.output().expect("it runs");
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}{err}", output.status);
    out.into_owned()
}

/// Finds a program on the path, in the folders of servers, or in that of some version of PostgreSQL.
fn find(program: &str) -> PathBuf {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let versions = versions.map(|version| version.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]).chain(versions);
    let found = folders.map(|folder| folder.join(program)).find(|file: &PathBuf| Path::is_file(file));
    found.unwrap_or_else(|| {
        panic!("{program} is missing: `cargo x test` installs mariadb-server and postgresql")
    })
}
