//! Resolves host names on dedicated threads: the system's resolver blocks on name servers, and would block the threads
//! that read from disks.
//!
//! Concurrent requests for one name share one lookup. A failed lookup is cached for a moment, so that a name that does
//! not exist costs one query to the name server and not one for each request. A successful lookup is not cached for new
//! connections: the system's resolver may do that, since it knows the TTL.
//!
//! The names of sites' origins are watched: they are resolved again at intervals. The addresses found since the last
//! time decide which connections may carry further requests, and are used while a lookup fails.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, ToSocketAddrs};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::watch;

use crate::base::clock;

/// Maximum of concurrent lookups.
const THREADS: usize = 16;
/// Maximum of names that wait for a thread; further ones are refused.
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
pub(super) enum Unresolved {
    /// The name has no address, or the name server did not answer.
    #[error("{0}")]
    NotFound(Arc<io::Error>),
    /// The queue is full.
    #[error("{QUEUE} other names wait to be resolved")]
    Busy,
}

/// The result of a lookup.
type Found = Result<Arc<[IpAddr]>, Unresolved>;
type Lookup = dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync;

/// Resolves names.
pub(super) struct Resolver(Arc<Inner>);

struct Inner {
    lookup: Box<Lookup>,
    state: Mutex<State>,
    work: Condvar,
    /// The addresses of watched names: those found when the name was last resolved again, and those found since; the
    /// newest first.
    watched: RwLock<HashMap<Box<str>, Vec<IpAddr>>>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<(Arc<str>, watch::Sender<Option<Found>>)>,
    /// Names in the queue or in a lookup.
    asked: HashMap<Arc<str>, watch::Receiver<Option<Found>>>,
    /// Failed lookups, and the times until which they are cached (`clock::millis`).
    unknown: HashMap<Arc<str>, (Unresolved, u64)>,
    threads: usize,
    resting: usize,
}

impl Default for Resolver {
    /// Creates a resolver that calls the system's resolver.
    fn default() -> Self {
        Self::by(|name| Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect()))
    }
}

impl std::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Resolver")
    }
}

impl Resolver {
    pub(super) fn by(lookup: impl Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync + 'static) -> Self {
        let (state, work, watched) = (Mutex::default(), Condvar::new(), RwLock::default());
        Self(Arc::new(Inner { lookup: Box::new(lookup), state, work, watched }))
    }

    /// Returns the addresses of `host`, which may be an address itself. For a watched name whose lookup fails, returns
    /// its last known addresses.
    ///
    /// # Errors
    /// The reason why there are none.
    pub(super) async fn resolve(&self, host: &str) -> Found {
        if let Ok(address) = host.parse() {
            return Ok(Arc::new([address]));
        }
        match self.look_up(host).await {
            Ok(found) => {
                self.change(host, |known| {
                    known.retain(|ip| !found.contains(ip));
                    known.splice(..0, found.iter().copied());
                });
                Ok(found)
            }
            Err(why) => match self.0.watched.read().unwrap_or_else(PoisonError::into_inner).get(host) {
                Some(known) if !known.is_empty() => Ok(known.as_slice().into()),
                _ => Err(why),
            },
        }
    }

    /// Watches these names, and no others.
    pub(super) fn watch(&self, names: &[String]) {
        let mut watched = self.0.watched.write().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|known, _| names.iter().any(|name| **name == **known));
        for name in names {
            watched.entry(name.as_str().into()).or_default();
        }
    }

    /// Resolves a watched name again. Its addresses become those of the answer.
    ///
    /// # Errors
    /// The reason of the failure; the known addresses stay as they were.
    pub(super) async fn resolve_again(&self, name: &str) -> Result<(), Unresolved> {
        let found = self.look_up(name).await?;
        self.change(name, |known| *known = found.to_vec());
        Ok(())
    }

    /// Whether addresses of the watched name `host` are known, and `ip` is not among them.
    pub(super) fn has_left(&self, host: &str, ip: IpAddr) -> bool {
        let watched = self.0.watched.read().unwrap_or_else(PoisonError::into_inner);
        watched.get(host).is_some_and(|known| !known.is_empty() && !known.contains(&ip))
    }

    /// Changes the known addresses of a name, if it is watched.
    fn change(&self, host: &str, change: impl FnOnce(&mut Vec<IpAddr>)) {
        let is_watched = self.0.watched.read().unwrap_or_else(PoisonError::into_inner).contains_key(host);
        if is_watched {
            let mut watched = self.0.watched.write().unwrap_or_else(PoisonError::into_inner);
            if let Some(known) = watched.get_mut(host) {
                change(known);
            }
        }
    }

    async fn look_up(&self, host: &str) -> Found {
        let mut answer = self.ask(host)?;
        let answer = answer.wait_for(Option::is_some).await;
        // The lookup thread always sends a result, unless it panicked.
        let ended = || Unresolved::NotFound(Arc::new(io::ErrorKind::Interrupted.into()));
        answer.ok().and_then(|answer| answer.clone()).unwrap_or_else(|| Err(ended()))
    }

    fn ask(&self, host: &str) -> Result<watch::Receiver<Option<Found>>, Unresolved> {
        let mut state = self.0.state();
        if let Some((why, until)) = state.unknown.get(host)
            && clock::millis() < *until
        {
            return Err(why.clone());
        }
        if let Some(answer) = state.asked.get(host) {
            return Ok(answer.clone());
        }
        if state.queue.len() >= QUEUE {
            return Err(Unresolved::Busy);
        }
        if state.resting <= state.queue.len() && state.threads < THREADS {
            let inner = Arc::clone(&self.0);
            let thread = std::thread::Builder::new().name("resolver".to_owned()).stack_size(STACK);
            match thread.spawn(move || inner.work()) {
                Ok(_) => state.threads += 1,
                Err(error) if state.threads == 0 => return Err(Unresolved::NotFound(Arc::new(error))),
                Err(_) => {}
            }
        }
        let (name, (sender, answer)) = (Arc::from(host), watch::channel(None));
        state.asked.insert(Arc::clone(&name), answer.clone());
        state.queue.push_back((name, sender));
        self.0.work.notify_one();
        Ok(answer)
    }
}

