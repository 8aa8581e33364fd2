//! `larder env`: each form does in its reader what a run does in its command.

use std::fs;
use std::process::Command;

use larder_testkit::{output, programs};

use crate::served::Team;
use crate::{Registry, origin};

/// Returns the lines of `larder env` for a proxy.
fn lines(team: &Team, form: &str) -> String {
    let proxy = format!("http://{}", team.proxy.forward);
    let mut env = Command::new(programs::larder());
    output(env.args(["env", form, "--proxy", &proxy]).env("STATE_DIRECTORY", team.state.path()))
}

#[test]
fn shells_and_pipelines_use_the_proxy_and_trust_its_authority() {
    let registry = Registry::before(origin());
    let team = Team::new(&registry, "");
    let home = team.state.path();
    let github = "eval \"$0\"; set -a; . \"$GITHUB_ENV\"; curl -sS $1";
    for (form, reader) in [
        ("sh", &["sh", "-c", "eval \"$0\"; curl -sS $1"]),
        ("fish", &["fish", "-c", "printf %s $argv[1] | source; curl -sS $argv[2]"]),
        ("github", &["sh", "-c", github]),
        ("gitlab", &["sh", "-c", "eval \"$0\"; curl -sS $1"]),
    ] {
        let mut shell = Command::new(reader[0]);
        shell.args(&reader[1..]).args([&lines(&team, form), &registry.at("/a")]);
        shell.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        assert_eq!(output(shell.env("HOME", home).env("GITHUB_ENV", home.join("github"))), "/a", "{form}");
    }
    assert_eq!(registry.count(), 1);
    let exported = lines(&team, "sh").lines().count();
    for line in lines(&team, "powershell").lines() {
        let name = line.strip_prefix("$env:").and_then(|rest| rest.split_once(" = '"));
        assert!(
            name.is_some_and(|(_, value)| value.ends_with('\'') && value.matches('\'').count() == 1),
            "{line}"
        );
    }
    assert_eq!(lines(&team, "powershell").lines().count(), exported);
}

#[test]
fn settings_for_containers_are_commands_and_comments() {
    let registry = Registry::before(origin());
    let team = Team::new(&registry, "");
    let home = team.state.path();
    let proxy = format!("http://{}", team.proxy.forward);
    for (form, called) in [
        ("docker", format!("build --build-arg HTTP_PROXY={proxy} --build-arg HTTPS_PROXY={proxy} .\n")),
        (
            "buildkit",
            format!(
                "buildx create --name larder --driver-opt env.http_proxy={proxy} --driver-opt env.https_proxy={proxy}\n"
            ),
        ),
        ("testcontainers", format!("run {proxy}\n")),
    ] {
        fs::write(home.join("lines"), lines(&team, form)).expect("written");
        let script =
            "docker() { echo \"$@\"; }; . ./lines; test -z \"$HTTPS_PROXY\" || docker run $HTTPS_PROXY";
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", script]).current_dir(home).env_remove("HTTPS_PROXY");
        assert_eq!(output(&mut shell), called, "{form}");
    }
}

#[test]
fn a_file_without_a_certificate_is_no_authority() {
    let folder = tempfile::tempdir().expect("a directory");
    let file = folder.path().join("ca.pem");
    fs::write(&file, "-----BEGIN CERTIFICATE-----\nx\n").expect("written");
    let mut env = Command::new(programs::larder());
    env.args(["env", "sh", "--ca"]).arg(&file).env("STATE_DIRECTORY", folder.path());
    let output = env.output().expect("it runs");
    let told =
        format!("larder: {} has no certificate in PEM, as larder ca export prints it\n", file.display());
    assert_eq!((output.status.code(), larder_testkit::stderr(&output)), (Some(1), told));
}
