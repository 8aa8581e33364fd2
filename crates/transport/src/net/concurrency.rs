//! Bounds concurrent requests to origins and concurrent handshakes of clients, and the number of waiting ones.
//!
//! Neither slow origins nor greedy clients block others. The share of a site is three times the number of free permits,
//! that of a client the number of free permits. So one client gets at most half of all permits, several greedy clients
//! get less each, and some permits stay free for clients that hold none.
//!
//! Clients may be many people behind one address, though. A [lent](ConcurrencyLimit::lent_out) limit reserves only a
//! few permits for these shares. The others go to anybody while no request waits, and otherwise to the waiting client
//! that holds the fewest. So one client that is alone uses nearly all permits, and clients that compete get equal numbers.
//!
//! A coalesced fetch may serve many clients. While it waits for a permit, each of these clients may
//! [lend](ConcurrencyLimit::lend) it its claim, so that they do not all depend on the share of the client whose request
//! came first.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tokio::sync::oneshot;

/// Maximum of permits that a site, and a client, may hold, as a multiple of the free permits.
const OF_A_SITE: usize = 3;
const OF_A_CLIENT: usize = 1;
/// Requests that no client waits for may hold one in this number of permits.
const SPARE: usize = 8;
/// A limit whose permits are lent out reserves one in this number, and at least one or two of several.
const RESERVED: usize = 16;
const LEAST_RESERVED: usize = 2;
/// Waiting requests that are checked when a permit becomes free, once it is certain that one is served.
const LOOKED_AT: usize = 32;
/// Maximum of claims of one waiting request.
const CLAIMS: usize = 8;

/// Permits for requests to origins, shared by all workers.
#[derive(Debug)]
pub struct ConcurrencyLimit {
    state: Mutex<State>,
    /// Number of waiting requests, readable without the lock.
    waiting: AtomicUsize,
    permits: usize,
    /// Permits that are given only within the shares.
    reserve: usize,
    queue: usize,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct State {
    held: usize,
    /// Held permits of requests that no client waits for.
    spare: usize,
    waiting: usize,
    counts: HashMap<Holder, Counts, RandomState>,
    /// The queue. Entries of cancelled requests stay in it until they are checked.
    line: VecDeque<Waiter>,
}

/// The owner of a share of the permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Holder {
    Site(u64),
    Client(u128),
}

#[derive(Debug, Default)]
struct Counts {
    held: usize,
    waiting: usize,
}

/// The site and the client for which a permit is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    site: Holder,
    client: Holder,
    /// Maximum of permits that the site may hold.
    most: usize,
}

impl Claim {
    /// Returns the same claim for a site with at most this number of permits.
    #[must_use]
    pub fn at_most(self, most: usize) -> Self {
        Self { most, ..self }
    }
}

#[derive(Debug)]
struct Waiter {
    /// The fetch that needs the permit, if other clients may share it.
    fetch: Option<usize>,
    /// The request's own claim, and claims lent by other clients.
    claims: Vec<Claim>,
    sender: oneshot::Sender<Permit>,
}

/// A permit; dropping it returns it.
#[derive(Debug)]
pub struct Permit {
    limit: Arc<ConcurrencyLimit>,
    claim: Claim,
    is_spare: bool,
}

/// A waiting request, and its permit.
type GrantedPermit = (oneshot::Sender<Permit>, Permit);

/// There is no permit, and the queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueFull;

impl ConcurrencyLimit {
    /// Creates a limit of `permits` concurrent requests and `queue` waiting ones, in which shares always hold.
    pub fn new(permits: usize, queue: usize) -> Self {
        let (state, waiting, hasher) = Default::default();
        Self { state, waiting, permits, reserve: permits, queue, hasher }
    }

