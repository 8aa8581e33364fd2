//! apt, which downloads from a local package repository through the forward proxy.

use std::fs;
use std::path::Path;

use larder_testkit::{Larder, output, program};

use super::servers::Server;

/// Creates a repository of one package, below `root`.
fn repository(root: &Path) {
    let package = root.join("build");
    let (pool, index) = (root.join("site/pool"), root.join("site/dists/stable/main/binary-all"));
    for directory in [&package.join("DEBIAN"), &package.join("usr/share/sample"), &pool, &index] {
        fs::create_dir_all(directory).expect("a directory");
    }
    let control = "Package: sample\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody <nobody@example.com>\n\
        Description: a sample\n";
    fs::write(package.join("DEBIAN/control"), control).expect("written");
    let bytes: Vec<u8> = std::iter::repeat_with(|| fastrand::u8(..)).take(300_000).collect();
    fs::write(package.join("usr/share/sample/bytes"), bytes).expect("written");
    let mut build = program("dpkg-deb", "dpkg");
    output(build.args(["--root-owner-group", "--build"]).arg(&package).arg(pool.join("sample_1.0_all.deb")));
    let site = root.join("site");
    let packages = output(program("dpkg-scanpackages", "dpkg-dev").arg("pool").current_dir(&site));
    fs::write(index.join("Packages"), packages).expect("written");
    let stable = site.join("dists/stable");
    let mut archive = program("apt-ftparchive", "apt-utils");
    let names = ["Suite=stable", "Codename=stable", "Components=main", "Architectures=all"];
    archive.args(names.map(|name| format!("-oAPT::FTPArchive::Release::{name}")));
    let release = output(archive.args(["release", "."]).current_dir(&stable));
    fs::write(stable.join("Release"), release).expect("written");
}

/// Updates and downloads on a machine without stored lists or packages; returns the package's bytes.
fn install(root: &Path, repository: &str, larder: &Larder) -> Vec<u8> {
    let machine = tempfile::tempdir_in(root).expect("a directory");
    let path = |name: &str| machine.path().join(name).display().to_string();
    for directory in ["etc", "state/lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(path(directory)).expect("a directory");
    }
    fs::write(path("status"), "").expect("written");
    let source = format!("deb [trusted=yes arch=all] {repository} stable main\n");
    fs::write(path("etc/sources.list"), source).expect("written");
    let options = [
        format!("Dir::Etc={}", path("etc")),
        format!("Dir::State={}", path("state")),
        format!("Dir::State::status={}", path("status")),
        format!("Dir::Cache={}", path("cache")),
        format!("Acquire::http::Proxy=http://{}", larder.forward),
        "Acquire::Languages=none".to_owned(),
        "APT::Sandbox::User=".to_owned(),
        "APT::Update::Error-Mode=any".to_owned(),
    ];
    for words in [&["update"][..], &["download", "sample"]] {
        let mut apt = program("apt-get", "apt");
        apt.args(options.iter().flat_map(|option| ["-o", option]));
        output(apt.args(words).current_dir(machine.path()).env_remove("http_proxy").env_remove("no_proxy"));
    }
    fs::read(path("sample_1.0_all.deb")).expect("downloaded")
}

#[test]
fn apt_gets_packages_from_the_cache() {
    let directory = tempfile::tempdir().expect("a directory");
    repository(directory.path());
    let origin = Server::nginx(&directory.path().join("site"));
    let larder = Larder::start("[forward]\nallow_private = true\n");
    let package = fs::read(directory.path().join("site/pool/sample_1.0_all.deb")).expect("built");

    assert!(install(directory.path(), &origin.url(), &larder) == package, "wrong bytes");
    let (pool, indices) = (origin.log("/pool/").len(), origin.log("/dists/").len());
    assert_eq!(pool, 1);

    // Another machine gets the package from the cache; the index is only revalidated.
    assert!(install(directory.path(), &origin.url(), &larder) == package, "wrong bytes");
    assert_eq!(origin.log("/pool/").len(), pool);
    let later = origin.log("/dists/").split_off(indices);
    let sent_again: Vec<_> = later.iter().filter(|line| line.contains("\" 200 ")).collect();
    assert!(sent_again.is_empty() && later.iter().any(|line| line.contains("\" 304 ")), "{later:?}");
}
