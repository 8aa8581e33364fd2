//! Real `redis-server`s for one test: one server that can be killed and restarted empty, three masters of a Redis
//! Cluster, a Sentinel that watches a server, and replicas that take over.

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::{PATIENCE, Process, eventually, free, program, within};

/// The milliseconds without a response after which the masters of a Redis Cluster consider one failed.
const CLUSTER_TIMEOUT: &str = "3000";

/// The maximum time until servers agree on a new master.
pub const ELECTION: Duration = Duration::from_secs(60);

/// A Redis server. It stores no data on disk, so its data is lost when it is killed.
pub struct Engine {
    address: SocketAddr,
    directory: TempDir,
    words: Vec<String>,
    child: Option<Process>,
}

impl Engine {
    /// Starts a server and waits until it accepts connections.
    pub fn start() -> Self {
        Self::start_with(&["--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"])
    }

    /// Starts three masters of a Redis Cluster, which share the keys.
    pub fn cluster() -> Vec<Self> {
        let masters: Vec<_> = std::iter::repeat_with(Self::in_cluster).take(3).collect();
        let addresses: Vec<_> = masters.iter().map(|master| master.address.to_string()).collect();
        let words: Vec<_> =
            ["--cluster", "create"].into_iter().chain(addresses.iter().map(String::as_str)).collect();
        masters[0].tell(&[&words[..], &["--cluster-yes"]].concat());
        let is_whole = |master: &Self| master.tell(&["cluster", "info"]).contains("cluster_state:ok");
        eventually("the masters to agree", || masters.iter().all(is_whole).then_some(()));
        masters
    }

    fn in_cluster() -> Self {
        let bus = free().port().to_string();
        let words = ["--cluster-enabled", "yes", "--cluster-port", &bus, "--save", ""];
        let times = ["--cluster-node-timeout", CLUSTER_TIMEOUT, "--repl-diskless-sync-delay", "0"];
        Self::start_with(&[&words[..], &times].concat())
    }

    /// Removes from `masters` the master that owns the keys with the prefix `larder`, and returns it.
    pub fn owner(masters: &mut Vec<Self>) -> Self {
        let slot: usize =
            masters[0].tell(&["cluster", "keyslot", "larder"]).trim().parse().expect("a number");
        masters.remove(slot * masters.len() / (1 << 14))
    }

    /// Starts a replica that can take over from `master`.
    pub fn replica(master: &Self) -> Self {
        let (ip, port) = (master.address.ip().to_string(), master.address.port().to_string());
        Self::start_with(&["--replicaof", &format!("{ip} {port}"), "--save", ""]).once_in_step()
    }

    /// Starts a replica of `master` in a Redis Cluster whose other masters are `others`.
    pub fn replica_in_cluster(master: &Self, others: &[Self]) -> Self {
        let (replica, id) = (Self::in_cluster(), master.tell(&["cluster", "myid"]));
        let (ip, port) = (replica.address.ip().to_string(), replica.address.port().to_string());
        let bus = replica.words[3].as_str();
        assert_eq!(master.tell(&["cluster", "meet", &ip, &port, bus]).trim(), "OK");
        let replicates =
            || replica.tell(&["cluster", "replicate", id.trim()]).starts_with("OK").then_some(());
        eventually("the replica to know its master", replicates);
        // Waits until all servers know each other directly: contacts that only the master has are lost with it.
        let knows_all = |server: &Self| {
            let nodes = server.tell(&["cluster", "nodes"]);
            let is_known = |line: &str| line.contains(" connected") && !line.contains("handshake");
            nodes.lines().count() == others.len() + 2
                && nodes.lines().all(is_known)
                && nodes.contains("slave")
        };
        let know_all = || others.iter().chain([&replica]).all(knows_all).then_some(());
        eventually("the others and the replica to know each other", know_all);
        replica.once_in_step()
    }

    fn once_in_step(self) -> Self {
        let is_up = || self.tell(&["info", "replication"]).contains("master_link_status:up").then_some(());
        eventually("the replica to have what its master has", is_up);
        self
    }

    /// Makes this server the master in a Redis Cluster without the agreement of the other masters.
    pub fn take_over(&self) {
        let takes_over = || self.tell(&["cluster", "failover", "takeover"]).starts_with("OK").then_some(());
        eventually("a replica that takes over", takes_over);
    }

    pub fn is_master(&self) -> bool {
        self.tell(&["info", "replication"]).contains("role:master")
    }

