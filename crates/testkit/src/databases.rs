//! Real servers from Debian's packages, each on loopback, with a temporary folder and an unprivileged user. They end
//! with the program.

use std::fs;
use std::net::TcpStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

use crate::{Process, children, free_ports, output, program, within};

/// The maximum time for the start or the end of a server.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that can be killed, and restarted with its data.
pub struct Server {
    kind: Kind,
    folder: TempDir,
    port: u16,
    child: Option<Process>,
    made: AtomicU32,
}

#[derive(Clone, Copy)]
enum Kind {
    Mariadb,
    Postgres,
}

impl Server {
    pub fn mariadb() -> Self {
        let server = Self::new(Kind::Mariadb);
        let mut install = server.command("mariadb-install-db");
        let data = format!("--datadir={}", server.data().display());
        install.args(["--no-defaults", &data, "--auth-root-authentication-method=normal", "--skip-test-db"]);
        output(&mut install);
        server.started()
    }

    pub fn postgres() -> Self {
        let server = Self::new(Kind::Postgres);
        let mut install = server.command("initdb");
        install.args(["-A", "trust", "-U", "larder", "-E", "UTF8", "--locale=C", "-N", "-D"]);
        output(install.arg(server.data()));
        server.started()
    }

    fn new(kind: Kind) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let [port] = free_ports();
        let server = Self { kind, folder, port, child: None, made: AtomicU32::new(0) };
        if let Some(user) = Self::user() {
            std::os::unix::fs::chown(server.folder.path(), Some(user), Some(user)).expect("given away");
        }
        server
    }

    fn started(mut self) -> Self {
        self.start();
        self
    }

    /// Starts the server. If it ends at once, it is started again: the remains of the previous process may still hold
    /// its files or its port.
    pub fn start(&mut self) {
        let mut child = self.spawn();
        within(PATIENCE, "a server that answers", || {
            if child.try_wait().expect("it can be waited for").is_some() {
                child = self.spawn();
            }
            self.answers("SELECT 1").then_some(())
        });
        self.child = Some(child);
    }

    fn spawn(&self) -> Process {
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
        Process::start(server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log)).expect("it starts")
    }

    /// Kills the server, as a failing machine would.
    pub fn kill(&mut self) {
        self.child = None;
        // PostgreSQL's other processes notice this, and release the resources that they share.
        within(PATIENCE, "a closed port", || {
            TcpStream::connect(("127.0.0.1", self.port)).is_err().then_some(())
        });
    }

    /// Stops the server's processes until [`Server::resume`]; its connections stay open.
    pub fn freeze(&self) {
        self.processes().into_iter().for_each(|pid| kill_process(pid, Signal::STOP).expect("stopped"));
    }

    pub fn resume(&self) {
        self.processes().into_iter().for_each(|pid| kill_process(pid, Signal::CONT).expect("continued"));
    }

    /// Returns the server's process and its child processes.
    pub fn processes(&self) -> Vec<Pid> {
        let server = self.child.as_ref().expect("a server");
        children(server.id()).into_iter().chain([Pid::from_child(server)]).collect()
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Returns the user for the server, where this process is root: both servers refuse to run as root. It is one that
    /// each machine has; the servers' own are made by packages that are not needed here.
    fn user() -> Option<u32> {
        let id = || output(Command::new("id").args(["-u", "nobody"])).trim().parse().expect("a number");
        geteuid().is_root().then(id)
    }

    fn command(&self, name: &str) -> Command {
        let package = match self.kind {
            Kind::Mariadb => "mariadb-server-core",
            Kind::Postgres => "postgresql",
        };
        let mut command = program(name, package);
        command.current_dir(self.folder.path());
        if let Some(user) = Self::user() {
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
    pub fn make(&self) -> String {
        let name = format!("stats{}", self.made.fetch_add(1, Ordering::Relaxed));
        output(&mut self.client(self.first(), &format!("CREATE DATABASE {name}")));
        match self.kind {
            Kind::Mariadb => format!("mariadb://root@127.0.0.1:{}/{name}", self.port),
            Kind::Postgres => format!("postgres://larder@127.0.0.1:{}/{name}", self.port),
        }
    }

    /// Runs statements in the database at `url`.
    pub fn run(&self, url: &str, sql: &str) {
        let (_, database) = url.rsplit_once('/').expect("a database");
        output(&mut self.client(database, sql));
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
