//! The package for Debian and its descendants, made by `dpkg-deb`.

use super::contents::{CONFIGS, Layout, copy, lay, write};
use super::{Release, image, output};
use crate::{read, root};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The scripts that dpkg runs, in `packaging/debian`.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Packs into `folder`. Fails if a file cannot be written, or a program of Debian fails.
pub(super) fn pack(release: &Release, folder: &Path) -> Result<PathBuf> {
    let stage = tempfile::tempdir().context("cannot create a folder")?;
    let files = stage.path();
    lay(release, files, Layout::System)?;
    let debian = files.join("DEBIAN");
    let size = output(Command::new("du").args(["-sk", "--apparent-size"]).arg(files))?;
    let size = size.split_whitespace().next().unwrap_or_default();
    // In Debian, `-` separates the version of the packaging, and `~` sorts before the release.
    let version = release.version.replacen('-', "~", 1);
    let architecture = output(Command::new("dpkg").arg("--print-architecture"))?.trim().to_owned();
    let control = read(&root().join("packaging/debian/control"))?
        .replace("@VERSION@", &version)
        .replace("@ARCHITECTURE@", &architecture)
        .replace("@SIZE@", size)
        .replace("@DEPENDS@", &libraries(&release.larder)?);
    write(&debian.join("control"), control.replace("Depends: \n", "").as_bytes())?;
    let configs: String = CONFIGS.iter().map(|(_, to)| format!("/{to}\n")).collect();
    write(&debian.join("conffiles"), configs.as_bytes())?;
    for script in SCRIPTS {
        copy(&root().join("packaging/debian").join(script), &debian.join(script))?;
    }
    let sums = "find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum > DEBIAN/md5sums";
    output(Command::new("sh").args(["-c", sums]).current_dir(files))?;
    output(
        Command::new("sh").args(["-c", "chmod 644 DEBIAN/*; chmod 755 DEBIAN DEBIAN/p*"]).current_dir(files),
    )?;
    let package = folder.join(format!("larder_{version}_{architecture}.deb"));
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.env("SOURCE_DATE_EPOCH", release.epoch.to_string()).arg(format!("-Z{}", release.compression));
    output(dpkg.args(["--root-owner-group", "--build"]).arg(files).arg(&package))?;
    Ok(package)
}

/// Returns the packages whose libraries the program uses, with their oldest versions; nothing for a static program.
fn libraries(program: &Path) -> Result<String> {
    if image::libraries(program)?.is_empty() {
        return Ok(String::new());
    }
    let source = tempfile::tempdir().context("cannot create a folder")?;
    write(&source.path().join("debian/control"), b"Source: larder\n\nPackage: larder\nArchitecture: any\n")?;
    let mut shlibdeps = Command::new("dpkg-shlibdeps");
    shlibdeps.current_dir(source.path()).args(["-O", "-xlarder", "--ignore-missing-info", "-e"]);
    let told = output(shlibdeps.arg(program))?;
    Ok(told.trim().strip_prefix("shlibs:Depends=").unwrap_or_default().to_owned())
}
