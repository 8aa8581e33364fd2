//! `larder passwd`: writes passwords into the files that rules name.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, IsTerminal, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, fchown};
use std::path::{Path, PathBuf};

use clap::Args;
use larder_proxy::base::whole_file;
use larder_proxy::settings::Users;

use crate::cli::files::{unread, unwritten};
use crate::cli::{Failure, say};

pub(super) const EXAMPLES: &str = "Examples:
  larder passwd users.txt ann
      asks for a password twice, and writes its hash
  openssl rand -base64 18 | tee /dev/tty | larder passwd users.txt ann
      takes the first line of standard input
  larder passwd users.txt ann --delete

A rule requires one of these passwords: users = \"users.txt\". larder serve reads the file again when it has changed.";

/// Sets or deletes a user's password.
#[derive(Debug, Args)]
pub(crate) struct Passwd {
    /// File of users; created if missing
    file: PathBuf,
    /// Name of the user
    name: String,
    /// Delete the user
    #[arg(long)]
    delete: bool,
}

/// Sets or deletes a password.
pub(crate) fn run(passwd: &Passwd) -> Result<(), Failure> {
    let Passwd { file, name, delete } = passwd;
    let shown = file.display();
    if name.is_empty() || name.contains([':', '\n', '\r', '#']) || name.trim() != name {
        let name = name.escape_debug();
        return Err(Failure::Refused(format!(
            "'{name}' is not a user name: it may have no ':', '#' or line break"
        )));
    }
    let text = match whole_file::text(file, whole_file::LARGEST) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !delete => String::new(),
        Err(error) => return Err(Failure::Failed(format!("cannot read {shown}: {}", unread(&error)))),
    };
    let bad = |bad: larder_proxy::settings::BadLine| format!("{shown}:{}: {}", bad.line, bad.why);
    Users::parse(&shown.to_string(), &text).map_err(|line| Failure::Refused(bad(line)))?;
    let is_own = |line: &str| line.trim().split_once(':').is_some_and(|(user, _)| user == name);
    let is_known = text.lines().any(is_own);
    if *delete && !is_known {
        return Err(Failure::Failed(format!("{shown} has no user '{}'", name.escape_debug())));
    }
    let mut changed: String =
        text.lines().filter(|line| !is_own(line)).map(|line| format!("{line}\n")).collect();
    if !delete {
        changed += &format!("{name}:{}\n", Users::hash(&password()?));
    }
    replace(file, &changed)
        .map_err(|error| Failure::Failed(format!("cannot write {shown}: {}", unwritten(&error))))?;
    let what = match (delete, is_known) {
        (true, _) => "deleted",
        (false, true) => "changed",
        (false, false) => "added",
    };
    say(&format!("{what} {name} in {shown}"));
    Ok(())
}

/// Reads the new password: twice on a terminal, or else from the first line of standard input.
fn password() -> Result<Vec<u8>, Failure> {
    let failed = |error: io::Error| Failure::Failed(format!("cannot read the password: {error}"));
    let password = match io::stdin().is_terminal() {
        true => {
            let password = rpassword::prompt_password("password: ").map_err(failed)?;
            let again = rpassword::prompt_password("once more: ").map_err(failed)?;
            if password != again {
                return Err(Failure::Refused("the two passwords differ".to_owned()));
            }
            password
        }
        false => {
            let mut line = String::new();
            io::stdin().lock().read_line(&mut line).map_err(failed)?;
            line.trim_end_matches(['\n', '\r']).to_owned()
        }
    };
    match password.len() {
        1..=Users::LONGEST_PASSWORD => Ok(password.into_bytes()),
        0 => Err(Failure::Refused("the password is empty".to_owned())),
        _ => Err(Failure::Refused(format!("a password has at most {} bytes", Users::LONGEST_PASSWORD))),
    }
}

/// Replaces the file at `path`. A new file is readable by its owner only; a replaced one keeps its owner and
/// permissions.
fn replace(path: &Path, text: &str) -> io::Result<()> {
    // A symbolic link is kept, and its target replaced.
    let target = fs::canonicalize(path);
    let path = target.as_deref().unwrap_or(path);
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}", std::process::id()));
    let new = path.with_file_name(name);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&new)
        .and_then(|file| keep(file, path, text))
        .and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

/// Writes `text`, with the owner and the permissions of the file at `path` if there is one.
fn keep(mut file: File, path: &Path, text: &str) -> io::Result<()> {
    if let Ok(old) = fs::metadata(path) {
        let new = file.metadata()?;
        if (new.uid(), new.gid()) != (old.uid(), old.gid()) {
            fchown(&file, Some(old.uid()), Some(old.gid()))?;
        }
        file.set_permissions(old.permissions())?;
    }
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
