//! `cargo x dist`: the packages of a release in `target/dist`: a `.deb`, a tarball, an image for containers, the bills of
//! materials (SBOM), and checksums of all.
//!
//! Two builds of a commit give the same bytes: times are the commit's, paths of the machine are replaced, and owners,
//! modes and orders are fixed.

mod check;
mod contents;
mod deb;
mod image;
mod sbom;
mod tarball;

use crate::{args, cargo, packages, program, root};
use anyhow::{Context, Result, bail, ensure};
use larder_testkit::programs::find;
use std::ffi::OsString;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The options of `cargo x dist`.
#[derive(Debug)]
pub(crate) struct Dist {
    larder: Option<PathBuf>,
    target: Option<String>,
    test: bool,
    /// Whether programs are built a second time in another folder, and compared.
    twice: bool,
}

/// Where a program is built.
struct Workplace {
    sources: PathBuf,
    /// The folder of all builds.
    builds: PathBuf,
}

/// What is packed, and the names and times that the packages have.
#[derive(Clone)]
struct Release {
    larder: PathBuf,
    version: String,
    /// The target of the build, such as `x86_64-unknown-linux-gnu`.
    target: String,
    /// The time of all files in seconds since 1970.
    epoch: u64,
    /// The compression of the `.deb`, in the words of `dpkg-deb -Z`.
    compression: &'static str,
}

impl Dist {
    /// Reads the options. Fails on an unknown word, which the error names.
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let options = [("--larder", true), ("--target", true), ("--test", false), ("--twice", false)];
        let words = args::parse(words, &options)?;
        Ok(Self {
            // Other programs read it from other folders.
            larder: words.path("--larder").map(std::path::absolute).transpose()?,
            target: words.get("--target").map(str::to_owned),
            test: words.has("--test"),
            twice: words.has("--twice"),
        })
    }

    /// Builds the program for Debian and for other systems, and packs both. Fails if a build, a program that packs, or
    /// a check of the packages fails.
    pub(crate) fn run(self) -> Result<()> {
        ensure!(!self.twice || self.larder.is_none(), "--twice builds the program: leave --larder out");
        let folder = program::target_folder().join("dist");
        fs::create_dir_all(&folder).context("cannot create target/dist")?;
        let (host, epoch) = (host()?, epoch()?);
        let elsewhere = match (self.target, &self.larder) {
            (Some(target), Some(larder)) if target.contains("musl") && is_dynamic(larder)? => {
                bail!("{} is no static program: it is not for {target}", larder.display())
            }
            (Some(target), _) => target,
            (None, Some(larder)) if is_dynamic(larder)? => host.clone(),
            (None, _) => portable(&host)?,
        };
        let release = |target: &str| -> Result<Release> {
            let target = target.to_owned();
            let build = || build(&Workplace::of_tree(), (target != host).then_some(&target), self.twice);
            let larder = self.larder.clone().map_or_else(build, Ok)?;
            let version = env!("CARGO_PKG_VERSION").to_owned();
            Ok(Release { larder, version, target, epoch, compression: "xz" })
        };
        let of_host = release(&host)?;
        let other = if elsewhere == host { of_host.clone() } else { release(&elsewhere)? };
        let release = [of_host, other];
        let deb = deb::pack(&release[0], &folder)?;
        let image = image::pack(&release[1], &folder)?;
        let mut packages = vec![deb.clone(), tarball::pack(&release[1], &folder)?, image.clone()];
        packages
            .extend(release.iter().map(|release| sbom::write(release, &folder)).collect::<Result<Vec<_>>>()?);
        packages.dedup();
        let sums = sums(&folder, &packages)?;
        fs::write(folder.join("SHA256SUMS"), &sums).context("cannot write SHA256SUMS")?;
        println!("{}", sums.trim_end());
        println!("the packages and SHA256SUMS are in {}", folder.display());
        if self.test {
            packages::install(&packages::missing(packages::FOR_DIST))?;
            check::debian(&release[0], &deb)?;
            check::image(&image)?;
        }
        Ok(())
    }
}

