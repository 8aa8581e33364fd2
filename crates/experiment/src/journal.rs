//! Measurements, written one by one as JSON lines, so that an interrupted run can continue.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::size::Size;
use super::{Halt, Host, machine};

/// The first line of a journal, which prevents mixing measurements of different runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// The experiment's name.
    pub experiment: String,
    /// The seed of all randomness.
    pub seed: u64,
    /// The extent of the measurements.
    pub size: Size,
}

#[derive(Serialize, Deserialize)]
struct Line {
    key: String,
    value: Value,
}

/// The measurements of one experiment, by key.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
    lines: BTreeMap<String, Value>,
}

impl Journal {
    /// The key for the description of the machine.
    pub(super) const HOST: &'static str = "host";
    /// The beginning of the keys for the load of other programs.
    pub(super) const LOAD: &'static str = "load/";

    /// Opens the journal of `head` in `directory`: the existing one if `resume` is set, or otherwise a new one.
    ///
    /// # Errors
    /// If it cannot be written, belongs to another run, or exists although `resume` is not set.
    pub fn open(directory: &Path, head: &Head, resume: bool) -> Result<Self, Halt> {
        let path = directory.join(format!("{}.jsonl", head.experiment));
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(unreadable(&path, error)),
        };
        // A journal with only a head has no measurements.
        let text = if !resume && text.lines().count() <= 1 { String::new() } else { text };
        if !text.is_empty() && !resume {
            let why =
                "it has measurements of an earlier run; use --resume to go on, or name another directory";
            return Err(Halt::because(&path.display().to_string(), why));
        }
        let (lines, whole) = read(&path, &text, head)?;
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.map_err(|error| unwritable(&path, error))?;
        // An incomplete line, after the machine stopped, is no measurement.
        file.set_len(whole as u64).map_err(|error| unwritable(&path, error))?;
        let mut journal = Self { path, file, lines };
        if whole == 0 {
            journal.write(head)?;
        }
        Ok(journal)
    }

    /// Whether there is a measurement under `key`.
    pub fn has(&self, key: &str) -> bool {
        self.lines.contains_key(key)
    }

    /// Writes a measurement to the journal.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn add(&mut self, key: &str, value: &impl Serialize) -> Result<(), Halt> {
        let value = serde_json::to_value(value).map_err(|error| unwritable(&self.path, error))?;
        self.write(&Line { key: key.to_owned(), value: value.clone() })?;
        self.lines.insert(key.to_owned(), value);
        Ok(())
    }

    /// Returns the measurement under `key`, if there is one of this shape.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        T::deserialize(self.lines.get(key)?).ok()
    }

    /// Returns the measurements whose keys begin with `prefix`, in the order of the keys. Measurements of another shape
    /// are omitted.
    pub fn all<T: DeserializeOwned>(&self, prefix: &str) -> Vec<T> {
        let range = self.lines.range(prefix.to_owned()..).take_while(|(key, _)| key.starts_with(prefix));
        range.filter_map(|(_, value)| T::deserialize(value).ok()).collect()
    }

    /// Returns the machine of the measurements, and the measured program.
    pub fn host(&self) -> Option<Host> {
        self.get(Self::HOST)
    }

    /// Returns the largest load of other programs during the measurements, in cores, if it was measured.
    pub fn load(&self) -> Option<f64> {
        self.all::<f64>(Self::LOAD).into_iter().reduce(f64::max)
    }

    /// Checks that measurements of an earlier run are of the same version of `program`, so that a report is of one.
    ///
    /// # Errors
    /// If they are of another one.
    pub fn check_version(&self, program: &Path) -> Result<(), Halt> {
        let (Some(known), now) = (self.host(), machine::describe(program)) else { return Ok(()) };
        let [known, now] = [&known, &now].map(|host| machine::commit_of(host).unwrap_or_default().to_owned());
        if known == now {
            return Ok(());
        }
        let why = format!(
            "it has measurements of commit {known}, and the larder here is of {now}; name another directory"
        );
        Err(Halt::because(&self.path.display().to_string(), why))
    }

    /// Returns the number of measurements.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there are no measurements.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn write(&mut self, line: &impl Serialize) -> Result<(), Halt> {
        let mut text = serde_json::to_string(line).map_err(|error| unwritable(&self.path, error))?;
        text.push('\n');
        self.file.write_all(text.as_bytes()).map_err(|error| unwritable(&self.path, error))
    }
}

