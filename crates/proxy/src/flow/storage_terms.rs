//! Whether and how an origin's answer may be stored, as far as its head determines that; and how a stored response may
//! be kept under the fields of an answer that confirms it.

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use larder_semantics::fields::Fields;
use larder_semantics::freshness::Freshness;
use larder_semantics::history::History;
use larder_semantics::status::Why;
use larder_semantics::storable::{self, Rules, Times};
use larder_semantics::{revalidate, vary};
use larder_store::{Entry, Generation, Lines, Memory};

use crate::cache::doubt::Doubt;
use crate::cache::history::Histories;
use crate::exchange::request::Request;
use crate::http::response;

/// The freshness and variant under which a response may be stored.
pub(crate) struct StorageTerms {
    pub(super) freshness: Freshness,
    pub(super) signature: Vec<u8>,
}

impl StorageTerms {
    /// Returns the freshness lifetime of the response, in seconds.
    pub(crate) fn lifetime(&self) -> u32 {
        self.freshness.lifetime
    }
}

/// Returns how an answer to `request`, or to a GET with its fields, may be stored. The error is the reason why it may
/// not be stored.
pub(crate) fn judge(
    rules: &Rules,
    request: &Request,
    status: StatusCode,
    fields: &impl Fields,
    times: Times,
) -> Result<StorageTerms, Why> {
    let freshness = storable::storable(rules, &Method::GET, &request.fields, status, fields, times)?;
    if is_perhaps_caused_by(&request.fields, status) {
        return Err(Why::StatusNotStorable);
    }
    // All variants of content with a known digest are that content.
    let is_one = rules.is_fixed && !fields.contains("content-encoding");
    let signature = if is_one { Vec::new() } else { signature(request, fields, &[])? };
    Ok(StorageTerms { freshness, signature })
}

/// Whether the status is that of an error that a condition for the origin or a range among these fields may have caused.
pub(super) fn is_perhaps_caused_by(sent: &HeaderMap, status: StatusCode) -> bool {
    let is_error = status.is_client_error() || status.is_server_error();
    let may_be_by_range = || status == StatusCode::BAD_REQUEST || status.is_server_error();
    is_error && (revalidate::is_for_origin(sent) || may_be_by_range() && sent.contains("range"))
}

/// Returns the signature for a response to `request` with these fields. `stored` is the earlier signature of a stored
/// response that the origin has confirmed for `request`; empty for a new one. Errors: [`Why::VaryAny`] if no signature
/// could ever match.
pub(super) fn signature(request: &Request, fields: &impl Fields, stored: &[u8]) -> Result<Vec<u8>, Why> {
    // The usual response, whose `Vary` is then looked up once.
    if fields.first("vary").is_none() && stored.is_empty() {
        return Ok(Vec::new());
    }
    if vary::is_by_client(fields) {
        return Err(Why::VaryAny);
    }
    vary::confirmed(stored, fields, &request.fields)
}

/// Returns the lines of an answer that are stored, with this date (RFC 9111 section 3.1).
pub(super) fn stored_lines(memory: &Memory, rules: &Rules, answer: &response::Lines, date: u32) -> Lines {
    let is_stored = storable::is_stored(rules, answer);
    memory.keep_lines(answer.iter().filter(|(name, value)| is_stored(name, value)), date)
}

/// A stored response under new fields, which an answer has given to it (RFC 9111 section 3.2). Everything that follows
/// from the fields of a response follows from the new ones: freshness, signature, groups, equivalent queries.
pub(super) struct Update<'u> {
    stored: &'u Entry,
    rules: &'u Rules,
    times: Times,
    /// All fields, as this client gets them.
    fields: HeaderMap,
    keeping: Result<StorageTerms, Why>,
}

