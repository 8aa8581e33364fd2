//! What clients often ask for next: a Markov model of order 1 and 2 over the URLs that a client asked for within [`WINDOW`] of each
//! other (prediction by partial matching, as in Fan, Cao, Lin and Jacobson, SIGMETRICS 1999).
//!
//! A context is the last URL, or the last two. Each remembers how often it occurred, and up to four successors with a count that
//! is never larger than the true one (as in Misra and Gries, 1982). A successor is predicted that followed at least
//! [`SUPPORT`] times, and in at least [`CONFIDENCE`] percent of the occurrences.
//!
//! **Whose associations count**: what one client alone does is predicted for this client only, and what fewer than [`CLIENTS`]
//! clients did is predicted for none of them. So nobody learns from a prediction what a single other client has asked for.
//!
//! [`WINDOW`]: crate::WINDOW

use crate::mix;
use crate::table::Table;

/// How often a successor has to have followed.
pub const SUPPORT: u32 = 10;
/// In how many of 100 occurrences of the context.
pub const CONFIDENCE: u32 = 50;
/// How many clients have to have asked for it so before it is predicted for others.
pub const CLIENTS: u32 = 3;
/// Successors that are predicted at once.
pub const AT_ONCE: usize = 2;
/// Contexts that are remembered.
pub const CONTEXTS: usize = 32_768;

/// Successors that a context remembers.
const SUCCESSORS: usize = 4;
/// At so many occurrences, all counts are halved: what is newer counts for more.
const HALVED_AT: u32 = 1_024;

/// The last URLs of a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Past {
    /// The last one.
    pub last: Option<u64>,
    /// That before it.
    pub before: Option<u64>,
}

impl Past {
    /// What is past once `url` has been asked for.
    #[must_use]
    pub fn then(self, url: u64) -> Self {
        Self { last: Some(url), before: self.last }
    }

    /// The contexts that this is, the longer one first.
    fn contexts(self) -> impl Iterator<Item = u64> {
        let one = self.last.map(|last| mix(last ^ 0x5851_f42d_4c95_7f2d));
        let two = self
            .last
            .zip(self.before)
            .map(|(last, before)| mix(mix(last).wrapping_add(before.rotate_left(21))));
        [two, one].into_iter().flatten()
    }
}

/// A prediction, and what it rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Successor {
    /// The URL.
    pub url: u64,
    /// How often it followed, at least.
    pub support: u32,
    /// How often the context occurred.
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
    /// 0: there is none.
    count: u32,
    clients: Clients,
}

/// Which clients asked for a successor.
#[derive(Clone, Copy, Debug, Default)]
struct Clients {
    first: u32,
    /// Each sets one of 32 bits, so that as many bits are set as there are clients at most.
    bits: u32,
    are_several: bool,
}

impl Default for Association {
    fn default() -> Self {
        Self { contexts: Table::new(CONTEXTS) }
    }
}

impl Association {
    /// Learns that `client` has asked for `url` after `past`.
    pub fn follows(&mut self, past: Past, url: u64, client: u64) {
        for context in past.contexts() {
            if let Some(context) = self.contexts.get_mut(context) {
                context.follow(url, client);
            }
        }
    }

    /// What `client`, whose URLs up to now are `past`, is predicted to ask for next, the surest first. Counts this occurrence, too.
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

    /// Bytes that it has allocated.
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

    /// Those that may be predicted for `client`, the surest first.
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

    /// Lets `client` go from one URL to the next, so often.
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
        // Half of the occurrences led elsewhere, then more than half.
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
        // Of two that set the same bit, one does not count: nine are more than three, however they are spread.
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
