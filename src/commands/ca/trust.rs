//! `larder ca trust` and `larder ca untrust`: the stores of trusted certificates of this machine, changed by their own
//! programs. Each step is printed before it is done.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli::{Failure, say};

/// The name of the certificate in the stores.
const NAME: &str = "larder-ca";

/// A store of the system: its directory, and the program that reads the directory.
const SYSTEM: &[(&str, &str)] = &[
    ("/usr/local/share/ca-certificates", "update-ca-certificates"),
    ("/etc/pki/ca-trust/source/anchors", "update-ca-trust"),
    ("/etc/ca-certificates/trust-source/anchors", "update-ca-trust"),
];

/// Adds the certificate in the file `certificate` to the stores, or removes it. With `dry_run`, the steps are only
/// printed. Errors: the step that failed, or that there is no store.
pub(super) fn change(certificate: &Path, trust: bool, dry_run: bool) -> Result<(), Failure> {
    let steps: Vec<_> = system(certificate, trust).into_iter().chain(browsers(certificate, trust)).collect();
    if steps.is_empty() {
        let text = "no store of certificates is known here: neither update-ca-certificates, update-ca-trust nor certutil";
        return Err(Failure::Failed(text.to_owned()));
    }
    for step in &steps {
        say(&step.join(" "));
        let mut command = Command::new(&step[0]);
        if !dry_run && !command.args(&step[1..]).status().is_ok_and(|status| status.success()) {
            return Err(Failure::Failed(format!("{} failed; the store of the system needs root", step[0])));
        }
    }
    Ok(())
}

/// Returns the steps for the store of the system, which curl, git, Python and most others read.
fn system(certificate: &Path, trust: bool) -> Vec<Vec<String>> {
    let known = SYSTEM.iter().find(|(folder, program)| Path::new(folder).is_dir() && in_path(program));
    let Some((folder, program)) = known else { return Vec::new() };
    let copy = format!("{folder}/{NAME}.crt");
    let first = match trust {
        true => vec!["install".to_owned(), "-m644".to_owned(), certificate.display().to_string(), copy],
        false => vec!["rm".to_owned(), "-f".to_owned(), copy],
    };
    vec![first, vec![(*program).to_owned()]]
}

/// Returns the steps for the user's database of NSS, which Chromium reads.
fn browsers(certificate: &Path, trust: bool) -> Vec<Vec<String>> {
    let database = env::var_os("HOME").map(|home| PathBuf::from(home).join(".pki/nssdb"));
    let Some(database) = database.filter(|path| path.is_dir() && in_path("certutil")) else {
        return Vec::new();
    };
    let database = format!("sql:{}", database.display());
    let certificate = certificate.display().to_string();
    let words: Vec<&str> = match trust {
        true => vec!["certutil", "-d", &database, "-A", "-t", "C,,", "-n", NAME, "-i", &certificate],
        false => vec!["certutil", "-d", &database, "-D", "-n", NAME],
    };
    vec![words.into_iter().map(str::to_owned).collect()]
}

fn in_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.into_iter().any(|folder| folder.join(program).is_file())
}