impl<'u> Update<'u> {
    /// Returns `stored` with the fields `news` of the answer that has confirmed it for `request`.
    pub(super) fn of(
        (rules, request): (&'u Rules, &Request),
        stored: &'u Entry,
        news: &HeaderMap,
        (times, doubt): (Times, &Doubt),
    ) -> Self {
        let mut fields = revalidate::update(&stored.fields().to_map(), news);
        fields.remove(header::TRAILER);
        let judged =
            storable::storable(rules, &Method::GET, &request.fields, stored.status(), &fields, times);
        let keeping = judged.and_then(|freshness| {
            let freshness = doubt.temper(freshness, &fields);
            let is_one = rules.is_fixed && stored.signature().is_empty();
            let signature =
                if is_one { Ok(Vec::new()) } else { signature(request, &fields, stored.signature()) };
            Ok(StorageTerms { freshness, signature: signature? })
        });
        Self { stored, rules, times, fields, keeping }
    }

    /// Whether a stored response cannot have all these fields.
    pub(super) fn is_too_long(&self) -> bool {
        let line = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len() + 4;
        self.fields.iter().map(line).sum::<usize>() > response::LONGEST
    }

    /// Returns the response to store, whose validation began when `born` was in force. The error is the reason why it
    /// may not be stored any more.
    pub(super) fn entry(&self, memory: &Memory, born: Generation) -> Result<Entry, Why> {
        let StorageTerms { freshness, signature } = self.keeping.as_ref().map_err(|why| *why)?;
        let fields = storable::storable_fields(self.rules, &self.fields);
        let fields = memory.keep(&fields, freshness.date);
        self.stored.refreshed(signature, &fields, *freshness, born).ok_or(Why::TooLarge)
    }

    /// Returns the response for this client alone, with the fields that the origin sent now.
    pub(super) fn unstored(&self, memory: &Memory) -> Option<Entry> {
        let freshness = Freshness::unstored(&self.fields, self.times);
        let fields = memory.keep(&self.fields, freshness.date);
        self.stored.refreshed(self.stored.signature(), &fields, freshness, self.stored.checked())
    }

    /// Returns the fields of `news` that this client gets beside those of `shown`: cookies, and what the origin withholds
    /// from other clients.
    pub(super) fn extra(&self, news: &HeaderMap, shown: &Entry) -> Option<Box<HeaderMap>> {
        let shown = shown.fields();
        let is_withheld = |name: &HeaderName| {
            *name != header::AGE && self.fields.contains_key(name) && !shown.contains(name.as_str())
        };
        let own = news.iter().filter(|(name, _)| **name == header::SET_COOKIE || is_withheld(name));
        let extra: HeaderMap = own.map(|(name, value)| (name.clone(), value.clone())).collect();
        (!extra.is_empty()).then(|| Box::new(extra))
    }
}

/// Whether `why` is a property of the request, so that answers to other requests for the URL may still be stored.
pub(super) fn is_by_request(why: Why) -> bool {
    matches!(why, Why::RequestNoStore | Why::Authorization | Why::CookieGuess)
}

/// The evidence of an answer about changes of a URL.
pub(super) enum News<'n, F> {
    /// A 304 confirms this stored response.
    Confirms(&'n Entry),
    /// A response with this status and these fields replaces the stored one, if there was one.
    Is(StatusCode, &'n F, Option<&'n Entry>),
}

/// Updates and returns the validation history of the URL of `request` with the answer that was received at `now`.
/// Returns the default if lifetimes do not adapt to the history.
pub(super) fn history<F: Fields>(
    histories: &Histories,
    (rules, request): (&Rules, &Request),
    news: &News<'_, F>,
    now: u32,
) -> History {
    if !rules.heuristic_adaptive {
        return History::default();
    }
    let old = histories.of(request.hash);
    let known = |entry: &Entry| match old.since {
        0 => History { since: entry.freshness().received, ..old },
        _ => old,
    };
    // A validation in the first half of the lifetime is no evidence: clients can request validations at any time.
    let is_over = |entry: &Entry| {
        let freshness = entry.freshness();
        freshness.ttl(now) * 2 <= i64::from(freshness.lifetime)
    };
    let confirmed = |entry: &Entry| match is_over(entry) {
        true => known(entry).confirmed(),
        false => known(entry),
    };
    let new = match *news {
        News::Confirms(entry) => confirmed(entry),
        News::Is(StatusCode::OK, fields, Some(entry)) => match is_same(entry, fields) {
            true => confirmed(entry),
            false => old.changed(now),
        },
        News::Is(StatusCode::OK, _, None) => old.fetched(now),
        News::Is(..) => return History::default(),
    };
    histories.note(request.hash, new);
    new
}

/// Whether a response with status 200 is the stored response, sent again.
fn is_same(entry: &Entry, fields: &impl Fields) -> bool {
    let stored = entry.fields();
    let same = |name| stored.first(name).is_some_and(|value| fields.first(name) == Some(value));
    match stored.contains("etag") || fields.contains("etag") {
        true => same("etag"),
        false => same("last-modified"),
    }
}
