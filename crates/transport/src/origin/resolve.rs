//! Resolves host names on dedicated threads: the system's resolver blocks on name servers, and would block the threads
//! that read from disks.
//!
//! A client whose names take long leaves threads to others. Concurrent requests for one name share one lookup. A failed
//! lookup is cached for a moment, so that a name that does not exist costs one query to the name server and not one for
//! each request. A successful lookup is cached for the lifetime of its records. Only for sites are they known: this
//! process then asks the name servers itself, where the system would. What the system's resolver finds is not cached.
//!
//! The names of sites' origins are watched: they are resolved again at intervals. The addresses found since the last
//! time decide which connections may carry further requests, and are used while a lookup fails or takes long. Some of them are names of
//! [services](super::service), whose servers have ports of their own.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use larder_words::debug_as;
use parking_lot::{Condvar, Mutex, RwLock};
use tokio::sync::watch;
use tokio::time::timeout;

use super::dns::NameServers;
use super::name_addresses::{NameAddresses, kept_until};
use super::name_sources;
use super::records::HostAddresses;
use super::service::Services;
use crate::base::clock;
use crate::base::settings::is_service;
use crate::net::concurrency::{ConcurrencyLimit, Permit};

/// How long a request waits for the name servers if the last answer of them is known.
const PATIENCE: Duration = Duration::from_secs(1);
/// Maximum of concurrent lookups. One client gets at most half of them.
const THREADS: usize = 32;
/// Maximum of requests that wait for a lookup; further ones are refused. One client gets at most half of the places.
const QUEUE: usize = 512;
/// Time for which a failed lookup is cached, in milliseconds, and the maximum of cached failures.
const NEGATIVE: u64 = 3_000;
const NEGATIVES: usize = 1024;
/// Time after which an idle thread ends.
const REST: Duration = Duration::from_secs(10);
/// Bytes of a thread's stack; the system's resolver needs less.
const STACK: usize = 512 << 10;

/// The reason why a name has no addresses.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum ResolveError {
    /// The name has no address, or the name server did not answer.
    #[error("{0}")]
    NotFound(Arc<io::Error>),
    /// The queue is full.
    #[error("too many other names wait to be resolved")]
    Busy,
}

type Resolution = Result<NameAddresses, ResolveError>;
/// The result of a lookup in progress.
type Answer = watch::Receiver<Option<Resolution>>;
type Lookup = dyn Fn(&str) -> io::Result<HostAddresses> + Send + Sync;

/// Resolves names.
pub(super) struct Resolver(Arc<Inner>);

struct Inner {
    lookup: Box<Lookup>,
    /// `None`: names of services are resolved as names of hosts.
    services: Option<Services>,
    limit: Arc<ConcurrencyLimit>,
    state: Mutex<State>,
    work: Condvar,
    /// The addresses of hosts that hold for a known time.
    kept: RwLock<HashMap<Arc<str>, NameAddresses>>,
    /// The addresses of watched names: those found when the name was last resolved again, and those found since; the
    /// newest first.
    watched: RwLock<HashMap<Box<str>, Vec<SocketAddr>>>,
}

#[derive(Default)]
struct State {
    /// Lookups that begin as soon as a thread is there.
    queue: VecDeque<Job>,
    /// Names in the queue or in a lookup.
    asked: HashMap<Arc<str>, Answer>,
    /// Failed lookups, and the times until which they are cached (`clock::millis`).
    unknown: HashMap<Arc<str>, (ResolveError, u64)>,
    threads: usize,
    resting: usize,
}

/// A lookup.
struct Job {
    name: Arc<str>,
    sender: watch::Sender<Option<Resolution>>,
    _permit: Permit,
}

impl Default for Resolver {
    /// Creates a resolver of hosts that calls the system's resolver.
    fn default() -> Self {
        Self::by(of_system)
    }
}

fn of_system(name: &str) -> io::Result<HostAddresses> {
    let found = (name, 0).to_socket_addrs()?;
    Ok(HostAddresses { addresses: found.map(|address| address.ip()).collect(), lifetime: None })
}

/// Returns what the name servers answer if the system would ask them, or else what the system finds.
fn with_lifetime(name: &str) -> io::Result<HostAddresses> {
    let found = name_sources::are_name_servers(name).then(|| NameServers::of_system().host(name));
    match found {
        Some(Ok(found)) => Ok(found),
        _ => of_system(name),
    }
}

debug_as!(Resolver, |_| "Resolver");

impl Resolver {
    /// Creates a resolver of hosts and services, whose names only the config may contain.
    pub(super) fn with_services() -> Self {
        Self::new(Box::new(with_lifetime), Some(Services::default()))
    }

    pub(super) fn by(lookup: impl Fn(&str) -> io::Result<HostAddresses> + Send + Sync + 'static) -> Self {
        Self::new(Box::new(lookup), None)
    }

