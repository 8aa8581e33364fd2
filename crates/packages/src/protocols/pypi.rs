//! Python: the simple index in HTML (PEP 503) and JSON (PEP 691, dates by PEP 700), wheels and source archives, and the
//! metadata beside wheels (PEP 658).

use std::borrow::Cow;
use std::collections::HashSet;

use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};

use super::{Protocol, last_segment};
use crate::age;
use crate::digest::{Algorithm, Digest};
use crate::document::{Document, Item, text};
use crate::json::{List, Object, parsed};
use crate::resource::{Kind, Resource};

pub(crate) fn resource(path: &str) -> Option<Resource<'_>> {
    let (before, file) = last_segment(path)?;
    if let Some((name, number)) = version(before, file) {
        return Some(Resource::new(Protocol::Pypi, Kind::File).of_version(name, number));
    }
    let (index, name) = last_segment(path.strip_suffix('/').unwrap_or(path))?;
    let is_index = matches!(last_segment(index), Some((_, "simple" | "+simple")));
    (is_index && !name.is_empty()).then(|| {
        Resource::new(Protocol::Pypi, Kind::Index(Document::PypiProject)).of_version(normal(name), "")
    })
}

/// Returns the normal form of a project's name and the version of a file. Archives of other programs have the same
/// endings as source archives: these have the folders of indexes.
fn version<'p>(before: &str, file: &'p str) -> Option<(String, &'p str)> {
    if let Some(stem) = file.strip_suffix(".metadata").unwrap_or(file).strip_suffix(".whl") {
        let (name, rest) = stem.split_once('-')?;
        return Some((normal(name), rest.split('-').next()?));
    }
    let is_of_index = ["/packages", "/+f/", "/simple/"].iter().any(|folder| before.contains(folder));
    let stem = [".tar.gz", ".zip", ".tar.bz2"].iter().find_map(|end| file.strip_suffix(end))?;
    let (name, number) = stem.rsplit_once('-').filter(|_| is_of_index)?;
    Some((normal(name), number))
}

/// Returns a name in the form in which indexes compare names (PEP 503).
fn normal(name: &str) -> String {
    let mut normal = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if normal.ends_with('-') => {}
            '-' | '_' | '.' => normal.push('-'),
            _ => normal.extend(c.to_lowercase()),
        }
    }
    normal
}

#[derive(Deserialize)]
struct Project<'d> {
    #[serde(borrow)]
    files: List<ProjectFile<'d>>,
}

#[derive(Deserialize)]
struct ProjectFile<'d> {
    #[serde(borrow)]
    url: Cow<'d, str>,
    #[serde(borrow, default)]
    hashes: Option<&'d RawValue>,
    #[serde(rename = "upload-time", default)]
    uploaded: Option<String>,
    /// The digests of the metadata, or a flag.
    #[serde(rename = "core-metadata", borrow, default)]
    metadata: Option<&'d RawValue>,
}

#[derive(Default, Deserialize)]
struct Hashes<'d> {
    #[serde(borrow, default)]
    sha256: Option<Cow<'d, str>>,
    #[serde(borrow, default)]
    sha512: Option<Cow<'d, str>>,
}

/// The name of a file, and when it was published.
#[derive(Deserialize)]
struct DatedFile<'d> {
    #[serde(borrow)]
    filename: Cow<'d, str>,
    #[serde(rename = "upload-time", borrow, default)]
    uploaded: Option<&'d RawValue>,
}

pub(crate) fn read(content: &[u8]) -> Vec<Item<'_>> {
    let is_json = content.trim_ascii_start().starts_with(b"{");
    match (is_json, std::str::from_utf8(content)) {
        (true, _) => serde_json::from_slice(content).map(read_json).unwrap_or_default(),
        (false, Ok(html)) => read_html(html),
        (false, Err(_)) => Vec::new(),
    }
}

