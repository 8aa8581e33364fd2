//! npm: the document of a package with all its versions, and their tarballs.

use std::borrow::Cow;
use std::collections::BTreeMap;

use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde_json::value::to_raw_value;

use super::{Protocol, last_segment};
use crate::age;
use crate::digest::{Algorithm, Digest};
use crate::document::{Document, Item};
use crate::json::{Object, parsed};
use crate::resource::{Kind, Resource};

pub(crate) fn resource(path: &str) -> Option<Resource<'_>> {
    if let Some((before, file)) = path.split_once("/-/") {
        let (name, own) = name(before)?;
        let number = file.strip_suffix(".tgz")?.strip_prefix(own)?.strip_prefix('-')?;
        return Some(Resource::new(Protocol::Npm, Kind::File).of_version(name, number));
    }
    let (name, own) = name(path)?;
    let is_in_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-~".contains(&byte);
    let is_name = !own.is_empty() && own.bytes().all(is_in_name);
    let document = || Resource::new(Protocol::Npm, Kind::Index(Document::NpmPackage)).of_version(name, "");
    (is_name && !own.starts_with(['.', '-'])).then(document)
}

/// Returns the name of the package that a path ends with, and the name without its scope: `@types/node` and `node`.
fn name(path: &str) -> Option<(Cow<'_, str>, &str)> {
    let (before, last) = last_segment(path)?;
    if let Some(at) = last.find("%2f").or_else(|| last.find("%2F")) {
        return Some((percent_decode_str(last).decode_utf8().ok()?, &last[at + 3..]));
    }
    match last_segment(before) {
        Some((start, scope)) if scope.starts_with('@') => Some((path[start.len() + 1..].into(), last)),
        _ => Some((last.into(), last)),
    }
}

#[derive(Deserialize)]
struct PackageVersion<'d> {
    #[serde(borrow)]
    dist: Dist<'d>,
}

#[derive(Deserialize)]
struct Dist<'d> {
    #[serde(borrow)]
    tarball: Cow<'d, str>,
    #[serde(borrow, default)]
    integrity: Option<Cow<'d, str>>,
    #[serde(borrow, default)]
    shasum: Option<Cow<'d, str>>,
}

/// Returns the date of a version. The times of removed packages are tables.
fn date(times: &Object<'_>, number: &str) -> Option<u32> {
    age::date(&times.get::<String>(number)?)
}

pub(crate) fn read(content: &[u8]) -> Vec<Item<'_>> {
    let Ok(package) = serde_json::from_slice::<Object<'_>>(content) else { return Vec::new() };
    let Some(Object(versions)) = package.get("versions") else { return Vec::new() };
    let times = package.get("time").unwrap_or_default();
    let mut items = Vec::with_capacity(versions.len() * 2);
    for (number, version) in versions {
        let Some(PackageVersion { dist }) = parsed(version) else { continue };
        let published = date(&times, &number);
        let digest = dist.integrity.as_deref().and_then(Digest::integrity);
        let digest = digest.or_else(|| Digest::hex(Algorithm::Sha1, dist.shasum.as_deref()?));
        // Clients ask the registry that they are configured for, whatever host the document names.
        if let Some(path) = path_of(&dist.tarball) {
            items.push(Item::url(path, digest).published(published));
        }
        items.push(Item::url(dist.tarball, digest).published(published));
    }
    items
}

/// Returns the path of an absolute URL.
fn path_of(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    rest.find('/').map(|at| rest[at..].to_owned())
}

