//! The commands in README and docs/, run as printed: each page in separate network and process namespaces, in a folder
//! with some of the repository's files, with `larder` in the path.
//!
//! Readers see all that runs. Directives in comments say how:
//! - `<!-- file: NAME -->` before a block: its text is written to this file before anything runs;
//! - `<!-- run: background, port 8080 -->` before a block: start it, and wait until the port answers;
//! - `<!-- run: after, port 8080 -->`, or with a command that only asks: run it once that succeeds;
//! - `<!-- run: not, REASON -->`: leave it out.
//!
//! Other comments are refused.
//!
//! The lines below a `$ command`, or in an `http` block below commands, are the expected output, in this order.
//! Statuses, URLs and counts of things must be the same, other numbers count as equal, and `...` stands for any lines.

mod cookbook;
mod examples;
mod page;
mod run;

use page::Page;
use std::path::{Path, PathBuf};

fn text(name: &str) -> String {
    std::fs::read_to_string(format!("{}/{name}", env!("CARGO_MANIFEST_DIR"))).expect(name)
}

fn check(name: &str) {
    let page = Page::read(&text(name));
    assert!(page.steps.iter().any(page::Step::is_run), "{name} has nothing to run");
    let Some(outputs) = run::run(&page) else { return };
    let problems = page::compare(&page, &outputs);
    assert!(problems.is_empty(), "{name}:\n{}", problems.join("\n"));
}

/// Defines a test for each page, and the list of the pages.
macro_rules! pages {
    ($($test:ident: $page:literal),+ $(,)?) => {
        const PAGES: &[&str] = &[$($page),+];

        $(
            #[test]
            fn $test() {
                check($page);
            }
        )+
    };
}

pages! {
    the_readme: "README.md",
    advice: "docs/advise.md",
    clusters: "docs/cluster.md",
    the_disk_tier: "docs/disk.md",
    experiments: "docs/experiments.md",
    the_forward_proxy: "docs/forward-proxy.md",
    getting_started: "docs/getting-started.md",
    installation: "docs/install.md",
    the_laboratory: "docs/laboratory.md",
    logs: "docs/logs.md",
    operations: "docs/operations.md",
    packages: "docs/packages.md",
    prefetching: "docs/prefetch.md",
    purging: "docs/purge.md",
    a_blog_in_php: "docs/recipes/php-blog.md",
    an_api: "docs/recipes/api.md",
    static_files_and_downloads: "docs/recipes/downloads.md",
    wordpress: "docs/recipes/wordpress.md",
    prometheus: "docs/recipes/prometheus.md",
    a_mirror_for_apt: "docs/recipes/apt.md",
    a_mirror_for_npm: "docs/recipes/npm.md",
    a_mirror_for_pip: "docs/recipes/pip.md",
    a_mirror_for_containers: "docs/recipes/oci.md",
    a_host_with_systemd: "docs/recipes/systemd.md",
    behind_nginx: "docs/recipes/behind-nginx.md",
    in_front_of_object_storage: "docs/recipes/object-storage.md",
    the_reverse_proxy: "docs/reverse-proxy.md",
    rpc_listeners: "docs/rpc.md",
    commands_behind_a_proxy: "docs/run.md",
    the_statistics_database: "docs/statistics.md",
    tls: "docs/tls.md",
}

/// Finds each Markdown file in `folder` and below it, with its path from the root.
fn markdown(folder: &Path, found: &mut Vec<String>) {
    for entry in folder.read_dir().expect("a folder").map(|entry| entry.expect("an entry").path()) {
        if entry.is_dir() {
            markdown(&entry, found);
        } else if entry.extension().is_some_and(|ending| ending == "md") {
            let path = entry.strip_prefix(env!("CARGO_MANIFEST_DIR")).expect("inside");
            found.push(path.display().to_string());
        }
    }
}

#[test]
fn every_page_with_commands_is_run() {
    let mut pages = vec!["README.md".to_owned()];
    markdown(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs"), &mut pages);
    let mut problems = Vec::new();
    for name in pages {
        let text = text(&name);
        let page = Page::read(&text);
        if page.steps.iter().any(page::Step::is_run) && !PAGES.contains(&name.as_str()) {
            problems.push(format!("{name}: has commands and is not in the list of pages"));
        }
        problems.extend(page::hidden(&text).into_iter().map(|line| {
            format!("{name}:{line}: a command in a block that is neither `sh` nor `console` is never run")
        }));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}