    fn new(lookup: Box<Lookup>, services: Option<Services>) -> Self {
        let limit = Arc::new(ConcurrencyLimit::new(THREADS, QUEUE));
        let (state, work) = (Mutex::default(), Condvar::new());
        let (kept, watched) = (RwLock::default(), RwLock::default());
        Self(Arc::new(Inner { lookup, services, limit, state, work, kept, watched }))
    }

    /// Returns the addresses of `host`, which may be an address itself, for a request of `client`. For a watched name
    /// whose lookup fails, or takes longer than [`PATIENCE`], returns its last known addresses. The error is the reason why there are none.
    pub(super) async fn resolve(&self, host: &str, client: Option<IpAddr>) -> Resolution {
        if let Ok(ip) = host.parse() {
            return Ok(NameAddresses { addresses: Arc::new([SocketAddr::new(ip, 0)]), until: None });
        }
        if let Some(kept) = self.0.kept(host) {
            return Ok(kept);
        }
        let found = match self.has_addresses(host) {
            true => timeout(PATIENCE, self.look_up(host, client)).await.unwrap_or(Err(ResolveError::Busy)),
            false => self.look_up(host, client).await,
        };
        match found {
            Ok(found) => {
                self.change(host, |known| {
                    known.retain(|address| !found.addresses.contains(address));
                    known.splice(..0, found.addresses.iter().copied());
                });
                Ok(found)
            }
            Err(why) => match self.0.watched.read().get(host) {
                Some(known) if !known.is_empty() => {
                    Ok(NameAddresses { addresses: known.as_slice().into(), until: None })
                }
                _ => Err(why),
            },
        }
    }

    /// Whether it finds the servers of a service by this name.
    pub(super) fn finds_service(&self, name: &str) -> bool {
        self.0.services.is_some() && is_service(name)
    }

    /// Watches these names, and no others.
    pub(super) fn watch(&self, names: &[String]) {
        let mut watched = self.0.watched.write();
        watched.retain(|known, _| names.iter().any(|name| **name == **known));
        for name in names {
            watched.entry(name.as_str().into()).or_default();
        }
    }

    /// Resolves a watched name again. Its addresses become those of the answer. Returns the time for which they hold, if it
    /// is known. Errors: the reason of the failure; the known addresses stay as they were.
    pub(super) async fn resolve_again(&self, name: &str) -> Result<Option<Duration>, ResolveError> {
        let found = self.look_up(name, None).await?;
        self.change(name, |known| *known = found.addresses.to_vec());
        let left = |until: u64| Duration::from_millis(until.saturating_sub(clock::millis()));
        Ok(found.until.map(left))
    }

    /// Resolves `host` again for the next connection, since none of its addresses accepts one.
    pub(super) fn distrust(&self, host: &str) {
        self.0.kept.write().remove(host);
    }

    /// Whether addresses of the watched name `host` are known.
    pub(super) fn has_addresses(&self, host: &str) -> bool {
        self.0.watched.read().get(host).is_some_and(|known| !known.is_empty())
    }

    /// Whether addresses of the watched name `host` are known, and `address`, with port 0 for a host, is not among them.
    pub(super) fn has_left(&self, host: &str, address: SocketAddr) -> bool {
        let watched = self.0.watched.read();
        watched.get(host).is_some_and(|known| !known.is_empty() && !known.contains(&address))
    }

    /// Changes the known addresses of a name, if it is watched.
    fn change(&self, host: &str, change: impl FnOnce(&mut Vec<SocketAddr>)) {
        let is_watched = self.0.watched.read().contains_key(host);
        if is_watched {
            let mut watched = self.0.watched.write();
            if let Some(known) = watched.get_mut(host) {
                change(known);
            }
        }
    }

    async fn look_up(&self, host: &str, client: Option<IpAddr>) -> Resolution {
        // The lookup thread always sends a result, unless it panicked.
        let ended = || ResolveError::NotFound(Arc::new(io::ErrorKind::Interrupted.into()));
        let answer = match self.ask(host, None)? {
            None => {
                let client = client.unwrap_or(Ipv4Addr::UNSPECIFIED.into());
                let permit = self.0.limit.enter(self.0.limit.claim(host, client), None).await;
                // Meanwhile, another request may have begun the same lookup.
                self.ask(host, Some(permit.map_err(|_| ResolveError::Busy)?))?
            }
            answer => answer,
        };
        let mut answer = answer.ok_or_else(ended)?;
        let answer = answer.wait_for(Option::is_some).await;
        answer.ok().and_then(|answer| answer.clone()).unwrap_or_else(|| Err(ended()))
    }

