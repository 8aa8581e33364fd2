//! Go: modules of a proxy, which never change, and the checksum database.
//!
//! The database names a version by the hash of its `go.mod`, which is verified here, and by the hash of the files in its
//! archive, which clients verify.

use serde::Deserialize;

use super::{Protocol, last_segment};
use crate::age;
use crate::digest::Digest;
use crate::document::{Document, Item, Place};
use crate::resource::{Kind, Resource};

pub(crate) fn resource(path: &str) -> Option<Resource<'_>> {
    let (before, file) = last_segment(path)?;
    if let Some((_, version)) = path.split_once("/lookup/") {
        // A module path has slashes.
        let (name, number) = version.rsplit_once('@')?;
        return Some(Resource::new(Protocol::Go, Kind::Index(Document::GoSum)).of_version(name, number));
    }
    let module = before.strip_suffix("/@v")?.strip_prefix('/')?;
    let (number, ending) = file.rsplit_once('.').filter(|(number, _)| number.starts_with('v'))?;
    let kind = match ending {
        "info" => Kind::Index(Document::GoInfo),
        "mod" | "zip" => Kind::FixedFile,
        _ => return None,
    };
    let coordinate = (kind == Kind::FixedFile).then(|| coordinate(module, number, ending));
    Some(Resource { coordinate, ..Resource::new(Protocol::Go, kind).of_version(module, number) })
}

fn coordinate(module: &str, number: &str, ending: &str) -> String {
    format!("go:{module}@{number}.{ending}")
}

pub(crate) fn read_sum<'d>(path: &str, text: &'d str) -> Vec<Item<'d>> {
    let version = path.split_once("/lookup/").and_then(|(_, version)| version.rsplit_once('@'));
    let Some((module, number)) = version else { return Vec::new() };
    // The path has the escaped form of the module, as the paths of its files have.
    let is_own = |name: &str| name.strip_suffix("/go.mod") == Some(number);
    let line = |line: &'d str| {
        let mut words = line.split_ascii_whitespace();
        let (_, name, digest) = (words.next()?, words.next()?, words.next()?);
        is_own(name).then(|| Digest::go_mod(digest))?
    };
    let digest = text.lines().find_map(line);
    let place = || Place::Coordinate(coordinate(module, number, "mod"));
    digest.map(|digest| Item { place: place(), digest: Some(digest), published: None }).into_iter().collect()
}

#[derive(Deserialize)]
struct Info {
    #[serde(rename = "Time")]
    time: String,
}

pub(crate) fn read_info<'d>(path: &str, content: &[u8]) -> Vec<Item<'d>> {
    let published = serde_json::from_slice::<Info>(content).ok().and_then(|info| age::date(&info.time));
    let Some(own) = resource(path).and_then(|own| own.version) else { return Vec::new() };
    let item = |ending| Item {
        place: Place::Coordinate(coordinate(&own.name, &own.number, ending)),
        digest: None,
        published,
    };
    ["mod", "zip"].map(item).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Algorithm;
    use crate::resource::Keep;

    #[test]
    fn files_of_versions_are_fixed_and_lists_are_not() {
        for path in ["/rsc.io/quote/@v/v1.5.2.mod", "/github.com/!azure/sdk/@v/v1.0.0-rc.1.zip"] {
            let found = resource(path).unwrap();
            assert_eq!((found.kind, found.keep(false)), (Kind::FixedFile, Keep::Forever), "{path}");
        }
        for path in ["/rsc.io/quote/@v/list", "/rsc.io/quote/@latest", "/rsc.io/quote/@v/master.zip"] {
            assert_eq!(resource(path), None, "{path}");
        }
    }

    #[test]
    fn the_checksum_database_names_the_go_mod_of_a_version() {
        let path = "/sumdb/sum.golang.org/lookup/rsc.io/quote@v1.5.2";
        let record = "2\nrsc.io/quote v1.5.2 h1:w5fcysjrx7yqtD/aO+QwRjYZOKnaM9Uh2b40tElTs3Y=\n\
                      rsc.io/quote v1.5.2/go.mod h1:LzX7hefJvL54yjefDEDHNONDjII0t9xZLPXsUe+TKr0=\n\ngo.sum database tree\n";
        let content = b"module \"rsc.io/quote\"\n\nrequire \"rsc.io/sampler\" v1.3.0\n";
        let coordinate = resource("/rsc.io/quote/@v/v1.5.2.mod").unwrap().coordinate.unwrap();
        let [item] = &read_sum(path, record)[..] else { panic!("one item") };
        assert_eq!(item.place, Place::Coordinate(coordinate));
        assert_eq!(item.digest, Some(Digest::of(Algorithm::GoMod, content)));
    }

    #[test]
    fn the_info_of_a_version_dates_its_files() {
        let info = br#"{"Version":"v1.5.2","Time":"2018-02-14T15:44:20Z"}"#;
        let dated = |item: &Item<'_>| item.published == Some(1_518_623_060);
        assert!(read_info("/rsc.io/quote/@v/v1.5.2.info", info).iter().all(dated));
    }
}
