//! The Debian packages that tests and benches use: their purposes, the missing ones, and their installation.

use anyhow::{Context, Result, bail};
use larder_testkit::programs::find;
use std::process::{Command, Stdio};

/// A package, and the program that proves its presence.
#[derive(Debug, PartialEq)]
pub(crate) struct Package {
    pub(crate) name: &'static str,
    pub(crate) program: &'static str,
    pub(crate) purpose: &'static str,
}

const fn package(name: &'static str, program: &'static str, purpose: &'static str) -> Package {
    Package { name, program, purpose }
}

/// A package with a module of Python.
macro_rules! python {
    ($name:literal, $module:literal, $purpose:literal) => {
        package($name, concat!("/usr/lib/python3/dist-packages/", $module, ".py"), $purpose)
    };
}

/// The packages that `cargo x test` needs.
pub(crate) const FOR_TESTS: &[Package] = &[
    package("nginx-light", "nginx", "an origin that serves a documentation tree"),
    package("apache2", "apache2", "a second origin, with other habits"),
    package("python3", "python3", "an origin that streams slowly"),
    python!("python3-pip", "pip/__init__", "a client that downloads wheels"),
    python!("python3-requests", "requests/__init__", "a library of clients"),
    package("git", "git", "a client that clones over https"),
    package("npm", "npm", "a client that downloads packages, and installs others of the tests"),
    package("maven", "mvn", "a client that downloads artifacts"),
    package("bundler", "bundle", "clients that download gems"),
    package("dnf", "dnf", "a client that downloads RPM packages"),
    package("rpm", "rpmbuild", "such a package"),
    package("createrepo-c", "createrepo_c", "its repository"),
    package("reprepro", "reprepro", "a repository of Debian packages"),
    package("docker-registry", "docker-registry", "a registry of images"),
    package("skopeo", "skopeo", "a client of that registry"),
    package("php-cli", "php", "an origin of the recipes"),
    package("wordpress", "/usr/share/wordpress/wp-settings.php", "a blog behind the proxy"),
    package(
        "wordpress-theme-twentytwentythree",
        "/usr/share/wordpress/wp-content/themes/twentytwentythree/style.css",
        "the theme of that blog",
    ),
    package("curl", "curl", "a client that users have"),
    package("wget", "wget", "another one, with another library for TLS"),
    package("aria2", "aria2c", "one that downloads with several connections"),
    package("zsync", "zsync", "one that downloads what has changed"),
    package("jq", "jq", "a reader of the access log in JSON"),
    package("nghttp2-client", "h2load", "clients of HTTP/2"),
    package("openssl", "openssl", "the certificate of an https origin"),
    package("wrk", "wrk", "a client that loads"),
    package("thrift-compiler", "thrift", "Thrift's compiler, for clients in two languages"),
    package("rpcsvc-proto", "rpcgen", "the compiler of ONC RPC, for a client in C"),
    python!("python3-yaml", "yaml/__init__", "a reader of the examples' manifests"),
    python!("python3-thrift", "thrift/Thrift", "Thrift's library for Python"),
    python!("python3-aiohttp", "aiohttp/__init__", "what larder-lab experiment measures the proxy beside"),
    python!("python3-httpx", "httpx/__init__", "what larder-lab experiment measures the proxy beside"),
    python!("python3-grpcio", "grpc/__init__", "gRPC's library for Python"),
    python!("python3-h2", "h2/__init__", "HTTP/2 for httpx"),
    package("nodejs", "node", "another client of HTTP/2"),
    package("libthrift-dev", "/usr/include/thrift/Thrift.h", "Thrift's library for C++"),
    package("libssl-dev", "/usr/include/openssl/ssl.h", "what that library needs for TLS"),
    package("libboost-dev", "/usr/include/boost/version.hpp", "what that library needs"),
    package("libtirpc-dev", "/usr/include/tirpc/rpc/rpc.h", "the library of ONC RPC"),
    package("rpcbind", "rpcbind", "the directory of ONC programs"),
    package("iproute2", "ip", "a network in which that directory is alone"),
    package("util-linux", "unshare", "networks and mounts of a test's own"),
    package("mount", "mount", "file systems that get full, or can no longer be written to"),
    package("e2fsprogs", "mkfs.ext4", "one of those file systems"),
    package("netcat-openbsd", "nc", "a client of the line door"),
    package("g++", "g++", "compiles clients"),
    package("gcc", "gcc", "compiles clients"),
    package("pkg-config", "pkg-config", "finds the libraries of clients"),
    package("mariadb-server-core", "mariadbd", "a server for the statistics database"),
    package("mariadb-client-core", "mariadb", "its client"),
    package("postgresql", "initdb", "another server for the statistics database"),
    package("golang-go", "go", "builds the ACME server of the tests, h2spec, and a client"),
    package("default-jdk-headless", "javac", "another client of HTTP/2"),
    package("redis-server", "redis-server", "the engine of a cluster"),
    package("redis-tools", "redis-cli", "what makes a cluster of engines"),
    package("prometheus", "promtool", "Prometheus' own check of what it would scrape"),
    package("chromium", "chromium", "a browser for the dashboard"),
    package("libnss3-tools", "certutil", "adds an authority to those that this browser trusts"),
    package("fonts-dejavu-core", "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf", "letters for it"),
    package("apt", "apt-get", "a client that downloads packages through the forward proxy"),
    package("apt-utils", "apt-ftparchive", "the index of the local package repository"),
    package("dpkg-dev", "dpkg-scanpackages", "the local package repository, and Larder's own package"),
    package("binutils", "strip", "a smaller program in that package"),
    package("mandoc", "mandoc", "a strict reader of the manual"),
    package("zsh", "zsh", "a shell that completes commands"),
    package("fish", "fish", "another one"),
    package("systemd", "systemd-analyze", "what the service runs under, and the rating of its sandbox"),
    package("apparmor", "apparmor_parser", "a reader of the service's profile"),
];

