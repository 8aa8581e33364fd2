//! The tarball: the same files for any Linux, to unpack at a prefix such as `/usr/local`.

use super::contents::{Layout, copy, lay};
use super::{Release, output};
use crate::root;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packs into `folder`. Fails if a file cannot be written, or `tar` fails.
pub(super) fn pack(release: &Release, folder: &Path) -> Result<PathBuf> {
    let stage = tempfile::tempdir().context("cannot create a folder")?;
    let name = format!("larder-{}-{}", release.version, release.target);
    let files = stage.path().join(&name);
    lay(release, &files, Layout::Local)?;
    copy(&root().join("LICENSE"), &files.join("share/doc/larder/LICENSE"))?;
    let package = folder.join(format!("{name}.tar.gz"));
    output(
        tar(release, stage.path())
            .args(["--use-compress-program", "gzip -n9", "-cf"])
            .arg(&package)
            .arg(&name),
    )?;
    Ok(package)
}

/// Returns a `tar` in `folder` whose archives depend on nothing but names, contents and permissions.
pub(super) fn tar(release: &Release, folder: &Path) -> Command {
    let mut tar = Command::new("tar");
    tar.current_dir(folder).env("LC_ALL", "C");
    tar.args(["--format=gnu", "--sort=name", "--numeric-owner", "--owner=0", "--group=0"]);
    tar.arg(format!("--mtime=@{}", release.epoch));
    tar
}
