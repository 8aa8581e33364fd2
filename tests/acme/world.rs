//! A proxy with certificates by ACME, the directory of its certificates, and a client.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use larder_testkit::{Larder, Origin, eventually, site, within};
use serde_json::Value;
use tempfile::TempDir;

use crate::pebble::Pebble;

/// The seconds of 90 days.
pub(crate) const LONG: u64 = 90 * 86_400;
/// The longest duration of an order in these tests, with the failures before it.
pub(crate) const ORDER: Duration = Duration::from_secs(60);

/// The state directory of consecutive processes, and the origin that they serve.
pub(crate) struct World {
    pub(crate) state: TempDir,
    pub(crate) origin: Origin,
}

impl World {
    pub(crate) fn new() -> Self {
        Self { state: tempfile::tempdir().expect("a folder"), origin: Origin::always("200 OK\n\na page") }
    }

    /// Returns the config of a site with `hosts`, whose certificates are from `pebble`, with more `keys` in its table.
    pub(crate) fn config(&self, pebble: &Pebble, hosts: &str, keys: &str) -> String {
        let keys = format!("hosts = [{hosts}]\n{}\n{keys}", pebble.acme(""));
        format!("{}{}", pebble.listen(), site(&[&self.origin], &keys))
    }

    /// Starts a proxy for `site.test`.
    pub(crate) fn start(&self, pebble: &Pebble) -> Larder {
        self.start_by(&self.config(pebble, "'site.test'", ""))
    }

    pub(crate) fn start_by(&self, config: &str) -> Larder {
        Larder::start_in(config, &[("STATE_DIRECTORY", self.state.path())])
    }

    /// Starts a proxy for `site.test` whose clock is `seconds` ahead.
    pub(crate) fn start_ahead(&self, pebble: &Pebble, seconds: u64) -> Larder {
        let (config, seconds) = (self.config(pebble, "'site.test'", ""), seconds.to_string());
        let environment =
            [("STATE_DIRECTORY", self.state.path()), ("LARDER_CLOCK_SKEW", Path::new(&seconds))];
        Larder::start_in(&config, &environment)
    }

    /// Returns the path of the stored file with this name.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        let folders = std::fs::read_dir(self.state.path().join("acme")).expect("the directory");
        let folder = folders.flatten().next().expect("that of the authority").path();
        let mode = folder.metadata().expect("a folder").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        folder.join(name)
    }

    /// Returns the stored certificate for `site.test`, with its chain and key.
    pub(crate) fn kept(&self) -> String {
        std::fs::read_to_string(self.file("site.test.pem")).expect("a certificate")
    }
}

/// Returns the figures about `name`.
pub(crate) fn figures(larder: &Larder, name: &str) -> Value {
    let stats = larder.stats();
    let names = stats["acme"]["names"].as_array().cloned().unwrap_or_default();
    names.into_iter().find(|one| one["name"] == name).unwrap_or_else(|| panic!("no {name} in {stats}"))
}

/// Waits until a certificate for `name` is valid and no order is in progress.
pub(crate) fn wait_for(larder: &Larder, name: &str) {
    within(ORDER, &format!("a certificate for {name}"), || {
        let figures = figures(larder, name);
        (figures["state"] == "valid" && figures["ordering"] == false).then_some(())
    });
}

/// Waits until a process with a certificate for `site.test` has inquired about its renewal, after `earlier` inquiries.
pub(crate) fn wait_for_inquiry(larder: &Larder, pebble: &Pebble, earlier: usize) {
    wait_for(larder, "site.test");
    eventually("the inquiry", || (pebble.inquiries() > earlier).then_some(()));
}

/// Returns the number of this process' orders with the result `how`.
pub(crate) fn ended(larder: &Larder, how: &str) -> u64 {
    larder.stats()["acme"][how].as_u64().expect("a number")
}

/// Fetches the page of `host` over TLS at `port`, with a client that trusts `root`.
pub(crate) fn fetch(root: &Path, port: u16, host: &str) -> Result<String, String> {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--max-time", "60", "--noproxy", "*", "--cacert"]).arg(root);
    curl.args(["--resolve", &format!("{host}:{port}:127.0.0.1"), &format!("https://{host}:{port}/")]);
    let Output { status, stdout, stderr } = curl.output().expect("curl");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    if status.success() { Ok(text(stdout)) } else { Err(text(stderr)) }
}

/// Returns the first certificate in `pem`.
pub(crate) fn leaf(pem: &str) -> String {
    let end = "-----END CERTIFICATE-----";
    format!("{}{end}\n", pem.split(end).next().expect("a certificate"))
}
