//! One part of the table of equivalent queries, and its limits.

use std::collections::HashMap;
use std::mem;
use std::sync::Arc;

use larder_semantics::no_vary_search::Variation;

use super::FetchContext;

/// The most values of the field for one path; the latest are kept.
pub const MOST_FIELDS: usize = 4;
/// The most URLs with stored responses that answer the same requests: one for each variant (`Vary`).
pub const MOST_URLS: usize = 32;
/// The most fetches in flight that are known to answer the same requests.
const MOST_LEADERS: usize = 8;
/// Bytes that the table takes.
pub const MOST_BYTES: usize = 16 << 20;
pub(super) const PARTS: usize = 16;
/// The limit of the younger half of a part, in bytes; beyond it, the older half is dropped.
const HALF: usize = MOST_BYTES / PARTS / 2;
/// Approximate bytes that a map and an allocation take for an item.
const OVERHEAD: usize = 64;

/// A known value of the field.
#[derive(Debug)]
pub(super) struct FieldValue {
    pub(super) value: Box<[u8]>,
    pub(super) variation: Variation,
    /// The number of [`removals`](super::Equivalents::removals) when the value became known. Later removals
    /// are noted for the class of URLs that the value makes equivalent.
    pub(super) since: u64,
}

/// The older half is dropped as a whole. A lookup moves an item to the younger half.
#[derive(Default)]
pub(super) struct Part {
    young: Half,
    old: Half,
}

#[derive(Default)]
struct Half {
    paths: HashMap<u64, Vec<Arc<FieldValue>>>,
    classes: HashMap<u64, Class>,
    bytes: usize,
}

pub(super) type Query = Option<Box<[u8]>>;

/// The stored responses and the fetches in flight for the queries that one value of the field makes equivalent.
#[derive(Default)]
pub(super) struct Class {
    /// The stored responses, the latest first.
    pub(super) stored: Vec<StoredQuery>,
    pub(super) leaders: Vec<Query>,
}

pub(super) struct StoredQuery {
    pub(super) query: Query,
    /// The hash of the signature.
    pub(super) variant: u64,
    pub(super) received: u32,
    /// The start of the fetch. `None`: the response answers only its own URL.
    pub(super) began: Option<FetchContext>,
}

impl Part {
    /// Returns the values known for a path, the latest first.
    pub(super) fn fields(&mut self, path: u64) -> Vec<Arc<FieldValue>> {
        if let Some(fields) = self.old.paths.remove(&path) {
            self.make_room();
            self.young.bytes += size_of_fields(&fields);
            self.young.paths.insert(path, fields);
        }
        self.young.paths.get(&path).cloned().unwrap_or_default()
    }

    pub(super) fn class(&mut self, hash: u64) -> Option<&Class> {
        if let Some(class) = self.old.classes.remove(&hash) {
            self.make_room();
            self.young.bytes += class.size();
            self.young.classes.insert(hash, class);
        }
        self.young.classes.get(&hash)
    }

    /// Notes the latest value for a path, after this number of removals. Returns `None` if the value has no effect.
    pub(super) fn learn(&mut self, path: u64, value: &[u8], removals: u64) -> Option<Arc<FieldValue>> {
        let mut fields = self.fields(path);
        let before = size_of_fields(&fields);
        let known = match fields.iter().position(|known| *known.value == *value) {
            Some(0) => return fields.into_iter().next(),
            Some(at) => fields.remove(at),
            None => {
                let variation = Variation::parse(value)?;
                Arc::new(FieldValue { value: value.into(), variation, since: removals })
            }
        };
        fields.insert(0, Arc::clone(&known));
        fields.truncate(MOST_FIELDS);
        let half = &mut self.young;
        half.bytes = (half.bytes + size_of_fields(&fields)).saturating_sub(before);
        half.paths.insert(path, fields);
        Some(known)
    }

    pub(super) fn change(&mut self, hash: u64, change: impl FnOnce(&mut Class)) {
        if self.class(hash).is_none() {
            self.make_room();
        }
        let half = &mut self.young;
        let before = half.classes.get(&hash).map_or(0, Class::size);
        let class = half.classes.entry(hash).or_default();
        change(class);
        half.bytes = (half.bytes + class.size()).saturating_sub(before);
    }

    fn make_room(&mut self) {
        if self.young.bytes > HALF {
            self.old = mem::take(&mut self.young);
        }
    }
}

fn size_of_fields(fields: &[Arc<FieldValue>]) -> usize {
    // The factor includes the parsed names.
    fields.iter().map(|known| OVERHEAD + 3 * known.value.len()).sum()
}

impl Class {
    fn size(&self) -> usize {
        let queries = self.stored.iter().map(|stored| &stored.query).chain(&self.leaders);
        OVERHEAD
            + queries.map(|query| OVERHEAD + query.as_ref().map_or(0, |query| query.len())).sum::<usize>()
    }

    pub(super) fn lead(&mut self, query: Option<&[u8]>) {
        self.leaders.retain(|leader| leader.as_deref() != query);
        self.leaders.truncate(MOST_LEADERS - 1);
        self.leaders.insert(0, query.map(Box::from));
    }

    /// Whether a later response, fetched for another URL, answers the same requests as `new`.
    pub(super) fn is_outdated(&self, new: &StoredQuery) -> bool {
        let is_later =
            |old: &&StoredQuery| old.began.is_some() && old.variant == new.variant && old.query != new.query;
        self.stored.iter().filter(is_later).any(|old| old.received > new.received)
    }

    /// Notes that the fetch for this query has ended.
    pub(super) fn end(&mut self, query: Option<&[u8]>) {
        self.leaders.retain(|leader| leader.as_deref() != query);
    }

