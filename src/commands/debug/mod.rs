//! `larder debug bundle`: one file with what a report of an error needs. It contains no secret: the running proxy hides
//! them in its answers, files of the config are not copied, and query strings and passwords in URLs are cut from logs.

mod tar;

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use rustix::system::uname;

use self::tar::Tar;
use super::{doctor, version};
use crate::cli::admin::AdminListener;
use crate::cli::files::{unread, unwritten};
use crate::cli::units::about_size;
use crate::cli::{Failure, clock, say};
use crate::config::flags::{Flags, Run};
use crate::config::machine::Machine;

const BUNDLE_EXAMPLES: &str = "\
Examples:
  larder debug bundle
  larder debug bundle --config /etc/larder/larder.toml --log /var/log/larder.log --output report.tar.gz

It contains the version, the findings of larder doctor, and from the running proxy its config without secrets, its
counters and its metrics. Look into it before you send it: names of hosts and paths are part of it.";

/// The files, and the paths of the admin listener whose answers they are.
const ANSWERS: [(&str, &str); 4] =
    [("config.json", "config"), ("stats.json", "stats"), ("about.json", "about"), ("metrics.txt", "metrics")];

/// The file that names the answers that the bundle has not, with the reasons.
const MISSING: &str = "missing.txt";

/// The bytes of a log that are copied, from its end.
const LOG: u64 = 256 << 10;

/// The arguments of `debug`.
#[derive(Debug, Args)]
pub(crate) struct DebugArgs {
    #[command(subcommand)]
    command: DebugCommand,
}

#[derive(Debug, Subcommand)]
enum DebugCommand {
    /// Write a tar.gz with versions, findings, config without secrets, counters and metrics
    #[command(after_help = BUNDLE_EXAMPLES)]
    Bundle(Bundle),
}

#[derive(Debug, Args)]
struct Bundle {
    /// File to write [default: larder-TIME.tar.gz]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Config file that larder doctor examines
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Log whose last 256 KiB are added, without query strings, and without names and passwords in URLs
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// The admin listener.
    #[command(flatten)]
    listener: AdminListener,
}

/// Runs the command.
pub(crate) fn run(args: &DebugArgs) -> Result<(), Failure> {
    let DebugCommand::Bundle(bundle) = &args.command;
    let parts = parts(bundle)?;
    let now = Timestamp::from_second(clock::now().try_into().unwrap_or(0)).unwrap_or_default();
    let name = || PathBuf::from(format!("larder-{}.tar.gz", now.strftime("%Y%m%dT%H%M%SZ")));
    let path = bundle.output.clone().unwrap_or_else(name);
    let written = write(&path, &parts).map_err(|error| {
        Failure::Failed(format!("cannot write to {}: {}", path.display(), unwritten(&error)))
    })?;
    say(&format!("{} has {} files, {}", path.display(), parts.len(), about_size(written)));
    let missing = parts.iter().filter(|part| part.name == MISSING).flat_map(|part| part.content.lines());
    missing.for_each(|line| say(&format!("not in it: {line}")));
    Ok(())
}

/// A file in the bundle.
struct Part {
    name: &'static str,
    content: String,
}

/// Returns the files of the bundle. What the proxy does not tell is named in one of them.
fn parts(bundle: &Bundle) -> Result<Vec<Part>, Failure> {
    let run = Run { config: bundle.config.clone(), flags: Flags::default() };
    let findings = doctor::lines(&doctor::examine(&run, &Machine::here()));
    let mut parts = vec![
        Part { name: "version.txt", content: version() },
        Part { name: "doctor.txt", content: findings.join("\n") + "\n" },
    ];
    if let Some(path) = &bundle.log {
        let tail = tail(path).map_err(|error| {
            Failure::Failed(format!("cannot read {}: {}", path.display(), unread(&error)))
        })?;
        parts.push(Part { name: "log.txt", content: without_users(&without_queries(&tail)) });
    }
    let client = bundle.listener.client()?;
    let mut missing = String::new();
    for (name, path) in ANSWERS {
        match client.text(path) {
            Ok(content) => parts.push(Part { name, content }),
            Err(problem) => missing += &format!("{name}: {problem}\n"),
        }
    }
    if !missing.is_empty() {
        parts.push(Part { name: MISSING, content: missing });
    }
    Ok(parts)
}

fn version() -> String {
    let (version, system) = (version::line(), uname());
    let [name, release, machine] = [system.sysname(), system.release(), system.machine()]
        .map(|text| text.to_string_lossy().into_owned());
    format!("larder {version}\n{name} {release} {machine}\n")
}

/// Returns the end of a file, from the beginning of a line.
fn tail(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let start = file.metadata()?.len().saturating_sub(LOG);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(LOG).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let whole = if start == 0 { &*text } else { text.split_once('\n').map_or("", |(_, rest)| rest) };
    Ok(whole.to_owned())
}

/// Returns the lines of a log with `...` in place of query strings, which may contain secrets.
fn without_queries(log: &str) -> String {
    let mut shown = String::with_capacity(log.len());
    let mut is_query = false;
    for c in log.chars() {
        match c {
            '?' if !is_query => {
                shown += "?...";
                is_query = true;
            }
            _ if is_query
                && !(c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | ')' | ']' | '}')) => {}
            _ => {
                is_query = false;
                shown.push(c);
            }
        }
    }
    shown
}

/// Returns the lines of a log with `...` in place of the names and passwords in URLs.
fn without_users(log: &str) -> String {
    let mut parts = log.split("://");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_end = |c: char| c.is_whitespace() || "/?#\"'<>)]}".contains(c);
        let authority = &part[..part.find(is_end).unwrap_or(part.len())];
        let host = authority.rfind('@').unwrap_or(0);
        shown.extend(["://", if host > 0 { "..." } else { "" }, &part[host..]]);
    }
    shown
}

/// Writes the bundle, which only its owner may read, and returns its size.
fn write(path: &Path, parts: &[Part]) -> io::Result<u64> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    let mut tar = Tar::new(GzEncoder::new(file, Compression::default()), clock::now());
    for part in parts {
        tar.append(&format!("larder/{}", part.name), part.content.as_bytes())?;
    }
    let mut file = tar.finish()?.finish()?;
    file.flush()?;
    Ok(file.metadata()?.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_have_no_query_strings() {
        for (line, expected) in [
            ("GET http://a/b?token=x&c=?d HTTP", "GET http://a/b?... HTTP"),
            ("{\"url\":\"/a?b\",\"status\":200}\n", "{\"url\":\"/a?...\",\"status\":200}\n"),
            ("no query\n", "no query\n"),
        ] {
            assert_eq!(without_queries(line), expected);
        }
    }

    #[test]
    fn logs_have_no_passwords_in_urls() {
        for (line, expected) in [
            ("GET http://me:secret@a:1/b - \"https://me@a\"\n", "GET http://...@a:1/b - \"https://...@a\"\n"),
            ("http://a/@b mail@c redis://@d", "http://a/@b mail@c redis://@d"),
            ("http://me:a@b@c", "http://...@c"),
            ("://", "://"),
        ] {
            assert_eq!(without_users(line), expected);
        }
    }

    #[test]
    fn the_tail_of_a_long_log_begins_with_a_line() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let lines: String = (0..50_000).map(|number| format!("line {number}\n")).collect();
        file.write_all(lines.as_bytes()).unwrap();
        let tail = tail(file.path()).unwrap();
        assert!(tail.len() <= LOG as usize && tail.len() + 16 > LOG as usize);
        assert!(tail.starts_with("line ") && tail.ends_with("line 49999\n") && lines.ends_with(&tail));
    }
}
