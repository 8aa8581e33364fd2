//! Maven: artifacts, and files with their digests beside them. Releases do not change, snapshots do.

use super::{Protocol, last_segment};
use crate::digest::{Algorithm, Digest};
use crate::document::{Document, Item};
use crate::resource::{Kind, Resource};

pub(crate) fn resource(path: &str) -> Option<Resource<'_>> {
    let (stem, ending) = path.rsplit_once('.')?;
    let algorithm = match ending {
        "sha1" => Some(Algorithm::Sha1),
        "sha256" => Some(Algorithm::Sha256),
        "sha512" => Some(Algorithm::Sha512),
        _ => None,
    };
    let (name, number) = version(if algorithm.is_some() { stem } else { path })?;
    let kind = match algorithm {
        Some(algorithm) => Kind::Index(Document::MavenDigest(algorithm)),
        None if number.ends_with("-SNAPSHOT") => Kind::File,
        None => Kind::FixedFile,
    };
    Some(Resource::new(Protocol::Maven, kind).of_version(name, number))
}

/// Returns the group with the artifact, and the version of a file: `GROUP/ARTIFACT/VERSION/ARTIFACT-VERSION.ENDING`.
fn version(path: &str) -> Option<(String, &str)> {
    const ENDINGS: [&str; 8] = ["jar", "pom", "war", "aar", "module", "zip", "klib", "asc"];
    let ending = path.rsplit('.').next()?;
    let (folder, file) = last_segment(path)?;
    let (start, number) = last_segment(folder)?;
    let (group, artifact) = last_segment(start)?;
    let rest = file.strip_prefix(artifact)?.strip_prefix('-')?;
    // The files of a snapshot have the time in place of the word.
    let is_own = rest.starts_with(number.strip_suffix("-SNAPSHOT").unwrap_or(number));
    let is_version =
        is_own && number.starts_with(|c: char| c.is_ascii_alphanumeric()) && ENDINGS.contains(&ending);
    let group = group.trim_start_matches('/').replace('/', ".");
    is_version.then(|| (format!("{group}:{artifact}"), number))
}

pub(crate) fn read<'d>(path: &str, algorithm: Algorithm, text: &str) -> Vec<Item<'d>> {
    let digest = text.split_ascii_whitespace().next().and_then(|digits| Digest::hex(algorithm, digits));
    let file = path.rsplit_once('.').map(|(file, _)| file.to_owned());
    file.zip(digest).map(|(file, digest)| Item::url(file, Some(digest))).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::{Keep, Version};

    #[test]
    fn releases_are_kept_and_snapshots_are_not() {
        for (path, name, number, keep) in [
            ("/maven2/junit/junit/4.13.2/junit-4.13.2.jar", "maven2.junit:junit", "4.13.2", Keep::Forever),
            ("/org/a/b/1.0/b-1.0-sources.jar", "org.a:b", "1.0", Keep::Forever),
            ("/org/a/b/1-SNAPSHOT/b-1-20260101.1-1.pom", "org.a:b", "1-SNAPSHOT", Keep::AsSent),
        ] {
            let found = resource(path).unwrap();
            assert_eq!(found.keep(false), keep, "{path}");
            assert_eq!(found.version, Some(Version { name: name.into(), number: number.into() }), "{path}");
        }
        assert_eq!(resource("/maven2/junit/junit/maven-metadata.xml"), None);
    }

    #[test]
    fn the_digest_beside_an_artifact_is_its_own() {
        let path = "/junit/junit/4.13.2/junit-4.13.2.jar.sha1";
        let digest = Digest::of(Algorithm::Sha1, b"hello\n");
        let Kind::Index(document) = resource(path).unwrap().kind else { panic!("a document") };
        let items =
            document.read(path, b"f572d396fae9206628714fb2ce00f72e94f2258f  junit-4.13.2.jar\n", None);
        assert_eq!(items, [Item::url("/junit/junit/4.13.2/junit-4.13.2.jar", Some(digest))]);
    }
}
