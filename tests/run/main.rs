//! `larder run`: commands whose downloads over https come from the cache in the second run, and `serve --intercept`.
//!
//! Registries are sites of another Larder over TLS, which stores nothing, before a scripted origin. Clients trust its
//! authority by `SSL_CERT_FILE`, as on a machine with an authority of its own.

mod authority;
mod browser;
mod checksums;
mod chosen;
mod clients;
mod commands;
mod failures;
#[path = "../network/relay.rs"]
mod relay;
mod served;
mod settings;
mod shelf;
mod systems;
mod tools;
mod tunnels;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use larder_testkit::{Authority, Larder, Origin, output, programs, site, stderr, stdout};
use serde_json::Value;
use tempfile::TempDir;

/// A registry over https.
struct Registry {
    authority: Authority,
    front: Larder,
    origin: Origin,
}

impl Registry {
    /// Starts a registry that answers as `origin` does.
    fn before(origin: Origin) -> Self {
        Self::with(origin, Authority::new(), &["localhost", "127.0.0.1"], "")
    }

    /// Starts a registry with a certificate for `names` of this authority, and with `keys` of the listener.
    fn with(origin: Origin, authority: Authority, names: &[&str], keys: &str) -> Self {
        let pair = authority.pair("registry", names);
        let listen = format!("[reverse]\nlisten = '127.0.0.1:0'\nlisten_tls = '127.0.0.1:0'\n{keys}\n");
        let site = site(&[&origin], "cache = false");
        let front = Larder::start(&format!("{listen}{}{site}", pair.table()));
        Self { authority, front, origin }
    }

    /// Returns the registry's URL, without a path.
    fn url(&self) -> String {
        format!("https://localhost:{}", self.port())
    }

    /// Returns the URL of `path`.
    fn at(&self, path: &str) -> String {
        format!("{}{path}", self.url())
    }

    fn port(&self) -> u16 {
        self.front.door("reverse, TLS").port()
    }

    /// Returns the number of GET requests that the registry has received.
    fn count(&self) -> usize {
        self.origin.count()
    }
}

/// The directories and the trusted certificates of a user.
struct User {
    home: TempDir,
    roots: String,
}

impl User {
    /// Returns a user whose clients trust the authority of `registry`.
    fn of(registry: &Registry) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        // Go reads no project in the directory for temporary files.
        fs::create_dir(home.path().join("tmp")).expect("a directory for temporary files");
        Self { home, roots: registry.authority.file() }
    }

    fn home(&self) -> &Path {
        self.home.path()
    }

    /// Returns `larder run` with these options, for `command`.
    fn command(&self, options: &[&str], command: &[&str]) -> Command {
        let mut run = Command::new("env");
        // In the background of a script, the tests ignore interrupts, and so would the run.
        run.arg("--default-signal=INT,QUIT").arg(programs::larder());
        run.arg("run").args(options).arg("--").args(command);
        self.at_home(run)
    }

    /// Sets the environment of a command of this user.
    fn at_home(&self, mut run: Command) -> Command {
        // This machine may have other proxies and authorities.
        let is_of_trust =
            |name: &str| name.contains("PROXY") || name.contains("CERT") || name.contains("CA_");
        for (name, _) in std::env::vars().filter(|(name, _)| is_of_trust(&name.to_uppercase())) {
            run.env_remove(name);
        }
        run.env_remove("GIT_SSL_CAINFO").env_remove("CARGO_HTTP_CAINFO").env_remove("CURL_CA_BUNDLE");
        let tools = ["npm", "uv"].map(|program| of_tools(program).parent().expect("a folder").to_owned());
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(std::env::split_paths(&path).chain(tools)).expect("folders");
        run.env("HOME", self.home())
            .env("PATH", path)
            .env("XDG_CACHE_HOME", self.home().join("cache"))
            .env("STATE_DIRECTORY", self.home().join("state"))
            .env("SSL_CERT_FILE", &self.roots)
            .env("TMPDIR", self.home().join("tmp"))
            .env("NODE_EXTRA_CA_CERTS", &self.roots)
            // The settings of npm on this machine may name others.
            .env("npm_config_cafile", &self.roots)
            .env_remove("LARDER_LOG")
            .env_remove("RUST_LOG")
            .current_dir(self.home());
        run
    }

    /// Runs a script without Larder, with the same trust, and returns what it says.
    fn directly(&self, script: &str) -> String {
        let mut shell = Command::new("sh");
        shell.args(["-ec", script]);
        let mut shell = self.at_home(shell);
        for name in ["PIP_CERT", "CARGO_HTTP_CAINFO", "BUNDLE_SSL_CA_CERT"] {
            shell.env(name, &self.roots);
        }
        output(&mut shell)
    }

    /// Runs a script whose tunnels to `host` are not intercepted, and returns what it says.
    fn tunnelled(&self, host: &str, script: &str) -> String {
        let run = self.run(&[], &["sh", "-ec", script]).succeeded();
        assert_eq!((run.number("requests"), run.number("failed")), (0, 0), "{}", run.told());
        assert_eq!(run.report["unseen"][host]["reason"], "method", "{}", run.told());
        run.said()
    }

    /// Runs `command`, and returns what it has said.
    fn run(&self, options: &[&str], command: &[&str]) -> Run {
        let report = self.home().join("report.json");
        let options: Vec<_> = [&["--report", report.to_str().expect("text")], options].concat();
        let output = self.command(&options, command).output().expect("it runs");
        let report = std::fs::read_to_string(&report).unwrap_or_default();
        Run { output, report: serde_json::from_str(&report).unwrap_or_default() }
    }
}

/// Returns the place of a program that `cargo x test` installs, since Debian does not have it.
fn of_tools(program: &str) -> PathBuf {
    let folder = if program == "uv" { "uv/bin" } else { "npm/node_modules/.bin" };
    Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools").join(folder).join(program)
}

/// A run that has ended.
struct Run {
    output: Output,
    report: Value,
}

impl Run {
    fn code(&self) -> i32 {
        self.output.status.code().expect("no signal")
    }

    fn said(&self) -> String {
        stdout(&self.output)
    }

    /// Returns standard error: that of the command, and the lines of Larder.
    fn told(&self) -> String {
        stderr(&self.output)
    }

    fn number(&self, name: &str) -> u64 {
        self.report[name].as_u64().unwrap_or_else(|| panic!("no {name} in {}; {}", self.report, self.told()))
    }

    /// Returns the run if its command has succeeded.
    fn succeeded(self) -> Self {
        assert_eq!(self.code(), 0, "{}{}", self.said(), self.told());
        self
    }
}

/// Returns an origin whose responses are fresh, with the path as content.
fn origin() -> Origin {
    Origin::by(|seen| {
        format!("200 OK\nCache-Control: max-age=1000\nContent-Type: text/plain\n\n{}", seen.target)
    })
}
