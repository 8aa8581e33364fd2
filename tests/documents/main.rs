//! The commands that README and docs/ print, run as printed: each page in a network and a process tree of its own, with
//! `larder` on the path.
//!
//! A page has directives in comments, which readers do not see:
//! - `<!-- setup` .. `-->`: commands that run first;
//! - `<!-- run: background, port 8080 -->` before a block: start it, and wait until the port answers;
//! - `<!-- run: after, COMMAND -->`: run it once the command succeeds;
//! - `<!-- run: not, REASON -->`: leave it out.
//!
//! The lines below a `$ command`, or in an `http` block below commands, are the expected output, in this order. All
//! numbers count as equal, and `...` stands for any lines.

mod page;
mod run;

use page::Page;

fn check(name: &str) {
    let text = std::fs::read_to_string(format!("{}/{name}", env!("CARGO_MANIFEST_DIR"))).expect(name);
    let page = Page::read(&text);
    assert!(page.steps.iter().any(page::Step::is_run), "{name} has nothing to run");
    let Some(outputs) = run::run(&page) else { return };
    let problems = page::compare(&page, &outputs);
    assert!(problems.is_empty(), "{name}:\n{}", problems.join("\n"));
}

#[test]
fn the_readme() {
    check("README.md");
}

#[test]
fn getting_started() {
    check("docs/getting-started.md");
}

#[test]
fn the_disk_tier() {
    check("docs/disk.md");
}

#[test]
fn rpc_listeners() {
    check("docs/rpc.md");
}

#[test]
fn the_laboratory() {
    check("docs/laboratory.md");
}

#[test]
fn clusters() {
    check("docs/cluster.md");
}
