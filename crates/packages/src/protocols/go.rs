//! Go: modules of a proxy, which never change, and the checksum database, whose records and tiles never change either.
//!
//! The database names a version by the hash of its `go.mod` and by that of the files in its archive.

use serde::Deserialize;

use super::{Protocol, last_segment};
use crate::age;
use crate::digest::{Algorithm, Digest};
use crate::document::{Document, Item, Place};
use crate::resource::{Kind, Resource};

pub(crate) fn resource(path: &str) -> Option<Resource<'_>> {
    if is_tile(path) {
        return Some(Resource::new(Protocol::Go, Kind::FixedFile));
    }
    if let Some((_, name, number)) = lookup(path).filter(|(_, _, number)| is_canonical(number)) {
        return Some(Resource::new(Protocol::Go, Kind::FixedIndex(Document::GoSum)).of_version(name, number));
    }
    if let Some(module) = path.strip_suffix("/@latest") {
        let module = module_of(module.strip_prefix('/')?);
        return Some(Resource::new(Protocol::Go, Kind::Index(Document::GoLatest)).of_version(module, ""));
    }
    let (before, file) = last_segment(path)?;
    let module = module_of(before.strip_suffix("/@v")?.strip_prefix('/')?);
    if file == "list" {
        return Some(Resource::new(Protocol::Go, Kind::Index(Document::GoList)).of_version(module, ""));
    }
    let (number, ending) = file.rsplit_once('.').filter(|(number, _)| is_canonical(number))?;
    let kind = match ending {
        "info" => Kind::FixedIndex(Document::GoInfo),
        "mod" | "zip" => Kind::FixedFile,
        _ => return None,
    };
    let coordinate = (kind == Kind::FixedFile).then(|| coordinate(module, number, ending));
    Some(Resource { coordinate, ..Resource::new(Protocol::Go, kind).of_version(module, number) })
}

/// Returns the module at the end of a path: it begins with a domain, behind the folder of the proxy.
fn module_of(path: &str) -> &str {
    let mut start = 0;
    for part in path.split('/') {
        if part.contains('.') {
            return &path[start..];
        }
        start += part.len() + 1;
    }
    path
}

/// Whether it is a version, rather than the name of a branch, which changes: `v1.2.3`, with more behind it or without.
fn is_canonical(number: &str) -> bool {
    let mut parts = number.strip_prefix('v').unwrap_or_default().splitn(3, '.');
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let are_numbers = parts.by_ref().take(2).all(is_number);
    are_numbers && parts.next().is_some_and(|patch| patch.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether it is a tile of the checksum database, of which other databases have other names: `/sumdb/NAME/tile/8/..`.
fn is_tile(path: &str) -> bool {
    let of_proxy = || path.split_once("/sumdb/")?.1.split_once("/tile/").map(|(_, tile)| tile);
    let Some(tile) = path.strip_prefix("/tile/").or_else(of_proxy) else { return false };
    let is_number = |part: &str| part.len() <= 4 && part.trim_start_matches('x').parse::<u16>().is_ok();
    let mut parts = tile.split('/').map(|part| part.strip_suffix(".p").unwrap_or(part));
    parts.next() == Some("8") && parts.all(|part| part == "data" || is_number(part))
}

/// Returns what is before the database in its path, and the module and the version of a record.
fn lookup(path: &str) -> Option<(&str, &str, &str)> {
    let (before, version) = path.split_once("/lookup/")?;
    let (proxy, _) = before.split_once("/sumdb/").unwrap_or(("", before));
    // A module path has slashes.
    let (module, number) = version.rsplit_once('@')?;
    Some((proxy, module, number))
}

fn coordinate(module: &str, number: &str, ending: &str) -> String {
    format!("go:{module}@{number}.{ending}")
}

pub(crate) fn read_sum<'d>(path: &str, text: &'d str) -> Vec<Item<'d>> {
    let Some((proxy, module, number)) = lookup(path) else { return Vec::new() };
    let item = |line: &'d str| {
        let mut words = line.split_ascii_whitespace();
        let (_, name, digest) = (words.next()?, words.next()?, words.next()?);
        // The path has the escaped form of the module, as the paths of its files have.
        let (ending, algorithm) = match name.strip_prefix(number)? {
            "" => ("zip", Algorithm::GoZip),
            "/go.mod" => ("mod", Algorithm::GoMod),
            _ => return None,
        };
        let name = coordinate(module, number, ending);
        let place = Place::Coordinate(name, Some(format!("{proxy}/{module}/@v/{number}.{ending}")));
        Some(Item { place, digest: Some(Digest::go(algorithm, digest)?), published: None })
    };
    text.lines().filter_map(item).collect()
}

/// Returns the versions in a list, each with the document that dates it.
pub(crate) fn files(list: &str) -> Vec<(String, String)> {
    numbers(list).map(|number| (number.to_owned(), format!("{number}.info"))).collect()
}

