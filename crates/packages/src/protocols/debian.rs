//! Debian: `Release` names the indexes of a suite with their digests, and `Packages` the packages with theirs.
//!
//! A package of one name and version may be built again with other content, so that only the digest in the current index
//! makes it immutable.

use super::{Protocol, last_segment};
use crate::digest::{Algorithm, Digest};
use crate::document::{Document, Item};
use crate::resource::{Kind, Resource};

pub(crate) fn resource(path: &str) -> Option<Resource<'_>> {
    let (before, file) = last_segment(path)?;
    let new = |kind| Some(Resource::new(Protocol::Debian, kind));
    if let Some((folder, algorithm)) = last_segment(before).filter(|(folder, _)| folder.ends_with("/by-hash"))
    {
        let digest = match algorithm {
            "SHA256" => Digest::hex(Algorithm::Sha256, file)?,
            "SHA512" => Digest::hex(Algorithm::Sha512, file)?,
            _ => return None,
        };
        let is_packages = last_segment(folder.strip_suffix("/by-hash")?)?.1.starts_with("binary-");
        let kind = if is_packages { Kind::Index(Document::DebianPackages) } else { Kind::Content };
        return new(kind).map(|own| own.with_digest(Some(digest)));
    }
    match file {
        "InRelease" | "Release" => new(Kind::Index(Document::DebianRelease)),
        "Packages" | "Packages.gz" | "Packages.xz" | "Packages.zst" => {
            new(Kind::Index(Document::DebianPackages))
        }
        _ if file.ends_with(".deb") || file.ends_with(".udeb") => new(Kind::File),
        // Further indexes, as of sources and translations.
        _ if before.contains("/dists/") => new(Kind::File),
        _ => None,
    }
}

/// Returns the indexes that a `Release` names with SHA-256.
pub(crate) fn read_release(text: &str) -> Vec<Item<'_>> {
    let lines = text.lines().skip_while(|line| *line != "SHA256:").skip(1);
    let mut items = Vec::new();
    for line in lines.take_while(|line| line.starts_with(' ')) {
        let mut words = line.split_ascii_whitespace();
        if let (Some(digits), Some(_), Some(name)) = (words.next(), words.next(), words.next())
            && let Some(digest) = Digest::hex(Algorithm::Sha256, digits)
        {
            items.push(Item::url(name, Some(digest)));
        }
    }
    items
}

/// Returns the packages that a `Packages` at `path` names.
pub(crate) fn read_packages<'d>(path: &str, text: &'d str) -> Vec<Item<'d>> {
    // Names of files are relative to the root of the archive. An archive without suites has its index there.
    let root = match path.find("/dists/") {
        Some(at) => &path[..at + 1],
        None => &path[..path.rfind('/').map_or(0, |slash| slash + 1)],
    };
    let (mut items, mut name, mut digest) = (Vec::new(), None, None);
    for line in text.lines().chain([""]) {
        if let Some(value) = line.strip_prefix("Filename: ") {
            name = Some(value);
        } else if let Some(value) = line.strip_prefix("SHA256: ") {
            digest = Digest::hex(Algorithm::Sha256, value);
        } else if line.is_empty() {
            let package = name.take().map(|name: &str| Item::url(format!("{root}{name}"), digest));
            items.extend(package.filter(|item| item.digest.is_some()));
            digest = None;
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::Keep;

    const SHA256: &str = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";

    #[test]
    fn only_what_a_digest_names_is_kept() {
        let by_hash = format!("/debian/dists/bookworm/main/binary-amd64/by-hash/SHA256/{SHA256}");
        let source = format!("/debian/dists/bookworm/main/source/by-hash/SHA256/{SHA256}");
        for (path, unknown, known) in [
            ("/debian/dists/bookworm/InRelease", Keep::Validated, Keep::Validated),
            ("/debian/dists/bookworm/main/binary-amd64/Packages.xz", Keep::AsSent, Keep::Forever),
            ("/debian/dists/bookworm/main/i18n/Translation-en.xz", Keep::AsSent, Keep::Forever),
            ("/debian/pool/main/h/hello/hello_2.10-3_amd64.deb", Keep::AsSent, Keep::Forever),
            (&source, Keep::Forever, Keep::Forever),
        ] {
            let found = resource(path).unwrap();
            assert_eq!((found.keep(false), found.keep(true)), (unknown, known), "{path}");
        }
        let found = resource(&by_hash).unwrap();
        assert_eq!(found.kind, Kind::Index(Document::DebianPackages));
        assert_eq!(found.digest, Digest::hex(Algorithm::Sha256, SHA256));
    }

    #[test]
    fn release_names_indexes_and_packages_name_files() {
        let release = format!(
            "Origin: Debian\nSuite: stable\nMD5Sum:\n 00000000000000000000000000000000 1 main/Contents\n\
             SHA256:\n {SHA256}      6 main/binary-amd64/Packages.xz\n {SHA256} 6 main/source/Sources.gz\n-----BEGIN PGP SIGNATURE-----\n"
        );
        let digest = Some(Digest::of(Algorithm::Sha256, b"hello\n"));
        assert_eq!(
            read_release(&release),
            [Item::url("main/binary-amd64/Packages.xz", digest), Item::url("main/source/Sources.gz", digest)]
        );
        let packages = format!(
            "Package: hello\nVersion: 2.10-3\nFilename: pool/main/h/hello_2.10-3_amd64.deb\nSize: 6\nSHA256: {SHA256}\n\n\
             Package: broken\nFilename: pool/b.deb\n"
        );
        for (path, url) in [
            ("/debian/dists/a/main/binary-amd64/Packages", "/debian/pool/main/h/hello_2.10-3_amd64.deb"),
            ("/flat/Packages.gz", "/flat/pool/main/h/hello_2.10-3_amd64.deb"),
        ] {
            assert_eq!(read_packages(path, &packages), [Item::url(url, digest)]);
        }
    }
}
