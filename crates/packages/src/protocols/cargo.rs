//! cargo: the sparse index, one document for each crate, and crates. The document `config.json` of the registry says
//! where crates are downloaded.

use serde::Deserialize;

use super::{Protocol, last_segment};
use crate::digest::{Algorithm, Digest};
use crate::document::{Document, Item, Place};
use crate::resource::{Kind, Resource};

pub(crate) fn resource(path: &str) -> Option<Resource<'_>> {
    if let Some((name, number)) = version(path) {
        return Some(Resource::new(Protocol::Cargo, Kind::File).of_version(name, number));
    }
    let document = |document| Resource::new(Protocol::Cargo, Kind::Index(document));
    if path.ends_with("/config.json") {
        return Some(document(Document::CargoConfig));
    }
    let (folder, name) = last_segment(path)?;
    folder
        .ends_with(&format!("/{}", prefix(name)?))
        .then(|| document(Document::CargoCrate).of_version(name, ""))
}

/// Returns the name and the version of a crate: `/crates/NAME/VERSION/download`, or a file `NAME-VERSION.crate`.
fn version(path: &str) -> Option<(&str, &str)> {
    if let Some(rest) = path.strip_suffix("/download") {
        let (before, number) = last_segment(rest)?;
        return before
            .rsplit_once("/crates/")
            .map(|(_, name)| (name, number))
            .filter(|(name, _)| !name.contains('/'));
    }
    let (_, file) = last_segment(path.strip_suffix(".crate")?)?;
    // Names have hyphens, too; versions begin with a digit.
    let at = file
        .match_indices('-')
        .map(|(at, _)| at)
        .find(|at| file[at + 1..].starts_with(|c: char| c.is_ascii_digit()))?;
    Some((&file[..at], &file[at + 1..]))
}

/// Returns the folder of a crate in the index ("Index files").
fn prefix(name: &str) -> Option<String> {
    let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    match name.len() {
        _ if !is_name => None,
        0 => None,
        1 | 2 => Some(name.len().to_string()),
        3 => Some(format!("3/{}", &name[..1])),
        _ => Some(format!("{}/{}", &name[..2], &name[2..4])),
    }
}

/// Returns the path of the registry that a document belongs to.
pub(crate) fn registry(path: &str) -> &str {
    let Some((folder, name)) = last_segment(path) else { return path };
    if name == "config.json" {
        return folder;
    }
    let prefix = prefix(name).map_or(0, |prefix| prefix.len() + 1);
    &folder[..folder.len().saturating_sub(prefix)]
}

#[derive(Deserialize)]
struct Config {
    dl: String,
}

pub(crate) fn read_config(content: &[u8]) -> Vec<Item<'_>> {
    let config = serde_json::from_slice::<Config>(content);
    let item =
        |config: Config| Item { place: Place::Template(config.dl.into()), digest: None, published: None };
    config.into_iter().map(item).collect()
}

#[derive(Deserialize)]
struct Line {
    name: String,
    vers: String,
    cksum: String,
    /// When the version was published, which some registries tell.
    #[serde(default)]
    pubtime: Option<String>,
}

pub(crate) fn read<'d>(content: &'d [u8], template: Option<&str>) -> Vec<Item<'d>> {
    let Some(template) = template else { return Vec::new() };
    let lines =
        content.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Line>(line).ok());
    let item = |line: Line| {
        let digest = Digest::hex(Algorithm::Sha256, &line.cksum);
        let published = line.pubtime.as_deref().and_then(crate::age::date);
        Some(Item::url(download(template, &line)?, digest).published(published))
    };
    lines.filter_map(item).collect()
}

/// Returns the URL of a crate by the template of its registry ("Index configuration").
fn download(template: &str, Line { name, vers, cksum, .. }: &Line) -> Option<String> {
    if !template.contains('{') {
        return Some(format!("{template}/{name}/{vers}/download"));
    }
    let prefix = prefix(name)?;
    let filled =
        template.replace("{crate}", name).replace("{version}", vers).replace("{sha256-checksum}", cksum);
    Some(filled.replace("{prefix}", &prefix).replace("{lowerprefix}", &prefix.to_lowercase()))
}

/// Returns the document without the versions that are not `kept`.
pub(crate) fn without(content: &[u8], kept: &dyn Fn(&str, Option<u32>) -> bool) -> Vec<u8> {
    let is_kept = |line: &&[u8]| {
        let line = serde_json::from_slice::<Line>(line);
        line.is_ok_and(|line| kept(&line.vers, line.pubtime.as_deref().and_then(crate::age::date)))
    };
    let lines = content.split_inclusive(|byte| *byte == b'\n').filter(is_kept);
    lines.flatten().copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::Version;

    #[test]
    fn crates_have_names_and_versions() {
        for (path, name, number) in [
            ("/crates/serde/1.0.228/download", "serde", "1.0.228"),
            ("/api/v1/crates/serde_json/1.0.0-rc.1/download", "serde_json", "1.0.0-rc.1"),
            ("/crates/rustls-pki-types/rustls-pki-types-1.7.0.crate", "rustls-pki-types", "1.7.0"),
        ] {
            let found = resource(path).unwrap();
            let expected = Version { name: name.into(), number: number.into() };
            assert_eq!((found.kind, found.version), (Kind::File, Some(expected)), "{path}");
        }
    }

    #[test]
    fn documents_of_the_index_have_the_folders_of_their_names() {
        for (path, registry_path) in [
            ("/1/a", ""),
            ("/2/ab", ""),
            ("/3/a/abc", ""),
            ("/se/rd/serde", ""),
            ("/index/my/_c/my_crate", "/index"),
        ] {
            assert_eq!(resource(path).unwrap().kind, Kind::Index(Document::CargoCrate), "{path}");
            assert_eq!(registry(path), registry_path, "{path}");
        }
        assert_eq!(registry("/index/config.json"), "/index");
        for path in ["/se/rd/tokio", "/serde", "/a/b/c", "/3/b/abc", "/"] {
            assert_eq!(resource(path), None, "{path}");
        }
    }

    #[test]
    fn crates_are_where_the_registry_says() {
        let sum = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
        let line = format!(
            "{{\"name\":\"serde\",\"vers\":\"1.0.1\",\"deps\":[],\"cksum\":\"{sum}\",\"yanked\":false}}\n"
        );
        for (template, url) in [
            (
                "https://static.crates.io/crates",
                "https://static.crates.io/crates/serde/1.0.1/download".to_owned(),
            ),
            ("/dl/{prefix}/{crate}-{version}.crate", "/dl/se/rd/serde-1.0.1.crate".to_owned()),
            ("/{sha256-checksum}", format!("/{sum}")),
        ] {
            let items = read(line.as_bytes(), Some(template));
            assert_eq!(items, [Item::url(url, Some(Digest::of(Algorithm::Sha256, b"hello\n")))]);
        }
        assert!(read(line.as_bytes(), None).is_empty());
    }
}