/// Packs the debug build and checks the package, as a part of `cargo x test`. Fails if that fails.
pub(crate) fn in_test() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        println!("not tested: to install a package in a root of its own needs root");
        return Ok(());
    }
    let folder = tempfile::tempdir().context("cannot create a folder")?;
    let larder = folder.path().join("larder");
    // Debug information is the largest part of the debug build.
    output(Command::new("strip").arg("-o").arg(&larder).arg(program::debug_build()?))?;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let release = Release { larder, version, target: host()?, epoch: epoch()?, compression: "none" };
    let deb = deb::pack(&release, folder.path())?;
    check::debian(&release, &deb)?;
    check::image(&image::pack(&release, folder.path())?)
}

/// Builds the program for packages, without the paths of this machine in it. If `twice`, fails if another build of the commit
/// in another folder has other bytes.
fn build(at: &Workplace, target: Option<&str>, twice: bool) -> Result<PathBuf> {
    let paths = at.paths()?;
    let flags = |option: &str| {
        let flag = |(from, to): &(PathBuf, String)| format!(" {option}={}={to}", from.display());
        paths.iter().map(flag).collect::<String>()
    };
    let before = |name: &str| std::env::var(name).unwrap_or_default();
    let mut build = cargo();
    build.args(["build", "--profile", "dist", "--locked", "--package", "larder"]);
    build.current_dir(&at.sources).env("CARGO_TARGET_DIR", &at.builds);
    build.env("RUSTFLAGS", before("RUSTFLAGS") + &flags("--remap-path-prefix"));
    build.env("CFLAGS", format!("-g0 {}{}", before("CFLAGS"), flags("-ffile-prefix-map")));
    build.args(target.iter().flat_map(|target| ["--target", target]));
    ensure!(build.status().context("cannot start cargo")?.success(), "the build for packages failed");
    let larder = at.builds.join(target.unwrap_or_default()).join("dist/larder");
    if twice {
        let other = tempfile::tempdir().context("cannot create a folder")?;
        let at = Workplace { sources: other.path().join("sources"), builds: other.path().join("builds") };
        output(Command::new("git").args(["clone", "--quiet", "--shared"]).arg(root()).arg(&at.sources))?;
        let again = self::build(&at, target, false)?;
        ensure!(fs::read(&larder)? == fs::read(again)?, "another build of this commit has other bytes");
        println!("two builds in two folders have the same bytes: {}", larder.display());
    }
    Ok(larder)
}

impl Workplace {
    fn of_tree() -> Self {
        Self { sources: root(), builds: program::target_folder() }
    }

    /// Returns the paths of this machine that a build could write into the program, with those that are written instead. The
    /// last that fits counts.
    fn paths(&self) -> Result<Vec<(PathBuf, String)>> {
        let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
        let home = home.or_else(|| std::env::home_dir().map(|home| home.join(".cargo")));
        let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
        let of_library = Path::new(sysroot.trim()).join("lib/rustlib/src/rust");
        let to = |path: &str| path.to_owned();
        Ok(vec![
            (self.sources.clone(), to("/usr/src/larder")),
            (self.builds.clone(), to("/usr/src/larder/target")),
            (home.context("no CARGO_HOME")?, to("/usr/src/cargo")),
            // As without the sources of the library.
            (of_library, format!("/rustc/{}", rustc("commit-hash")?)),
        ])
    }
}

/// Returns the target that rustc builds for on this machine.
fn host() -> Result<String> {
    rustc("host")
}

/// Returns what rustc tells of itself under this name.
fn rustc(name: &str) -> Result<String> {
    let told = output(Command::new("rustc").args(["-vV"]))?;
    let value = told.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    value.map(str::to_owned).with_context(|| format!("rustc does not tell its {name}"))
}

/// Whether a program needs the C library of Debian: its file begins with the path of the loader.
fn is_dynamic(program: &Path) -> Result<bool> {
    let mut head = Vec::new();
    let file = fs::File::open(program).with_context(|| format!("cannot open {}", program.display()))?;
    file.take(4096).read_to_end(&mut head)?;
    Ok(head.windows(10).any(|bytes| bytes == b"/ld-linux-"))
}

