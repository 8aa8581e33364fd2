//! The real binary, started on free ports.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::{
    Client, Origin, Process, Response, children, eventually, is_over, locked, programs, resident, successor,
};

/// A running proxy. It ends with the test.
pub struct Larder {
    child: Process,
    directory: TempDir,
    log: Arc<Mutex<Vec<String>>>,
    reverse: Option<SocketAddr>,
    /// The address of the forward proxy.
    pub forward: SocketAddr,
    /// The address of the admin listener.
    pub admin: SocketAddr,
    /// The lines that it printed at its start.
    said: Vec<String>,
    /// The processes that have succeeded the first one, the last one last.
    successors: Vec<Pid>,
}

impl Larder {
    /// Starts a reverse proxy in front of `origin`, with defaults.
    pub fn before(origin: &Origin) -> Self {
        Self::start(&site(&[origin], ""))
    }

    /// Starts a reverse proxy in front of `origin`, with `tables` of the config file.
    pub fn with(origin: &Origin, tables: &str) -> Self {
        Self::start(&format!("{tables}\n{}", site(&[origin], "")))
    }

    /// Starts a reverse proxy in front of `origins`, with `keys` of the site's table.
    pub fn with_site(origins: &[&Origin], keys: &str) -> Self {
        Self::start(&site(origins, keys))
    }

    /// Starts a proxy with this config file. The command line adds its listeners.
    pub fn start(config: &str) -> Self {
        Self::start_in(config, &[])
    }

    /// Starts a proxy with this config file, and with these variables in its environment.
    pub fn start_in(config: &str, environment: &[(&str, &Path)]) -> Self {
        let mut command = Command::new(programs::larder());
        command.envs(environment.iter().copied());
        Self::start_by(command, config)
    }

    /// Starts a gateway whose previous process ended without changes in progress, so that it does not start in doubt.
    /// `sites` are the names and origins of its sites.
    pub fn start_settled(config: &str, sites: &[(&str, &str)]) -> Self {
        let state = tempfile::tempdir().expect("a directory");
        let lines: String = sites.iter().map(|(name, origin)| format!("{name:?} {origin}\n")).collect();
        fs::write(state.path().join("settled-127.0.0.1:0"), lines).expect("written");
        Self::start_in(config, &[("STATE_DIRECTORY", state.path())])
    }

    /// Starts a proxy with its admin listener at `admin`, for example `0.0.0.0:0` for all networks of this machine.
    pub fn start_at(config: &str, admin: &str) -> Self {
        Self::start_with(Command::new(programs::larder()), config, admin)
    }

    /// Starts a proxy with its admin listener over TLS, and its state in the folder `state`.
    pub fn start_with_admin_over_tls(config: &str, state: &Path) -> Self {
        let mut command = Command::new(programs::larder());
        command.env("STATE_DIRECTORY", state);
        Self::start_with(command, config, "https://127.0.0.1:0")
    }

    /// Starts a proxy through the command `before`, which executes it in the same process.
    pub fn start_behind(before: &[&str], config: &str) -> Self {
        let mut command = Command::new(before[0]);
        command.args(&before[1..]).arg(programs::larder());
        Self::start_by(command, config)
    }

    fn start_by(command: Command, config: &str) -> Self {
        Self::start_with(command, config, "127.0.0.1:0")
    }