    /// Creates the same, but permits are lent out beyond the shares, except for a reserve: a sixteenth, and at least a
    /// quarter of the first eight. Half of it is for other clients, and half for other sites.
    pub fn lent_out(permits: usize, queue: usize) -> Self {
        // The only permit cannot be reserved.
        let least = if permits > 1 { (permits / 4).clamp(1, LEAST_RESERVED) } else { 0 };
        Self { reserve: (permits / RESERVED).max(least), ..Self::new(permits, queue) }
    }

    /// Returns the claim of `client` to a permit for `site`. All addresses of an IPv6 /64 network count as one client.
    pub fn claim(&self, site: impl Hash, client: IpAddr) -> Claim {
        let client = match client.to_canonical() {
            IpAddr::V4(address) => u128::from(address.to_ipv6_mapped()),
            IpAddr::V6(address) => u128::from(address) >> 64 << 64,
        };
        Claim {
            site: Holder::Site(self.hasher.hash_one(site)),
            client: Holder::Client(client),
            most: usize::MAX,
        }
    }

    /// Returns a permit, if one is available at once.
    pub fn try_enter(self: &Arc<Self>, claim: Claim) -> Option<Permit> {
        self.state.lock().try_take(self, claim)
    }

    /// Returns a permit for a request that no client waits for, if no request waits, half of all permits stay free, and
    /// few such permits are held.
    pub fn try_enter_spare(self: &Arc<Self>, claim: Claim) -> Option<Permit> {
        let mut state = self.state.lock();
        let is_idle = 2 * (state.held + 1) <= self.permits && !state.is_line();
        let most = (self.permits / SPARE).max(1);
        let mut permit = (is_idle && state.spare < most).then(|| state.try_take(self, claim)).flatten()?;
        permit.is_spare = true;
        state.spare += 1;
        Some(permit)
    }

    /// Returns a permit, at once or after a wait. `fetch` is the id of the fetch that needs it, if other clients may
    /// share that fetch.
    ///
    /// # Errors
    /// [`QueueFull`] when the queue, or the share of it of this client or of a site with a maximum, is full.
    pub async fn enter(self: &Arc<Self>, claim: Claim, fetch: Option<usize>) -> Result<Permit, QueueFull> {
        let (receiver, _waiting) = {
            let mut state = self.state.lock();
            if let Some(permit) = state.try_take(self, claim) {
                return Ok(permit);
            }
            let left = self.queue.saturating_sub(state.waiting);
            let is_limited = claim.most < usize::MAX;
            if state.of(claim.client).waiting >= left || is_limited && state.of(claim.site).waiting >= left {
                return Err(QueueFull);
            }
            state.waiting += 1;
            self.waiting.store(state.waiting, Ordering::Relaxed);
            for holder in [claim.site, claim.client] {
                state.counts.entry(holder).or_default().waiting += 1;
            }
            let (sender, receiver) = oneshot::channel();
            if state.line.len() > 2 * self.queue {
                state.line.retain(|waiter| !waiter.sender.is_closed());
            }
            state.line.push_back(Waiter { fetch, claims: vec![claim], sender });
            (receiver, QueueGuard { limit: self, claim })
        };
        receiver.await.map_err(|_| QueueFull)
    }

    /// Lets `fetch`, if it waits for a permit, use `claim` as well, at once or later.
    pub fn lend(self: &Arc<Self>, fetch: usize, claim: Claim) {
        // Each follower of a fetch calls this every second; usually, no request waits.
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        let served = self.state.lock().lend(self, fetch, claim);
        if let Some((sender, permit)) = served {
            let _ = sender.send(permit);
        }
    }

    /// Returns the number of requests in flight, and of waiting requests.
    pub fn occupancy(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.held, state.waiting)
    }

    /// Whether requests wait for a permit.
    pub fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

impl State {
    fn of(&self, holder: Holder) -> &Counts {
        const NONE: &Counts = &Counts { held: 0, waiting: 0 };
        self.counts.get(&holder).unwrap_or(NONE)
    }

