//! A server under test: started in a folder of its own on a free loopback port, ended by its process id.

use super::SERVER_CORE;
use super::origin::Origin;
use super::peers::{Peer, Programs, Setup};
use super::process;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const START_LIMIT: Duration = Duration::from_secs(30);
const STOP_LIMIT: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// A server that accepts connections; ends when dropped.
pub(super) struct Running {
    pub(super) name: &'static str,
    pub(super) port: u16,
    child: Child,
    folder: PathBuf,
}

impl Running {
    /// Starts the peer on the server's core and waits until it accepts connections.
    ///
    /// # Errors
    /// When it cannot be started, ends at once, or does not listen in time; with the end of what it printed.
    pub(super) fn start(peer: &Peer, programs: &Programs, origin: &Origin) -> Result<Self> {
        let folder = make_folder(peer.name)?;
        let port = free_port()?;
        let setup = Setup { folder: &folder, port, admin: free_port()?, origin: origin.port() };
        let start = peer.configure(&setup)?;
        let output = File::create(folder.join("output"))?;
        // setpriv: the server must not outlive this process, however that ends.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "taskset", "--cpu-list", &SERVER_CORE.to_string()])
            .arg(peer.program(programs)?)
            .args(&start.arguments)
            .envs(start.environment)
            .current_dir(&folder)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("cannot start setpriv and taskset, of Debian's package util-linux")?;
        let mut server = Self { name: peer.name, port, child, folder };
        server.wait_until_listening()?;
        Ok(server)
    }

    fn wait_until_listening(&mut self) -> Result<()> {
        let began = Instant::now();
        while began.elapsed() < START_LIMIT {
            if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                return Ok(());
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("ended before it listened ({status}): {}", self.last_output());
            }
            sleep(PAUSE);
        }
        bail!("does not listen after {} s: {}", START_LIMIT.as_secs(), self.last_output())
    }

    /// The server's process and its workers.
    pub(super) fn processes(&self) -> Result<Vec<u32>> {
        process::tree(self.child.id())
    }

    fn last_output(&self) -> String {
        let text = fs::read_to_string(self.folder.join("output")).unwrap_or_default();
        let line = text.lines().rev().find(|line| !line.trim().is_empty());
        line.map_or_else(|| "it printed nothing".to_owned(), str::to_owned)
    }

    /// Asks the server to end; kills it and its workers if it does not.
    fn stop(&mut self) -> Result<()> {
        if self.child.try_wait()?.is_some() {
            return Ok(());
        }
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let began = Instant::now();
        while began.elapsed() < STOP_LIMIT {
            if self.child.try_wait()?.is_some() {
                return Ok(());
            }
            sleep(PAUSE);
        }
        for worker in self.processes()?.into_iter().skip(1) {
            if let Some(worker) = i32::try_from(worker).ok().and_then(Pid::from_raw) {
                // It may have ended since it was listed.
                let _ = kill_process(worker, Signal::KILL);
            }
        }
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            eprintln!("cannot end {} (process {}): {error:#}", self.name, self.child.id());
        }
        // What a server keeps in its folder is of no use to anybody; a leftover harms nobody.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Where servers keep their files: in memory, where the system offers that.
fn base_folder() -> PathBuf {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() }
}

const FOLDER_PREFIX: &str = "larder-bench-";

fn make_folder(name: &str) -> Result<PathBuf> {
    let folder = base_folder().join(format!("{FOLDER_PREFIX}{}-{name}", std::process::id()));
    fs::create_dir(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

/// Removes the folders of benches that were interrupted, which would keep their bytes in memory.
pub(super) fn remove_leftovers() {
    for entry in fs::read_dir(base_folder()).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if maker(&name).is_some_and(|process| !Path::new("/proc").join(process.to_string()).exists()) {
            // Another user's folder stays, and is that user's to remove.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The process that made a folder of this name.
fn maker(name: &str) -> Option<u32> {
    name.strip_prefix(FOLDER_PREFIX)?.split_once('-')?.0.parse().ok()
}

/// A port that nobody listens on now.
fn free_port() -> Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("no free port on 127.0.0.1")?;
    Ok(listener.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::{FOLDER_PREFIX, maker};

    #[test]
    fn only_folders_of_a_bench_have_a_maker() {
        assert_eq!(maker(&format!("{FOLDER_PREFIX}42-nginx")), Some(42));
        for name in ["nginx", "larder-42-nginx", "larder-bench-x-nginx", "larder-bench-42"] {
            assert_eq!(maker(name), None, "{name}");
        }
    }
}
