//! RubyGems: the compact index, one document for each gem (its second version has dates), and gems.

use super::{Protocol, last_segment};
use crate::age;
use crate::digest::{Algorithm, Digest};
use crate::document::{Document, Item};
use crate::resource::{Kind, Resource};

pub(crate) fn resource(path: &str) -> Option<Resource<'_>> {
    let (before, file) = last_segment(path)?;
    if let Some(stem) = file.strip_suffix(".gem").filter(|_| before.ends_with("/gems")) {
        let (name, number) = version(stem)?;
        return Some(Resource::new(Protocol::Rubygems, Kind::File).of_version(name, number));
    }
    // The specification of a version, which its file has as well.
    if let Some(stem) = file.strip_suffix(".gemspec.rz").filter(|_| before.ends_with("/quick/Marshal.4.8")) {
        let (name, number) = version(stem)?;
        return Some(Resource::new(Protocol::Rubygems, Kind::FixedFile).of_version(name, number));
    }
    let is_document = before.ends_with("/info") && !file.is_empty();
    is_document.then(|| Resource::new(Protocol::Rubygems, Kind::Index(Document::Gem)).of_version(file, ""))
}

/// Returns the gem and the version that a file is named after, with its platform: `NAME-VERSION[-PLATFORM]`.
fn version(stem: &str) -> Option<(&str, &str)> {
    let mut at = stem.match_indices('-').map(|(at, _)| at);
    let at = at.rfind(|at| stem[at + 1..].starts_with(|c: char| c.is_ascii_digit()))?;
    Some((&stem[..at], &stem[at + 1..]))
}

/// Returns the version in a line of a document, and its date.
fn dated(line: &str) -> Option<(&str, Option<u32>)> {
    let (number, _) = line.split_once(' ')?;
    Some((number, requirement(line, "created_at:").and_then(age::date)))
}

/// Returns what follows `name` among the requirements in a line.
fn requirement<'l>(line: &'l str, name: &str) -> Option<&'l str> {
    line.rsplit_once('|')?.1.split(',').find_map(|part| part.strip_prefix(name))
}

pub(crate) fn read<'d>(path: &str, text: &'d str) -> Vec<Item<'d>> {
    let Some((root, gem)) = path.rsplit_once("/info/") else { return Vec::new() };
    let item = |line: &str| {
        let (number, published) = dated(line)?;
        let digest = Digest::hex(Algorithm::Sha256, requirement(line, "checksum:")?)?;
        Some(Item::url(format!("{root}/gems/{gem}-{number}.gem"), Some(digest)).published(published))
    };
    text.lines().filter_map(item).collect()
}

/// Returns the versions without a date, each with its file.
pub(crate) fn undated(path: &str, text: &str) -> Vec<(String, String)> {
    let gem = path.rsplit('/').next().unwrap_or_default();
    let numbers = text.lines().filter_map(dated).filter(|(_, date)| date.is_none());
    numbers.map(|(number, _)| (number.to_owned(), format!("../gems/{gem}-{number}.gem"))).collect()
}

/// Returns the document without the versions that are not `kept`.
pub(crate) fn without(text: &str, kept: &dyn Fn(&str, Option<u32>) -> bool) -> Vec<u8> {
    let is_kept = |line: &&str| dated(line.trim_end()).is_none_or(|(number, date)| kept(number, date));
    text.split_inclusive('\n').filter(is_kept).collect::<String>().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_of_a_gem_names_its_files() {
        let sum = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
        let text = format!(
            "---\n1.0.0 rack:>= 2|checksum:{sum},ruby:>= 3.0\n\
             1.1.0-x86_64-linux |checksum:{sum},created_at:2024-05-01T12:00:00Z\n2.0\n"
        );
        let digest = Some(Digest::of(Algorithm::Sha256, b"hello\n"));
        let dated = Some(1_714_564_800);
        let files = [("/gems/a-1.0.0.gem", None), ("/gems/a-1.1.0-x86_64-linux.gem", dated)];
        assert_eq!(read("/info/a", &text), files.map(|(file, date)| Item::url(file, digest).published(date)));
        assert_eq!(undated("/info/a", &text), [("1.0.0".to_owned(), "../gems/a-1.0.0.gem".to_owned())]);
        let left = without(&text, &|_, date| date == dated);
        assert!(left.starts_with(b"---\n1.1.0-x86_64-linux ") && left.ends_with(b"00Z\n2.0\n"));
        let version = resource("/gems/rack-test-2.1.0.gem").unwrap().version.unwrap();
        assert_eq!((&*version.name, &*version.number), ("rack-test", "2.1.0"));
    }
}