    /// Returns a permit for a new request, for which nobody who waits is passed over.
    fn try_take(&mut self, limit: &Arc<ConcurrencyLimit>, claim: Claim) -> Option<Permit> {
        let is_alone = self.has_unreserved(limit) && self.has_room(&claim) && !self.is_line();
        (is_alone || self.is_in_share(limit, claim)).then(|| self.take(limit, claim))
    }

    /// Whether requests wait for a permit that any request may have: those of a site that holds its maximum do not.
    fn is_line(&self) -> bool {
        self.waiting > 0 && self.with_the_fewest().is_some()
    }

    /// Whether there are free permits that may be lent beyond the shares.
    fn has_unreserved(&self, limit: &ConcurrencyLimit) -> bool {
        self.held + limit.reserve < limit.permits
    }

    /// Whether the site of `claim` holds fewer permits than it may.
    fn has_room(&self, claim: &Claim) -> bool {
        claim.most == usize::MAX || self.of(claim.site).held < claim.most
    }

    fn is_in_share(&self, limit: &ConcurrencyLimit, claim: Claim) -> bool {
        let free = limit.permits.saturating_sub(self.held);
        let has_less = |holder, most: usize| self.of(holder).held < free.saturating_mul(most);
        // Clients of a site that holds all others may use the first half of the reserve.
        let has_room = free > limit.reserve / 2 || has_less(claim.site, OF_A_SITE);
        has_room && has_less(claim.client, OF_A_CLIENT) && self.has_room(&claim)
    }

    fn take(&mut self, limit: &Arc<ConcurrencyLimit>, claim: Claim) -> Permit {
        self.held += 1;
        for holder in [claim.site, claim.client] {
            self.counts.entry(holder).or_default().held += 1;
        }
        Permit { limit: Arc::clone(limit), claim, is_spare: false }
    }

    fn lend(&mut self, limit: &Arc<ConcurrencyLimit>, fetch: usize, claim: Claim) -> Option<GrantedPermit> {
        let waits = |waiter: &Waiter| waiter.fetch == Some(fetch) && !waiter.sender.is_closed();
        let at = self.line.iter().position(waits)?;
        if self.is_in_share(limit, claim) {
            let waiter = self.line.remove(at)?;
            return Some((waiter.sender, self.take(limit, claim)));
        }
        let claims = &mut self.line[at].claims;
        if !claims.contains(&claim) {
            // The client that lent the oldest claim may have left. If not, it lends its claim again.
            if claims.len() == CLAIMS {
                claims.remove(1);
            }
            claims.push(claim);
        }
        None
    }

    fn give_back(&mut self, claim: Claim) {
        self.held -= 1;
        for holder in [claim.site, claim.client] {
            self.change(holder, |counts| counts.held -= 1);
        }
    }

    fn change(&mut self, holder: Holder, change: impl FnOnce(&mut Counts)) {
        let Some(counts) = self.counts.get_mut(&holder) else { return };
        change(counts);
        if (counts.held, counts.waiting) == (0, 0) {
            self.counts.remove(&holder);
        }
    }

    /// Gives free permits to waiting requests: first within the shares, then the unreserved ones.
    fn serve_line(&mut self, limit: &Arc<ConcurrencyLimit>) -> Vec<GrantedPermit> {
        let mut served = self.serve_shares(limit);
        while self.has_unreserved(limit) {
            let Some(waiter) = self.with_the_fewest().and_then(|at| self.line.remove(at)) else { break };
            served.push((waiter.sender, self.take(limit, waiter.claims[0])));
        }
        served
    }

