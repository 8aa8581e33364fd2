//! A row of the table of requests: one request, or several that are equal except for their measures.

use std::borrow::Cow;
use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::DefaultHashBuilder;

use crate::transaction::{Text, Transaction};

/// The largest figure. It fits into every database, and so does a sum of them.
const MOST: u64 = (1 << 48) - 1;

/// The most characters of columns; longer texts are cut off.
pub(crate) mod width {
    /// The width of `instance` and `hash`.
    pub(crate) const NAME: usize = 64;
    /// The width of `site`.
    pub(crate) const SITE: usize = 255;
    /// The width of `route`.
    pub(crate) const ROUTE: usize = 128;
    /// The width of `door`, `method`, `outcome`, `tier` and `http_version`.
    pub(crate) const WORD: usize = 32;
    /// The width of `reason` and `client`.
    pub(crate) const PHRASE: usize = 128;
    /// The width of `url` and `tags`.
    pub(crate) const LONG: usize = super::Transaction::LONGEST_URL;
}

/// A row that fits the database. Its measures are sums.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) of: Transaction,
    pub(crate) requests: u64,
    /// A hash that is the same for equal rows, and different for most others.
    pub(crate) hash: u64,
}

impl Row {
    pub(crate) fn new(mut of: Transaction, hasher: &DefaultHashBuilder) -> Self {
        of.time = of.time.min(MOST);
        of.bytes = of.bytes.min(MOST);
        of.service_us = of.service_us.min(MOST);
        of.origin_us = of.origin_us.map(|us| us.min(MOST));
        of.age = of.age.map(|age| age.min(MOST));
        fit(&mut of.door, width::WORD);
        fit(&mut of.route, width::ROUTE);
        fit(&mut of.method, width::WORD);
        fit(&mut of.outcome, width::WORD);
        fit(&mut of.reason, width::PHRASE);
        fit(&mut of.tier, width::WORD);
        fit(&mut of.client, width::PHRASE);
        fit(&mut of.http_version, width::WORD);
        if let Cow::Owned(site) = fitted(&of.site, width::SITE) {
            of.site = Arc::from(site);
        }
        if let Cow::Owned(url) = fitted(&of.url, width::LONG) {
            of.url = url;
        }
        let hash = hasher.hash_one((of.time / 1000, &of.url, &of.client, &of.outcome));
        Self { of, requests: 1, hash }
    }

    /// Returns the second of its time.
    pub(crate) fn second(&self) -> u64 {
        self.of.time / 1000
    }

    /// Whether the two may share a row.
    pub(crate) fn equals(&self, other: &Self) -> bool {
        let (a, b) = (&self.of, &other.of);
        self.second() == other.second()
            && a.url == b.url
            && a.client == b.client
            && a.outcome == b.outcome
            && a.status == b.status
            && a.reason == b.reason
            && a.method == b.method
            && a.door == b.door
            && a.site == b.site
            && a.route == b.route
            && a.tier == b.tier
            && a.http_version == b.http_version
            && a.origin_us.is_some() == b.origin_us.is_some()
    }

    /// Adds an equal row: sums its measures, and keeps the earlier time and the greater age.
    pub(crate) fn absorb(&mut self, other: &Self) {
        let (into, from) = (&mut self.of, &other.of);
        self.requests += other.requests;
        into.time = into.time.min(from.time);
        into.bytes = into.bytes.saturating_add(from.bytes).min(MOST);
        into.service_us = into.service_us.saturating_add(from.service_us).min(MOST);
        let origin = |into: u64| into.saturating_add(from.origin_us.unwrap_or(0)).min(MOST);
        into.origin_us = into.origin_us.map(origin);
        into.age = into.age.max(from.age);
    }
}

fn fit(text: &mut Text, limit: usize) {
    if let Cow::Owned(fitted) = fitted(text, limit) {
        *text = Cow::Owned(fitted);
    }
}

/// Returns `text` without parts that a database would refuse: characters beyond `limit`, and NUL.
pub(crate) fn fitted(text: &str, limit: usize) -> Cow<'_, str> {
    let is_short = text.len() <= limit || text.chars().nth(limit).is_none();
    if is_short && !text.contains('\0') {
        return Cow::Borrowed(text);
    }
    let clean = |c| if c == '\0' { char::REPLACEMENT_CHARACTER } else { c };
    Cow::Owned(text.chars().take(limit).map(clean).collect())
}

/// Returns a figure in the type of databases.
pub(crate) fn figure(value: u64) -> i64 {
    value.min(MOST) as i64
}