/// Returns the document without the versions that are not `kept`. A tag of a removed version moves to the newest that
/// remains; without one, it vanishes. `None` if it is another document.
pub(crate) fn without(content: &[u8], kept: &dyn Fn(&str, Option<u32>) -> bool) -> Option<Vec<u8>> {
    let mut package: Object<'_> = serde_json::from_slice(content).ok()?;
    let mut left: Object<'_> = package.get("versions")?;
    let mut times: Option<Object<'_>> = package.get("time");
    let date = |number: &str| date(times.as_ref()?, number);
    left.0.retain(|number, _| kept(number, date(number)));
    // A beta is the newest only if there is nothing else.
    let newest = left.0.keys().max_by_key(|number| (!number.contains('-'), date(number), *number)).cloned();
    let tags = package.get("dist-tags").map(|Object(tags)| {
        let tag =
            |number| parsed(number).filter(|number| left.0.contains_key(number)).or_else(|| newest.clone());
        tags.into_iter().filter_map(|(name, number)| Some((name, tag(number)?))).collect::<BTreeMap<_, _>>()
    });
    if let Some(Object(times)) = &mut times {
        times.retain(|number, _| matches!(&**number, "created" | "modified") || left.0.contains_key(number));
    }
    let parts = [
        ("versions", to_raw_value(&left).ok()),
        ("dist-tags", tags.and_then(|tags| to_raw_value(&tags).ok())),
        ("time", times.and_then(|times| to_raw_value(&times).ok())),
    ];
    for (name, part) in &parts {
        if let (Some(own), Some(part)) = (package.0.get_mut(*name), part) {
            *own = part;
        }
    }
    serde_json::to_vec(&package).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::document::Place;
    use crate::resource::Version;

    #[test]
    fn tarballs_have_names_and_versions() {
        for (path, name, number) in [
            ("/left-pad/-/left-pad-1.3.0.tgz", "left-pad", "1.3.0"),
            ("/@types/node/-/node-20.0.0-beta.1.tgz", "@types/node", "20.0.0-beta.1"),
            ("/@types%2fnode/-/node-20.0.0.tgz", "@types/node", "20.0.0"),
            ("/api/npm/npm/left-pad/-/left-pad-1.3.0.tgz", "left-pad", "1.3.0"),
        ] {
            let resource = resource(path).unwrap();
            assert_eq!(resource.kind, Kind::File, "{path}");
            assert_eq!(
                resource.version,
                Some(Version { name: name.into(), number: number.into() }),
                "{path}"
            );
        }
        assert_eq!(resource("/left-pad/-/right-pad-1.3.0.tgz"), None);
        assert_eq!(resource("/left-pad/-/left-pad-1.3.0.zip"), None);
    }

    const LEFT_PAD: &str = r#"{"_id":"left-pad","name":"left-pad","dist-tags":{"latest":"1.3.0","old":"1.2.0"},
        "versions":{
          "1.2.0":{"name":"left-pad","version":"1.2.0","dist":{"shasum":"f572d396fae9206628714fb2ce00f72e94f2258f",
            "tarball":"https://registry.npmjs.org/left-pad/-/left-pad-1.2.0.tgz"}},
          "1.3.0":{"name":"left-pad","version":"1.3.0","dist":{
            "integrity":"sha512-58IrmUxZ2c8rSOVJseJGZmNgRZMNPafBrLKZ0cO3+TH5Sq5B7dosKyB6NuEPi8uNRSI+VIePWzFufOO2vAGWKQ==",
            "tarball":"https://registry.npmjs.org/left-pad/-/left-pad-1.3.0.tgz"}}},
        "time":{"created":"2014-03-14T09:09:16.131Z","1.2.0":"2018-01-12T23:35:42.311Z","1.3.0":"2018-04-09T01:50:25.343Z"}}"#;

    #[test]
    fn each_tarball_has_the_strongest_digest_at_the_registry_that_is_asked() {
        let items = read(LEFT_PAD.as_bytes());
        let of = |url: &str| items.iter().find(|item| item.place == Place::Url(url.into())).unwrap();
        for host in ["", "https://registry.npmjs.org"] {
            let new = of(&format!("{host}/left-pad/-/left-pad-1.3.0.tgz"));
            assert_eq!(new.digest, Some(Digest::of(Algorithm::Sha512, b"hello\n")));
            assert_eq!(new.published, Some(1_523_238_625));
            let old = of(&format!("{host}/left-pad/-/left-pad-1.2.0.tgz"));
            assert_eq!(old.digest, Some(Digest::of(Algorithm::Sha1, b"hello\n")));
        }
    }

    #[test]
    fn tags_of_removed_versions_move_to_the_newest_that_remains() {
        let old = without(LEFT_PAD.as_bytes(), &|number, _| number != "1.3.0").unwrap();
        let old: Value = serde_json::from_slice(&old).unwrap();
        assert_eq!(old["dist-tags"], serde_json::json!({ "latest": "1.2.0", "old": "1.2.0" }));
        assert!(old["versions"].get("1.3.0").is_none() && old["time"].get("1.3.0").is_none());
        let none = without(LEFT_PAD.as_bytes(), &|_, _| false).unwrap();
        let none: Value = serde_json::from_slice(&none).unwrap();
        assert_eq!((&none["dist-tags"], &none["versions"]), (&serde_json::json!({}), &serde_json::json!({})));
    }
}
