//! Checks of packages, where nobody else sees it: the one of Debian is installed, upgraded under traffic, removed and purged;
//! the image runs as a container would.

use super::{Release, deb, output};
use anyhow::{Context, Result, ensure};
use larder_testkit::{Systemd, stderr, stdout};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The longest image, in bytes.
const IMAGE: u64 = 40_000_000;

/// Checks the package of Debian. Errors: the first thing that is not as expected.
pub(super) fn debian(release: &Release, package: &Path) -> Result<()> {
    let work = tempfile::tempdir().context("cannot create a folder")?;
    let next = Release { version: "999.0.0".to_owned(), ..release.clone() };
    let next = deb::pack(&next, work.path())?;
    let script = work.path().join("check.sh");
    fs::write(&script, include_str!("check.sh")).context("cannot write the check")?;
    let base = base(work.path());
    let mut check = apart(&script);
    println!("{}", output(check.args([&base, work.path(), package, &next].map(Path::as_os_str)))?.trim_end());
    under_systemd(&[package, &next])
}

/// Installs a package and the next one where a systemd runs, and removes it. Errors: the service does not start, does not
/// stay active, or goes on after its end.
fn under_systemd(packages: &[&Path; 2]) -> Result<()> {
    let Some(systemd) = Systemd::without_larder() else { return Ok(()) };
    let run = |words: &[&str]| -> Result<String> {
        let ran = systemd.run(words);
        let said = stdout(&ran) + &stderr(&ran);
        ensure!(ran.status.success(), "{words:?}: {said}");
        Ok(said.trim().to_owned())
    };
    let now = || -> Result<[String; 3]> {
        let property = |name| run(&["systemctl", "show", "--value", "--property", name, "larder"]);
        Ok([property("ActiveState")?, property("ActiveEnterTimestampMonotonic")?, property("MainPID")?])
    };
    let install = |package: &Path| -> Result<[String; 3]> {
        fs::copy(package, systemd.file("package.deb")).context("cannot copy the package")?;
        run(&["dpkg", "--force-unsafe-io", "--no-triggers", "--install", "/package.deb"])?;
        now()
    };
    let [is_active, since, before] = install(packages[0])?;
    ensure!(is_active == "active", "the service is {is_active} after an installation");
    run(&["systemctl", "is-enabled", "larder"])?;
    let [is_active, after, main] = install(packages[1])?;
    ensure!(is_active == "active" && after == since, "the service did not stay active over an upgrade");
    ensure!(main != before, "the process before the upgrade still serves");
    run(&["dpkg", "--remove", "larder"])?;
    let [is_active, ..] = now()?;
    ensure!(is_active == "inactive", "the service is {is_active} after its removal");
    run(&["dpkg", "--purge", "larder"])?;
    println!("under systemd: started by the package, upgraded without a restart, stopped at its removal");
    Ok(())
}

/// Checks the image: its length, its user, and that it becomes healthy where it can write to its volumes alone. Errors: the
/// first thing that is not as expected.
pub(super) fn image(package: &Path) -> Result<()> {
    let length = fs::metadata(package).context("no image")?.len();
    ensure!(length <= IMAGE, "the image has {length} bytes, more than {IMAGE}");
    let work = tempfile::tempdir().context("cannot create a folder")?;
    let (layout, files) = (work.path().join("layout"), work.path().join("files"));
    let unpack = |archive: &Path, folder: &Path| -> Result<()> {
        fs::create_dir(folder).context("cannot create a folder")?;
        output(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(folder)).map(drop)
    };
    unpack(package, &layout)?;
    let blob = |of: &Value| -> Result<PathBuf> {
        let hash = of["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:"));
        Ok(layout.join("blobs/sha256").join(hash.context("a blob without a digest")?))
    };
    let read = |path: PathBuf| -> Result<Value> { Ok(serde_json::from_slice(&fs::read(path)?)?) };
    let manifest = read(blob(&read(layout.join("index.json"))?["manifests"][0])?)?;
    let config = read(blob(&manifest["config"])?)?;
    unpack(&blob(&manifest["layers"][0])?, &files)?;
    let words = |key: &str| -> Result<Vec<&str>> {
        let words = config["config"].pointer(key).and_then(Value::as_array);
        Ok(words
            .with_context(|| format!("the image has no {key}"))?
            .iter()
            .filter_map(Value::as_str)
            .collect())
    };
    let user = config["config"]["User"].as_str().and_then(|user| user.split(':').next()).unwrap_or_default();
    ensure!(user.parse::<u32>().is_ok_and(|user| user > 0), "the user of the image is '{user}'");
    let script = work.path().join("image.sh");
    fs::write(&script, include_str!("image.sh")).context("cannot write the check")?;
    let mut check = apart(&script);
    check.arg(&files).arg(user).args(&words("/Healthcheck/Test")?[1..]).arg("--");
    check.args(words("/Entrypoint")?).args(words("/Cmd")?);
    check.env_clear().envs(words("/Env")?.iter().filter_map(|variable| variable.split_once('=')));
    check.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    output(&mut check)?;
    println!(
        "the image of {length} bytes runs as user {user} in a root without rights to write, and is healthy"
    );
    Ok(())
}

/// Returns the command that runs a script in namespaces of its own, with all that it starts, for at most five minutes.
fn apart(script: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--signal=KILL", "300", "unshare", "--mount", "--net", "--pid", "--fork", "--kill-child"]);
    command.args(["sh", "-eu"]).arg(script);
    command
}

/// Returns the root below the package's: an installation of this machine's version of Debian with what is essential if
/// `mmdebstrap` can make it, or this machine's own files.
fn base(work: &Path) -> PathBuf {
    let base = work.join("base");
    let mut make = Command::new("mmdebstrap");
    let made = output(make.args(["--quiet", "--variant=essential", &version()]).arg(&base));
    if let Err(error) = made {
        let why = error.to_string();
        println!("this machine's files are below the package: {}", why.lines().next().unwrap_or_default());
        return "/".into();
    }
    base
}

/// Returns the name of this machine's version of Debian, whose keys it has, or `stable`.
fn version() -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.unwrap_or("stable").trim_matches('"').to_owned()
}