/// Returns the measurements in `text`, and the length of its complete lines in bytes.
fn read(path: &Path, text: &str, head: &Head) -> Result<(BTreeMap<String, Value>, usize), Halt> {
    let whole = text.rfind('\n').map_or(0, |at| at + 1);
    let mut lines = text[..whole].lines();
    let Some(first) = lines.next() else { return Ok((BTreeMap::new(), 0)) };
    let broken = |number: usize| {
        Halt::because(&path.display().to_string(), format!("line {number} is not a line of a journal"))
    };
    let there: Head = serde_json::from_str(first).map_err(|_| broken(1))?;
    if there != *head {
        let told = |head: &Head| format!("seed {} ({})", head.seed, head.size.name());
        let why = format!("it is of a run with {}, and this one has {}", told(&there), told(head));
        return Err(Halt::because(&path.display().to_string(), why));
    }
    let mut found = BTreeMap::new();
    for (number, line) in (2..).zip(lines) {
        let Line { key, value } = serde_json::from_str(line).map_err(|_| broken(number))?;
        found.insert(key, value);
    }
    Ok((found, whole))
}

fn unreadable(path: &Path, why: impl std::fmt::Display) -> Halt {
    Halt::because(&format!("cannot read '{}'", path.display()), why)
}

fn unwritable(path: &Path, why: impl std::fmt::Display) -> Halt {
    Halt::because(&format!("cannot write to '{}'", path.display()), why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(seed: u64) -> Head {
        Head { experiment: "some".to_owned(), seed, size: Size::Quick }
    }

    #[test]
    fn a_continued_journal_has_the_earlier_measurements() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(directory.path(), &head(1), false).unwrap();
        journal.add("a/1", &7).unwrap();
        journal.add("b/1", &8).unwrap();
        let again = Journal::open(directory.path(), &head(1), true).unwrap();
        assert!(again.has("a/1") && !again.has("a/2"));
        assert_eq!(
            (again.get::<u64>("a/1"), again.get::<u64>("a/"), again.get::<String>("a/1")),
            (Some(7), None, None)
        );
        assert_eq!((again.all::<u64>("a/"), again.all::<u64>("")), (vec![7], vec![7, 8]));
    }

    #[test]
    fn a_line_that_was_cut_short_is_measured_again() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(directory.path(), &head(1), false).unwrap();
        journal.add("a", &1).unwrap();
        let path = directory.path().join("some.jsonl");
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("{whole}{{\"key\":\"b\",\"va")).unwrap();
        let mut again = Journal::open(directory.path(), &head(1), true).unwrap();
        assert_eq!(again.len(), 1);
        again.add("b", &2).unwrap();
        assert_eq!(Journal::open(directory.path(), &head(1), true).unwrap().all::<u64>(""), [1, 2]);
    }

    #[test]
    fn measurements_of_another_commit_are_not_continued() {
        let directory = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(directory.path(), &head(1), false).unwrap();
        let nowhere = Path::new("/nowhere/larder");
        assert!(journal.check_version(nowhere).is_ok());
        journal.add(Journal::HOST, &machine::describe(nowhere)).unwrap();
        assert!(journal.check_version(nowhere).is_ok());
        let facts = vec![("commit".to_owned(), "0123456789ab".to_owned())];
        journal.add(Journal::HOST, &Host { cores: 1, facts }).unwrap();
        let halt = journal.check_version(nowhere).unwrap_err().to_string();
        assert!(
            halt.contains("it has measurements of commit 0123456789ab, and the larder here is of unknown"),
            "{halt}"
        );
    }

    #[test]
    fn runs_are_not_mixed() {
        let directory = tempfile::tempdir().unwrap();
        let open = |head: &Head, resume| match Journal::open(directory.path(), head, resume) {
            Ok(_) => String::new(),
            Err(halt) => halt.to_string().rsplit("some.jsonl: ").next().unwrap().to_owned(),
        };
        assert_eq!((open(&head(2), false), open(&head(1), false)), (String::new(), String::new()));
        Journal::open(directory.path(), &head(1), true).unwrap().add("a", &1).unwrap();
        let again = "it has measurements of an earlier run; use --resume to go on, or name another directory";
        assert_eq!(open(&head(1), false), again);
        let other = "it is of a run with seed 1 (quick), and this one has seed 2 (quick)";
        assert_eq!(open(&head(2), true), other);
        fs::write(directory.path().join("some.jsonl"), "nonsense\n").unwrap();
        assert_eq!(open(&head(1), true), "line 1 is not a line of a journal");
    }
}
