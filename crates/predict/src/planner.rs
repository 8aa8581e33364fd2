//! Selects prefetches: predictions of storable responses that fit into the budget, from predictors that are right often
//! enough.

use std::collections::HashMap;

use larder_words::with_defaults;

use crate::association::{Association, LastUrls};
use crate::budget::{Budget, Share};
use crate::pending::{Key, PrefetchWatch};
use crate::precision::Switch;
use crate::sequence::{NumberedUrl, Range, Runs};
use crate::table::Table;
use crate::{Predictor, Predictors, WINDOW, mix};

/// The maximum of a planner's allocated memory, in bytes, for any input.
pub const MOST_BYTES: usize = 16 << 20;

/// The maximum number of histories; a history belongs to a client and a host.
const CLIENTS: usize = 8_192;
/// The maximum number of URLs that are known to be storable.
const URLS: usize = 16_384;
/// The maximum length of predicted URLs, in bytes.
pub(crate) const LONGEST_URL: usize = 512;
/// The maximum number of URLs, and sequences of URLs, that are remembered because a prefetch could not be stored.
const REFUSED: usize = 32_768;
/// The maximum number of sites with separate budgets and precision.
const SITES: usize = 4_096;
/// The minimum byte limit of a prefetch, since the expected size is an estimate.
const LEAST_BYTES: u64 = 16 << 10;

/// A GET request of a client.
#[derive(Clone, Copy, Debug)]
pub struct ClientRequest<'a> {
    /// The time, in milliseconds.
    pub now: u64,
    /// The client.
    pub client: u64,
    /// The site whose budget pays.
    pub site: u64,
    /// The scheme and authority of the URL; predicted URLs have the same.
    pub host: u64,
    /// The URL.
    pub url: u64,
    /// The text of the URL.
    pub text: &'a str,
    /// The requested range, if any.
    pub range: Option<Range>,
    /// The enabled predictors.
    pub kinds: Predictors,
    /// The share of the traffic that may be useless.
    pub share: Share,
}

/// The result of a client's request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answer {
    /// Whether the response came from the cache, without a request to the origin for this client.
    pub by_cache: bool,
    /// Whether the response is stored or will be, and the request had no credentials.
    pub is_stored: bool,
    /// The bytes that the client receives, if known.
    pub bytes: Option<u64>,
    /// The length of the complete content in bytes, if known.
    pub complete: Option<u64>,
}

/// A prediction that may be prefetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The predictor.
    pub kind: Predictor,
    /// The text of the URL.
    pub url: String,
    /// The URL, or `None` if it has never been requested.
    pub target: Option<u64>,
    /// The range; `None` for the whole content.
    pub range: Option<Range>,
    /// The limit of its content, in bytes.
    bytes: u64,
    template: Option<u64>,
}

/// The permit for a prefetch.
#[derive(Debug, PartialEq, Eq)]
pub struct Ticket {
    key: Key,
    template: Option<u64>,
    bytes: u64,
}

impl Ticket {
    /// Returns the bytes of content that may be fetched while no client requests it.
    pub fn most(&self) -> u64 {
        self.bytes
    }
}

/// The result of a prefetch, with the bytes of content that were fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrefetchResult {
    /// No request was sent.
    Unsent,
    /// The response is stored.
    Stored(u64),
    /// The response may not be stored, so it is not prefetched again.
    Refused(u64),
    /// The prefetch failed for another reason.
    Failed(u64),
}

/// The totals of one predictor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Started prefetches.
    pub started: u64,
    /// Started prefetches that sent no request.
    pub unsent: u64,
    /// Started prefetches whose response a client received in time.
    pub used: u64,
    /// Prefetches that no client used.
    pub unused: u64,
    /// Prefetches whose response could not be stored.
    pub refused: u64,
    /// Bytes of content fetched.
    pub bytes: u64,
    /// Bytes of content that no client used.
    pub unused_bytes: u64,
    /// Sites for which the predictor is off, since too few of its prefetches were used.
    pub off: u64,
}

impl Figures {
    /// Returns the used prefetches over those whose use is known; `None` if there are none.
    pub fn precision(&self) -> Option<f64> {
        let known = self.used + self.unused;
        (known > 0).then(|| self.used as f64 / known as f64)
    }
}

