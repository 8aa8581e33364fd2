//! RubyGems: the compact index, one document for each gem, and gems.

use super::{Protocol, last_segment};
use crate::digest::{Algorithm, Digest};
use crate::document::{Document, Item};
use crate::resource::{Kind, Resource};

pub(crate) fn resource(path: &str) -> Option<Resource<'_>> {
    let (before, file) = last_segment(path)?;
    if let Some(stem) = file.strip_suffix(".gem").filter(|_| before.ends_with("/gems")) {
        let at = stem.match_indices('-').map(|(at, _)| at);
        let at = at.filter(|at| stem[at + 1..].starts_with(|c: char| c.is_ascii_digit())).next_back()?;
        return Some(Resource::new(Protocol::Rubygems, Kind::File).of_version(&stem[..at], &stem[at + 1..]));
    }
    let is_document = before.ends_with("/info") && !file.is_empty();
    is_document.then(|| Resource::new(Protocol::Rubygems, Kind::Index(Document::Gem)).of_version(file, ""))
}

pub(crate) fn read<'d>(path: &str, text: &'d str) -> Vec<Item<'d>> {
    let Some((root, gem)) = path.rsplit_once("/info/") else { return Vec::new() };
    let item = |line: &str| {
        let (number, rest) = line.split_once(' ')?;
        let digits = rest.rsplit_once('|')?.1.split(',').find_map(|part| part.strip_prefix("checksum:"))?;
        let digest = Digest::hex(Algorithm::Sha256, digits)?;
        Some(Item::url(format!("{root}/gems/{gem}-{number}.gem"), Some(digest)))
    };
    text.lines().filter_map(item).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_of_a_gem_names_its_files() {
        let sum = "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03";
        let text = format!(
            "---\n1.0.0 rack:>= 2|checksum:{sum},ruby:>= 3.0\n1.1.0-x86_64-linux |checksum:{sum}\n2.0\n"
        );
        let digest = Some(Digest::of(Algorithm::Sha256, b"hello\n"));
        let files = ["/gems/a-1.0.0.gem", "/gems/a-1.1.0-x86_64-linux.gem"];
        assert_eq!(read("/info/a", &text), files.map(|file| Item::url(file, digest)));
        let version = resource("/gems/rack-test-2.1.0.gem").unwrap().version.unwrap();
        assert_eq!((&*version.name, &*version.number), ("rack-test", "2.1.0"));
    }
}