    /// Gives permits to requests within their shares. A request that may not have a permit yet moves to the end of the
    /// queue, so that all requests are checked in turn.
    fn serve_shares(&mut self, limit: &Arc<ConcurrencyLimit>) -> Vec<GrantedPermit> {
        let (mut served, mut looked_at) = (Vec::new(), 0);
        for _ in 0..self.line.len() {
            // While none is served, the check continues: this may be the last permit returned for a long time.
            let is_enough = !served.is_empty() || self.has_unreserved(limit);
            if self.held == limit.permits || (looked_at >= LOOKED_AT && is_enough) {
                break;
            }
            let Some(waiter) = self.line.pop_front() else { break };
            if waiter.sender.is_closed() {
                continue;
            }
            looked_at += 1;
            match waiter.claims.iter().find(|claim| self.is_in_share(limit, **claim)) {
                Some(&claim) => served.push((waiter.sender, self.take(limit, claim))),
                None => self.line.push_back(waiter),
            }
        }
        served
    }

    /// Returns the place of the waiting request whose client, and then whose site, holds the fewest permits, among the
    /// first ones.
    fn with_the_fewest(&self) -> Option<usize> {
        // Many requests of one site may wait for its maximum.
        let mut full = None;
        let mut may_enter = |waiter: &Waiter| {
            let claim = &waiter.claims[0];
            let has_room = full != Some(claim.site) && self.has_room(claim);
            if !has_room {
                full = Some(claim.site);
            }
            has_room && !waiter.sender.is_closed()
        };
        let waiting = self.line.iter().enumerate().filter(|(_, waiter)| may_enter(waiter));
        let held = |waiter: &Waiter| {
            let Claim { site, client, .. } = waiter.claims[0];
            (self.of(client).held, self.of(site).held)
        };
        waiting.take(LOOKED_AT).min_by_key(|(_, waiter)| held(waiter)).map(|(at, _)| at)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let served = {
            let mut state = self.limit.state.lock();
            state.spare -= usize::from(self.is_spare);
            state.give_back(self.claim);
            if state.line.is_empty() {
                return;
            }
            state.serve_line(&self.limit)
        };
        // The lock is not held: if the request was cancelled, its permit is dropped at once, which takes the lock.
        for (sender, permit) in served {
            let _ = sender.send(permit);
        }
    }
}

