//! The minimum age of versions: packages of attackers are mostly found within days.

use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;
use larder_words::named;

use crate::document::{Document, text};
use crate::protocols::{Protocol, cargo, go, maven, npm, pypi, rubygems};
use crate::resource::Version;

/// The least age of versions before clients get them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MinAge {
    /// The age in seconds, by protocol; the last entry of a protocol counts.
    pub seconds: Vec<(Protocol, u32)>,
    /// Packages that may be younger.
    pub allowed: Vec<Exemption>,
    /// The dates that count.
    pub dates: Dates,
}

/// Packages, or a version of one, that may be younger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exemption {
    /// The name, or its beginning before `*`.
    name: String,
    number: Option<String>,
}

named! {
    /// The dates of versions that count.
    #[derive(Default)]
    pub enum Dates, name {
        /// Those that the registry tells.
        #[default]
        Registry = "registry",
        /// When this proxy first saw the version in an index.
        FirstSeen = "first-seen",
        /// The later one of both.
        Later = "later",
    }
}

impl Exemption {
    /// Reads `NAME`, `NAME@VERSION`, or `NAME*`. Names of npm may begin with `@`.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, number) = match text.get(1..)?.rfind('@') {
            Some(at) => (&text[..=at], Some(text[at + 2..].to_owned())),
            None => (text, None),
        };
        let is_whole = !name.is_empty() && number.as_deref() != Some("");
        is_whole.then(|| Self { name: name.to_owned(), number })
    }

    fn is_for(&self, name: &str, number: &str) -> bool {
        let is_name = match self.name.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == self.name,
        };
        is_name && self.number.as_deref().is_none_or(|own| own == number)
    }
}

impl Dates {
    /// Returns the date of a version, given that of the registry and when it was first seen.
    pub fn choose(self, published: Option<u32>, seen: Option<u32>) -> Option<u32> {
        match self {
            Self::Registry => published,
            Self::FirstSeen => seen,
            Self::Later => Some(published?.max(seen?)),
        }
    }
}

impl MinAge {
    /// Returns the least age of versions of a protocol, in seconds.
    pub fn of(&self, protocol: Protocol) -> Option<u32> {
        self.seconds.iter().rev().find(|(own, _)| *own == protocol).map(|(_, seconds)| *seconds)
    }

    /// Whether a version with this date is too young at `now`. One without a date is.
    pub fn is_young(&self, protocol: Protocol, version: &Version<'_>, date: Option<u32>, now: u32) -> bool {
        let is_allowed = || self.allowed.iter().any(|own| own.is_for(&version.name, &version.number));
        self.of(protocol).is_some_and(|least| {
            date.is_none_or(|date| now.saturating_sub(date) < least || date > now) && !is_allowed()
        })
    }
}

impl Document {
    /// Whether versions can be removed from the document.
    pub fn lists_versions(self) -> bool {
        matches!(
            self,
            Self::NpmPackage
                | Self::PypiProject
                | Self::CargoCrate
                | Self::Gem
                | Self::GoList
                | Self::GoLatest
                | Self::MavenVersions
                | Self::MavenVersionsDigest
        )
    }

    /// Returns the versions that the document at `path` lists without a date, each with a reference to what dates it, relative to the
    /// document: a file, or another document.
    pub fn undated(self, path: &str, content: &[u8]) -> Vec<(String, String)> {
        match self {
            Self::GoList => go::files(text(content)),
            Self::MavenVersions => maven::files(path, text(content)),
            Self::Gem => rubygems::undated(path, text(content)),
            Self::PypiProject => pypi::undated(content),
            _ => Vec::new(),
        }
    }

