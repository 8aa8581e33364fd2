//! Predicts the requests that often follow in a client's sequence: a Markov model of order 1 and 2 over the URLs that a
//! client requested within [`WINDOW`] of each other (prediction by partial matching, as in Fan, Cao, Lin and Jacobson,
//! SIGMETRICS 1999).
//!
//! A context is the last URL, or the last two. The model stores for each context how often it occurred, and up to four
//! successors with a count that is never larger than the true one (as in Misra and Gries, 1982). It predicts a
//! successor that followed at least [`SUPPORT`] times, and in at least [`CONFIDENCE`] percent of the occurrences.
//!
//! **Privacy**: a sequence that only one client has requested is predicted for this client only, and a sequence of
//! several but fewer than [`CLIENTS`] clients is predicted for no client. So a prediction never reveals the requests of
//! a single other client.
//!
//! [`WINDOW`]: crate::WINDOW

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
/// The maximum number of stored contexts.
pub const CONTEXTS: usize = 32_768;

/// The maximum number of successors of a context.
const SUCCESSORS: usize = 4;
/// The number of occurrences at which all counts are halved, so that newer requests count for more.
const HALVED_AT: u32 = 1_024;

/// The last two URLs of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// The last URL.
    pub last: Option<u64>,
    /// The URL before the last one.
    pub before: Option<u64>,
}

impl Past {
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Successor {
    /// The URL.
    pub url: u64,
    /// A lower bound of the number of times that it followed.
    pub support: u32,
    /// The number of occurrences of the context.
    pub of: u32,
}

/// The model.
#[derive(Debug)]
pub struct Association {
    contexts: Table<Context>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Context {
    seen: u32,
    followers: [Follower; SUCCESSORS],
}

#[derive(Clone, Copy, Debug, Default)]
struct Follower {
    url: u64,
    /// The number of times that it followed; 0 for an unused entry.
    count: u32,
    clients: Clients,
}

/// The clients that requested a successor.
#[derive(Clone, Copy, Debug, Default)]
struct Clients {
    first: u32,
    /// Each client sets one of 32 bits, so that the number of set bits is a lower bound of the number of clients.
    bits: u32,
    are_several: bool,
}

impl Default for Association {
    fn default() -> Self {
        Self { contexts: Table::new(CONTEXTS) }
    }
}

impl Association {
    /// Records that `client` has requested `url` after `past`.
    pub fn follows(&mut self, past: Past, url: u64, client: u64) {
        for context in past.contexts() {
            if let Some(context) = self.contexts.get_mut(context) {
                context.follow(url, client);
            }
        }
    }

    /// Returns the predicted next requests of `client`, whose URLs so far are `past`, the most probable first. Counts
    /// this occurrence, too.
    pub fn occurs(&mut self, past: Past, client: u64) -> impl Iterator<Item = Successor> + use<> {
        let mut found = [None; AT_ONCE];
        for key in past.contexts() {
            let Some(context) = self.contexts.entry(key, Context::default) else { continue };
            for successor in context.successors(client) {
                let is_known = found.iter().flatten().any(|other: &Successor| other.url == successor.url);
                if let Some(place) = found.iter_mut().find(|place| place.is_none()).filter(|_| !is_known) {
                    *place = Some(successor);
                }
            }
            context.occur();
        }
        found.into_iter().flatten()
    }

    /// Returns the bytes that the model has allocated.
    pub fn heap_bytes(&self) -> usize {
        self.contexts.bytes()
    }
}

impl Context {
    fn occur(&mut self) {
        self.seen += 1;
        if self.seen >= HALVED_AT {
            self.seen /= 2;
            self.followers.iter_mut().for_each(|follower| follower.count /= 2);
        }
    }

    fn follow(&mut self, url: u64, client: u64) {
        let known = self.followers.iter_mut().find(|follower| follower.count > 0 && follower.url == url);
        if let Some(follower) = known {
            follower.count += 1;
            follower.clients.add(client);
            return;
        }
        let Some(least) = self.followers.iter_mut().min_by_key(|follower| follower.count) else { return };
        match least.count {
            0 => {
                *least = Follower { url, count: 1, clients: Clients::default() };
                least.clients.add(client);
            }
            _ => least.count -= 1,
        }
    }

    /// Returns the successors that may be predicted for `client`, the most probable first.
    fn successors(&self, client: u64) -> impl Iterator<Item = Successor> + use<> {
        let mut likely = self.followers;
        likely.sort_by_key(|follower| std::cmp::Reverse(follower.count));
        let of = self.seen;
        let is_sure = move |follower: &Follower| {
            follower.count >= SUPPORT
                && u64::from(follower.count) * 100 >= u64::from(CONFIDENCE) * u64::from(of)
                && follower.clients.are_open_to(client)
        };
        let successor = move |Follower { url, count, .. }| Successor { url, support: count, of };
        likely.into_iter().filter(is_sure).map(successor)
    }
}

impl Clients {
    fn add(&mut self, client: u64) {
        let (tag, bit) = Self::marks(client);
        if self.bits == 0 {
            self.first = tag;
        }
        self.are_several |= self.first != tag;
        self.bits |= bit;
    }

    fn are_open_to(self, client: u64) -> bool {
        let is_own = !self.are_several && self.first == Self::marks(client).0;
        is_own || self.bits.count_ones() >= CLIENTS
    }

    fn marks(client: u64) -> (u32, u32) {
        let mixed = mix(client);
        (mixed as u32, 1 << (mixed >> 59))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests the URLs in sequence as `client`, `times` times.
    fn walk(model: &mut Association, urls: &[u64], client: u64, times: u32) {
        for _ in 0..times {
            let mut past = Past::default();
            for &url in urls {
                model.follows(past, url, client);
                past = past.then(url);
                model.occurs(past, client).for_each(drop);
            }
        }
    }

    fn predicted(model: &mut Association, urls: &[u64], client: u64) -> Vec<u64> {
        let past = urls.iter().fold(Past::default(), |past, &url| past.then(url));
        model.occurs(past, client).map(|successor| successor.url).collect()
    }

    #[test]
    fn what_followed_often_enough_is_predicted() {
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
    fn what_one_client_does_is_predicted_for_no_other_and_what_three_do_for_all() {
        let mut model = Association::default();
        walk(&mut model, &[1, 2], 100, 50);
        assert_eq!((predicted(&mut model, &[1], 100), predicted(&mut model, &[1], 101)), (vec![2], vec![]));
        walk(&mut model, &[1, 2], 101, 50);
        assert_eq!((predicted(&mut model, &[1], 100), predicted(&mut model, &[1], 102)), (vec![], vec![]));
        // Clients that set the same bit count as one: the bits of nine clients are at least three.
        (102..109).for_each(|client| walk(&mut model, &[1, 2], client, 1));
        assert_eq!(predicted(&mut model, &[1], 999), [2]);
    }

    #[test]
    fn old_habits_fade() {
        let mut model = Association::default();
        walk(&mut model, &[1, 2], 7, 5_000);
        walk(&mut model, &[1, 3], 7, 2_000);
        assert_eq!(predicted(&mut model, &[1], 7), [3]);
    }
}
