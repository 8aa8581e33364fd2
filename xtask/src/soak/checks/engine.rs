//! The engine of a cluster: a `redis-server` that can be paused, or killed and restarted empty.

use crate::soak::server::free_ports;
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

const START: Duration = Duration::from_secs(20);

/// A server without persistence. It ends when this value is dropped.
pub(super) struct Engine {
    pub(super) port: u16,
    folder: TempDir,
    child: Child,
}

impl Engine {
    /// # Errors
    /// If it does not start.
    pub(super) fn start() -> Result<Self> {
        let [port] = free_ports()?;
        let folder = tempfile::tempdir().context("cannot make a folder")?;
        let child = spawn(port, &folder)?;
        let mut engine = Self { port, folder, child };
        engine.wait()?;
        Ok(engine)
    }

    /// Kills the engine, and starts it again after `after`.
    ///
    /// # Errors
    /// If it does not start.
    pub(super) fn restart(&mut self, after: Duration) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        std::thread::sleep(after);
        self.child = spawn(self.port, &self.folder)?;
        self.wait()
    }

    /// Pauses the engine for `time`.
    ///
    /// # Errors
    /// If it has ended.
    pub(super) fn stop(&self, time: Duration) -> Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::STOP)?;
        std::thread::sleep(time);
        Ok(kill_process(Pid::from_child(&self.child), Signal::CONT)?)
    }

    fn wait(&mut self) -> Result<()> {
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if begun.elapsed() > START || self.child.try_wait()?.is_some() {
                bail!("redis-server does not listen on 127.0.0.1:{}", self.port);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SIGKILL also ends a paused process.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn spawn(port: u16, folder: &TempDir) -> Result<Child> {
    let mut command = Command::new("redis-server");
    command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--save", "", "--appendonly", "no"]);
    command.arg("--dir").arg(folder.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().context("cannot start redis-server; install it, or name other checkers with --only")
}