    /// Returns the media type in which the document has dates, for a client that accepts these `types`; `None` if they need
    /// no change.
    pub fn dated_type(self, types: &str) -> Option<&'static str> {
        match self {
            // The short form, which clients prefer, has none.
            Self::NpmPackage => types.contains("vnd.npm.install").then_some("application/json"),
            Self::PypiProject => {
                types.contains("vnd.pypi.simple").then_some("application/vnd.pypi.simple.v1+json")
            }
            _ => None,
        }
    }

    /// Returns the document without the versions, given by number and date, that `is_young` says are; `None` if the content is
    /// another document.
    pub fn without_young(
        self,
        content: &[u8],
        is_young: &dyn Fn(&str, Option<u32>) -> bool,
    ) -> Option<Vec<u8>> {
        let is_kept = |number: &str, date: Option<u32>| !is_young(number, date);
        match self {
            Self::NpmPackage => npm::without(content, &is_kept),
            Self::PypiProject => pypi::without(content, &is_kept),
            Self::CargoCrate => Some(cargo::without(content, &is_kept)),
            Self::Gem => Some(rubygems::without(text(content), &is_kept)),
            Self::GoList => Some(go::without(text(content), &is_kept)),
            Self::GoLatest => go::latest(content, &is_kept),
            Self::MavenVersions => maven::without(text(content), &is_kept),
            _ => None,
        }
    }
}

/// Reads a date as registries write it (RFC 3339).
pub fn date(text: &str) -> Option<u32> {
    text.parse().ok().map(seconds)
}

/// Returns a moment as seconds since 1970; one beyond their bounds is the nearest bound.
fn seconds(moment: Timestamp) -> u32 {
    u32::try_from(moment.as_second().max(0)).unwrap_or(u32::MAX)
}

/// Reads a date as fields of HTTP have it (RFC 9110 section 5.6.7).
pub fn http_date(text: &str) -> Option<u32> {
    DateTimeParser::new().parse_timestamp(text).ok().map(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u32 = 86_400;

    #[test]
    fn a_version_is_young_until_its_age_and_without_a_date_always() {
        let allowed = ["trusted", "@own/*", "left-pad@1.3.0"];
        let policy = MinAge {
            seconds: vec![(Protocol::Npm, 7 * DAY)],
            allowed: allowed.iter().filter_map(|text| Exemption::parse(text)).collect(),
            dates: Dates::Registry,
        };
        let now = 1000 * DAY;
        for (protocol, name, number, date, is_young) in [
            (Protocol::Npm, "left-pad", "1.0.0", Some(now - 7 * DAY), false),
            (Protocol::Npm, "left-pad", "1.0.0", Some(now - 7 * DAY + 1), true),
            (Protocol::Npm, "left-pad", "1.0.0", Some(now + DAY), true),
            (Protocol::Npm, "left-pad", "1.0.0", None, true),
            (Protocol::Npm, "left-pad", "1.3.0", None, false),
            (Protocol::Npm, "trusted", "1", None, false),
            (Protocol::Npm, "@own/a", "1", None, false),
            (Protocol::Pypi, "left-pad", "1.0.0", None, false),
        ] {
            let version = Version { name: name.into(), number: number.into() };
            assert_eq!(policy.is_young(protocol, &version, date, now), is_young, "{name} {number} {date:?}");
        }
    }

    #[test]
    fn the_later_date_counts_if_that_is_wished() {
        for (dates, published, seen, chosen) in [
            (Dates::Registry, Some(1), Some(2), Some(1)),
            (Dates::FirstSeen, Some(1), Some(2), Some(2)),
            (Dates::Later, Some(1), Some(2), Some(2)),
            (Dates::Later, None, Some(2), None),
        ] {
            assert_eq!(dates.choose(published, seen), chosen);
        }
    }

    #[test]
    fn dates_are_read_in_both_notations() {
        assert_eq!(date("2018-04-09T01:50:25.343Z"), Some(1_523_238_625));
        assert_eq!(http_date("Mon, 09 Apr 2018 01:50:25 GMT"), Some(1_523_238_625));
        assert_eq!(date("2999-01-01T00:00:00Z"), Some(u32::MAX));
        assert_eq!((date("yesterday"), http_date("0")), (None, None));
    }
}
