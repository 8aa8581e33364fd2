//! Predicts the requests that often follow in a client's sequence: a Markov model of order 1 and 2 over the URLs that a
//! client requested within [`WINDOW`] of each other (prediction by partial matching, as in Fan, Cao, Lin and Jacobson,
//! SIGMETRICS 1999).
//!
//! A context is the last URL, or the last two. The model stores for each context how often it occurred, and up to four
//! successors with a count that is never larger than the true one (as in Misra and Gries, 1982). It predicts a
//! successor that followed at least [`SUPPORT`] times, and in at least [`CONFIDENCE`] percent of the occurrences.
//!
//! **Privacy**: predictions for a client follow from its own requests, counted separately, and from the common counts of
//! all clients. The common counts predict only successors of at least [`CLIENTS`] clients, and take effect only after the
//! requests of at least as many clients since the last time. So neither a prediction nor the lack of one reveals the
//! requests of a single other client.
//!
//! [`WINDOW`]: crate::WINDOW

use larder_words::with_defaults;

use crate::copy_reader::CopyReader;
use crate::mix;
use crate::table::Table;

/// The minimum number of times that a successor has to follow.
pub const SUPPORT: u32 = 10;
/// The minimum share of a context's occurrences with the successor, in percent.
pub const CONFIDENCE: u32 = 50;
/// The minimum number of clients with a sequence before it is predicted for other clients.
pub const CLIENTS: u32 = 3;
/// The maximum number of successors in one prediction.
pub const AT_ONCE: usize = 2;
/// The maximum number of stored contexts of all clients.
pub const CONTEXTS: usize = 28_672;
/// The maximum number of stored contexts of single clients.
pub const OWN_CONTEXTS: usize = 8_192;

/// The maximum number of successors of a context.
const SUCCESSORS: usize = 4;
/// The number of occurrences at which all counts are halved, so that newer requests count for more.
const HALVED_AT: u16 = 1_024;

/// The last two URLs of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LastUrls {
    /// The last URL.
    pub last: Option<u64>,
    /// The URL before the last one.
    pub before: Option<u64>,
}

impl LastUrls {
    /// Returns the past after a request for `url`.
    #[must_use]
    pub fn then(self, url: u64) -> Self {
        Self { last: Some(url), before: self.last }
    }

    /// Returns the contexts of this past, the longer one first.
    fn contexts(self) -> impl Iterator<Item = u64> {
        let one = self.last.map(|last| mix(last ^ 0x5851_f42d_4c95_7f2d));
        let two = self
            .last
            .zip(self.before)
            .map(|(last, before)| mix(mix(last).wrapping_add(before.rotate_left(21))));
        [two, one].into_iter().flatten()
    }
}

/// A prediction with its evidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Successor {
    /// The URL.
    pub url: u64,
    /// A lower bound of the number of times that it followed.
    pub support: u32,
    /// The number of occurrences of the context.
    pub of: u32,
}

with_defaults! {
    /// The model.
    #[derive(Debug)]
    pub struct Association {
        common: Table<Common> = Table::new(CONTEXTS),
        /// By context and client.
        own: Table<Counts> = Table::new(OWN_CONTEXTS),
    }
}

/// The occurrences of a context, and its successors.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    seen: u16,
    /// By successor; 0 for an unused entry.
    counts: [u16; SUCCESSORS],
    urls: [u64; SUCCESSORS],
}

/// A context of all clients.
#[derive(Clone, Copy, Debug, Default)]
struct Common {
    counts: Counts,
    clients: [Clients; SUCCESSORS],
    /// The clients since `predicted` was determined.
    recent: Clients,
    predicted: Successors,
}

/// The most probable successors, the most probable first. An unused entry has no support.
type Successors = [Successor; AT_ONCE];

/// A set of clients. Each sets one of 32 bits, so that the number of set bits is a lower bound of the number of clients.
#[derive(Clone, Copy, Debug, Default)]
struct Clients(u32);

impl Association {
    /// Records that `client` has requested `url` after `past`.
    pub fn follows(&mut self, past: LastUrls, url: u64, client: u64) {
        for context in past.contexts() {
            if let Some(common) = self.common.get_mut(context) {
                common.follow(url, client);
            }
            if let Some(own) = self.own.get_mut(of_client(context, client)) {
                own.follow(url);
            }
        }
    }

