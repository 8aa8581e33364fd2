//! The Python programs for the comparison with the proxy.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Cell, PAGE, RunCost, WARMING};
use crate::origin::Origin;
use crate::subprocess::Subprocess;
use crate::{Bench, Halt};

pub(super) struct Program {
    pub(super) name: &'static str,
    text: &'static str,
    /// The modules that it imports, and an expression for the version of third-party modules.
    modules: &'static str,
    version: &'static str,
}

/// All programs; any Python can run the first.
pub(super) const PROGRAMS: [Program; 4] = [
    Program {
        name: "asyncio executor",
        text: concat!("EXECUTOR = None\n", include_str!("executor.py")),
        modules: "asyncio, urllib.request, sys",
        version: "'Python ' + sys.version.split()[0]",
    },
    Program {
        name: "asyncio threads",
        text: concat!(
            "from concurrent.futures import ThreadPoolExecutor\nEXECUTOR = ThreadPoolExecutor(AT_ONCE)\n",
            include_str!("executor.py")
        ),
        modules: "asyncio, concurrent.futures, urllib.request",
        version: "''",
    },
    Program {
        name: "asyncio aiohttp",
        text: include_str!("aiohttp.py"),
        modules: "asyncio, aiohttp",
        version: "', aiohttp ' + aiohttp.__version__",
    },
    Program {
        name: "asyncio httpx",
        text: include_str!("httpx.py"),
        modules: "asyncio, httpx",
        version: "', httpx ' + httpx.__version__",
    },
];
/// The common start of all programs.
const COMMON: &str = include_str!("common.py");

/// The interval of checks for the user's request to end.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Deserialize)]
struct PythonReport {
    seconds: f64,
    processor: f64,
    bytes: u64,
    peak: f64,
    p99: f64,
    slowest: f64,
}

/// The Pythons that are tried by default: the one in the user's path, and the system's, which has the modules from the
/// system's packages.
const USUAL: [&str; 2] = ["python3", "/usr/bin/python3"];

/// A Python, and the [`PROGRAMS`] that it can run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Python {
    program: PathBuf,
    pub(super) can_run: Vec<String>,
    /// Its version, and those of aiohttp and httpx if they are installed.
    pub(super) versions: String,
}

/// Returns the Python to measure: `chosen`, or the default one that can run the most programs. Fails if the chosen one
/// does not start.
pub(super) fn find(chosen: Option<&Path>) -> Result<Option<Python>, Halt> {
    if let Some(program) = chosen {
        return chosen_one(program).map(Some);
    }
    let there = USUAL.iter().filter_map(|program| ask(Path::new(program)).ok());
    // Of those that can run equally many programs, the first is used.
    Ok(there.reduce(|best, other| if other.can_run.len() > best.can_run.len() { other } else { best }))
}

/// Checks that the Python at `program` can be measured. Fails if it does not start, or is no Python.
pub(crate) fn check(program: &Path) -> Result<(), Halt> {
    chosen_one(program).map(drop)
}

fn chosen_one(program: &Path) -> Result<Python, Halt> {
    let failed = |why: &str| Halt::because(&format!("cannot run Python by '{}'", program.display()), why);
    match ask(program) {
        Ok(found) if found.can_run.is_empty() => Err(failed("it runs no Python 3 with asyncio")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(failed("there is no such program")),
        found => found.map_err(|error| failed(&error.to_string())),
    }
}

fn ask(program: &Path) -> io::Result<Python> {
    let mut python = Python { program: program.to_owned(), can_run: Vec::new(), versions: String::new() };
    for Program { name, modules, version, .. } in &PROGRAMS {
        let mut command = Command::new(program);
        command.args(["-c", &format!("import {modules}\nprint({version}, end='')")]).stdin(Stdio::null());
        let output = command.stderr(Stdio::null()).output()?;
        if output.status.success() {
            python.can_run.push((*name).to_owned());
            python.versions += &String::from_utf8_lossy(&output.stdout);
        }
    }
    Ok(python)
}

/// Returns the time from the first request to the last page, and the program's processor time.
pub(super) fn run(bench: &Bench, python: &Python, cell: &Cell, origin: &Origin) -> Result<RunCost, Halt> {
    let name = &cell.system;
    let failed = |why: &str| Halt::Failed(format!("{name}: {why}"));
    let text = PROGRAMS.iter().find(|program| program.name == name).map(|program| program.text);
    let text = text.ok_or_else(|| failed("there is no such program"))?;
    let mut command = Command::new(&python.program);
    command.args(["-c", &format!("{COMMON}\n{text}"), &format!("http://{}/page/", origin.address())]);
    command.args([cell.urls as usize, cell.workers, cell.workers * WARMING].map(|number| number.to_string()));
    let mut child = Subprocess::start(&mut command).map_err(|error| failed(&error.to_string()))?;
    let status = loop {
        if bench.stop.load(Ordering::Relaxed) {
            return Err(Halt::Stopped);
        }
        match child.ended() {
            Ok(Some(status)) => break status,
            Ok(None) => thread::sleep(LOOK),
            Err(error) => return Err(failed(&error.to_string())),
        }
    };
    let mut said = String::new();
    if let Some(mut output) = child.output() {
        // Unreadable output counts as no answer, too.
        let _ = output.read_to_string(&mut said);
    }
    let told: PythonReport = serde_json::from_str(&said)
        .map_err(|_| failed(&format!("it ended with {status}; it said: {}", child.last_line())))?;
    if told.bytes != u64::from(cell.urls) * PAGE {
        return Err(failed(&format!("{} bytes are not {} pages", told.bytes, cell.urls)));
    }
    Ok(RunCost {
        seconds: told.seconds,
        processor: Duration::from_secs_f64(told.processor),
        driver: None,
        peak: told.peak,
        p99_ms: told.p99 * 1e3,
        slowest_ms: told.slowest * 1e3,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_programs_peak_of_memory_has_no_part_of_the_harness() {
        let harness = vec![1_u8; 256 << 20];
        let text = format!("{COMMON}\nprint(peak())");
        let mut python = Command::new("python3");
        let mut child = Subprocess::start(python.args(["-c", &text, "http://a/", "1", "1", "0"])).unwrap();
        let mut said = String::new();
        child.output().unwrap().read_to_string(&mut said).unwrap();
        let peak: usize = said.trim().parse().unwrap();
        assert!((1 << 20..harness.len() / 4).contains(&peak), "{peak} bytes");
    }
}
