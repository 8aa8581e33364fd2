//! Decides what is prefetched: predictions, as far as they are about what may be stored, fit into the budget, and are right often
//! enough.

use std::collections::HashMap;

use crate::association::{Association, Past};
use crate::budget::{Budget, Share};
use crate::pending::{Key, Pending};
use crate::precision::Switch;
use crate::sequence::{Numbered, Range, Runs};
use crate::table::Table;
use crate::{Predictor, Predictors, WINDOW, mix};

/// What a planner has allocated at most, in bytes, whatever it is told.
pub const MOST_BYTES: usize = 16 << 20;

/// Clients of hosts whose last requests are remembered.
const CLIENTS: usize = 8_192;
/// URLs that are known to be storable.
const URLS: usize = 16_384;
/// Longer URLs are not predicted, in bytes.
const LONGEST_URL: usize = 512;
/// URLs, and sequences of URLs, that are remembered because a prefetch of one could not be stored.
const REFUSED: usize = 32_768;
/// Sites whose budgets and precision are told apart.
const SITES: usize = 4_096;
/// Bytes that each prefetch may have: the size that is expected is a guess.
const LEAST_BYTES: u64 = 16 << 10;

/// A GET of a client.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// When, in milliseconds.
    pub now: u64,
    /// The client.
    pub client: u64,
    /// Whose budget pays.
    pub site: u64,
    /// Scheme and authority of the URL: what is predicted has the same.
    pub host: u64,
    /// The URL.
    pub url: u64,
    /// The URL in full.
    pub text: &'a str,
    /// The range that it asks for, if it does.
    pub range: Option<Range>,
    /// What may be predicted.
    pub kinds: Predictors,
    /// The share of the traffic that may be of no use.
    pub share: Share,
}

/// What it was answered with.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answer {
    /// No origin was asked for this client.
    pub by_cache: bool,
    /// The response is stored, or will be, and was not asked for with credentials.
    pub is_stored: bool,
    /// Bytes that the client gets, if that is known.
    pub bytes: Option<u64>,
    /// How long the content is as a whole, if that is known.
    pub complete: Option<u64>,
}

/// A prediction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// How it was made.
    pub kind: Predictor,
    /// The URL in full.
    pub url: String,
    /// The URL, unless it has never been asked for.
    pub target: Option<u64>,
    /// The range of it; `None` for all.
    pub range: Option<Range>,
    /// What it may have, in bytes.
    bytes: u64,
    template: Option<u64>,
}

/// The right to prefetch something.
#[derive(Debug, PartialEq, Eq)]
pub struct Ticket {
    key: Key,
    template: Option<u64>,
    bytes: u64,
}

impl Ticket {
    /// Bytes of content that may be fetched as long as no client asks for it.
    pub fn most(&self) -> u64 {
        self.bytes
    }
}

/// How a prefetch ended, with the bytes of content that were fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was not begun: no request was sent.
    Unsent,
    /// The response is stored.
    Stored(u64),
    /// It may not be stored: it is not to be prefetched again.
    Refused(u64),
    /// Nothing came of it, for another reason.
    Failed(u64),
}

/// What has been done so far, by one kind of prediction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Prefetches.
    pub started: u64,
    /// Those of them that sent no request in the end.
    pub unsent: u64,
    /// Those of them whose response a client has got in time.
    pub used: u64,
    /// Those that were of no use.
    pub unused: u64,
    /// Those of them whose response could not be stored.
    pub refused: u64,
    /// Bytes of content fetched.
    pub bytes: u64,
    /// Those of them that were of no use.
    pub unused_bytes: u64,
    /// Sites for which it is switched off, since too few were of use.
    pub off: u64,
}

impl Figures {
    /// Used ones over those whose use is known; `None` of nothing.
    pub fn precision(&self) -> Option<f64> {
        let known = self.used + self.unused;
        (known > 0).then(|| self.used as f64 / known as f64)
    }
}