struct QueueGuard<'g> {
    limit: &'g ConcurrencyLimit,
    claim: Claim,
}

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.limit.state.lock();
        state.waiting -= 1;
        self.limit.waiting.store(state.waiting, Ordering::Relaxed);
        for holder in [self.claim.site, self.claim.client] {
            state.change(holder, |counts| counts.waiting -= 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(limit: &ConcurrencyLimit, site: u64, client: u8) -> Claim {
        limit.claim(site, IpAddr::from([192, 0, 2, client]))
    }

    fn hold(limit: &Arc<ConcurrencyLimit>, site: u64, client: u8) -> Vec<Permit> {
        std::iter::from_fn(|| limit.try_enter(claim(limit, site, client))).collect()
    }

    #[tokio::test]
    async fn beyond_the_queue_requests_are_refused_at_once() {
        let limit = Arc::new(ConcurrencyLimit::new(1, 1));
        let claim = claim(&limit, 1, 1);
        let permit = limit.enter(claim, None).await.unwrap();
        let waiting = tokio::spawn({
            let limit = Arc::clone(&limit);
            async move { limit.enter(claim, None).await.map(drop) }
        });
        while limit.occupancy() != (1, 1) {
            tokio::task::yield_now().await;
        }
        assert_eq!(limit.enter(claim, None).await.unwrap_err(), QueueFull);
        drop(permit);
        assert_eq!(waiting.await.unwrap(), Ok(()));
        assert_eq!(limit.occupancy(), (0, 0));
        assert!(limit.state.lock().counts.is_empty());
    }

    #[test]
    fn neither_a_client_nor_a_site_takes_all_permits() {
        let limit = Arc::new(ConcurrencyLimit::new(1024, 0));
        let first = hold(&limit, 1, 1);
        assert_eq!(first.len(), 512);
        // Each further client gets fewer permits, and a client without permits gets one.
        let all: Vec<_> = (2..=50).map(|client| hold(&limit, 1, client)).collect();
        assert_eq!(all[0].len(), 256);
        assert!(limit.occupancy().0 <= 768, "one site holds {}", limit.occupancy().0);
        assert!(limit.try_enter(claim(&limit, 2, 60)).is_some());
        drop((first, all));
        assert_eq!(limit.occupancy(), (0, 0));
        assert!(limit.state.lock().counts.is_empty());
    }

    #[test]
    fn a_client_and_a_site_that_are_alone_get_all_lent_permits() {
        for (permits, unreserved) in [(1, 1), (2, 1), (8, 6), (64, 60), (1_024, 960)] {
            let limit = Arc::new(ConcurrencyLimit::lent_out(permits, 0));
            let alone = hold(&limit, 1, 1);
            assert_eq!(alone.len(), unreserved, "of {permits}");
            // The reserve is for others, by shares: at most half of it for one of them.
            let reserve = permits - unreserved;
            assert_eq!(hold(&limit, 2, 2).len(), reserve.div_ceil(2));
            assert_eq!(hold(&limit, 1, 3).is_empty(), reserve == 0, "of {permits}");
        }
    }

    #[test]
    fn all_clients_of_one_site_leave_permits_for_other_sites() {
        let limit = Arc::new(ConcurrencyLimit::lent_out(1_024, 0));
        let busy: Vec<_> = (0..=200).map(|client| hold(&limit, 1, client)).collect();
        assert_eq!(limit.occupancy().0, 1_024 - 32);
        let other: Vec<_> = (201..=250).map(|client| hold(&limit, 2, client)).collect();
        assert!(other[0].len() == 16 && other[1].len() == 8, "{} and {}", other[0].len(), other[1].len());
        drop(busy);
    }

    #[tokio::test]
    async fn waiting_clients_get_equal_numbers_of_lent_permits() {
        let limit = Arc::new(ConcurrencyLimit::lent_out(32, 200));
        let mut first = hold(&limit, 1, 1);
        assert_eq!(first.len(), 30);
        let wait = |client| {
            let limit = Arc::clone(&limit);
            tokio::spawn(async move { limit.enter(claim(&limit, 1, client), None).await })
        };
        // The first client asks for more, and earlier than the second, of which one request uses the reserve.
        let waiting: Vec<_> = [1; 30].into_iter().chain([2; 30]).map(wait).collect();
        while limit.occupancy().1 < 59 {
            tokio::task::yield_now().await;
        }
        let held = |client| limit.state.lock().of(claim(&limit, 1, client).client).held;
        first.truncate(15);
        while limit.occupancy().1 > 45 {
            tokio::task::yield_now().await;
        }
        assert_eq!((held(1), held(2), limit.occupancy().0), (15, 15, 30));
        waiting.iter().for_each(tokio::task::JoinHandle::abort);
        drop(first);
    }

    #[test]
    fn a_fetch_without_waiting_clients_leaves_half_of_the_permits_free() {
        let limit = Arc::new(ConcurrencyLimit::new(32, 0));
        let spare = || limit.try_enter_spare(claim(&limit, 1, 9));
        let first: Vec<_> = std::iter::from_fn(spare).collect();
        assert_eq!(first.len(), 4);
        drop(first);
        let clients: Vec<_> =
            (0..14).filter_map(|client| limit.try_enter(claim(&limit, 2, client))).collect();
        let second: Vec<_> = std::iter::from_fn(spare).collect();
        assert_eq!((clients.len(), second.len(), limit.occupancy().0), (14, 2, 16));
        drop((clients, second));
        assert_eq!((limit.occupancy(), limit.state.lock().spare), ((0, 0), 0));
        // The only permit is reserved for clients.
        let limit = Arc::new(ConcurrencyLimit::new(1, 0));
        assert!(limit.try_enter_spare(claim(&limit, 1, 1)).is_none());
    }

    #[test]
    fn addresses_of_one_network_are_one_client() {
        let limit = ConcurrencyLimit::new(1, 0);
        let client = |address: &str| limit.claim(0, address.parse().unwrap()).client;
        assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:2"));
        assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
        assert_eq!(client("192.0.2.1"), client("::ffff:192.0.2.1"));
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
    }

    #[tokio::test]
    async fn a_waiter_gets_its_share_of_permits_and_a_cancelled_one_none() {
        let limit = Arc::new(ConcurrencyLimit::new(4, 100));
        let mut greedy = hold(&limit, 1, 1);
        let other = [hold(&limit, 2, 2), hold(&limit, 3, 3)];
        assert_eq!((greedy.len(), limit.occupancy().0), (2, 4));
        let wait = |client| {
            let limit = Arc::clone(&limit);
            tokio::spawn(async move { limit.enter(claim(&limit, 9, client), None).await })
        };
        let (left, waiting) = (wait(4), wait(5));
        while limit.occupancy().1 < 2 {
            tokio::task::yield_now().await;
        }
        left.abort();
        assert!(left.await.is_err());
        drop(greedy.pop());
        let permit = waiting.await.unwrap().unwrap();
        assert_eq!(limit.occupancy(), (4, 0));
        drop((permit, greedy, other));
        assert_eq!(limit.occupancy(), (0, 0));
    }

    #[tokio::test]
    async fn a_site_with_a_limit_waits_and_others_do_not() {
        let limit = Arc::new(ConcurrencyLimit::lent_out(32, 100));
        let few = |client| claim(&limit, 1, client).at_most(2);
        let mut held: Vec<_> = (0..9).filter_map(|client| limit.try_enter(few(client))).collect();
        assert_eq!((held.len(), limit.try_enter(few(10)).is_some()), (2, false));
        let (own, waits) = (Arc::clone(&limit), few(11));
        let waiting = tokio::spawn(async move { own.enter(waits, None).await });
        while limit.occupancy().1 < 1 {
            tokio::task::yield_now().await;
        }
        // One client may have all permits but the reserve, as if nobody waited.
        assert_eq!(hold(&limit, 2, 1).len(), 32 - 2 - limit.reserve);
        assert!(limit.try_enter_spare(claim(&limit, 2, 2)).is_some());
        assert_eq!(limit.occupancy(), (2, 1));
        drop(held.pop());
        assert!(waiting.await.unwrap().is_ok());
        assert_eq!(limit.occupancy(), (1, 0));
    }

    #[tokio::test]
    async fn a_fetch_gets_a_permit_by_the_claim_of_any_waiting_client() {
        let limit = Arc::new(ConcurrencyLimit::new(4, 100));
        let greedy = hold(&limit, 1, 1);
        let wait = |fetch| {
            let limit = Arc::clone(&limit);
            tokio::spawn(async move { limit.enter(claim(&limit, 9, 1), Some(fetch)).await })
        };
        let waiting = [wait(7), wait(8), wait(9)];
        while limit.occupancy().1 < 3 {
            tokio::task::yield_now().await;
        }
        limit.lend(8, claim(&limit, 9, 2));
        let [first, second, third] = waiting;
        let permit = second.await.unwrap().unwrap();
        assert_eq!((greedy.len(), limit.occupancy()), (2, (3, 2)));
        // While no permit is free, a lent claim counts later; a claim of the same client does not help.
        let last = hold(&limit, 9, 3);
        limit.lend(7, claim(&limit, 9, 1));
        limit.lend(9, claim(&limit, 9, 4));
        drop(last);
        let other = third.await.unwrap().unwrap();
        assert_eq!(limit.occupancy(), (4, 1));
        drop((permit, other, greedy));
        drop(first.await);
        assert_eq!(limit.occupancy(), (0, 0));
    }
}
