//! Whether and how an origin's answer may be stored, as far as its head determines that.

use http::{Method, StatusCode};
use larder_semantics::fields::Fields;
use larder_semantics::freshness::Freshness;
use larder_semantics::history::History;
use larder_semantics::status::Why;
use larder_semantics::storable::{self, Rules, Times};
use larder_semantics::vary;
use larder_store::Entry;

use crate::cache::history::Histories;
use crate::exchange::request::Request;

/// The freshness and variant under which a response may be stored.
pub(crate) struct Keeping {
    pub(super) freshness: Freshness,
    pub(super) signature: Vec<u8>,
}

impl Keeping {
    /// Returns the freshness lifetime of the response, in seconds.
    pub(crate) fn lifetime(&self) -> u32 {
        self.freshness.lifetime
    }
}

/// Returns how an answer to `request`, or to a GET with its fields, may be stored.
///
/// # Errors
/// The reason why it may not be stored.
pub(crate) fn judge(
    rules: &Rules,
    request: &Request,
    status: StatusCode,
    fields: &impl Fields,
    times: Times,
) -> Result<Keeping, Why> {
    let freshness = storable::storable(rules, &Method::GET, &request.fields, status, fields, times)?;
    let mut signature = Vec::new();
    vary::write_with(fields, &request.apart, &request.fields, &mut signature)?;
    if vary::is_by_client(fields) { Err(Why::VaryAny) } else { Ok(Keeping { freshness, signature }) }
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
