//! The files of the packages.

use super::{Release, output};
use crate::root;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Files of the repository, with their places below the prefix.
const FILES: &[(&str, &str)] = &[
    ("packaging/larder.service", "lib/systemd/system/larder.service"),
    ("packaging/larder.sysusers", "lib/sysusers.d/larder.conf"),
    ("packaging/debian/copyright", "share/doc/larder/copyright"),
    ("README.md", "share/doc/larder/README.md"),
    ("SECURITY.md", "share/doc/larder/SECURITY.md"),
    ("CHANGELOG.md", "share/doc/larder/changelog"),
    ("docs/grafana.json", "share/doc/larder/grafana.json"),
];

/// Files of the repository that an administrator changes, with their places.
pub(super) const CONFIGS: &[(&str, &str)] = &[
    ("packaging/larder.apparmor", "etc/apparmor.d/larder"),
    ("packaging/larder.toml", "etc/larder/larder.toml"),
];

/// Where a package is installed.
#[derive(Clone, Copy)]
pub(super) enum Layout {
    /// At `/usr`, with the config in `/etc`.
    System,
    /// At any prefix, such as `/usr/local`.
    Local,
}

impl Layout {
    fn prefix(self) -> &'static str {
        match self {
            Self::System => "usr",
            Self::Local => "",
        }
    }

    /// Zsh looks for functions of packages and of administrators in different folders.
    fn zsh(self) -> &'static str {
        match self {
            Self::System => "share/zsh/vendor-completions/_larder",
            Self::Local => "share/zsh/site-functions/_larder",
        }
    }
}

/// Puts all files into `folder`, with their modes. Fails if a file cannot be written, or the program cannot write its
/// manual.
pub(super) fn lay(release: &Release, folder: &Path, layout: Layout) -> Result<()> {
    let prefix = folder.join(layout.prefix());
    copy(&release.larder, &prefix.join("bin/larder"))?;
    for (from, to) in FILES {
        copy(&root().join(from), &prefix.join(to))?;
    }
    for (from, to) in CONFIGS {
        copy(&root().join(from), &folder.join(to))?;
    }
    let larder = || {
        let mut command = Command::new(&release.larder);
        command.env("SOURCE_DATE_EPOCH", release.epoch.to_string());
        command
    };
    for (shell, to) in [
        ("bash", "share/bash-completion/completions/larder"),
        ("zsh", layout.zsh()),
        ("fish", "share/fish/vendor_completions.d/larder.fish"),
    ] {
        write(&prefix.join(to), output(larder().args(["completions", shell]))?.as_bytes())?;
    }
    output(larder().arg("man").arg(prefix.join("share/man")))?;
    output(
        Command::new("gzip")
            .args(["-n9r"])
            .args(["share/man", "share/doc/larder/changelog"])
            .current_dir(&prefix),
    )?;
    output(Command::new("chmod").args(["-R", "u=rwX,go=rX"]).arg(folder))?;
    Ok(())
}

/// Writes a file and its folder. Errors: the path, and why it cannot be written.
pub(super) fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, bytes))
        .with_context(|| format!("{}", path.display()))
}

/// Copies a file with its mode, and creates its folder. Errors: the path, and why it cannot be read or written.
pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    let folder = to.parent().unwrap_or(to);
    let copied = fs::create_dir_all(folder).and_then(|()| fs::copy(from, to));
    copied.map(drop).with_context(|| format!("{} to {}", from.display(), to.display()))
}