fn read_json(project: Project<'_>) -> Vec<Item<'_>> {
    let mut items = Vec::with_capacity(project.files.0.len());
    for file in project.files.0 {
        let published = file.uploaded.as_deref().and_then(age::date);
        let metadata = file.metadata.and_then(parsed::<Hashes<'_>>).and_then(|hashes| hashes.sha256);
        let metadata = metadata.and_then(|digits| Digest::hex(Algorithm::Sha256, &digits));
        items.extend(beside(&file.url, metadata).map(|item| item.published(published)));
        let hashes = file.hashes.and_then(parsed::<Hashes<'_>>).unwrap_or_default();
        let digest = hashes.sha256.and_then(|digits| Digest::hex(Algorithm::Sha256, &digits));
        let digest = digest.or_else(|| Digest::hex(Algorithm::Sha512, &hashes.sha512?));
        items.push(Item::url(file.url, digest).published(published));
    }
    items
}

/// Returns the metadata beside a file.
fn beside<'d>(url: &str, digest: Option<Digest>) -> Option<Item<'d>> {
    let file = url.split(['#', '?']).next()?;
    Some(Item::url(format!("{file}.metadata"), Some(digest?)))
}

fn read_html(html: &str) -> Vec<Item<'_>> {
    let mut items = Vec::new();
    for (_, tag) in tags(html) {
        let Some(url) = attribute(tag, "href").map(unescaped) else { continue };
        let metadata =
            attribute(tag, "data-core-metadata").or_else(|| attribute(tag, "data-dist-info-metadata"));
        let digest = |text: &str| {
            let (name, digits) = text.split_once('=')?;
            let algorithm =
                [Algorithm::Sha256, Algorithm::Sha512].into_iter().find(|own| own.name() == name)?;
            Digest::hex(algorithm, digits)
        };
        items.extend(beside(&url, metadata.and_then(digest)));
        let own = url.split_once('#').and_then(|(_, fragment)| digest(fragment));
        items.push(Item::url(url, own));
    }
    items
}

/// Iterates over the tags of links, without their angle brackets, each behind the place where it begins. None begins in
/// another one, so that each byte is read once, whatever an origin sends.
fn tags(html: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut done = 0;
    html.match_indices('<').filter_map(move |(at, _)| {
        let (b'a' | b'A', space) = (*html.as_bytes().get(at + 1)?, html.as_bytes().get(at + 2)?) else {
            return None;
        };
        let tag = Some(&html[at + 2..]).filter(|_| at >= done && space.is_ascii_whitespace())?;
        let end = tag.find('>');
        done = end.map_or(html.len(), |end| at + 2 + end);
        Some((at, &tag[..end?]))
    })
}

/// Returns the value of an attribute in quotation marks.
fn attribute<'h>(tag: &'h str, name: &str) -> Option<&'h str> {
    let mut rest = tag;
    while let Some(at) = rest.find(name) {
        let is_begin = rest[..at].ends_with(|c: char| c.is_ascii_whitespace());
        rest = &rest[at + name.len()..];
        let value = rest.trim_start().strip_prefix('=').map(str::trim_start).filter(|_| is_begin);
        if let Some(value) = value
            && let Some(mark) = value.chars().next().filter(|mark| matches!(mark, '"' | '\''))
        {
            return value[1..].split(mark).next();
        }
    }
    None
}

fn unescaped(text: &str) -> Cow<'_, str> {
    match text.contains('&') {
        true => text.replace("&amp;", "&").into(),
        false => text.into(),
    }
}

/// Returns the version of the file that a link is for, and the reference to it.
fn linked(tag: &str) -> Option<(String, String)> {
    let url = unescaped(attribute(tag, "href")?);
    let (path, _) = url.split_once(['#', '?']).unwrap_or((&url, ""));
    let file = percent_decode_str(path.rsplit('/').next()?).decode_utf8().ok()?;
    Some((version("/packages", &file)?.1.to_owned(), path.to_owned()))
}

/// Returns the versions of the files in HTML, which has no dates, each with its file.
pub(crate) fn undated(content: &[u8]) -> Vec<(String, String)> {
    match content.trim_ascii_start().starts_with(b"{") {
        true => Vec::new(),
        false => tags(text(content)).filter_map(|(_, tag)| linked(tag)).collect(),
    }
}

/// Returns HTML without the links to files whose versions are not `kept`.
fn without_links(html: &str, kept: &dyn Fn(&str, Option<u32>) -> bool) -> String {
    let (mut left, mut done) = (String::new(), 0);
    for (at, tag) in tags(html) {
        if at < done || linked(tag).is_some_and(|(number, _)| kept(&number, None)) {
            continue;
        }
        left.push_str(&html[done..at]);
        done = html[at..].find("</a>").map_or(html.len(), |end| at + end + "</a>".len());
    }
    left + &html[done..]
}

