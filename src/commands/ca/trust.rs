//! `larder ca trust` and `larder ca untrust`: the stores of trusted certificates of this machine, changed by their own
//! programs. Each step is printed before it is done.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cli::{Failure, say};

/// The name of the certificate in the stores.
const NAME: &str = "larder-ca";
/// Its name in Java's store of Debian, which a hook of `update-ca-certificates` fills, but does not empty.
const OF_DEBIAN: &str = "debian:larder-ca.pem";

const DEBIAN: &str = "update-ca-certificates";
/// A store of the system: its directory, and the program that reads the directory.
const SYSTEM: &[(&str, &str)] = &[
    ("/usr/local/share/ca-certificates", DEBIAN),
    ("/etc/pki/ca-trust/source/anchors", "update-ca-trust"),
    ("/etc/ca-certificates/trust-source/anchors", "update-ca-trust"),
];

/// The words of a command.
type Step = Vec<String>;

/// Adds a certificate to the stores, in place of an earlier one, or removes that if there is no new `certificate`. With `dry_run`, the
/// steps are only printed. Errors: the step that failed, or that there is no store.
pub(super) fn change(certificate: Option<&Path>, dry_run: bool) -> Result<(), Failure> {
    let certificate = certificate.map(|path| path.display().to_string());
    let certificate = certificate.as_deref();
    let system = SYSTEM.iter().find(|(folder, program)| Path::new(folder).is_dir() && in_path(program));
    // The user's own first: the others need root.
    let mut steps = of_browsers(certificate);
    steps.extend(system.map_or_else(Vec::new, |store| of_system(*store, certificate)));
    for store in java_stores() {
        steps.extend(of_java(&store, certificate, system.is_some()));
    }
    match certificate {
        Some(_) if steps.is_empty() => {
            let text = "no store of certificates is known here: neither update-ca-certificates, update-ca-trust, certutil nor keytool";
            return Err(Failure::Failed(text.to_owned()));
        }
        None if steps.is_empty() => say("no store of this machine has the certificate of an authority"),
        _ => {}
    }
    for step in &steps {
        say(&step.join(" "));
        if !dry_run && !Command::new(&step[0]).args(&step[1..]).status().is_ok_and(|status| status.success())
        {
            let text = format!("{} failed; the stores of the system and of Java need root", step[0]);
            return Err(Failure::Failed(text));
        }
    }
    Ok(())
}

/// Returns the steps for a store of the system, which curl, git, Python and most others read.
fn of_system((folder, program): (&str, &str), certificate: Option<&str>) -> Vec<Step> {
    let copy = format!("{folder}/{NAME}.crt");
    let is_there = Path::new(&copy).symlink_metadata().is_ok();
    let first = match certificate {
        Some(certificate) => step(&["install", "-m644", certificate, &copy]),
        None if is_there => step(&["rm", "-f", &copy]),
        None => return Vec::new(),
    };
    // Without this option, it takes no notice of a certificate that is gone, or is another one under the same name.
    let option = (is_there && program == DEBIAN).then_some("--fresh");
    vec![first, step(&[&[program][..], option.as_slice()].concat())]
}

/// Returns the steps for the user's database of NSS, which Chromium reads.
fn of_browsers(certificate: Option<&str>) -> Vec<Step> {
    let database = env::var_os("HOME").map(|home| PathBuf::from(home).join(".pki/nssdb"));
    let Some(database) = database.filter(|path| path.is_dir() && in_path("certutil")) else {
        return Vec::new();
    };
    let database = format!("sql:{}", database.display());
    let known = succeeds(&["certutil", "-d", &database, "-L", "-n", NAME]);
    let removed = known.then(|| step(&["certutil", "-d", &database, "-D", "-n", NAME]));
    let added = |file| step(&["certutil", "-d", &database, "-A", "-t", "C,,", "-n", NAME, "-i", file]);
    removed.into_iter().chain(certificate.map(added)).collect()
}

/// A keystore of Java, and the program that changes it.
#[derive(PartialEq)]
struct JavaStore {
    file: PathBuf,
    keytool: String,
}

/// Returns the keystores of the Java in `JAVA_HOME`, and of that in `PATH`.
fn java_stores() -> Vec<JavaStore> {
    let told = Command::new("java").args(["-XshowSettings:properties", "-version"]).output();
    let told = told.map(|output| String::from_utf8_lossy(&output.stderr).into_owned()).unwrap_or_default();
    let of_path = told.lines().find_map(|line| line.trim().strip_prefix("java.home = ")).map(PathBuf::from);
    let mut stores: Vec<JavaStore> = Vec::new();
    for home in env::var_os("JAVA_HOME").map(PathBuf::from).into_iter().chain(of_path) {
        let files =
            ["lib/security/cacerts", "jre/lib/security/cacerts"].map(|file| home.join(file).canonicalize());
        let own = home.join("bin/keytool");
        let keytool = if own.is_file() { own.display().to_string() } else { "keytool".to_owned() };
        let new = files.into_iter().flatten().find(|file| stores.iter().all(|store| store.file != *file));
        stores.extend(new.map(|file| JavaStore { file, keytool }));
    }
    stores
}

/// Returns the steps for a keystore of Java. The program of a store of the system adds certificates to that of its own packages.
fn of_java(store: &JavaStore, certificate: Option<&str>, has_system: bool) -> Vec<Step> {
    let file = store.file.display().to_string();
    let words = |action: &'static str, name: &'static str| {
        [store.keytool.as_str(), action, "-keystore", &file, "-storepass", "changeit", "-alias", name]
    };
    let is_of_system =
        has_system && ["/etc/ssl", "/etc/pki"].iter().any(|folder| store.file.starts_with(folder));
    let names = if certificate.is_some() { &[NAME][..] } else { &[NAME, OF_DEBIAN] };
    let known = names.iter().filter(|name| succeeds(&words("-list", name)));
    let removed = known.map(|name| step(&words("-delete", name)));
    let added = certificate.filter(|_| !is_of_system);
    let added =
        added.map(|added| step(&[&words("-importcert", NAME)[..], &["-noprompt", "-file", added]].concat()));
    removed.chain(added).collect()
}

fn step(words: &[&str]) -> Step {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Whether a command that changes nothing succeeds.
fn succeeds(words: &[&str]) -> bool {
    Command::new(words[0]).args(&words[1..]).output().is_ok_and(|output| output.status.success())
}

fn in_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders.into_iter().any(|folder| folder.join(program).is_file())
}
