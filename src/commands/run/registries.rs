//! The registries that the settings of tools name: hosts of the https URLs in their files and variables.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::config::names;

/// Files below the home directory.
const OF_HOME: &str = "\
    .npmrc .yarnrc .yarnrc.yml .bunfig.toml .pip/pip.conf .config/pip/pip.conf .config/uv/uv.toml \
    .condarc .cargo/config.toml .cargo/config .m2/settings.xml .gradle/init.gradle \
    .gradle/init.gradle.kts .gemrc .bundle/config .config/go/env";
/// Files that variables name, or that are below the directories that variables name.
const OF_VARIABLES: &str = "\
    npm_config_userconfig NPM_CONFIG_USERCONFIG PIP_CONFIG_FILE UV_CONFIG_FILE GOENV CARGO_HOME/config.toml \
    BUNDLE_APP_CONFIG/config GRADLE_USER_HOME/init.gradle GRADLE_USER_HOME/init.gradle.kts \
    XDG_CONFIG_HOME/pip/pip.conf XDG_CONFIG_HOME/uv/uv.toml XDG_CONFIG_HOME/go/env";
/// Files of a project, in the working directory or above it.
const OF_PROJECT: &str = "\
    .npmrc .yarnrc .yarnrc.yml bunfig.toml pip.conf uv.toml .cargo/config.toml .cargo/config \
    .bundle/config";
/// Files of a project that also have other URLs, and the beginnings of lines with those of registries.
const MANIFESTS: &str = "pyproject.toml Pipfile requirements.txt Gemfile";
const REGISTRY: &[&str] = &[
    "url =",
    "url=",
    "index-url",
    "extra-index-url",
    "--index-url",
    "--extra-index-url",
    "-i ",
    "source '",
    "source \"",
];
/// Files of the system, and directories of such files.
const OF_SYSTEM: &str = "\
    /etc/npmrc /usr/etc/npmrc /usr/local/etc/npmrc /etc/pip.conf /etc/apt/sources.list \
    /etc/apt/sources.list.d";
/// Variables with URLs.
const VARIABLES: &str = "\
    npm_config_registry NPM_CONFIG_REGISTRY YARN_NPM_REGISTRY_SERVER PIP_INDEX_URL PIP_EXTRA_INDEX_URL \
    UV_DEFAULT_INDEX UV_INDEX UV_INDEX_URL UV_EXTRA_INDEX_URL PDM_PYPI_URL GOPROXY \
    BUNDLE_MIRROR__ALL";
/// Variables with a file of certificates, and the settings that name one without them: the end of the settings' path, and a key.
const CERTIFICATES: &[(&str, &str, &str)] = &[
    ("npm_config_cafile", "npmrc", "cafile"),
    ("YARN_HTTPS_CA_FILE_PATH", ".yarnrc.yml", "httpsCaFilePath"),
    ("PIP_CERT", "pip.conf", "cert"),
    ("REQUESTS_CA_BUNDLE", ".condarc", "ssl_verify"),
    ("CARGO_HTTP_CAINFO", ".cargo/config.toml", "cainfo"),
    ("CARGO_HTTP_CAINFO", ".cargo/config", "cainfo"),
    ("BUNDLE_SSL_CA_CERT", ".bundle/config", "BUNDLE_SSL_CA_CERT"),
    ("GIT_SSL_CAINFO", ".gitconfig", "sslCAInfo"),
    ("CURL_CA_BUNDLE", ".curlrc", "cacert"),
];
/// Files below the home directory whose URLs are not those of registries.
const OF_CLIENTS: &str = ".gitconfig .curlrc";
/// Longer files are not settings.
const LONGEST: u64 = 1 << 20;

/// Returns the hosts that the settings of tools name on this machine.
pub(super) fn of_tools() -> Vec<String> {
    let files = of_user().chain(of_project(OF_PROJECT)).chain(of_system());
    let texts = files.flat_map(|path| texts_of(&path));
    let manifests = of_project(MANIFESTS).flat_map(|path| texts_of(&path)).map(|text| registry_lines(&text));
    let variables = VARIABLES.split(' ').filter_map(|name| env::var(name).ok());
    let mut hosts: Vec<_> =
        texts.chain(manifests).chain(variables).flat_map(|text| hosts_in(&text)).collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts
}

