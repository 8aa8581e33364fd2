//! Maven: artifacts, and files with their digests beside them. Releases do not change, snapshots do.

use super::{Protocol, last_segment};
use crate::digest::{Algorithm, Digest};
use crate::document::{Document, Item};
use crate::resource::{Kind, Resource};

/// The document with all versions of an artifact.
const VERSIONS: &str = "/maven-metadata.xml";

pub(crate) fn resource(path: &str) -> Option<Resource<'_>> {
    let beside = path.strip_suffix(".sha1").unwrap_or(path);
    if let Some(folder) = beside.strip_suffix(VERSIONS) {
        let is_beside = beside.len() < path.len();
        let document = if is_beside { Document::MavenVersionsDigest } else { Document::MavenVersions };
        let name = named(last_segment(folder)?);
        return Some(Resource::new(Protocol::Maven, Kind::Index(document)).of_version(name, ""));
    }
    let (stem, ending) = path.rsplit_once('.')?;
    let algorithm = match ending {
        "sha1" => Some(Algorithm::Sha1),
        "sha256" => Some(Algorithm::Sha256),
        "sha512" => Some(Algorithm::Sha512),
        _ => None,
    };
    let (name, number) = version(if algorithm.is_some() { stem } else { path })?;
    let kind = match (algorithm.map(Document::MavenDigest), number.ends_with("-SNAPSHOT")) {
        (Some(digest), true) => Kind::Index(digest),
        (Some(digest), false) => Kind::FixedIndex(digest),
        (None, true) => Kind::File,
        (None, false) => Kind::FixedFile,
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
    is_version.then(|| (named((group, artifact)), number))
}

/// Returns the name of an artifact, by its folder.
fn named((group, artifact): (&str, &str)) -> String {
    let group = group.trim_start_matches('/').replace('/', ".");
    format!("{group}:{artifact}")
}

/// Returns what is before the versions in a document, the versions, and what is behind them.
fn split(text: &str) -> Option<(&str, Vec<&str>, &str)> {
    let (before, rest) = text.split_once("<versions>")?;
    let (list, behind) = rest.split_once("</versions>")?;
    let parts = list.split("</version>").filter_map(|part| part.split_once("<version>"));
    Some((before, parts.map(|(_, number)| number.trim()).collect(), behind))
}

/// Returns the versions in a document, each with a file of it.
pub(crate) fn files(path: &str, text: &str) -> Vec<(String, String)> {
    let artifact = path.strip_suffix(VERSIONS).and_then(last_segment).map(|(_, artifact)| artifact);
    let (Some(artifact), Some((_, numbers, _))) = (artifact, split(text)) else { return Vec::new() };
    let file = |number: &str| (number.to_owned(), format!("{number}/{artifact}-{number}.pom"));
    numbers.into_iter().map(file).collect()
}

/// Returns the document without the versions that are not `kept`; the last ones that are left become the latest one and the latest
/// release. `None` if it is another document.
pub(crate) fn without(text: &str, kept: &dyn Fn(&str, Option<u32>) -> bool) -> Option<Vec<u8>> {
    let (before, mut left, behind) = split(text)?;
    left.retain(|number| kept(number, None));
    let list: String = left.iter().map(|number| format!("<version>{number}</version>")).collect();
    let mut text = format!("{before}<versions>{list}</versions>{behind}");
    for (name, is_release) in [("latest", false), ("release", true)] {
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        let newest = left.iter().rfind(|number| !is_release || !number.ends_with("-SNAPSHOT"));
        if let Some((start, rest)) = text.split_once(&open)
            && let Some((number, end)) = rest.split_once(&close)
            && !left.contains(&number.trim())
        {
            let element = newest.map_or_else(String::new, |number| format!("{open}{number}{close}"));
            text = format!("{start}{element}{end}");
        }
    }
    Some(text.into_bytes())
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
            ("/org/a/b/1.0/b-1.0.pom.sha1", "org.a:b", "1.0", Keep::Forever),
            ("/org/a/b/1-SNAPSHOT/b-1-20260101.1-1.pom", "org.a:b", "1-SNAPSHOT", Keep::AsSent),
        ] {
            let found = resource(path).unwrap();
            assert_eq!(found.keep(false), keep, "{path}");
            assert_eq!(found.version, Some(Version { name: name.into(), number: number.into() }), "{path}");
        }
        let versions = resource("/maven2/junit/junit/maven-metadata.xml").unwrap();
        assert_eq!(versions.kind, Kind::Index(Document::MavenVersions));
        assert_eq!(versions.version.unwrap().name, "maven2.junit:junit");
    }

    #[test]
    fn the_latest_version_is_the_last_that_is_left() {
        let text = "<metadata><versioning><latest>3-SNAPSHOT</latest><release>2</release><versions>\n\
            <version>1</version>\n<version>2</version><version>3-SNAPSHOT</version></versions></versioning></metadata>";
        let left = String::from_utf8(without(text, &|number, _| number != "2").unwrap()).unwrap();
        assert!(
            left.contains("<latest>3-SNAPSHOT</latest><release>1</release><versions><version>1<"),
            "{left}"
        );
        let none = String::from_utf8(without(text, &|_, _| false).unwrap()).unwrap();
        assert_eq!(none, "<metadata><versioning><versions></versions></versioning></metadata>");
        assert_eq!(files("/a/b/maven-metadata.xml", text)[1], ("2".to_owned(), "2/b-2.pom".to_owned()));
    }

    #[test]
    fn the_digest_beside_an_artifact_is_its_own() {
        let path = "/junit/junit/4.13.2/junit-4.13.2.jar.sha1";
        let digest = Digest::of(Algorithm::Sha1, b"hello\n");
        let document = resource(path).unwrap().document().unwrap();
        let (file, signature) = (&path[..path.len() - 5], path.replace(".sha1", ".asc"));
        assert_eq!(resource(file).unwrap().digest_beside(file).as_deref(), Some(path));
        assert_eq!(resource(&signature).and_then(|own| own.digest_beside(&signature)), None);
        let items =
            document.read(path, b"f572d396fae9206628714fb2ce00f72e94f2258f  junit-4.13.2.jar\n", None);
        assert_eq!(items, [Item::url(file, Some(digest))]);
    }
}