    fn start_with(mut command: Command, config: &str, admin: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let file = write(&directory, config);
        let any = "127.0.0.1:0";
        command.args(["serve", "--threads", "2", "--forward", any, "--admin", admin]);
        if !config.contains("access_log") {
            command.args(["--access-log", "off"]);
        }
        if config.contains("[[site]]") && !config.contains("[reverse]") {
            command.args(["--listen", any]);
        }
        if !config.contains("[stats]") {
            command.args(["--stats", "none"]);
        }
        if config.contains("sticky") && command.get_envs().all(|(name, _)| name != "STATE_DIRECTORY") {
            command.env("STATE_DIRECTORY", directory.path());
        }
        if command.get_envs().all(|(name, _)| name != "LARDER_LOG") {
            command.env("LARDER_LOG", "info");
        }
        command.arg("--config").arg(file).env_remove("RUST_LOG");
        let started = Process::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let mut child = started.expect("it starts");
        let log = collect(child.stderr.take().expect("a pipe"));
        let said = child.said_until("try: ");
        let address = |before: &str, after: &str| {
            let text = said.iter().find_map(|line| line.strip_prefix(before)?.strip_suffix(after))?;
            text.parse().ok()
        };
        let missing = || panic!("it does not say where it listens: {said:?} {:?}", locked(&log));
        let reverse = address("listening on ", " (reverse)");
        let forward = address("listening on ", " (forward)").unwrap_or_else(missing);
        let admin = ["http", "https"].map(|scheme| address(&format!("admin on {scheme}://"), "/"));
        let admin = admin.into_iter().flatten().next().unwrap_or_else(missing);
        Self { child, directory, log, reverse, forward, admin, said, successors: Vec::new() }
    }

    /// Returns the address of the site.
    pub fn address(&self) -> SocketAddr {
        self.reverse.expect("a site")
    }

    /// Returns the address of the listener with this name.
    pub fn door(&self, name: &str) -> SocketAddr {
        self.find_door(name).expect("a door of this name")
    }

    /// Returns the address of the listener with this name, if there is one.
    pub fn find_door(&self, name: &str) -> Option<SocketAddr> {
        let end = format!(" ({name})");
        let address = |line: &String| line.strip_prefix("listening on ")?.strip_suffix(&end)?.parse().ok();
        self.said.iter().find_map(address)
    }

    /// Connects to the site.
    pub fn client(&self) -> Client {
        Client::to(self.address())
    }

    /// Sends a short request on a new connection. Returns when all fills that it started are done.
    pub fn ask(&self, request: &str) -> Response {
        let response = self.client().ask(request);
        self.settle();
        response
    }

    /// Sends a short GET request without waiting for fills, for a proxy whose admin listener does not speak plain HTTP.
    pub fn get_only(&self, path: &str) -> Response {
        self.client().ask(&format!("GET {path}"))
    }

    pub fn get(&self, path: &str) -> Response {
        self.ask(&format!("GET {path}"))
    }

    /// Waits until no fill is in flight.
    pub fn settle(&self) {
        self.wait_for("fills", 0);
    }

    /// Sends a short request to the admin listener, on a new connection.
    pub fn ask_admin(&self, request: &str) -> Response {
        Client::to(self.admin).ask(&format!("{request}\nHost: localhost"))
    }

    /// Returns the response to `GET /stats`.
    pub fn stats(&self) -> Value {
        self.ask_admin("GET /stats").json()
    }

    /// Returns a number of `GET /stats`.
    pub fn stat(&self, name: &str) -> u64 {
        let stats = self.stats();
        stats[name].as_u64().unwrap_or_else(|| panic!("no number called {name} in {stats}"))
    }

    /// Waits until a number of `GET /stats` is `value`.
    pub fn wait_for(&self, name: &str, value: u64) {
        eventually(&format!("{name} = {value}"), || (self.stat(name) == value).then_some(()));
    }

    /// Waits for a line of the log that contains `text`.
    pub fn wait_for_log(&self, text: &str) {
        eventually(&format!("'{text}' in the log"), || (!self.logged(text).is_empty()).then_some(()));
    }

    /// Returns the lines of the log up to now that contain `text`.
    pub fn logged(&self, text: &str) -> Vec<String> {
        locked(&self.log).iter().filter(|line| line.contains(text)).cloned().collect()
    }

    /// Replaces the config file, and sends SIGHUP.
    pub fn reload(&self, config: &str) {
        self.write_config(config);
        self.signal(Signal::HUP);
    }

    /// Replaces the config file.
    pub fn write_config(&self, config: &str) {
        write(&self.directory, config);
    }

