//! The registries that the settings of tools name: hosts of the https URLs in their files and variables.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::config::names;

/// Files below the home directory.
const OF_HOME: &[&str] = &[
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".bunfig.toml",
    ".pip/pip.conf",
    ".config/pip/pip.conf",
    ".config/uv/uv.toml",
    ".condarc",
    ".cargo/config.toml",
    ".cargo/config",
    ".m2/settings.xml",
    ".gradle/init.gradle",
    ".gradle/init.gradle.kts",
    ".gemrc",
    ".bundle/config",
    ".config/go/env",
];
/// Files of a project, in the working directory or above it.
const OF_PROJECT: &[&str] = &[
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    "bunfig.toml",
    "pip.conf",
    "uv.toml",
    ".cargo/config.toml",
    ".cargo/config",
    ".bundle/config",
];
/// Files of the system, and directories of such files.
const OF_SYSTEM: &[&str] = &[
    "/etc/npmrc",
    "/usr/etc/npmrc",
    "/usr/local/etc/npmrc",
    "/etc/pip.conf",
    "/etc/apt/sources.list",
    "/etc/apt/sources.list.d",
];
/// Variables with URLs.
const VARIABLES: &[&str] = &[
    "npm_config_registry",
    "NPM_CONFIG_REGISTRY",
    "YARN_NPM_REGISTRY_SERVER",
    "PIP_INDEX_URL",
    "PIP_EXTRA_INDEX_URL",
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "UV_INDEX_URL",
    "UV_EXTRA_INDEX_URL",
    "GOPROXY",
    "BUNDLE_MIRROR__ALL",
];
/// Longer files are not settings.
const LONGEST: u64 = 1 << 20;

/// Returns the hosts that the settings of tools name on this machine.
pub(super) fn of_tools() -> Vec<String> {
    let texts = files().iter().flat_map(|path| texts_of(path)).collect::<Vec<_>>();
    let variables = VARIABLES.iter().filter_map(|name| env::var(name).ok());
    let mut hosts: Vec<_> = texts.into_iter().chain(variables).flat_map(|text| hosts_in(&text)).collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts
}

/// Returns the file of certificates that npm's settings name: it replaces what npm trusts otherwise.
pub(super) fn npm_certificates() -> Option<String> {
    let is_of_npm = |path: &PathBuf| path.ends_with(".npmrc") || path.ends_with("npmrc");
    let texts: Vec<_> =
        files().iter().filter(|path| is_of_npm(path)).flat_map(|path| texts_of(path)).collect();
    let mut settings = texts.iter().flat_map(|text| text.lines()).filter_map(|line| line.split_once('='));
    let (_, value) = settings.find(|(key, _)| key.trim() == "cafile")?;
    Some(value.trim().trim_matches('"').to_owned())
}

fn files() -> Vec<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from);
    let of_home = OF_HOME.iter().filter_map(|name| Some(home.as_ref()?.join(name)));
    let here = env::current_dir().unwrap_or_default();
    let of_project = here.ancestors().flat_map(|folder| OF_PROJECT.iter().map(|name| folder.join(name)));
    of_home.chain(of_project).chain(OF_SYSTEM.iter().map(PathBuf::from)).collect()
}

/// Returns the text of a file, or of the files in a directory; nothing if it cannot be read.
fn texts_of(path: &Path) -> Vec<String> {
    match fs::metadata(path) {
        Ok(about) if about.is_dir() => {
            let entries = fs::read_dir(path).into_iter().flatten().flatten();
            let files = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
            files.flat_map(|entry| texts_of(&entry.path())).collect()
        }
        Ok(about) if about.is_file() && about.len() <= LONGEST => {
            fs::read_to_string(path).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the hosts of the https URLs in `text`, except those in comments.
fn hosts_in(text: &str) -> Vec<String> {
    let is_comment = |line: &str| line.trim_start().starts_with(['#', ';']);
    let lines = text.lines().filter(|line| !is_comment(line));
    lines.flat_map(|line| line.split("https://").skip(1)).filter_map(host_at).collect()
}

/// Returns the host at the beginning of a URL without its scheme.
fn host_at(rest: &str) -> Option<String> {
    let is_end = |c: char| c.is_whitespace() || "/\"'`,;|<>()?#".contains(c);
    let authority = rest.split(is_end).next()?;
    let host = authority.rsplit('@').next()?.split(':').next()?;
    names::host(host).ok()
}

#[cfg(test)]
mod tests {
    use super::hosts_in;

    #[test]
    fn hosts_of_urls_are_found_in_the_settings_of_each_tool() {
        for (text, expected) in [
            ("registry=https://npm.example/\n//npm.example/:_authToken=x", &["npm.example"][..]),
            ("[global]\nindex-url = https://me:pass@pypi.example:8443/simple", &["pypi.example"]),
            ("# https://old.example/\n; https://older.example/", &[]),
            ("index = \"sparse+https://cargo.example/\"", &["cargo.example"]),
            ("https://a.example,https://b.example|direct", &["a.example", "b.example"]),
            ("deb [arch=amd64] https://deb.example/debian stable main", &["deb.example"]),
            ("<url>https://Maven.example/m2</url> http://plain.example", &["maven.example"]),
            ("https://${HOST}/ https://", &[]),
        ] {
            assert_eq!(hosts_in(text), expected, "{text}");
        }
    }
}