/// Returns the target whose programs run on any Linux, if this machine can build for it, or else `host`.
fn portable(host: &str) -> Result<String> {
    let target = host.replacen("-gnu", "-musl", 1);
    let libraries = output(Command::new("rustc").args(["--print", "target-libdir", "--target", &target]))?;
    if Path::new(libraries.trim()).exists() && find("musl-gcc").is_some() {
        return Ok(target);
    }
    println!(
        "tarball and image are for {host}, since a static program needs `rustup target add {target}` and the package \
         musl-tools"
    );
    Ok(host.to_owned())
}

/// Returns the time of the packages' files: the commit's, or that in `SOURCE_DATE_EPOCH`.
fn epoch() -> Result<u64> {
    let text = match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(text) => text,
        Err(_) => output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root()))
            .context("outside of a clone, set SOURCE_DATE_EPOCH to the time of the release")?,
    };
    text.trim()
        .parse()
        .with_context(|| format!("SOURCE_DATE_EPOCH is no number of seconds: '{}'", text.trim()))
}

/// Returns the lines of SHA256SUMS.
fn sums(folder: &Path, packages: &[PathBuf]) -> Result<String> {
    let names: Vec<OsString> =
        packages.iter().filter_map(|path| Some(path.file_name()?.to_owned())).collect();
    output(Command::new("sha256sum").current_dir(folder).args(names))
}

/// Runs a command, and returns its output. Fails if it cannot be started or fails, with what it says on standard error.
fn output(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot start {name}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{name}: {}: {}", output.status, said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packs a stand-in for the program, whose files have the present time.
    fn packed(folder: &Path) -> Vec<Vec<u8>> {
        let larder = folder.join("program");
        let text = "#!/bin/sh\n[ $1 = man ] && mkdir -p $2/man1 && date +%N > $2/time && rm $2/time && \
                    echo page > $2/man1/larder.1\necho \"$*\" | cut -c 1-8\n";
        fs::write(&larder, text).expect("written");
        output(Command::new("chmod").arg("755").arg(&larder)).expect("chmod");
        let release = Release {
            larder,
            version: "1.2.3-rc.1".to_owned(),
            target: "x86_64-unknown-linux-gnu".to_owned(),
            epoch: 1_700_000_000,
            compression: "xz",
        };
        let packages =
            [deb::pack(&release, folder), tarball::pack(&release, folder), image::pack(&release, folder)];
        packages.map(|package| fs::read(package.expect("packed")).expect("a file")).into()
    }

    #[test]
    fn packages_of_the_same_files_have_the_same_bytes() {
        let [first, second] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let before = packed(first.path());
        std::thread::sleep(std::time::Duration::from_millis(1100));
        let after = packed(second.path());
        assert!(before == after);
    }

    #[test]
    fn a_debian_package_has_the_files_of_a_service() {
        let folder = tempfile::tempdir().expect("a folder");
        packed(folder.path());
        let deb = folder.path().join("larder_1.2.3~rc.1_amd64.deb");
        let listed = output(Command::new("dpkg-deb").arg("--contents").arg(&deb)).expect("a package");
        for line in [
            "-rwxr-xr-x root/root usr/bin/larder",
            "-rw-r--r-- root/root usr/lib/systemd/system/larder.service",
            "-rw-r--r-- root/root usr/lib/sysusers.d/larder.conf",
            "-rw-r--r-- root/root usr/share/man/man1/larder.1.gz",
            "-rw-r--r-- root/root usr/share/bash-completion/completions/larder",
            "-rw-r--r-- root/root usr/share/zsh/vendor-completions/_larder",
            "-rw-r--r-- root/root usr/share/fish/vendor_completions.d/larder.fish",
            "-rw-r--r-- root/root etc/larder/larder.toml",
            "-rw-r--r-- root/root etc/apparmor.d/larder",
        ] {
            let (head, path) = line.rsplit_once(' ').expect("two parts");
            let has = |listed: &str| {
                listed.starts_with(head)
                    && listed.ends_with(&format!("./{path}"))
                    && listed.contains("2023-11-14")
            };
            assert!(listed.lines().any(has), "no {line} in\n{listed}");
        }
        let mut command = Command::new("dpkg-deb");
        let conffiles = output(command.arg("--info").arg(&deb).arg("conffiles")).expect("a package");
        assert_eq!(conffiles, "/etc/apparmor.d/larder\n/etc/larder/larder.toml\n");
    }
}
