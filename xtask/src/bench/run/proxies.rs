//! The other proxies of the bench that read https: mitmproxy, which has no cache, and Squid with ssl-bump.

use super::registry::Registry;
use crate::packages::Package;
use anyhow::{Context, Result, bail};
use larder_testkit::programs::find;
use larder_testkit::{Process, free_ports};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

pub(super) const MITMPROXY: Package = Package { name: "mitmproxy", program: "mitmdump", purpose: "a peer" };
/// The build of Squid with OpenSSL. Debian's other one has the same program, and cannot read https.
pub(super) const SQUID: Package =
    Package { name: "squid-openssl", program: "/usr/lib/squid/security_file_certgen", purpose: "a peer" };

/// How long a proxy may take to listen.
const PATIENCE: Duration = Duration::from_secs(30);

/// A proxy that serves.
pub(super) struct Proxy {
    pub(super) process: Process,
    /// The certificate that its clients trust.
    pub(super) certificate: PathBuf,
    pub(super) url: String,
}

impl Proxy {
    fn start(mut command: Command, port: u16, certificate: PathBuf) -> Result<Self> {
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = Process::start(quiet)?;
        process.listens(&[("127.0.0.1", port)], PATIENCE)?;
        Ok(Self { process, certificate, url: format!("http://127.0.0.1:{port}") })
    }

    pub(super) fn mitmproxy(registry: &Registry) -> Result<Self> {
        let folder = registry.folder().join("mitmproxy");
        let [port] = free_ports();
        let mut proxy = Command::new(find(MITMPROXY.program).context("mitmdump is not installed")?);
        proxy.args(["-q", "--listen-host", "127.0.0.1", "--listen-port", &port.to_string()]);
        let settings = [
            format!("confdir={}", folder.display()),
            format!("ssl_verify_upstream_trusted_ca={}", registry.certificate),
            "stream_large_bodies=1m".to_owned(),
        ];
        proxy.args(settings.iter().flat_map(|setting| ["--set", setting]));
        Self::start(proxy, port, folder.join("mitmproxy-ca-cert.pem")).context("mitmdump")
    }

    /// Starts Squid with an empty cache on disk, and with the authority of `larder run`.
    pub(super) fn squid(registry: &Registry) -> Result<Self> {
        let folder = registry.folder().join("squid");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir(&folder)?;
        for name in ["ca.pem", "ca.key"] {
            fs::copy(registry.state().join(name), folder.join(name)).context("no authority")?;
        }
        let [port] = free_ports();
        let place = |path: &Path| path.display().to_string();
        let config = [
            ("@PORT@", port.to_string()),
            ("@CERTGEN@", SQUID.program.to_owned()),
            ("@CERT@", registry.certificate.clone()),
            ("@FOLDER@", place(&folder)),
        ];
        let config = config
            .iter()
            .fold(include_str!("squid.conf").to_owned(), |text, (name, value)| text.replace(name, value));
        let file = folder.join("squid.conf");
        fs::write(&file, config)?;
        let certificates = folder.join("certificates");
        finish(Command::new(SQUID.program).args(["-c", "-s"]).arg(certificates).args(["-M", "4MB"]))?;
        // It gives up the rights of root.
        finish(Command::new("chmod").args(["-R", "a+rwX"]).arg(&folder))?;
        finish(Command::new("chmod").arg("a+rx").arg(registry.folder()))?;
        let squid = || {
            let mut squid = Command::new(find("squid").unwrap_or_else(|| "/usr/sbin/squid".into()));
            squid.args(["-N", "-n", "larderbench", "-f"]).arg(&file);
            squid
        };
        finish(squid().arg("-z"))?;
        Self::start(squid(), port, folder.join("ca.pem")).context("squid")
    }
}

/// Runs a command to its end.
fn finish(command: &mut Command) -> Result<()> {
    let output =
        command.output().with_context(|| format!("cannot start {}", command.get_program().display()))?;
    match output.status.success() {
        true => Ok(()),
        false => bail!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim()),
    }
}