    /// Returns the predicted next requests of `client`, whose URLs so far are `past`, the most probable first. Counts
    /// this occurrence, too.
    pub fn occurs(&mut self, past: LastUrls, client: u64) -> impl Iterator<Item = Successor> + use<> {
        let mut found = [None; AT_ONCE];
        let mut find = |likely: Successors| {
            for successor in likely.into_iter().filter(|successor| successor.support > 0) {
                let is_known = found.iter().flatten().any(|other: &Successor| other.url == successor.url);
                if let Some(place) = found.iter_mut().find(|place| place.is_none()).filter(|_| !is_known) {
                    *place = Some(successor);
                }
            }
        };
        for context in past.contexts() {
            if let Some(own) = self.own.entry(of_client(context, client), Counts::default) {
                find(own.likely(|_| true));
                own.occur();
            }
            if let Some(common) = self.common.entry(context, Common::default) {
                find(common.occur(client));
            }
        }
        found.into_iter().flatten()
    }

    /// Appends the contexts of all clients.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.extend((self.common.iter().count() as u32).to_le_bytes());
        for (context, credit, Common { counts, clients, recent, predicted }) in self.common.iter() {
            out.extend(context.to_le_bytes());
            out.push(credit);
            out.extend(counts.seen.to_le_bytes());
            counts.counts.iter().for_each(|count| out.extend(count.to_le_bytes()));
            counts.urls.iter().for_each(|url| out.extend(url.to_le_bytes()));
            clients.iter().chain([recent]).for_each(|clients| out.extend(clients.0.to_le_bytes()));
            for Successor { url, support, of } in predicted {
                out.extend(url.to_le_bytes());
                out.extend([*support, *of].map(u32::to_le_bytes).as_flattened());
            }
        }
    }

    /// Reads what [`write`](Self::write) has written.
    pub(crate) fn read(copy: &mut CopyReader<'_>) -> Option<Self> {
        let mut model = Self::default();
        for _ in 0..copy.u32()? {
            let (context, credit, mut common) = (copy.u64()?, copy.u8()?, Common::default());
            common.counts.seen = copy.u16().filter(|seen| *seen < HALVED_AT)?;
            for count in &mut common.counts.counts {
                *count = copy.u16()?;
            }
            for url in &mut common.counts.urls {
                *url = copy.u64()?;
            }
            for clients in common.clients.iter_mut().chain([&mut common.recent]) {
                *clients = Clients(copy.u32()?);
            }
            for successor in &mut common.predicted {
                *successor = Successor { url: copy.u64()?, support: copy.u32()?, of: copy.u32()? };
            }
            model.common.put(context, credit, common);
        }
        Some(model)
    }

    /// Returns the bytes that the model has allocated.
    pub fn heap_bytes(&self) -> usize {
        self.common.bytes() + self.own.bytes()
    }
}

fn of_client(context: u64, client: u64) -> u64 {
    mix(context ^ mix(client))
}

impl Counts {
    fn occur(&mut self) {
        self.seen += 1;
        if self.seen >= HALVED_AT {
            self.seen /= 2;
            self.counts.iter_mut().for_each(|count| *count /= 2);
        }
    }

    /// Returns the place of the successor `url`, and whether it was not there before.
    fn follow(&mut self, url: u64) -> Option<(usize, bool)> {
        let mut places = 0..SUCCESSORS;
        if let Some(known) = places.clone().find(|&at| self.counts[at] > 0 && self.urls[at] == url) {
            // Occurrences that were counted before the context was replaced are missing, so there is no other limit.
            self.counts[known] = self.counts[known].saturating_add(1);
            return Some((known, false));
        }
        let Some(unused) = places.find(|&at| self.counts[at] == 0) else {
            let least = self.counts.iter_mut().min()?;
            *least -= 1;
            return None;
        };
        (self.counts[unused], self.urls[unused]) = (1, url);
        Some((unused, true))
    }

    /// Returns the successors that support and confidence allow, of those at the places that `is_open` allows.
    fn likely(&self, is_open: impl Fn(usize) -> bool) -> Successors {
        let of = u32::from(self.seen);
        let is_sure = |support: u32| support >= SUPPORT && support * 100 >= CONFIDENCE * of;
        let mut likely = [Successor::default(); SUCCESSORS];
        for (at, successor) in likely.iter_mut().enumerate() {
            let support = self.counts[at].into();
            if is_open(at) && is_sure(support) {
                *successor = Successor { url: self.urls[at], support, of };
            }
        }
        likely.sort_by_key(|successor| std::cmp::Reverse(successor.support));
        std::array::from_fn(|at| likely[at])
    }
}

impl Common {
    /// Returns the predictions, and counts this occurrence. The predictions are determined again only if enough clients
    /// have changed the counts since the last time.
    fn occur(&mut self, client: u64) -> Successors {
        if self.recent.are_enough() {
            self.recent = Clients::default();
            self.predicted = self.counts.likely(|at| self.clients[at].are_enough());
        }
        self.counts.occur();
        self.recent.add(client);
        self.predicted
    }

