//! The proxy under test: its config, its ports, its process.

use anyhow::{Context, Result, bail};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Bytes of memory that the proxy may keep responses in.
pub(super) const BUDGET: u64 = 64 << 20;

const START: Duration = Duration::from_secs(30);

/// Where it listens, each on 127.0.0.1.
pub(super) struct Ports {
    /// For the sites `good.test` and `evil.test`.
    pub(super) site: u16,
    pub(super) forward: u16,
    pub(super) admin: u16,
    pub(super) onc: u16,
    /// Not its own: where the hostile origin is.
    pub(super) traps: u16,
}

/// A process that ends when this is dropped.
pub(super) struct Server {
    pub(super) ports: Ports,
    child: Child,
    _folder: tempfile::TempDir,
}

impl Server {
    /// Starts `larder` before the ordinary origin and the hostile one.
    ///
    /// # Errors
    /// When it does not start.
    pub(super) fn start(larder: &Path, ours: u16, traps: u16) -> Result<Self> {
        let [site, forward, admin, onc] = free_ports()?;
        let ports = Ports { site, forward, admin, onc, traps };
        let folder = tempfile::tempdir().context("cannot make a folder")?;
        let file = folder.path().join("larder.toml");
        let config = format!(
            "[memory]\nsize = '{}MiB'\n[forward]\nallow_private = true\n[onc]\nlisten = '127.0.0.1:{onc}'\n\
             [[site]]\nname = 'good'\nhosts = ['good.test']\norigin = 'http://127.0.0.1:{ours}'\n\
             [[site]]\nname = 'evil'\nhosts = ['evil.test']\norigin = 'http://127.0.0.1:{traps}'\n",
            BUDGET >> 20
        );
        std::fs::write(&file, config).with_context(|| format!("cannot write {}", file.display()))?;
        let mut command = Command::new(larder);
        command.arg("serve").arg("--config").arg(&file).args(["--access-log", "off", "--stats", "none"]);
        for (option, port) in [("--listen", site), ("--forward", forward), ("--admin", admin)] {
            command.arg(option).arg(format!("127.0.0.1:{port}"));
        }
        command.env("LARDER_LOG", "error").stdin(Stdio::null()).stdout(Stdio::null());
        let child = command.spawn().with_context(|| format!("cannot start {}", larder.display()))?;
        let mut server = Self { ports, child, _folder: folder };
        server.wait()?;
        Ok(server)
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    fn wait(&mut self) -> Result<()> {
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.ports.site)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                bail!("the proxy has ended: {status}");
            }
            if begun.elapsed() > START {
                bail!("the proxy does not listen after {} s", START.as_secs());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ports that nobody listens on, as far as one can know.
fn free_ports<const N: usize>() -> Result<[u16; N]> {
    let mut listeners = Vec::new();
    let mut ports = [0; N];
    for port in &mut ports {
        let listener = TcpListener::bind("127.0.0.1:0").context("cannot listen on 127.0.0.1")?;
        *port = listener.local_addr()?.port();
        listeners.push(listener);
    }
    Ok(ports)
}