impl Inner {
    fn work(&self) {
        while let Some((name, sender)) = self.next() {
            let found = (self.lookup)(&name);
            let found = match found {
                Ok(found) if found.is_empty() => Err(io::ErrorKind::NotFound.into()),
                found => found,
            };
            let found = found.map(Arc::from).map_err(|error| Unresolved::NotFound(Arc::new(error)));
            let mut state = self.state();
            state.asked.remove(&name);
            if let Err(why) = &found {
                state.remember_unknown(name, why);
            }
            drop(state);
            sender.send_replace(Some(found));
        }
    }

    /// Takes the next name from the queue; `None` after [`REST`] without one.
    fn next(&self) -> Option<(Arc<str>, watch::Sender<Option<Found>>)> {
        let mut state = self.state();
        state.resting += 1;
        let waited = self.work.wait_timeout_while(state, REST, |state| state.queue.is_empty());
        state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.resting -= 1;
        let next = state.queue.pop_front();
        if next.is_none() {
            state.threads -= 1;
        }
        next
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn remember_unknown(&mut self, name: Arc<str>, why: &Unresolved) {
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn an_address_needs_no_looking_up() {
        let resolver = Resolver::by(|name| panic!("{name} was looked up"));
        for address in ["127.0.0.1", "::1"] {
            assert_eq!(*resolver.resolve(address).await.unwrap(), [address.parse::<IpAddr>().unwrap()]);
        }
    }

    #[tokio::test]
    async fn one_name_is_looked_up_once_for_all_who_ask_and_an_unknown_one_is_remembered() {
        let (asked, held) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(())));
        let (counted, gate) = (Arc::clone(&asked), Arc::clone(&held));
        let resolver = Arc::new(Resolver::by(move |name| {
            counted.fetch_add(1, Ordering::SeqCst);
            drop(gate.lock().unwrap());
            if name == "known" {
                Ok(vec!["192.0.2.1".parse().unwrap()])
            } else {
                Err(io::ErrorKind::NotFound.into())
            }
        }));
        let closed = held.lock().unwrap();
        let name = |n: usize| if n.is_multiple_of(2) { "known" } else { "unknown" };
        let waiting: Vec<_> = (0..10).map(|n| resolver.ask(name(n)).unwrap()).collect();
        drop(closed);
        for (n, mut answer) in waiting.into_iter().enumerate() {
            let found = answer.wait_for(Option::is_some).await.unwrap().clone().unwrap();
            assert_eq!(found.is_ok(), name(n) == "known");
        }
        assert!(resolver.resolve("unknown").await.is_err());
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }

    #[tokio::test]
    async fn an_address_of_a_watched_name_leaves_when_that_is_resolved_again_and_stands_in_while_it_cannot_be()
     {
        let answers = Arc::new(Mutex::new(Vec::<IpAddr>::new()));
        let given = Arc::clone(&answers);
        let resolver = Resolver::by(move |_| Ok(given.lock().unwrap().clone()));
        let [one, two] = ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse::<IpAddr>().unwrap());
        let say = |said: &[IpAddr]| *answers.lock().unwrap() = said.to_vec();
        let left = |resolver: &Resolver| [one, two].map(|ip| resolver.has_left("watched", ip));
        resolver.watch(&["watched".to_owned()]);
        assert_eq!(left(&resolver), [false; 2], "nothing is known yet");
        say(&[one]);
        resolver.resolve_again("watched").await.unwrap();
        assert_eq!(left(&resolver), [false, true]);
        say(&[two]);
        assert_eq!(*resolver.resolve("watched").await.unwrap(), [two]);
        assert_eq!(left(&resolver), [false; 2], "a new address is known at once, and none has left");
        resolver.resolve_again("watched").await.unwrap();
        assert_eq!(left(&resolver), [true, false]);
        say(&[]);
        assert!(resolver.resolve_again("watched").await.is_err());
        assert_eq!(left(&resolver), [true, false]);
        assert_eq!(*resolver.resolve("watched").await.unwrap(), [two]);
        assert!(resolver.resolve("other").await.is_err());
        resolver.watch(&[]);
        assert!(resolver.resolve("watched").await.is_err());
        assert_eq!(left(&resolver), [false; 2]);
    }

    #[tokio::test]
    async fn names_that_take_long_hold_so_many_threads_and_so_many_wait() {
        let (under_way, held) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(())));
        let (counted, gate) = (Arc::clone(&under_way), Arc::clone(&held));
        let resolver = Resolver::by(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            drop(gate.lock().unwrap());
            Ok(vec!["192.0.2.1".parse().unwrap()])
        });
        let closed = held.lock().unwrap();
        for n in 0..THREADS {
            resolver.ask(&format!("slow{n}")).unwrap();
            while under_way.load(Ordering::SeqCst) <= n {
                std::thread::yield_now();
            }
        }
        let answers: Vec<_> = (0..QUEUE).map(|n| resolver.ask(&format!("{n}")).unwrap()).collect();
        assert!(matches!(resolver.ask("beyond"), Err(Unresolved::Busy)));
        assert_eq!(under_way.load(Ordering::SeqCst), THREADS);
        drop(closed);
        for mut answer in answers {
            assert!(answer.wait_for(Option::is_some).await.unwrap().clone().unwrap().is_ok());
        }
    }
}
