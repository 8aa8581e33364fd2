//! RPM: `repomd.xml` names the indexes of a repository with their digests, and `primary.xml` the packages with theirs.

use super::{Protocol, last_segment};
use crate::digest::{Algorithm, Digest};
use crate::document::{Document, Item};
use crate::resource::{Kind, Resource};

pub(crate) fn resource(path: &str) -> Option<Resource<'_>> {
    let (before, file) = last_segment(path)?;
    let new = |kind| Some(Resource::new(Protocol::Rpm, kind));
    if !before.ends_with("/repodata") && before != "repodata" {
        return if file.ends_with(".rpm") { new(Kind::File) } else { None };
    }
    // Indexes have their digest in their names, unless the repository was made without.
    let named = file.split_once('-').and_then(|(digits, _)| Digest::hex(Algorithm::Sha256, digits));
    let kind = match file {
        "repomd.xml" => Kind::Index(Document::RpmRoot),
        _ if file.contains("primary.xml") => Kind::Index(Document::RpmPackages),
        _ if named.is_some() => Kind::Content,
        _ => Kind::File,
    };
    new(kind).map(|own| own.with_digest(named))
}

/// Returns the indexes that a `repomd.xml` names. Their places are relative to the root of the repository, the folder above
/// that of the document.
pub(crate) fn read_root(text: &str) -> Vec<Item<'_>> {
    read(text, "data")
}

/// Returns the packages that a `primary.xml` names.
pub(crate) fn read_packages(text: &str) -> Vec<Item<'_>> {
    read(text, "package")
}

/// Returns what the elements of this name say about their files.
fn read<'d>(text: &'d str, element: &str) -> Vec<Item<'d>> {
    let (begin, end) = (format!("<{element} "), format!("</{element}>"));
    let mut items = Vec::new();
    for part in text.split(begin.as_str()).skip(1) {
        let part = part.split(end.as_str()).next().unwrap_or_default();
        let place = between(part, "<location href=\"", '"').filter(|place| !place.contains(['&', ':']));
        let digest = match between(part, "<checksum type=\"", '"') {
            Some("sha256") => Algorithm::Sha256,
            Some("sha512") => Algorithm::Sha512,
            _ => continue,
        };
        let digits = part.split_once("<checksum type=\"").and_then(|(_, rest)| between(rest, ">", '<'));
        let digest = digits.and_then(|digits| Digest::hex(digest, digits));
        items.extend(place.zip(digest).map(|(place, digest)| Item::url(format!("../{place}"), Some(digest))));
    }
    items
}

/// Returns the text behind `begin` up to `end`.
fn between<'t>(text: &'t str, begin: &str, end: char) -> Option<&'t str> {
    text.split_once(begin)?.1.split(end).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA256: &str = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";

    #[test]
    fn the_root_names_indexes_and_they_name_packages() {
        let digest = Some(Digest::of(Algorithm::Sha256, b"hello\n"));
        let root = format!(
            "<?xml version=\"1.0\"?><repomd><revision>1</revision>\n<data type=\"primary\">\n  <checksum type=\"sha256\">{SHA256}</checksum>\n\
             <open-checksum type=\"sha256\">00</open-checksum>\n  <location href=\"repodata/{SHA256}-primary.xml.gz\"/></data></repomd>"
        );
        let place = format!("../repodata/{SHA256}-primary.xml.gz");
        assert_eq!(read_root(&root), [Item::url(place, digest)]);
        let packages = format!(
            "<metadata packages=\"1\"><package type=\"rpm\"><name>hello</name><checksum type=\"sha256\" pkgid=\"YES\">{SHA256}</checksum>\
             <time file=\"1\" build=\"1\"/><location href=\"Packages/h/hello-1-1.noarch.rpm\"/></package></metadata>"
        );
        assert_eq!(read_packages(&packages), [Item::url("../Packages/h/hello-1-1.noarch.rpm", digest)]);
        let index = format!("/fedora/repodata/{SHA256}-primary.xml.zst");
        let found = resource(&index).unwrap();
        assert_eq!((found.kind, found.digest), (Kind::Index(Document::RpmPackages), digest));
    }
}
