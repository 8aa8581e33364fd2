//! Common HTTP servers as origins, each a process with its own port, configuration and access log.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use larder_testkit::{Client, PATIENCE, Pair, Process, eventually, free, program};
use rustix::process::{Signal, geteuid};
use tempfile::TempDir;

/// A running origin. It ends with the test.
pub(crate) struct Server {
    child: Process,
    directory: TempDir,
    address: SocketAddr,
}

impl Server {
    /// Starts nginx, which serves the files below `root` with a lifetime of an hour, and text compressed for clients
    /// that accept it.
    pub(crate) fn nginx(root: &Path) -> Self {
        Self::configured(|directory, port| {
            let file = directory.join("nginx.conf");
            write(&file, include_str!("nginx.conf"), directory, root, port);
            let mut command = program("nginx", "nginx-light");
            command.arg("-e").arg(directory.join("error.log")).arg("-c").arg(file);
            command
        })
    }

    /// Starts nginx as [`Server::nginx`], and additionally with https and an untrusted certificate for `localhost`.
    pub(crate) fn nginx_with_tls(root: &Path) -> Self {
        Self::configured(|directory, port| {
            let file = directory.join("nginx.conf");
            let tls = "ssl_certificate @DIRECTORY@/cert; ssl_certificate_key @DIRECTORY@/key;";
            let template = include_str!("nginx.conf").replace("@PORT@;", &format!("@PORT@ ssl; {tls}"));
            write(&file, &template, directory, root, port);
            Pair::self_signed(directory, "localhost");
            let mut command = program("nginx", "nginx-light");
            command.arg("-e").arg(directory.join("error.log")).arg("-c").arg(file);
            command
        })
    }

    /// Returns the path of the certificate that a client should trust.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.directory.path().join("cert")
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Starts Apache, which serves the files below `root` with a lifetime of an hour.
    pub(crate) fn apache(root: &Path) -> Self {
        Self::configured(|directory, port| {
            let file = directory.join("apache.conf");
            let user = if geteuid().is_root() { "User www-data\nGroup www-data\n" } else { "" };
            let template = format!("{user}{}", include_str!("apache.conf"));
            write(&file, &template, directory, root, port);
            let mut command = program("apache2", "apache2");
            command.arg("-DFOREGROUND").arg("-f").arg(file);
            command
        })
    }

    /// Starts the Python server of `slow.py`.
    pub(crate) fn python() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let log = fs::File::create(directory.path().join("access.log")).expect("a log");
        let mut command = program("python3", "python3");
        command.args(["-u", "-c", include_str!("slow.py")]).stdout(Stdio::piped()).stderr(log);
        let mut child = Process::start(&mut command).expect("it starts");
        let port = child.said_until("")[0].parse().expect("a port");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        Self { child, directory, address }
    }

    /// Starts the command that `command` returns for a directory and a free port, and waits until it listens.
    fn configured(command: impl Fn(&Path, u16) -> Command) -> Self {
        let (directory, address) = (tempfile::tempdir().expect("a directory"), free());
        let mut child = Process::start(&mut command(directory.path(), address.port())).expect("it starts");
        if let Err(error) = child.listens(&[address], PATIENCE) {
            let log = fs::read_to_string(directory.path().join("error.log")).unwrap_or_default();
            panic!("{error}: {log}");
        }
        Self { child, directory, address }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the access log's lines for requests under `prefix`, after all answered requests have been logged.
    pub(crate) fn log(&self, prefix: &str) -> Vec<String> {
        let mark = format!("/mark-{}", fastrand::u64(..));
        Client::to(self.address).ask(&format!("GET {mark}"));
        eventually("the access log", || {
            let log = fs::read_to_string(self.directory.path().join("access.log")).expect("a log");
            let lines = || log.lines().map(str::to_owned);
            lines().any(|line| line.contains(&mark)).then(|| {
                let wanted = format!(" {prefix}");
                lines().filter(|line| line.contains(&wanted) && !line.contains("/mark-")).collect()
            })
        })
    }

    /// Returns the number of requests that arrived, without those of [`Server::log`].
    pub(crate) fn count(&self) -> usize {
        self.log("/").len()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Not KILL: Apache's children would stay.
        self.child.signal(Signal::TERM);
        let _ = self.child.wait();
    }
}

fn write(file: &Path, template: &str, directory: &Path, root: &Path, port: u16) {
    let text = template
        .replace("@DIRECTORY@", &directory.display().to_string())
        .replace("@ROOT@", &root.display().to_string())
        .replace("@PORT@", &port.to_string());
    fs::write(file, text).expect("written");
}