    /// Notes the latest response, which was fetched, or found on a disk if `is_found`. Returns the responses
    /// that it replaces.
    pub(super) fn keep(&mut self, new: StoredQuery, is_found: bool) -> Vec<StoredQuery> {
        let is_same = |old: &StoredQuery| old.variant == new.variant && old.query == new.query;
        if self.stored.iter().any(|old| is_same(old) && old.received > new.received) {
            return Vec::new();
        }
        // A response found on a disk may be one that this process has fetched.
        let known = self.stored.iter().find(|old| is_found && is_same(old) && old.received == new.received);
        let began = known.map_or(new.began, |old| old.began);
        let new = StoredQuery { began, ..new };
        let (mut replaced, mut kept) = (Vec::new(), Vec::with_capacity(self.stored.len() + 1));
        for old in self.stored.drain(..) {
            match (old.variant == new.variant, old.query == new.query) {
                (true, true) => {}
                (true, false) if new.began.is_some() => replaced.push(old),
                (true | false, false) | (false, true) => kept.push(old),
            }
        }
        kept.insert(0, new);
        let beyond = kept.split_off(kept.len().min(MOST_URLS));
        // Purges find the omitted responses through other variants of the same URL.
        let is_left = |old: &StoredQuery| kept.iter().all(|kept| kept.query != old.query);
        replaced.extend(beyond.into_iter().filter(is_left));
        self.stored = kept;
        replaced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(query: &str, variant: u64, received: u32) -> StoredQuery {
        StoredQuery {
            query: Some(query.as_bytes().into()),
            variant,
            received,
            began: Some(FetchContext::default()),
        }
    }

    fn queries(stored: &[StoredQuery]) -> Vec<&str> {
        stored.iter().map(|stored| std::str::from_utf8(stored.query.as_deref().unwrap()).unwrap()).collect()
    }

    #[test]
    fn the_latest_of_each_variant_stays() {
        let mut class = Class::default();
        for (query, variant, received, replaced) in [
            ("a", 1, 10, &[][..]),
            ("b", 2, 10, &[]),
            ("c", 1, 11, &["a"]),
            ("c", 1, 12, &[]),
            ("b", 1, 12, &["c"]),
        ] {
            assert!(!class.is_outdated(&stored(query, variant, received)));
            assert_eq!(queries(&class.keep(stored(query, variant, received), false)), replaced, "{query}");
        }
        assert_eq!(queries(&class.stored), ["b", "b"]);
        assert!(class.is_outdated(&stored("a", 1, 11)) && !class.is_outdated(&stored("a", 3, 11)));
        // A response that answers only its own URL neither replaces nor outdates another.
        let own = |received| StoredQuery { began: None, ..stored("c", 1, received) };
        assert!(class.is_outdated(&own(11)) && class.keep(own(13), false).is_empty());
        assert_eq!(queries(&class.stored), ["c", "b", "b"]);
        assert!(!class.is_outdated(&stored("a", 1, 12)));
        assert_eq!(queries(&class.keep(stored("a", 1, 12), false)), ["c", "b"]);
        // A response found on a disk is the one fetched in that second; otherwise it does not answer other URLs.
        assert!(class.keep(StoredQuery { began: None, ..stored("a", 1, 12) }, true).is_empty());
        assert!(class.stored[0].began.is_some());
        assert!(class.keep(StoredQuery { began: None, ..stored("a", 1, 13) }, true).is_empty());
        assert!(class.stored[0].began.is_none());
    }

    #[test]
    fn fields_urls_and_leaders_of_a_path_are_bounded() {
        let mut part = Part::default();
        for n in 0..10 {
            let known = part.learn(1, format!("params=(\"{n}\")").as_bytes(), 0).unwrap();
            assert!(known.variation.equivalent(Some(format!("{n}=1").as_bytes()), None));
        }
        assert!(part.learn(1, b"params", 0).is_none() && part.learn(2, b"params", 0).is_none());
        let values: Vec<_> = part.fields(1).iter().map(|known| known.value.to_vec()).collect();
        let expected: Vec<_> = (6..10).rev().map(|n| format!("params=(\"{n}\")").into_bytes()).collect();
        assert_eq!((values, expected.len()), (expected, MOST_FIELDS));
        let mut class = Class::default();
        let replaced: usize = (0..100).map(|n| class.keep(stored(&n.to_string(), n, 10), false).len()).sum();
        assert_eq!((class.stored.len(), replaced), (MOST_URLS, 100 - MOST_URLS));
        // No response of a URL is removed while other variants of the URL are kept.
        let given_up = (0..100).flat_map(|n| class.keep(stored("one", n, 10), false));
        assert!(given_up.collect::<Vec<_>>().iter().all(|old| old.query.as_deref() != Some(b"one")));
        (0..100).for_each(|n| class.lead(Some(format!("{n}").as_bytes())));
        assert_eq!(class.leaders.len(), MOST_LEADERS);
    }

    #[test]
    fn a_part_forgets_what_was_not_asked_for_longest() {
        let mut part = Part::default();
        let query = "q".repeat(1_000);
        let keep =
            |part: &mut Part, hash| part.change(hash, |class| drop(class.keep(stored(&query, 1, 10), false)));
        keep(&mut part, 0);
        for hash in 1..20_000 {
            keep(&mut part, hash);
            assert!(part.class(0).is_some_and(|class| class.stored.len() == 1));
            let bytes = |half: &Half| half.classes.values().map(Class::size).sum::<usize>();
            if hash % 100 == 0 {
                assert_eq!(bytes(&part.young), part.young.bytes);
                assert!(bytes(&part.young) + bytes(&part.old) < MOST_BYTES / PARTS + 2 * query.len());
            }
        }
        assert!(part.class(1).is_none());
    }
}
