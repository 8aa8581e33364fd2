//! Pebble: a certificate authority for one test, which validates challenges at two ports of this machine.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use larder_testkit::{PATIENCE, Pair, Process, free, locked, not_tested};
use serde_json::json;
use tempfile::TempDir;

use crate::dns::Dns;

/// The authority. It stores no data on disk: after a restart it has no accounts.
pub(crate) struct Pebble {
    program: PathBuf,
    folder: TempDir,
    listen: SocketAddr,
    management: SocketAddr,
    /// The ports at which it validates the http-01 and the tls-alpn-01 challenges.
    pub(crate) ports: [u16; 2],
    pub(crate) dns: Dns,
    environment: Vec<(String, String)>,
    log: Arc<Mutex<Vec<String>>>,
    child: Option<Process>,
}

impl Pebble {
    /// Starts an authority whose certificates are valid for `seconds`; returns `None` if Pebble is not installed.
    pub(crate) fn start(seconds: u64) -> Option<Self> {
        let mut pebble = Self::prepare(seconds)?;
        pebble.restart();
        Some(pebble)
    }

    /// Starts an authority like [`Self::start`], with a variable in its environment.
    pub(crate) fn start_with(seconds: u64, (name, value): (&str, &str)) -> Option<Self> {
        let mut pebble = Self::prepare(seconds)?;
        pebble.environment.retain(|(known, _)| known != name);
        pebble.environment.push((name.to_owned(), value.to_owned()));
        pebble.restart();
        Some(pebble)
    }

    /// Prepares an authority without starting it.
    pub(crate) fn prepare(seconds: u64) -> Option<Self> {
        let Some(program) = program() else {
            not_tested("Pebble, which cargo x test builds,");
            return None;
        };
        let folder = tempfile::tempdir().expect("a folder");
        Pair::self_signed(folder.path(), "localhost");
        let [listen, management, file, tls] = [(); 4].map(|()| free());
        let path = |name: &str| folder.path().join(name).display().to_string();
        let config = json!({ "pebble": {
            "listenAddress": listen.to_string(),
            "managementListenAddress": management.to_string(),
            "certificate": path("cert"),
            "privateKey": path("key"),
            "httpPort": file.port(),
            "tlsPort": tls.port(),
            "keyAlgorithm": "ecdsa",
            "profiles": { "default": { "description": "", "validityPeriod": seconds } },
        }});
        std::fs::write(folder.path().join("config.json"), config.to_string()).expect("written");
        let environment =
            [("PEBBLE_VA_NOSLEEP", "1"), ("PEBBLE_WFE_NONCEREJECT", "0"), ("PEBBLE_AUTHZREUSE", "0")];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let ports = [file.port(), tls.port()];
        let (dns, log) = (Dns::start(), Arc::default());
        Some(Self { program, folder, listen, management, ports, dns, environment, log, child: None })
    }

    /// Starts or restarts the authority; a restart clears all its state.
    pub(crate) fn restart(&mut self) {
        self.stop();
        let mut command = Command::new(&self.program);
        command.arg("-config").arg(self.folder.path().join("config.json"));
        command.args(["-dnsserver", &self.dns.address.to_string()]);
        command.envs(self.environment.iter().cloned()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Process::start(&mut command).expect("pebble starts");
        let (out, log) = (child.stdout.take().expect("a pipe"), Arc::clone(&self.log));
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                locked(&log).push(line);
            }
        });
        child.listens(&[self.listen, self.management], PATIENCE).expect("pebble");
        self.child = Some(child);
    }

    pub(crate) fn stop(&mut self) {
        self.child = None;
    }

    /// Returns the `acme` line of a site that gets its certificates from this authority, with more `keys`.
    pub(crate) fn acme(&self, keys: &str) -> String {
        let ca = self.folder.path().join("cert");
        format!(
            "acme = {{ contact = 'mailto:me@site.test', accept_terms = true, directory = '{}', ca = '{}'{keys} }}",
            self.directory(),
            ca.display()
        )
    }

    pub(crate) fn directory(&self) -> String {
        format!("https://localhost:{}/dir", self.listen.port())
    }

    /// Returns the table of a config with listeners at both ports.
    pub(crate) fn listen(&self) -> String {
        let [file, tls] = self.ports;
        format!("[reverse]\nlisten = '127.0.0.1:{file}'\nlisten_tls = '127.0.0.1:{tls}'\n")
    }

    /// Writes the root certificate that clients have to trust, and returns the file.
    pub(crate) fn root(&self) -> PathBuf {
        let file = self.folder.path().join("root.pem");
        std::fs::write(&file, self.manage("roots/0", None)).expect("written");
        file
    }

    /// Returns the file with the certificate of the directory's server. No client of a site may trust it.
    pub(crate) fn directory_certificate(&self) -> PathBuf {
        self.folder.path().join("cert")
    }

    /// Makes the authority suggest a renewal of the certificate in `pem` between `start` and `end` (RFC 9773).
    pub(crate) fn suggest(&self, pem: &str, start: &str, end: &str) {
        let answer = json!({ "suggestedWindow": { "start": start, "end": end } }).to_string();
        self.manage(
            "set-renewal-info/",
            Some(&json!({ "Certificate": pem, "ARIResponse": answer }).to_string()),
        );
    }

    fn manage(&self, path: &str, content: Option<&str>) -> Vec<u8> {
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail", "--noproxy", "*", "--cacert"]);
        curl.arg(self.folder.path().join("cert")).stdin(Stdio::piped()).stdout(Stdio::piped());
        if content.is_some() {
            curl.args(["--data-binary", "@-"]);
        }
        curl.arg(format!("https://localhost:{}/{path}", self.management.port()));
        let mut child = curl.spawn().expect("curl");
        let mut input = child.stdin.take().expect("a pipe");
        input.write_all(content.unwrap_or_default().as_bytes()).expect("it reads");
        drop(input);
        let output = child.wait_with_output().expect("it ends");
        assert!(output.status.success(), "{output:?}");
        output.stdout
    }

    /// Returns the number of log lines with `text`.
    pub(crate) fn said(&self, text: &str) -> usize {
        let log = locked(&self.log);
        log.iter().filter(|line| line.contains(text)).count()
    }

    /// Returns the number of inquiries about the time to renew a certificate.
    pub(crate) fn inquiries(&self) -> usize {
        self.said("renewalInfo/")
    }

    /// Returns the number of orders that the authority received.
    pub(crate) fn orders(&self) -> usize {
        self.said("orders in the db")
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        self.stop();
        if std::thread::panicking() {
            eprintln!("{}", locked(&self.log).join("\n"));
        }
    }
}

fn program() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/tools/pebble");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path).map(|folder| folder.join("pebble"));
    [built].into_iter().chain(installed).find(|file| file.is_file())
}
