//! The programs of Python that are measured beside the proxy.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use serde::Deserialize;

use super::Cell;
use crate::live::origin::Origin;
use crate::live::{Bench, Halt};

/// Their names and their text.
pub(super) const PROGRAMS: [(&str, &str); 2] =
    [("asyncio executor", include_str!("executor.py")), ("asyncio aiohttp", include_str!("aiohttp.py"))];

/// How long the user's wish to end it may go unnoticed.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Deserialize)]
struct Told {
    seconds: f64,
    processor: f64,
}

/// The programs that `python` can run.
pub(super) fn importable(python: &Path) -> impl Iterator<Item = &'static str> {
    let imports = |module: &str| {
        let mut command = Command::new(python);
        command.args(["-c", &format!("import asyncio, {module}")]).stdin(Stdio::null());
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    let there = ["urllib.request", "aiohttp"].map(imports);
    PROGRAMS.into_iter().zip(there).filter(|(_, is_there)| *is_there).map(|((name, _), _)| name)
}

/// Time from the first request to the last page, and what the program took of the processor, its start included.
pub(super) fn run(bench: &Bench, name: &str, cell: &Cell, origin: &Origin) -> Result<(f64, Duration), Halt> {
    let failed = |why: &str| Halt::Failed(format!("{name}: {why}"));
    let text = PROGRAMS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    let text = text.ok_or_else(|| failed("there is no such program"))?;
    let mut command = Command::new(&bench.python);
    command.args(["-c", text, &format!("http://{}/page/", origin.address())]);
    command.args([cell.urls.to_string(), cell.workers.to_string()]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = Killed(child.map_err(|error| failed(&error.to_string()))?);
    let status = loop {
        if bench.stop.load(Ordering::Relaxed) {
            return Err(Halt::Stopped);
        }
        match child.0.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) => thread::sleep(LOOK),
            Err(error) => return Err(failed(&error.to_string())),
        }
    };
    let mut said = String::new();
    if let Some(mut output) = child.0.stdout.take() {
        // What cannot be read is no answer either.
        let _ = output.read_to_string(&mut said);
    }
    let told: Told = serde_json::from_str(&said).map_err(|_| failed(&format!("it ended with {status}")))?;
    Ok((told.seconds, Duration::from_secs_f64(told.processor)))
}

/// A child that ends with this value.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended before.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