/// Returns the document without the files whose versions are not `kept`. `None` if it is another document.
pub(crate) fn without(content: &[u8], kept: &dyn Fn(&str, Option<u32>) -> bool) -> Option<Vec<u8>> {
    if !content.trim_ascii_start().starts_with(b"{") {
        return Some(without_links(text(content), kept).into_bytes());
    }
    let mut project: Object<'_> = serde_json::from_slice(content).ok()?;
    let (mut left, List::<&RawValue>(mut files)) = (HashSet::new(), project.get("files")?);
    files.retain(|file| {
        let Some(file) = parsed::<DatedFile<'_>>(file) else { return false };
        let Some((_, number)) = version("/packages", &file.filename) else { return false };
        let date = file.uploaded.and_then(parsed::<String>).and_then(|date| age::date(&date));
        let is_kept = kept(number, date);
        is_kept && (left.contains(number) || left.insert(number.to_owned()))
    });
    let versions = project.get("versions").map(|List::<&RawValue>(mut versions)| {
        versions.retain(|number| parsed::<String>(number).is_some_and(|number| left.contains(&number)));
        versions
    });
    let parts = [("files", Some(files)), ("versions", versions)];
    let parts = parts.map(|(name, part)| Some((name, to_raw_value(&part?).ok()?)));
    for (name, part) in parts.iter().flatten() {
        project.0.insert((*name).to_owned(), part);
    }
    serde_json::to_vec(&project).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::document::Place;
    use crate::resource::Version;

    const SHA256: &str = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";

    #[test]
    fn files_have_names_and_versions() {
        for (path, name, number) in [
            ("/packages/ab/cd/e/Flask_SQLAlchemy-3.1.1-py3-none-any.whl", "flask-sqlalchemy", "3.1.1"),
            ("/base/pypi/+f/ab1/cd2/six-1.16.0-py2.py3-none-any.whl.metadata", "six", "1.16.0"),
            ("/packages/ab/cd/e/zope.interface-6.0.tar.gz", "zope-interface", "6.0"),
            ("/simple/six/six-1.0.tar.gz", "six", "1.0"),
        ] {
            let found = resource(path).unwrap();
            let expected = Version { name: name.into(), number: number.into() };
            assert_eq!((found.kind, found.version), (Kind::File, Some(expected)), "{path}");
        }
        assert_eq!(resource("/releases/larder-1.0.tar.gz"), None);
    }

    #[test]
    fn projects_are_documents_below_a_simple_index() {
        for path in ["/simple/six/", "/simple/six", "/base/pypi/+simple/Six/"] {
            let found = resource(path).unwrap();
            assert_eq!(found.kind, Kind::Index(Document::PypiProject), "{path}");
            assert_eq!(found.version.unwrap().name, "six", "{path}");
        }
        assert_eq!(resource("/simple/"), None);
    }

    #[test]
    fn both_forms_name_the_same_files_and_digests() {
        let html = format!(
            "<!DOCTYPE html><html><body>\n<a href=\"../../packages/six-1.16.0-py2.py3-none-any.whl#sha256={SHA256}\" \
             data-dist-info-metadata=\"sha256={SHA256}\" data-requires-python=\"&gt;=2.7\">six</a><br/>\n</body></html>"
        );
        let json = format!(
            r#"{{"meta":{{"api-version":"1.1"}},"name":"six","versions":["1.16.0"],"files":[{{
                "filename":"six-1.16.0-py2.py3-none-any.whl","url":"../../packages/six-1.16.0-py2.py3-none-any.whl",
                "hashes":{{"sha256":"{SHA256}"}},"core-metadata":{{"sha256":"{SHA256}"}},"size":6,
                "upload-time":"2021-05-05T14:18:17.237Z"}}]}}"#
        );
        let digest = Some(Digest::of(Algorithm::Sha256, b"hello\n"));
        for (content, published) in [(html, None), (json, Some(1_620_224_297))] {
            let items = read(content.as_bytes());
            let of = |end: &str| {
                let is_it = |item: &&Item<'_>| match &item.place {
                    Place::Url(url) => url.split('#').next().is_some_and(|url| url.ends_with(end)),
                    _ => false,
                };
                items.iter().find(is_it).unwrap()
            };
            assert_eq!((of(".whl").digest, of(".whl").published), (digest, published));
            assert_eq!(of(".whl.metadata").digest, digest);
        }
    }

    #[test]
    fn files_of_young_versions_vanish_with_their_versions() {
        let json = br#"{"name":"six","versions":["1.0","2.0"],"files":[
            {"filename":"six-1.0.tar.gz","url":"a","upload-time":"2021-05-05T14:18:17Z"},
            {"filename":"six-2.0.tar.gz","url":"b"}]}"#;
        let left: Value = serde_json::from_slice(&without(json, &|_, date| date.is_some()).unwrap()).unwrap();
        assert_eq!(left["versions"], serde_json::json!(["1.0"]));
        assert_eq!(left["files"].as_array().unwrap().len(), 1);
        let html =
            b"<p><a href='a/six-1.0.tar.gz'>six</a> <a href='b/six-2.0.tar.gz#sha256=0'>six</a><A name=x>";
        assert_eq!(undated(html)[1], ("2.0".to_owned(), "b/six-2.0.tar.gz".to_owned()));
        let left = without(html, &|number, _| number == "2.0").unwrap();
        assert_eq!(left, b"<p> <a href='b/six-2.0.tar.gz#sha256=0'>six</a>");
        assert_eq!(undated(b"<a href='six-1.0.zip' <a href='six-2.0.zip'><a href='six-3.0.zip'").len(), 1);
    }

    #[test]
    fn links_without_end_are_read_once() {
        for part in ["<a href=", "<!--", "<a <"] {
            assert_eq!(read(part.repeat(1 << 18).as_bytes()), [], "{part}");
        }
    }
}