/// The packages that `cargo x dist --test` needs.
pub(crate) const FOR_DIST: &[Package] =
    &[package("mmdebstrap", "mmdebstrap", "a Debian of its own, in which the package is installed")];

/// The packages that `cargo x ledger` needs.
pub(crate) const FOR_LEDGER: &[Package] = &[
    package("valgrind", "valgrind", "prints all accesses to memory"),
    package("strace", "strace", "hides the kernel's clocks from a program"),
    package("binutils", "nm", "the addresses of functions"),
];

/// The load generator of `cargo x bench`.
pub(crate) const WRK: Package = package("wrk", "wrk", "the load");

/// Installs without starting services; its arguments are the packages.
const INSTALL: &str = include_str!("install.sh");

/// Returns the packages whose program is not installed.
pub(crate) fn missing<'a>(packages: impl IntoIterator<Item = &'a Package>) -> Vec<&'a Package> {
    packages.into_iter().filter(|package| find(package.program).is_none()).collect()
}

/// Returns the command that a user would type.
pub(crate) fn command_line(packages: &[&Package]) -> String {
    let names: Vec<_> = packages.iter().map(|package| package.name).collect();
    format!("sudo apt-get install --no-install-recommends {}", names.join(" "))
}

/// Installs the packages and prints their names; their services are not started. Fails if there is no apt-get or no
/// permission to use it (the error contains the command to run), or if apt-get fails.
pub(crate) fn install(packages: &[&Package]) -> Result<()> {
    let Some(mut shell) = installer(packages)? else {
        return Ok(());
    };
    for package in packages {
        println!("  installing {:<12} {}", package.name, package.purpose);
    }
    let names = packages.iter().map(|package| package.name);
    let status = shell.args(["-c", INSTALL, "install"]).args(names).status().context("cannot start sh")?;
    if !status.success() {
        bail!("apt-get failed ({status}); run it by hand to see why: {}", command_line(packages));
    }
    match missing(packages.iter().copied()).first() {
        Some(package) => bail!("{} is installed, but `{}` is not found", package.name, package.program),
        None => Ok(()),
    }
}

/// Returns a shell that may install the packages, if there are any. Fails as [`install`] does.
pub(crate) fn installer(packages: &[&Package]) -> Result<Option<Command>> {
    if packages.is_empty() {
        return Ok(None);
    }
    let by_hand = command_line(packages);
    if find("apt-get").is_none() {
        bail!("no apt-get here; install by hand what is called, on Debian: {by_hand}");
    }
    match root_shell() {
        Some(shell) => Ok(Some(shell)),
        None => bail!("installing needs root; run: {by_hand}"),
    }
}

/// Returns `sh` as root: directly, or through a sudo that needs no password.
fn root_shell() -> Option<Command> {
    if rustix::process::geteuid().is_root() {
        return Some(Command::new("sh"));
    }
    let quiet = Command::new("sudo").args(["-n", "true"]).stderr(Stdio::null()).status();
    quiet.is_ok_and(|status| status.success()).then(|| {
        let mut sudo = Command::new("sudo");
        sudo.args(["-n", "sh"]);
        sudo
    })
}

#[cfg(test)]
mod tests {
    use super::{Package, command_line, missing, package};

    const PRESENT: Package = package("dash", "sh", "");
    const ABSENT: Package = package("no-such-package", "no-such-program", "");

    #[test]
    fn only_what_is_absent_is_missing() {
        assert_eq!(missing([&PRESENT, &ABSENT]), [&ABSENT]);
    }

    #[test]
    fn the_command_names_each_package() {
        let line = command_line(&[&PRESENT, &ABSENT]);
        assert!(line.ends_with(" dash no-such-package"), "{line}");
    }
}
