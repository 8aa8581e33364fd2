//! Large lists of domains: each includes all names below it.

use std::borrow::Cow;
use std::hash::BuildHasher;

use foldhash::fast::FixedState;
use hashbrown::HashTable;
use larder_words::debug_as;

/// The domains of one list, in the order of their first occurrence. A domain takes its length and some 12 bytes.
pub struct Domains {
    source: Box<str>,
    /// The names one after the other, each behind a byte with its length.
    names: Vec<u8>,
    /// The offset of each name in `names`.
    places: HashTable<u32>,
}

/// A line of a list that does not name a domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadDomain {
    /// The number of the line, from 1.
    pub line: usize,
    /// The text of the line.
    pub text: String,
}

/// The longest name of a domain (RFC 1035 section 2.3.4).
const LONGEST: usize = 253;

/// The most bytes of a list: offsets have 32 bits.
pub const LARGEST_LIST: u64 = 1 << 30;

const HASHER: FixedState = FixedState::with_seed(0);

impl Domains {
    /// Parses `text` of a file called `source`: a domain on each line, or the lines of a hosts file, of which
    /// the names count. `#` begins a comment. Case, a dot at the end, and `*.` or a dot at the beginning make
    /// no difference; names in other scripts are converted to their ASCII form (RFC 5890).
    ///
    /// # Errors
    /// The first line that does not name a domain.
    pub fn parse(source: &str, text: &str) -> Result<Self, BadDomain> {
        let mut domains = Self { source: source.into(), names: Vec::new(), places: HashTable::new() };
        for (at, line) in text.lines().enumerate() {
            let bad = || BadDomain { line: at + 1, text: line.trim().chars().take(80).collect() };
            let mut words = line.split('#').next().unwrap_or_default().split_ascii_whitespace();
            let Some(first) = words.next() else { continue };
            let mut words = words.peekable();
            if words.peek().is_none() {
                domains.add(&normal(first).ok_or_else(bad)?);
                continue;
            }
            // Link-local addresses may have a zone.
            let address = first.split('%').next().unwrap_or_default();
            address.parse::<std::net::IpAddr>().map_err(|_| bad())?;
            // Names without a dot are those of the machine itself, which are at the start of hosts files.
            for name in words.filter(|name| name.contains('.')) {
                domains.add(&normal(name).ok_or_else(bad)?);
            }
        }
        domains.names.shrink_to_fit();
        domains.places.shrink_to_fit(|place| hash(name_at(&domains.names, *place)));
        Ok(domains)
    }

    fn add(&mut self, name: &str) {
        let Self { names, places, .. } = self;
        let name = name.as_bytes();
        let hash_of = |place: &u32| hash(name_at(names, *place));
        if places.find(hash(name), |place| name_at(names, *place) == name).is_some() {
            return;
        }
        places.insert_unique(hash(name), names.len() as u32, hash_of);
        // A name has at most 253 bytes.
        names.push(name.len() as u8);
        names.extend_from_slice(name);
    }

    /// Whether `host` (without its port, in any case) is one of the domains, or below one.
    pub fn contains(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host);
        if host.len() > LONGEST || self.places.is_empty() {
            return false;
        }
        let lower = match host.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => Cow::Owned(host.to_ascii_lowercase()),
            false => Cow::Borrowed(host),
        };
        let mut rest = Some(lower.as_bytes());
        while let Some(name) = rest {
            let is_it = |place: &u32| name_at(&self.names, *place) == name;
            if self.places.find(hash(name), is_it).is_some() {
                return true;
            }
            rest = memchr::memchr(b'.', name).map(|dot| &name[dot + 1..]);
        }
        false
    }

    /// Returns the file that the domains were read from.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the number of domains.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the bytes of memory of the list.
    pub fn memory(&self) -> usize {
        self.names.capacity() + self.places.allocation_size()
    }
}

fn name_at(names: &[u8], place: u32) -> &[u8] {
    let place = place as usize;
    &names[place + 1..][..usize::from(names[place])]
}

