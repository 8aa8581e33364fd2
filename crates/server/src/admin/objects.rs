//! `GET /objects`: stored responses in memory and on the disks, and their distribution by size, age and host.
//!
//! A thread that may wait reads all of them, up to a limit, without counting uses.

use std::cmp::Ordering;
use std::sync::Arc;

use larder_store::Store;
use larder_words::named;
use serde::Serialize;

use super::query::Query;
use super::{Call, Outcome, json};
use crate::base::clock;
use crate::features::inventory::{self, ObjectTiers};

mod groups;

use groups::{Group, Groups};

/// The most objects that are examined for one answer.
const MOST: u64 = 500_000;
/// The default number of objects in an answer.
const SHOWN: usize = 50;
/// The most objects in an answer.
const LARGEST: usize = 1_000;

named! {
    /// The order of the objects in an answer. Equal ones are ordered by URL.
    #[derive(Default)]
    enum Order, name {
        /// The largest first.
        #[default]
        Size = "size",
        /// The first stored first.
        Age = "age",
        /// Those with the most hits first, as far as memory has counted them.
        Hits = "hits",
    }
}

impl Order {
    fn compare(self, a: &Object, b: &Object) -> Ordering {
        match self {
            Self::Size => b.bytes.cmp(&a.bytes),
            Self::Age => a.stored.cmp(&b.stored),
            Self::Hits => b.hits.cmp(&a.hits),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Question {
    /// A part of the URL.
    search: String,
    order: Order,
    limit: usize,
}

/// A stored response. Times are in seconds since 1970.
#[derive(Clone, Debug, Serialize)]
struct Object {
    url: String,
    /// The role of the listeners whose clients it answers: `forward` or `reverse`.
    role: String,
    tier: ObjectTiers,
    status: u16,
    /// Bytes of content.
    bytes: u64,
    stored: u32,
    /// The number of hits in memory since it was stored there.
    #[serde(skip_serializing_if = "Option::is_none")]
    hits: Option<u32>,
    /// When it becomes or became stale.
    expires: i64,
    fresh: bool,
}

#[derive(Debug, Serialize)]
struct SearchResult {
    /// Objects that were examined, and the number of all objects.
    looked: u64,
    of: u64,
    /// Objects that match the question, and their bytes.
    matches: u64,
    bytes: u64,
    /// The first matching objects, in the order of the question.
    objects: Vec<Object>,
    by_size: Vec<Group>,
    by_age: Vec<Group>,
    by_host: Vec<Group>,
}

/// Answers a question.
pub(super) async fn answer(call: Call<'_>) -> Outcome {
    let question = Question::read(&call.query)?;
    let (store, permit) = (Arc::clone(&call.state.shared.cache.store), call.state.look()?);
    let found = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        find(&store, &question)
    });
    Ok(json(&found.await?))
}

impl Question {
    fn read(query: &Query<'_>) -> Result<Self, String> {
        let limit = query.parse("limit", "a number from 1 to 1000", |text| {
            text.parse().ok().filter(|limit| (1..=LARGEST).contains(limit))
        });
        Ok(Self {
            search: query.get("search").unwrap_or_default().to_owned(),
            order: query.choose("sort", &Order::ALL)?.unwrap_or_default(),
            limit: limit?.unwrap_or(SHOWN),
        })
    }
}

fn find(store: &Store, question: &Question) -> SearchResult {
    let (mut search, now) = (Search::new(question), clock::now());
    let parts = store.near().iter().flat_map(|tier| tier.usage());
    let records: u64 = parts.filter_map(|part| part.figures).map(|figures| figures.objects).sum();
    let of = store.memory.usage().objects + records;
    inventory::list(store.near(), Some(store), None, &mut |object| {
        search.looked += 1;
        search.see(object.into(), now);
        search.looked < MOST
    });
    // A response in memory and on a disk counts once, and a disk also has records that are not responses.
    let is_whole = search.looked < MOST;
    search.end(if is_whole { 0 } else { of })
}

impl Object {
    fn host(&self) -> &str {
        let rest = self.url.split_once("://").map_or("", |(_, rest)| rest);
        rest.split(['/', '?']).next().unwrap_or_default()
    }
}

impl From<inventory::Object> for Object {
    fn from(object: inventory::Object) -> Self {
        let inventory::Object { url, role, tier, status, bytes, stored, hits, expires, fresh, .. } = object;
        Self { url, role, tier, status, bytes, stored, hits, expires, fresh }
    }
}

/// A search through all objects.
struct Search<'q> {
    question: &'q Question,
    looked: u64,
    matches: u64,
    bytes: u64,
    /// The first ones, and some more until the next sort.
    first: Vec<Object>,
    groups: Groups,
}

impl<'q> Search<'q> {
    fn new(question: &'q Question) -> Self {
        Self { question, looked: 0, matches: 0, bytes: 0, first: Vec::new(), groups: Groups::default() }
    }

    fn see(&mut self, object: Object, now: u32) {
        if !object.url.contains(&self.question.search) {
            return;
        }
        self.matches += 1;
        self.bytes += object.bytes;
        self.groups.add(object.bytes, now.saturating_sub(object.stored), object.host());
        self.first.push(object);
        if self.first.len() >= 2 * self.question.limit + 1_000 {
            self.shorten();
        }
    }

    fn shorten(&mut self) {
        let order = self.question.order;
        self.first.sort_by(|a, b| order.compare(a, b).then_with(|| a.url.cmp(&b.url)));
        self.first.truncate(self.question.limit);
    }

    fn end(mut self, of: u64) -> SearchResult {
        self.shorten();
        let Self { looked, matches, bytes, first: objects, groups, .. } = self;
        let (by_size, by_age, by_host) = groups.end();
        SearchResult { looked, of: of.max(looked), matches, bytes, objects, by_size, by_age, by_host }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(url: &str, bytes: u64, stored: u32) -> Object {
        Object {
            url: url.to_owned(),
            role: "reverse".to_owned(),
            tier: ObjectTiers::Memory,
            status: 200,
            bytes,
            stored,
            hits: Some(100 - stored),
            expires: 0,
            fresh: false,
        }
    }

    #[test]
    fn the_first_are_shown_in_their_order_and_all_are_counted() {
        for (order, expected) in
            [(Order::Size, ["/9999", "/9998"]), (Order::Age, ["/0", "/1"]), (Order::Hits, ["/0", "/1"])]
        {
            let question = Question { search: "://a".to_owned(), order, limit: 2 };
            let mut search = Search::new(&question);
            for number in (0..10_000).rev() {
                let stored = (number / 200) as u32;
                search.see(object(&format!("http://a/{number}"), number, stored), 100);
                search.see(object(&format!("http://b/{number}"), number, stored), 100);
            }
            let found = search.end(0);
            let paths: Vec<_> = found.objects.iter().map(|object| &object.url["http://a".len()..]).collect();
            assert_eq!((paths, found.matches), (expected.to_vec(), 10_000), "{order:?}");
            assert_eq!(found.bytes, (0..10_000).sum::<u64>());
        }
    }

    #[test]
    fn questions_are_read_and_wrong_ones_explained() {
        let read = |query| Question::read(&Query::new(query));
        let question = Question { search: "a b".to_owned(), order: Order::Age, limit: 7 };
        assert_eq!(read("search=a+b&sort=age&limit=7"), Ok(question));
        assert_eq!(read("limit=0").unwrap_err(), "limit '0': expected a number from 1 to 1000");
        assert_eq!(read("sort=used").unwrap_err(), "sort 'used': expected size, age, hits");
    }
}
