//! The report of the experiments in a real browser.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::json;

use crate::browser::Browser;

/// The limit of a picture's size, in bytes.
const LARGEST: usize = 400_000;

/// Writes a report with meaningless numbers to `directory`.
fn smoke(directory: &Path) -> PathBuf {
    let mut command = Command::new(larder_testkit::programs::lab());
    command.args(["experiment", "thrift", "--smoke", "-o"]).arg(directory);
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    directory.join("report.html")
}

#[test]
fn a_report_opens_alone_and_names_what_it_shows() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = smoke(directory.path());
    let mut browser = Browser::of(&file, 1440);
    let named = browser.accessible();
    let is_there =
        |role: &str, name: &str| named.iter().any(|(its, text)| its == role && text.contains(name));
    for (role, name) in [
        ("heading", "Results of the experiments"),
        ("heading", "The answers"),
        ("link", "Workload 1: MAXS has a better hit ratio than LRU"),
        ("image", "Workload 1, shuffled: hit ratio"),
        ("heading", "Method"),
    ] {
        assert!(is_there(role, name), "{role} {name} in {named:?}");
    }
    for (width, dark) in [(1440, false), (1440, true), (390, false)] {
        browser.resize(width, 900, dark);
        browser.until("document.documentElement.scrollWidth <= innerWidth");
        let ground = browser.eval("getComputedStyle(document.body).backgroundColor");
        assert_eq!(ground == "rgb(253, 253, 251)", !dark, "{ground}");
    }
    // The hidden parts are in the file: showing them needs no request.
    browser.click("figure summary");
    browser.until("document.querySelector('figure details').open");
    assert!(browser.text("figure pre").starts_with("policy,cache size in %"));
    browser.is_content_with(&format!("file://{}", file.display()));
}

#[test]
#[ignore = "writes docs/pictures; `cargo x pictures` runs it"]
fn report_pictures() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let report = docs.join("report/report.html");
    if !report.is_file() {
        println!("no pictures of the report: 'larder-lab experiment all -o docs/report' makes one");
        return;
    }
    let mut browser = Browser::of(&report, 1440);
    for (name, width, dark, print, top) in [
        ("wide-light", 1200, false, false, "body"),
        ("wide-dark", 1200, true, false, "figure"),
        ("narrow-light", 390, false, false, "body"),
        ("print", 800, false, true, "body"),
    ] {
        browser.resize(width, 1300, dark);
        if print {
            browser.call("Emulation.setEmulatedMedia", json!({"media": "print"}));
        }
        browser.eval(&format!("document.querySelector('{top}').scrollIntoView({{ behavior: 'instant' }})"));
        std::thread::sleep(Duration::from_millis(500));
        let picture = browser.picture();
        assert!(picture.len() < LARGEST, "{name}: {} bytes", picture.len());
        std::fs::write(docs.join(format!("pictures/report-{name}.png")), picture).expect("written");
    }
}