    /// Starts a server with a password that also speaks TLS. Returns its URL too, and the certificate that proves its
    /// identity.
    #[cfg(feature = "proxy")]
    pub fn encrypted() -> (Self, String, crate::Pair) {
        let directory = tempfile::tempdir().expect("a directory");
        let pair = crate::Pair::self_signed(directory.path(), "localhost");
        let (port, text) = (free().port(), |path: &Path| path.display().to_string());
        let (key, file) = (text(&pair.key), text(&pair.cert));
        let tls = ["--tls-port", &port.to_string(), "--tls-key-file", &key, "--tls-cert-file", &file];
        let access = ["--tls-auth-clients", "no", "--requirepass", "open sesame", "--save", ""];
        let engine = Self::start_in(directory, &[&tls[..], &access].concat());
        (engine, format!("rediss://:open%20sesame@localhost:{port}/1"), pair)
    }

    /// Starts a server that speaks TLS with this certificate, and demands client certificates that the authority in
    /// `ca` has signed. Returns its URL too.
    pub fn mutual(ca: &str, certificate: &Path, key: &Path) -> (Self, String) {
        let (port, text) = (free().port(), |path: &Path| path.display().to_string());
        let (key, file) = (text(key), text(certificate));
        let tls = ["--tls-port", &port.to_string(), "--tls-key-file", &key, "--tls-cert-file", &file];
        let access = ["--tls-auth-clients", "yes", "--tls-ca-cert-file", ca, "--save", ""];
        let directory = tempfile::tempdir().expect("a directory");
        (Self::start_in(directory, &[&tls[..], &access].concat()), format!("rediss://localhost:{port}"))
    }

    /// Starts a Sentinel that watches `master` under the name `larder`, and promotes a replica if the master fails.
    pub fn sentinel(master: &Self) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("sentinel.conf");
        let (ip, port) = (master.address.ip(), master.address.port());
        let lines = [
            format!("sentinel monitor larder {ip} {port} 1"),
            "sentinel down-after-milliseconds larder 2000".to_owned(),
            "sentinel failover-timeout larder 10000\n".to_owned(),
        ];
        std::fs::write(&file, lines.join("\n")).expect("written");
        Self::start_in(directory, &[file.to_str().expect("a path"), "--sentinel"])
    }

    /// Waits until this Sentinel knows a replica that can take over.
    pub fn knows_a_replica(&self) {
        let knows =
            || self.tell(&["sentinel", "replicas", "larder"]).contains("master-link-status").then_some(());
        within(ELECTION, "the Sentinel to know the replica", knows);
    }

    /// Returns the URL of this server for a node's config.
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Returns the URL of the master that this Sentinel watches.
    pub fn url_of_sentinel(&self) -> String {
        format!("redis+sentinel://{}/larder", self.address)
    }

    /// Returns the URL of the Redis Cluster with these `masters`.
    pub fn url_of_cluster(masters: &[Self]) -> String {
        let addresses: Vec<_> = masters.iter().map(|master| master.address.to_string()).collect();
        format!("redis+cluster://{}", addresses.join(","))
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn start_with(words: &[&str]) -> Self {
        Self::start_in(tempfile::tempdir().expect("a directory"), words)
    }

    fn start_in(directory: TempDir, words: &[&str]) -> Self {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        let mut engine = Self { address: free(), directory, words, child: None };
        engine.restart();
        engine
    }

    /// Kills the server if it runs, and starts it again.
    pub fn restart(&mut self) {
        self.kill();
        let mut command = program("redis-server", "redis-server");
        command.args(&self.words).args(["--port", &self.address.port().to_string(), "--bind", "127.0.0.1"]);
        command.arg("--dir").arg(self.directory.path());
        let started =
            Process::start(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()));
        let mut child = started.expect("it starts");
        child.listens(&[self.address], PATIENCE).expect("the engine");
        self.child = Some(child);
    }

    /// Kills the server.
    pub fn kill(&mut self) {
        self.child = None;
    }

    /// Sends a signal: `STOP` suspends the server, `CONT` resumes it.
    pub fn signal(&self, signal: Signal) {
        self.child.as_ref().expect("it runs").signal(signal);
    }

    /// Returns the output of `redis-cli` for a command.
    pub fn tell(&self, words: &[&str]) -> String {
        let mut command = Command::new("redis-cli");
        let output = command.args(["-p", &self.address.port().to_string()]).args(words).output();
        String::from_utf8(output.expect("apt-get install redis-tools").stdout).expect("text")
    }
}