    fn follow(&mut self, url: u64, client: u64) {
        if let Some((at, is_new)) = self.counts.follow(url) {
            if is_new {
                self.clients[at] = Clients::default();
            }
            self.clients[at].add(client);
        }
        self.recent.add(client);
    }
}

impl Clients {
    fn add(&mut self, client: u64) {
        self.0 |= 1 << (mix(client) >> 59);
    }

    fn are_enough(self) -> bool {
        self.0.count_ones() >= CLIENTS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests the URLs in sequence as `client`, `times` times.
    fn walk(model: &mut Association, urls: &[u64], client: u64, times: u32) {
        for _ in 0..times {
            let mut past = LastUrls::default();
            for &url in urls {
                model.follows(past, url, client);
                past = past.then(url);
                model.occurs(past, client).for_each(drop);
            }
        }
    }

    fn predicted(model: &mut Association, urls: &[u64], client: u64) -> Vec<u64> {
        let past = urls.iter().fold(LastUrls::default(), |past, &url| past.then(url));
        model.occurs(past, client).map(|successor| successor.url).collect()
    }

    #[test]
    fn a_url_that_often_follows_another_is_predicted() {
        let mut model = Association::default();
        walk(&mut model, &[1, 2], 7, SUPPORT - 1);
        assert_eq!(predicted(&mut model, &[1], 7), []);
        walk(&mut model, &[1, 2], 7, 2);
        assert_eq!(predicted(&mut model, &[1], 7), [2]);
        // At first, half of the occurrences lead to another URL; then more than half do.
        walk(&mut model, &[1, 3], 7, SUPPORT);
        assert_eq!(predicted(&mut model, &[1], 7), []);
    }

    #[test]
    fn two_urls_tell_more_than_one() {
        let mut model = Association::default();
        walk(&mut model, &[1, 5, 10], 7, 60);
        walk(&mut model, &[2, 5, 20], 7, 20);
        assert_eq!(predicted(&mut model, &[1, 5], 7).first(), Some(&10));
        assert_eq!(predicted(&mut model, &[2, 5], 7).first(), Some(&20));
        assert_eq!(predicted(&mut model, &[3, 5], 7), [10]);
    }

    #[test]
    fn predictions_learned_from_one_client_stay_its_own_until_three_agree() {
        let mut model = Association::default();
        walk(&mut model, &[1, 2], 100, 50);
        walk(&mut model, &[1, 2], 101, 50);
        assert_eq!(predicted(&mut model, &[1], 100), [2]);
        assert_eq!(predicted(&mut model, &[1], 999), []);
        // Clients that set the same bit count as one: the bits of nine clients are at least three.
        (102..109).for_each(|client| walk(&mut model, &[1, 2], client, 1));
        assert_eq!(predicted(&mut model, &[1], 999), [2]);
    }

    #[test]
    fn a_client_at_the_edge_of_the_limits_learns_nothing_about_another() {
        // Half of the client's occurrences lead to each URL: after one more, neither has half.
        let mut model = Association::default();
        walk(&mut model, &[1, 2], 100, SUPPORT);
        walk(&mut model, &[1, 3], 100, SUPPORT);
        walk(&mut model, &[1, 4], 101, 50);
        walk(&mut model, &[1, 2], 101, 50);
        assert_eq!(predicted(&mut model, &[1], 100), [2, 3]);
        assert_eq!(predicted(&mut model, &[1], 100), []);
    }

    #[test]
    fn two_clients_change_no_prediction_for_a_third() {
        let mut model = Association::default();
        // By mark, a client that has it.
        let clients: Vec<u64> =
            (0..32).filter_map(|mark| (0..10_000).find(|client| mix(*client) >> 59 == mark)).collect();
        clients[..30].iter().for_each(|client| walk(&mut model, &[1, 2], *client, 1));
        // From the first of these occurrences on, only two clients have changed the counts.
        [29, 28].iter().for_each(|mark| walk(&mut model, &[1, 3], clients[*mark], 2_000));
        assert_eq!(predicted(&mut model, &[1], clients[5]), [2]);
        assert_eq!(predicted(&mut model, &[1], clients[5]), []);
    }

    #[test]
    fn old_habits_fade() {
        let mut model = Association::default();
        walk(&mut model, &[1, 2], 7, 5_000);
        walk(&mut model, &[1, 3], 7, 2_000);
        assert_eq!(predicted(&mut model, &[1], 7), [3]);
    }
}