fn numbers(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter_map(|line| line.split_ascii_whitespace().next())
}

/// Returns the list without the versions that are not `kept`.
pub(crate) fn without(list: &str, kept: &dyn Fn(&str, Option<u32>) -> bool) -> Vec<u8> {
    let kept = numbers(list).filter(|number| kept(number, None));
    kept.flat_map(|number| [number, "\n"]).collect::<String>().into_bytes()
}

#[derive(Deserialize)]
struct Info {
    #[serde(rename = "Version", default)]
    version: String,
    #[serde(rename = "Time", default)]
    time: String,
}

/// Returns the description of the newest version; nothing of one that is not `kept`.
pub(crate) fn latest(content: &[u8], kept: &dyn Fn(&str, Option<u32>) -> bool) -> Option<Vec<u8>> {
    let info = serde_json::from_slice::<Info>(content).ok()?;
    let is_kept = kept(&info.version, age::date(&info.time));
    Some(if is_kept { content.to_vec() } else { Vec::new() })
}

pub(crate) fn read_info<'d>(path: &str, content: &[u8]) -> Vec<Item<'d>> {
    let published = serde_json::from_slice::<Info>(content).ok().and_then(|info| age::date(&info.time));
    let Some(own) = resource(path).and_then(|own| own.version) else { return Vec::new() };
    let item = |ending| Item {
        place: Place::Coordinate(coordinate(&own.name, &own.number, ending), None),
        digest: None,
        published,
    };
    let itself = Item::url(path.to_owned(), None).published(published);
    ["mod", "zip"].map(item).into_iter().chain([itself]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::Keep;

    #[test]
    fn files_of_versions_are_fixed_and_lists_and_branches_are_not() {
        for (path, kind) in [
            ("/rsc.io/quote/@v/v1.5.2.mod", Kind::FixedFile),
            ("/github.com/!azure/sdk/@v/v1.0.0-rc.1.zip", Kind::FixedFile),
            ("/rsc.io/quote/@v/v0.0.0-20170915032832-14c0d48ead0c.info", Kind::FixedIndex(Document::GoInfo)),
            ("/sumdb/sum.golang.org/lookup/rsc.io/quote@v1.5.2", Kind::FixedIndex(Document::GoSum)),
            ("/sumdb/sum.golang.org/tile/8/0/x281/631.p/38", Kind::FixedFile),
            ("/proxy/sumdb/sum.golang.org/tile/8/data/x259/091", Kind::FixedFile),
            ("/tile/8/1/792.p/97", Kind::FixedFile),
        ] {
            let found = resource(path).unwrap();
            assert_eq!((found.kind, found.keep(false)), (kind, Keep::Forever), "{path}");
        }
        for path in [
            "/rsc.io/quote/latest",
            "/rsc.io/quote/list",
            "/rsc.io/quote/@v/master.zip",
            "/rsc.io/quote/@v/v2.info",
            "/sumdb/sum.golang.org/latest",
            "/sumdb/sum.golang.org/lookup/rsc.io/quote@main",
            "/maps/tile/8/1/792",
            "/tile/8/1/792.png",
        ] {
            assert_eq!(resource(path), None, "{path}");
        }
    }

    #[test]
    fn the_checksum_database_names_both_files_of_a_version() {
        let record = "2\nrsc.io/quote v1.5.2 h1:w5fcysjrx7yqtD/aO+QwRjYZOKnaM9Uh2b40tElTs3Y=\n\
                      rsc.io/quote v1.5.2/go.mod h1:LzX7hefJvL54yjefDEDHNONDjII0t9xZLPXsUe+TKr0=\n\ngo.sum database tree\n";
        let content = b"module \"rsc.io/quote\"\n\nrequire \"rsc.io/sampler\" v1.3.0\n";
        for (database, proxy) in [("/sumdb/sum.golang.org", ""), ("/a/sumdb/sum.golang.org", "/a"), ("", "")]
        {
            let items = read_sum(&format!("{database}/lookup/rsc.io/quote@v1.5.2"), record);
            let [zip, module] = &items[..] else { panic!("two items") };
            for (item, ending) in [(zip, "zip"), (module, "mod")] {
                let path = format!("{proxy}/rsc.io/quote/@v/v1.5.2.{ending}");
                let name = resource(&path).unwrap().coordinate.unwrap();
                assert_eq!(item.place, Place::Coordinate(name, Some(path)));
            }
            assert_eq!(module.digest, Some(Digest::of(Algorithm::GoMod, content)));
            assert!(zip.digest.is_some());
        }
    }

    #[test]
    fn the_info_of_a_version_dates_its_files() {
        let info = br#"{"Version":"v1.5.2","Time":"2018-02-14T15:44:20Z"}"#;
        let items = read_info("/rsc.io/quote/@v/v1.5.2.info", info);
        assert!(items.len() == 3 && items.iter().all(|item| item.published == Some(1_518_623_060)));
    }
}