fn hash(name: &[u8]) -> u64 {
    HASHER.hash_one(name)
}

/// Returns a domain in its stored form; `None` if it is malformed.
fn normal(name: &str) -> Option<Cow<'_, str>> {
    let name = name.strip_prefix("*.").or_else(|| name.strip_prefix('.')).unwrap_or(name);
    let name = name.strip_suffix('.').unwrap_or(name);
    let name = match name.is_ascii() {
        true => Cow::Borrowed(name),
        false => Cow::Owned(idna::domain_to_ascii(name).ok()?),
    };
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    if name.len() > LONGEST || !name.split('.').all(is_label) {
        return None;
    }
    match name.bytes().any(|byte| byte.is_ascii_uppercase()) {
        true => Some(Cow::Owned(name.to_ascii_lowercase())),
        false => Some(name),
    }
}

impl PartialEq for Domains {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.names == other.names
    }
}

impl Eq for Domains {}

debug_as!(Domains, |domains| "{} domains of {}", domains.len(), domains.source);

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn list(text: &str) -> Domains {
        Domains::parse("list", text).expect("a list")
    }

    #[test]
    fn a_domain_stands_for_itself_and_the_names_below_it() {
        let domains = list(
            "# comment\nads.example\n\n  Tracker.Example. # why\n*.wild.example\n.dot.example\nbücher.example\n\
             127.0.0.1 localhost\n0.0.0.0 one.example two.example\n::1 ip6-localhost\nfe80::1%lo0 localhost\nads.example\n",
        );
        assert_eq!(domains.len(), 7);
        for host in [
            "ads.example",
            "a.b.ads.example",
            "ADS.example",
            "ads.example.",
            "tracker.example",
            "wild.example",
            "x.dot.example",
            "xn--bcher-kva.example",
            "one.example",
            "two.example",
        ] {
            assert!(domains.contains(host), "{host}");
        }
        for host in ["example", "nads.example", "ads.example.org", "localhost", "", ".", "127.0.0.1"] {
            assert!(!domains.contains(host), "{host}");
        }
    }

    #[test]
    fn the_first_bad_line_is_named() {
        for (text, line) in [
            ("a.example\nhttp://b.example/\n", 2),
            ("one.example two.example\n", 1),
            ("\n\na..b\n", 3),
            ("||ads.example^\n", 1),
        ] {
            assert_eq!(Domains::parse("list", text).map_err(|bad| bad.line), Err(line), "{text:?}");
        }
        let long = format!("{}.example", "a".repeat(64));
        assert!(Domains::parse("list", &long).is_err());
    }

    #[test]
    fn many_take_little_memory() {
        let text: String = (0..100_000).map(|number| format!("host-{number:06}.example\n")).collect();
        let domains = list(&text);
        assert_eq!(domains.len(), 100_000);
        assert!(domains.contains("www.host-099999.example") && !domains.contains("host-100000.example"));
        let each = domains.memory() / domains.len() - "host-000000.example".len();
        assert!(each <= 12, "{each} bytes each");
    }

    proptest! {
        #[test]
        fn a_domain_list_contains_the_same_hosts_as_a_set_of_names(
            names in prop::collection::vec("[ab]{1,2}(\\.[ab]{1,2}){0,2}", 0..8),
            host in "[abAB]{1,2}(\\.[abAB]{1,2}){0,3}",
        ) {
            let domains = list(&names.join("\n"));
            let set: HashSet<&str> = names.iter().map(String::as_str).collect();
            let lower = host.to_ascii_lowercase();
            let labels: Vec<_> = lower.split('.').collect();
            let expected = (0..labels.len()).any(|from| set.contains(labels[from..].join(".").as_str()));
            prop_assert_eq!(domains.contains(&host), expected);
        }

        #[test]
        fn any_bytes_are_a_list_or_are_refused(text in "\\PC{0,40}", host in "\\PC{0,40}") {
            if let Ok(domains) = Domains::parse("list", &text) {
                domains.contains(&host);
            }
        }
    }
}