with_defaults! {
    /// Predicts requests and tracks their prefetches.
    #[derive(Debug)]
    pub struct Planner {
        pub(crate) association: Association = Association::default(),
        clients: Table<History> = Table::new(CLIENTS),
        pub(crate) urls: Table<KnownUrl> = Table::new(URLS),
        /// Hashes of URLs and templates that could not be stored. The later of two hashes replaces the earlier one in the
        /// same place.
        refused: Box<[u64]> = vec![0; REFUSED].into(),
        pending: PrefetchWatch = PrefetchWatch::default(),
        sites: HashMap<u64, Site> = HashMap::new(),
        figures: [Figures; 2] = <_>::default(),
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct History {
    past: LastUrls,
    asked: u64,
    runs: Runs,
}

/// A URL whose response can be stored.
#[derive(Debug)]
pub(crate) struct KnownUrl {
    pub(crate) text: Box<str>,
    pub(crate) bytes: u64,
}

#[derive(Debug, Default)]
struct Site {
    budget: Budget,
    switches: [Switch; 2],
}

impl Planner {
    /// Records a request, and adds the resulting predictions to `wishes`.
    pub fn asked(&mut self, ask: &ClientRequest<'_>, wishes: &mut Vec<Candidate>) {
        self.expire(ask.now);
        self.site(ask.site).budget.request(ask.share);
        let key = history_of(ask);
        let Some(history) = self.clients.entry(key, History::default) else { return };
        let numbered = NumberedUrl::of(ask.text).map(|numbered| (numbered, numbered.template()));
        let (mut next, mut following) = (None, None);
        match (ask.range, &numbered) {
            (Some(range), _) => following = history.runs.range(ask.url, range, ask.now),
            (None, Some((numbered, template))) => {
                next = history.runs.number(*template, (ask.url, numbered.number()), ask.now);
            }
            (None, None) => {}
        }
        let is_late = ask.now.saturating_sub(history.asked) > WINDOW;
        let past = if is_late { LastUrls::default() } else { history.past };
        history.asked = ask.now;
        // A repeated request for the same URL, such as for another range of it, does not change the history.
        if past.last != Some(ask.url) {
            history.past = past.then(ask.url);
            let now = history.past;
            self.association.follows(past, ask.url, ask.client);
            for successor in self.association.occurs(now, ask.client).filter(|_| ask.kinds.association) {
                self.wish_for(successor.url, wishes);
            }
        }
        if ask.kinds.sequence {
            if let Some(range) = following {
                self.wish_for_range(ask, range, wishes);
            }
            if let (Some((next, before)), Some((numbered, template))) = (next, numbered) {
                self.wish_for_number(ask, before, (numbered.with(next), template), wishes);
            }
        }
    }

    /// Records the result of a request that was passed to `asked` before.
    pub fn answered(&mut self, ask: &ClientRequest<'_>, answer: &Answer) {
        if let Some(bytes) = answer.bytes {
            self.site(ask.site).budget.bytes(ask.share, bytes);
        }
        let first = ask.range.map_or(u64::MAX, |(first, _)| first);
        if answer.by_cache {
            self.judge((ask.url, first), true, ask.now);
        }
        if answer.is_stored && ask.text.len() <= LONGEST_URL && !self.is_refused(ask.url) {
            let known = self.urls.entry(ask.url, || KnownUrl { text: ask.text.into(), bytes: 0 });
            if let (Some(known), Some(bytes)) = (known, answer.bytes) {
                known.bytes = bytes;
            }
        }
        if let (Some(complete), Some(history)) = (answer.complete, self.clients.get_mut(history_of(ask))) {
            history.runs.ends(ask.url, complete);
        }
    }

    /// Returns the permit to prefetch `wish`, whose URL is `target`, at the expense of `site`. Returns `None` if it may
    /// not be prefetched now.
    pub fn start(&mut self, wish: &Candidate, target: u64, site: u64, now: u64) -> Option<Ticket> {
        let key = (target, wish.range.map_or(u64::MAX, |(first, _)| first));
        let is_refused =
            self.is_refused(target) || wish.template.is_some_and(|template| self.is_refused(template));
        if is_refused || !self.pending.has_room_for(key) {
            return None;
        }
        let Site { budget, switches } = self.site(site);
        if !switches[wish.kind as usize].is_on(now) || !budget.take(wish.bytes) {
            return None;
        }
        self.pending.add(key, wish.kind, site, wish.bytes, now);
        self.figures[wish.kind as usize].started += 1;
        Some(Ticket { key, template: wish.template, bytes: wish.bytes })
    }

    /// Records the result of a prefetch.
    pub fn ended(&mut self, ticket: Ticket, ending: PrefetchResult, now: u64) {
        let Ticket { key, template, bytes: most } = ticket;
        let Some(prefetch) = self.pending.get(key) else { return };
        let (kind, site, was_used) = (prefetch.kind, prefetch.site, prefetch.is_used);
        let bytes = match ending {
            PrefetchResult::Unsent => 0,
            PrefetchResult::Stored(bytes)
            | PrefetchResult::Refused(bytes)
            | PrefetchResult::Failed(bytes) => bytes,
        };
        (prefetch.bytes, prefetch.is_running) = (bytes, false);
        let figures = &mut self.figures[kind as usize];
        figures.bytes += bytes;
        if was_used == Some(false) {
            figures.unused_bytes += bytes;
        }
        // If a client used the prefetch, the budget already has all its bytes back.
        if was_used != Some(true) {
            self.site(site).budget.spent(most, bytes);
        }
        match ending {
            PrefetchResult::Stored(_) => self.pending.settle(key),
            PrefetchResult::Failed(_) => self.judge(key, false, now),
            PrefetchResult::Refused(_) => {
                self.refuse(key.0);
                template.into_iter().for_each(|template| self.refuse(template));
                self.figures[kind as usize].refused += 1;
                self.judge(key, false, now);
            }
            PrefetchResult::Unsent => {
                if was_used.is_none() {
                    self.figures[kind as usize].unsent += 1;
                    self.site(site).budget.give_request();
                    self.pending.forget(key);
                }
                self.pending.settle(key);
            }
        }
    }

    /// Returns the totals of `kind`, as known at `now`.
    pub fn figures(&mut self, kind: Predictor, now: u64) -> Figures {
        self.expire(now);
        let off = self.sites.values().filter(|site| !site.switches[kind as usize].is_on(now)).count();
        Figures { off: off as u64, ..self.figures[kind as usize] }
    }

    /// Returns the bytes that the planner has allocated: never more than [`MOST_BYTES`].
    pub fn heap_bytes(&self) -> usize {
        let tables = self.association.heap_bytes() + self.clients.bytes() + self.urls.bytes();
        let texts: usize = self.urls.values().map(|known| known.text.len()).sum();
        let sites = self.sites.capacity() * 8 / 7 * (size_of::<(u64, Site)>() + 1);
        tables + texts + size_of_val(&*self.refused) + self.pending.heap_bytes() + sites
    }

    fn wish_for(&self, target: u64, wishes: &mut Vec<Candidate>) {
        let Some(known) = self.urls.get(target) else { return };
        let (kind, url, bytes) = (Predictor::Association, known.text.to_string(), allowed(known.bytes));
        wishes.push(Candidate { kind, url, target: Some(target), range: None, bytes, template: None });
    }

    fn wish_for_range(&self, ask: &ClientRequest<'_>, range: Range, wishes: &mut Vec<Candidate>) {
        if self.urls.get(ask.url).is_some() {
            let (kind, target, bytes) = (Predictor::Sequence, Some(ask.url), range.1 - range.0 + 1);
            let url = ask.text.to_owned();
            wishes.push(Candidate { kind, url, target, range: Some(range), bytes, template: None });
        }
    }

    /// Wishes for the next URL of a sequence if the current or the preceding one could be stored.
    fn wish_for_number(
        &self,
        ask: &ClientRequest<'_>,
        before: u64,
        (url, template): (String, u64),
        wishes: &mut Vec<Candidate>,
    ) {
        let known = self.urls.get(ask.url).or_else(|| self.urls.get(before));
        if let Some(known) = known.filter(|_| url.len() <= LONGEST_URL) {
            let (kind, bytes) = (Predictor::Sequence, allowed(known.bytes));
            wishes.push(Candidate { kind, url, target: None, range: None, bytes, template: Some(template) });
        }
    }

    /// Records whether a prefetch was used, if that was not known.
    fn judge(&mut self, key: Key, is_used: bool, now: u64) {
        let Some(prefetch) = self.pending.get(key).filter(|prefetch| prefetch.is_used.is_none()) else {
            return;
        };
        prefetch.is_used = Some(is_used);
        let (kind, site, bytes, is_running) =
            (prefetch.kind, prefetch.site, prefetch.bytes, prefetch.is_running);
        let figures = &mut self.figures[kind as usize];
        match is_used {
            true => figures.used += 1,
            false => figures.unused += 1,
        }
        if !is_used && !is_running {
            figures.unused_bytes += bytes;
        }
        let site = self.site(site);
        site.switches[kind as usize].measured(is_used, now);
        if is_used {
            site.budget.give_request();
            site.budget.give_bytes(bytes);
        }
        self.pending.settle(key);
    }

    fn expire(&mut self, now: u64) {
        while let Some(key) = self.pending.expired(now) {
            self.judge(key, false, now);
        }
    }

    fn site(&mut self, site: u64) -> &mut Site {
        // The sites lose their saved budgets and their measurements, which is safe.
        if self.sites.len() >= SITES && !self.sites.contains_key(&site) {
            self.sites.clear();
        }
        self.sites.entry(site).or_default()
    }

    fn refuse(&mut self, mark: u64) {
        self.refused[place(mark)] = mark;
        self.urls.remove(mark);
    }

    fn is_refused(&self, mark: u64) -> bool {
        self.refused[place(mark)] == mark
    }
}

/// Returns the byte limit of a prefetch with an `expected` size.
fn allowed(expected: u64) -> u64 {
    expected.saturating_mul(2).max(LEAST_BYTES)
}

fn place(mark: u64) -> usize {
    (mark % REFUSED as u64) as usize
}

fn history_of(ask: &ClientRequest<'_>) -> u64 {
    mix(ask.client ^ ask.host.rotate_left(32))
}
