//! `cargo x testssl`: runs testssl.sh on the listeners with TLS.

use crate::h2spec;
use crate::packages::{Package, install};
use crate::program::{build_debug, certify, start};
use anyhow::{Context, Result, bail, ensure};
use larder_testkit::programs::find;
use larder_testkit::{Origin, free_ports};
use serde_json::Value;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const TESTSSL: Package = Package { name: "testssl.sh", program: "testssl", purpose: "looks for weaknesses" };

/// The severities that count, in ascending order.
const WEIGHTS: [&str; 4] = ["MEDIUM", "HIGH", "CRITICAL", "FATAL"];

/// Findings about the certificate, which is self-signed, or about the site behind the proxy, not about the program.
const OF_OTHERS: &[&str] = &[
    "cert_chain_of_trust",
    "cert_trust",
    "cert_notAfter",
    "cert_expirationStatus",
    "cert_validityPeriod",
    "cert_revocation",
    "security_headers",
];

/// Checks a listener for sites, and the admin listener, of `larder` or the debug build. Fails if a program is missing,
/// or a finding is worse than LOW.
pub(crate) fn run(larder: Option<PathBuf>) -> Result<()> {
    if find(TESTSSL.program).is_none() {
        install(&[&TESTSSL])?;
    }
    let larder = larder.map_or_else(build_debug, Ok)?;
    let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
    let [cert, key, _] = certify(folder.path())?;
    let ([site, admin], origin) = (free_ports(), Origin::always(h2spec::PAGE));
    let mut command = Command::new(larder);
    command.args(["serve", "--stats", "none", "--tls-cert", &cert, "--tls-key", &key]);
    command.args(["--admin", &format!("https://127.0.0.1:{admin}"), "--listen", "127.0.0.1:0"]);
    command.args(["--listen-tls", &format!("127.0.0.1:{site}")]);
    command.args(["--origin", &origin.url()]);
    command.env("STATE_DIRECTORY", folder.path());
    let _larder = start(command, site, "larder")?;
    let mut found = Vec::new();
    for (what, port) in [("sites", site), ("admin", admin)] {
        let file = folder.path().join(format!("{what}.json"));
        let mut testssl = Command::new(TESTSSL.program);
        testssl.args(["--quiet", "--color", "0", "--warnings", "off", "--jsonfile"]).arg(&file);
        testssl.arg(format!("localhost:{port}")).stdin(Stdio::null()).stdout(Stdio::null());
        // Its exit code is the number of its findings.
        testssl.status().context("cannot start testssl")?;
        let text = std::fs::read(&file).context("testssl wrote no findings")?;
        let findings = findings(&text)?;
        ensure!(findings.len() > 50, "{what}: testssl looked at {} things only", findings.len());
        for Finding { severity, id, text } in findings.iter().filter(|one| one.severity == "LOW") {
            println!("{what}: {severity} {id}: {text}");
        }
        found.extend(findings.into_iter().filter(Finding::counts).map(|one| (what, one)));
    }
    for (what, Finding { severity, id, text }) in &found {
        println!("{what}: {severity} {id}: {text}");
    }
    if found.is_empty() { Ok(()) } else { bail!("{} findings are worse than LOW", found.len()) }
}

/// A finding of testssl.
#[derive(Debug, PartialEq)]
struct Finding {
    severity: String,
    id: String,
    text: String,
}

impl Finding {
    fn counts(&self) -> bool {
        let name = self.id.split(' ').next().unwrap_or_default();
        WEIGHTS.contains(&self.severity.as_str()) && !OF_OTHERS.contains(&name)
    }
}

/// Returns the findings in a file that testssl has written.
fn findings(text: &[u8]) -> Result<Vec<Finding>> {
    let all: Vec<Value> = serde_json::from_slice(text).context("testssl's findings")?;
    let text = |one: &Value, name: &str| one[name].as_str().unwrap_or_default().to_owned();
    let finding = |one: &Value| Finding {
        severity: text(one, "severity"),
        id: text(one, "id"),
        text: text(one, "finding"),
    };
    Ok(all.iter().map(finding).collect())
}

#[cfg(test)]
mod tests {
    use super::findings;

    #[test]
    fn findings_of_others_and_slight_ones_do_not_count() {
        let one = |severity: &str, id: &str| {
            format!(
                r#"{{"id": "{id}", "ip": "a/127.0.0.1", "port": "1", "severity": "{severity}", "finding": "f"}}"#
            )
        };
        let text =
            [one("HIGH", "BREACH"), one("LOW", "LUCKY13"), one("CRITICAL", "cert_chain_of_trust <cert#1>")];
        let found = findings(format!("[{}]", text.join(",")).as_bytes()).unwrap();
        assert_eq!(found.iter().map(|finding| finding.counts()).collect::<Vec<_>>(), [true, false, false]);
        assert!(findings(b"[").is_err());
    }
}