    /// Returns the lookup of `host` in progress. If there is none, begins one if there is a `permit`.
    fn ask(&self, host: &str, permit: Option<Permit>) -> Result<Option<Answer>, ResolveError> {
        let mut state = self.0.state.lock();
        if let Some((why, until)) = state.unknown.get(host)
            && clock::millis() < *until
        {
            return Err(why.clone());
        }
        if let Some(answer) = state.asked.get(host) {
            return Ok(Some(answer.clone()));
        }
        let Some(permit) = permit else { return Ok(None) };
        if state.resting <= state.queue.len() && state.threads < THREADS {
            let inner = Arc::clone(&self.0);
            let thread = std::thread::Builder::new().name("resolver".to_owned()).stack_size(STACK);
            match thread.spawn(move || inner.work()) {
                Ok(_) => state.threads += 1,
                Err(error) if state.threads == 0 => return Err(ResolveError::NotFound(Arc::new(error))),
                Err(_) => {}
            }
        }
        let (name, (sender, answer)) = (Arc::from(host), watch::channel(None));
        state.asked.insert(Arc::clone(&name), answer.clone());
        state.queue.push_back(Job { name, sender, _permit: permit });
        self.0.work.notify_one();
        Ok(Some(answer))
    }
}

impl Inner {
    fn work(&self) {
        while let Some(Job { name, sender, _permit }) = self.next() {
            let found = match self.look_up(&name) {
                Ok(found) if found.addresses.is_empty() => Err(io::ErrorKind::NotFound.into()),
                found => found,
            };
            let found = found.map_err(|error| ResolveError::NotFound(Arc::new(error)));
            let mut state = self.state.lock();
            state.asked.remove(&name);
            if let Err(why) = &found {
                state.remember_unknown(name, why);
            }
            drop(state);
            sender.send_replace(Some(found));
        }
    }

    fn look_up(&self, name: &Arc<str>) -> io::Result<NameAddresses> {
        if let Some(services) = self.services.as_ref().filter(|_| is_service(name)) {
            return services.look_up(name, &self.lookup);
        }
        let (found, now) = ((self.lookup)(name)?, clock::millis());
        let addresses = found.addresses.into_iter().map(|ip| SocketAddr::new(ip, 0)).collect();
        let until = found.lifetime.map(|lifetime| kept_until(now, lifetime));
        let found = NameAddresses { addresses, until };
        if until.is_some() {
            let mut kept = self.kept.write();
            kept.retain(|_, kept| kept.until > Some(now));
            kept.insert(Arc::clone(name), found.clone());
        }
        Ok(found)
    }

    /// Returns the addresses of a host that still hold.
    fn kept(&self, host: &str) -> Option<NameAddresses> {
        self.kept.read().get(host).filter(|kept| kept.until > Some(clock::millis())).cloned()
    }

    /// Takes the next name from the queue; `None` after [`REST`] without one.
    fn next(&self) -> Option<Job> {
        let mut state = self.state.lock();
        state.resting += 1;
        self.work.wait_while_for(&mut state, |state| state.queue.is_empty(), REST);
        state.resting -= 1;
        let next = state.queue.pop_front();
        if next.is_none() {
            state.threads -= 1;
        }
        next
    }
}