/// Predicts, and keeps the books.
#[derive(Debug)]
pub struct Planner {
    association: Association,
    clients: Table<History>,
    urls: Table<Known>,
    /// The marks of what could not be stored; of two at one place, the later one counts.
    refused: Box<[u64]>,
    pending: Pending,
    sites: HashMap<u64, Site>,
    figures: [Figures; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct History {
    past: Past,
    asked: u64,
    runs: Runs,
}

/// A URL whose response can be stored.
#[derive(Debug)]
struct Known {
    text: Box<str>,
    bytes: u64,
}

#[derive(Debug, Default)]
struct Site {
    budget: Budget,
    switches: [Switch; 2],
}

impl Default for Planner {
    fn default() -> Self {
        Self {
            association: Association::default(),
            clients: Table::new(CLIENTS),
            urls: Table::new(URLS),
            refused: vec![0; REFUSED].into(),
            pending: Pending::default(),
            sites: HashMap::new(),
            figures: <_>::default(),
        }
    }
}

impl Planner {
    /// Learns from a request, and adds what may be prefetched because of it to `wishes`.
    pub fn asked(&mut self, ask: &Ask<'_>, wishes: &mut Vec<Wish>) {
        self.expire(ask.now);
        self.site(ask.site).budget.request(ask.share);
        let key = history_of(ask);
        let Some(history) = self.clients.entry(key, History::default) else { return };
        let numbered = Numbered::of(ask.text).map(|numbered| (numbered, numbered.template()));
        let (mut next, mut following) = (None, None);
        match (ask.range, &numbered) {
            (Some(range), _) => following = history.runs.range(ask.url, range, ask.now),
            (None, Some((numbered, template))) => {
                next = history.runs.number(*template, (ask.url, numbered.number()), ask.now);
            }
            (None, None) => {}
        }
        let is_late = ask.now.saturating_sub(history.asked) > WINDOW;
        let past = if is_late { Past::default() } else { history.past };
        history.asked = ask.now;
        // A client that asks for the same again, such as for another range of it, has gone nowhere.
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

    /// Learns how a request was answered that it was told of before.
    pub fn answered(&mut self, ask: &Ask<'_>, answer: &Answer) {
        if let Some(bytes) = answer.bytes {
            self.site(ask.site).budget.bytes(ask.share, bytes);
        }
        let first = ask.range.map_or(u64::MAX, |(first, _)| first);
        if answer.by_cache {
            self.judge((ask.url, first), true, ask.now);
        }
        if answer.is_stored && ask.text.len() <= LONGEST_URL && !self.is_refused(ask.url) {
            let known = self.urls.entry(ask.url, || Known { text: ask.text.into(), bytes: 0 });
            if let (Some(known), Some(bytes)) = (known, answer.bytes) {
                known.bytes = bytes;
            }
        }
        if let (Some(complete), Some(history)) = (answer.complete, self.clients.get_mut(history_of(ask))) {
            history.runs.ends(ask.url, complete);
        }
    }

    /// The right to prefetch what `wish` says, which is `target`, at the cost of `site`; `None` if it may not be prefetched now.
    pub fn start(&mut self, wish: &Wish, target: u64, site: u64, now: u64) -> Option<Ticket> {
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

    /// Notes how it ended.
    pub fn ended(&mut self, ticket: Ticket, ending: Ending, now: u64) {
        let Ticket { key, template, bytes: most } = ticket;
        let Some(prefetch) = self.pending.get(key) else { return };
        let (kind, site, was_used) = (prefetch.kind, prefetch.site, prefetch.is_used);
        let bytes = match ending {
            Ending::Unsent => 0,
            Ending::Stored(bytes) | Ending::Refused(bytes) | Ending::Failed(bytes) => bytes,
        };
        (prefetch.bytes, prefetch.is_running) = (bytes, false);
        let figures = &mut self.figures[kind as usize];
        figures.bytes += bytes;
        if was_used == Some(false) {
            figures.unused_bytes += bytes;
        }
        // If it was used, all that it had taken has been given back.
        if was_used != Some(true) {
            self.site(site).budget.spent(most, bytes);
        }
        match ending {
            Ending::Stored(_) => self.pending.settle(key),
            Ending::Failed(_) => self.judge(key, false, now),
            Ending::Refused(_) => {
                self.refuse(key.0);
                template.into_iter().for_each(|template| self.refuse(template));
                self.figures[kind as usize].refused += 1;
                self.judge(key, false, now);
            }
            Ending::Unsent => {
                if was_used.is_none() {
                    self.figures[kind as usize].unsent += 1;
                    self.site(site).budget.give_request();
                    self.pending.forget(key);
                }
                self.pending.settle(key);
            }
        }
    }

    /// What was done by `kind` so far, as is known at `now`.
    pub fn figures(&mut self, kind: Predictor, now: u64) -> Figures {
        self.expire(now);
        let off = self.sites.values().filter(|site| !site.switches[kind as usize].is_on(now)).count();
        Figures { off: off as u64, ..self.figures[kind as usize] }
    }

    /// Bytes that it has allocated: never more than [`MOST_BYTES`].
    pub fn heap_bytes(&self) -> usize {
        let tables = self.association.heap_bytes() + self.clients.bytes() + self.urls.bytes();
        let texts: usize = self.urls.values().map(|known| known.text.len()).sum();
        let sites = self.sites.capacity() * 8 / 7 * (size_of::<(u64, Site)>() + 1);
        tables + texts + size_of_val(&*self.refused) + self.pending.heap_bytes() + sites
    }

    fn wish_for(&self, target: u64, wishes: &mut Vec<Wish>) {
        let Some(known) = self.urls.get(target) else { return };
        let (kind, url, bytes) = (Predictor::Association, known.text.to_string(), allowed(known.bytes));
        wishes.push(Wish { kind, url, target: Some(target), range: None, bytes, template: None });
    }

    fn wish_for_range(&self, ask: &Ask<'_>, range: Range, wishes: &mut Vec<Wish>) {
        if self.urls.get(ask.url).is_some() {
            let (kind, target, bytes) = (Predictor::Sequence, Some(ask.url), range.1 - range.0 + 1);
            let url = ask.text.to_owned();
            wishes.push(Wish { kind, url, target, range: Some(range), bytes, template: None });
        }
    }

    /// Only where the URL before it, or it itself, could be stored.
    fn wish_for_number(
        &self,
        ask: &Ask<'_>,
        before: u64,
        (url, template): (String, u64),
        wishes: &mut Vec<Wish>,
    ) {
        let known = self.urls.get(ask.url).or_else(|| self.urls.get(before));
        if let Some(known) = known.filter(|_| url.len() <= LONGEST_URL) {
            let (kind, bytes) = (Predictor::Sequence, allowed(known.bytes));
            wishes.push(Wish { kind, url, target: None, range: None, bytes, template: Some(template) });
        }
    }

    /// Notes whether a prefetch was of use, if that was not known.
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
        // Without what they have saved up, and with nothing measured: that is on the safe side.
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

/// The bytes that a prefetch may have whose size is expected to be this.
fn allowed(expected: u64) -> u64 {
    expected.saturating_mul(2).max(LEAST_BYTES)
}

fn place(mark: u64) -> usize {
    (mark % REFUSED as u64) as usize
}

fn history_of(ask: &Ask<'_>) -> u64 {
    mix(ask.client ^ ask.host.rotate_left(32))
}