    /// Runs `larder upgrade` with these arguments, and returns what it has said. If it succeeds, this value is the new
    /// process from then on.
    ///
    /// # Errors
    /// What it has said on standard error.
    pub fn upgrade(&mut self, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new(programs::larder());
        let admin = self.admin.to_string();
        let output = command.args(["upgrade", "--admin", &admin]).args(arguments).output().expect("it runs");
        if !output.status.success() {
            return Err(programs::stderr(&output));
        }
        let said = programs::stdout(&output);
        self.successors.push(successor(&said).expect("it names the process"));
        Ok(said)
    }

    /// Sends the signal for an upgrade. This value is the new process from then on.
    pub fn upgrade_by_signal(&mut self) {
        self.signal(Signal::USR2);
        self.wait_for_successor();
    }

    /// Waits until a successor serves, which a signal has asked for. This value is the new process from then on.
    pub fn wait_for_successor(&mut self) {
        let successor = eventually("a successor", || children(self.id()).pop());
        self.wait_for_log(&format!("process {} ", successor.as_raw_nonzero()));
        self.successors.push(successor);
    }

    /// Waits until the process before an upgrade has ended.
    pub fn wait_for_predecessor(&mut self) {
        match self.successors.len().checked_sub(2) {
            None => assert!(self.ended().success()),
            Some(before) => {
                let before = self.successors[before];
                eventually("the end of the process before", || is_over(before).then_some(()));
            }
        }
    }

    /// Ends it by SIGTERM, without an error.
    pub fn stop(&mut self) {
        self.signal(Signal::TERM);
        assert!(self.ended().success());
    }

    /// Sends a signal. After `STOP`, waits until all threads have stopped, since they stop one after another.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.process(), signal).expect("it runs");
        if signal == Signal::STOP {
            eventually("all threads to stop", || self.has_stopped().then_some(()));
        }
    }

    fn has_stopped(&self) -> bool {
        let threads = fs::read_dir(format!("/proc/{}/task", self.id())).expect("it runs");
        threads.flatten().all(|thread| {
            let stat = fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
            stat.rsplit(") ").next().is_none_or(|rest| rest.starts_with('T'))
        })
    }

    /// Returns the process ID.
    pub fn id(&self) -> u32 {
        self.process().as_raw_nonzero().get().unsigned_abs()
    }

    fn process(&self) -> Pid {
        self.successors.last().copied().unwrap_or_else(|| Pid::from_child(&self.child))
    }

    /// Returns the process's resident memory in bytes.
    pub fn resident(&self) -> u64 {
        resident(self.id()).expect("it runs")
    }

    /// Waits for the process to end.
    pub fn ended(&mut self) -> ExitStatus {
        eventually("the end of the process", || self.child.try_wait().expect("a child"))
    }
}

impl Drop for Larder {
    fn drop(&mut self) {
        self.child.end();
        for process in &self.successors {
            // It may have ended.
            let _ = kill_process(*process, Signal::KILL);
        }
        let log = locked(&self.log);
        let panicked = log.iter().any(|line| line.contains("panicked"));
        if std::thread::panicking() {
            eprintln!("{}", log.join("\n"));
        } else {
            assert!(!panicked, "{}", log.join("\n"));
        }
    }
}

/// Returns the table of a site.
pub fn site(origins: &[&Origin], keys: &str) -> String {
    let origins: Vec<_> = origins.iter().map(|origin| format!("'http://{}'", origin.address)).collect();
    format!("[[site]]\norigin = [{}]\n{keys}\n", origins.join(", "))
}

fn write(directory: &TempDir, config: &str) -> PathBuf {
    let file = directory.path().join("larder.toml");
    std::fs::write(&file, config).expect("written");
    file
}

fn collect(log: impl Read + Send + 'static) -> Arc<Mutex<Vec<String>>> {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let collected = Arc::clone(&lines);
    std::thread::spawn(move || {
        for line in BufReader::new(log).lines().map_while(Result::ok) {
            locked(&collected).push(line);
        }
    });
    lines
}