impl State {
    fn remember_unknown(&mut self, name: Arc<str>, why: &ResolveError) {
        let now = clock::millis();
        if self.unknown.len() >= NEGATIVES {
            self.unknown.retain(|_, (_, until)| now < *until);
        }
        if self.unknown.len() < NEGATIVES {
            self.unknown.insert(name, (why.clone(), now + NEGATIVE));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn addresses(list: &[&str], lifetime: Option<u32>) -> io::Result<HostAddresses> {
        Ok(HostAddresses { addresses: list.iter().map(|text| text.parse().unwrap()).collect(), lifetime })
    }

    fn poll(asked: &mut Pin<Box<impl Future<Output = Resolution>>>) -> Poll<Resolution> {
        asked.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test]
    async fn an_address_needs_no_looking_up() {
        let resolver = Resolver::by(|name| panic!("{name} was looked up"));
        for address in ["127.0.0.1", "::1"] {
            let found = resolver.resolve(address, None).await.unwrap();
            assert_eq!(*found.addresses, [SocketAddr::new(address.parse().unwrap(), 0)]);
        }
    }

    #[tokio::test]
    async fn requests_share_one_lookup_of_a_name_even_of_an_unknown_one() {
        let (asked, held) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(())));
        let (counted, gate) = (Arc::clone(&asked), Arc::clone(&held));
        let resolver = Arc::new(Resolver::by(move |name| {
            counted.fetch_add(1, Ordering::SeqCst);
            drop(gate.lock());
            if name == "known" {
                addresses(&["192.0.2.1"], None)
            } else {
                Err(io::ErrorKind::NotFound.into())
            }
        }));
        let closed = held.lock();
        let name = |n: usize| if n.is_multiple_of(2) { "known" } else { "unknown" };
        let mut waiting: Vec<_> = (0..10).map(|n| Box::pin(resolver.resolve(name(n), None))).collect();
        assert!(waiting.iter_mut().all(|asked| poll(asked).is_pending()));
        drop(closed);
        for (n, asked) in waiting.into_iter().enumerate() {
            assert_eq!(asked.await.is_ok(), name(n) == "known");
        }
        assert!(resolver.resolve("unknown", None).await.is_err());
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn an_address_leaves_a_watched_name_only_after_a_successful_new_lookup() {
        let answers = Arc::new(Mutex::new(Vec::<IpAddr>::new()));
        let given = Arc::clone(&answers);
        let resolver =
            Resolver::by(move |_| Ok(HostAddresses { addresses: given.lock().clone(), lifetime: None }));
        let [one, two] = ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse::<IpAddr>().unwrap());
        let say = |said: &[IpAddr]| *answers.lock() = said.to_vec();
        let found = |ip: IpAddr| SocketAddr::new(ip, 0);
        let left = |resolver: &Resolver| [one, two].map(|ip| resolver.has_left("watched", found(ip)));
        resolver.watch(&["watched".to_owned()]);
        assert_eq!(left(&resolver), [false; 2], "nothing is known yet");
        say(&[one]);
        resolver.resolve_again("watched").await.unwrap();
        assert_eq!(left(&resolver), [false, true]);
        say(&[two]);
        assert_eq!(*resolver.resolve("watched", None).await.unwrap().addresses, [found(two)]);
        assert_eq!(left(&resolver), [false; 2], "a new address is known at once, and none has left");
        resolver.resolve_again("watched").await.unwrap();
        assert_eq!(left(&resolver), [true, false]);
        say(&[]);
        assert!(resolver.resolve_again("watched").await.is_err());
        assert_eq!(left(&resolver), [true, false]);
        assert_eq!(*resolver.resolve("watched", None).await.unwrap().addresses, [found(two)]);
        assert!(resolver.resolve("other", None).await.is_err());
        resolver.watch(&[]);
        assert!(resolver.resolve("watched", None).await.is_err());
        assert_eq!(left(&resolver), [false; 2]);
    }

    #[tokio::test]
    async fn addresses_are_kept_for_the_lifetime_of_their_records() {
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&asked);
        let resolver = Resolver::by(move |name| {
            counted.fetch_add(1, Ordering::SeqCst);
            addresses(&["192.0.2.1", "2001:db8::1"], name.parse().ok())
        });
        let queries = async |name: &str| {
            let before = asked.load(Ordering::SeqCst);
            for _ in 0..3 {
                assert_eq!(resolver.resolve(name, None).await.unwrap().addresses.len(), 2);
            }
            asked.load(Ordering::SeqCst) - before
        };
        assert_eq!((queries("60").await, queries("60").await, queries("unknown").await), (1, 0, 3));
        let left = resolver.resolve_again("86400").await.unwrap().unwrap();
        assert!((3_590..=3_600).contains(&left.as_secs()), "no longer than an hour: {left:?}");
        assert_eq!(queries("86400").await, 0);
        resolver.distrust("60");
        assert_eq!(queries("60").await, 1, "its addresses have failed");
        resolver.0.kept.write().values_mut().for_each(|kept| kept.until = Some(0));
        assert_eq!(queries("60").await, 1, "their lifetime is over");
        let left = resolver.resolve_again("0").await.unwrap().unwrap();
        assert!(left <= Duration::from_secs(1) && !left.is_zero(), "a second at least: {left:?}");
    }

    #[tokio::test]
    async fn names_that_take_long_leave_threads_to_others() {
        let is_open = Arc::new(AtomicBool::new(false));
        let gate = Arc::clone(&is_open);
        let resolver = Resolver::by(move |name| {
            while name.starts_with("slow") && !gate.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(1));
            }
            addresses(&["192.0.2.1"], None)
        });
        let client = |last: u8| Some(IpAddr::from([192, 0, 2, last]));
        let names: Vec<_> = (0..THREADS + QUEUE).map(|n| format!("slow{n}")).collect();
        let mut asked: Vec<_> =
            names.iter().map(|name| Box::pin(resolver.resolve(name, client(1)))).collect();
        asked.retain_mut(|asked| poll(asked).is_pending());
        assert_eq!(asked.len(), THREADS / 2 + QUEUE / 2, "the others are refused");
        assert!(resolver.resolve("quick", client(2)).await.is_ok());
        is_open.store(true, Ordering::SeqCst);
        while !asked.is_empty() {
            asked.retain_mut(|asked| poll(asked).map(|found| assert!(found.is_ok())).is_pending());
            tokio::task::yield_now().await;
        }
    }
}