/// Returns the file of certificates that the user's or the system's settings of a tool name in place of this variable. It replaces
/// what the tool trusts otherwise. The files of a project do not count: their authors are others, and the proxy trusts what is named
/// for all hosts.
pub(super) fn certificates(variable: &str) -> Option<PathBuf> {
    let files: Vec<_> = of_user().chain(of_home(OF_CLIENTS)).chain(of_system()).collect();
    let rows = CERTIFICATES.iter().filter(|(name, ..)| *name == variable);
    let mut named = rows.flat_map(|(_, end, key)| {
        let files = files.iter().filter(move |path| path.to_string_lossy().ends_with(end));
        files.flat_map(|path| texts_of(path)).filter_map(|text| certificates_in(&text, key))
    });
    named.find(|path| path.is_file())
}

/// Returns the absolute path that is the value of `key` in the settings of a tool.
fn certificates_in(text: &str, key: &str) -> Option<PathBuf> {
    let mut pairs = text.lines().filter_map(|line| line.trim_start().split_once(['=', ':', ' ']));
    let (_, value) = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case(key))?;
    let value = value.trim_start_matches(['=', ':', ' ']).trim().trim_matches(['"', '\'']);
    Some(PathBuf::from(value)).filter(|path| path.is_absolute())
}

fn of_home(names: &'static str) -> impl Iterator<Item = PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from);
    names.split(' ').filter_map(move |name| Some(home.as_ref()?.join(name)))
}

/// Returns the places of the user's settings.
fn of_user() -> impl Iterator<Item = PathBuf> {
    let named = OF_VARIABLES.split(' ').filter_map(|place| {
        let (variable, below) = place.split_once('/').unwrap_or((place, ""));
        let path = PathBuf::from(env::var_os(variable)?);
        Some(if below.is_empty() { path } else { path.join(below) })
    });
    named.chain(of_home(OF_HOME))
}

fn of_project(names: &'static str) -> impl Iterator<Item = PathBuf> {
    let here = env::current_dir().unwrap_or_default();
    let folders: Vec<_> = here.ancestors().map(Path::to_owned).collect();
    folders.into_iter().flat_map(|folder| names.split(' ').map(move |name| folder.join(name)))
}

/// Returns the lines of a manifest that name registries.
fn registry_lines(text: &str) -> String {
    let names = |line: &&str| REGISTRY.iter().any(|begin| line.trim_start().starts_with(begin));
    text.lines().filter(names).flat_map(|line| [line, "\n"]).collect()
}

fn of_system() -> impl Iterator<Item = PathBuf> {
    OF_SYSTEM.split(' ').map(PathBuf::from)
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
    use std::path::PathBuf;

    use super::{certificates_in, hosts_in, registry_lines};

    #[test]
    fn files_of_certificates_are_found_in_the_settings_of_each_tool() {
        for (text, key) in [
            ("[global]\ncert = /corp.pem", "cert"),
            ("//r/:_authToken=x\ncafile=\"/corp.pem\"", "cafile"),
            ("httpsCaFilePath: '/corp.pem'", "httpsCaFilePath"),
            ("[http]\n  sslcainfo = /corp.pem", "sslCAInfo"),
            ("insecure\ncacert /corp.pem", "cacert"),
        ] {
            assert_eq!(certificates_in(text, key), Some(PathBuf::from("/corp.pem")), "{text}");
        }
        assert_eq!(certificates_in("ssl_verify: true", "ssl_verify"), None);
    }

    #[test]
    fn registries_of_a_project_are_found_without_its_other_urls() {
        for (text, expected) in [
            (
                "[project.urls]\nHomepage = \"https://home.example\"\n[[tool.uv.index]]\nurl = \"https://a.example/simple\"",
                "a.example",
            ),
            ("[tool.uv]\n  index-url = 'https://a.example/'\nx = 'https://b.example'", "a.example"),
            ("--extra-index-url https://a.example/simple\npad @ https://b.example/pad.whl", "a.example"),
            ("source 'https://a.example'\ngem 'x', git: 'https://b.example/x'", "a.example"),
        ] {
            assert_eq!(hosts_in(&registry_lines(text)), [expected], "{text}");
        }
    }

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
