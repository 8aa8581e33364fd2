//! Verifies the credentials of requests whose rules require a user's password or a token (RFC 7617, RFC 6750).
//!
//! The verification of a password is slow by intention. So few passwords are verified at once, other requests wait
//! for a limited time, and correct passwords are remembered for some minutes by a keyed hash.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, StatusCode, header};
use larder_semantics::status::Why;
use tokio::sync::Semaphore;

use crate::base::outcome::{Kind, Outcome};
use crate::base::settings::Print;
use crate::exchange::limits::network;
use crate::exchange::reply::{Reply, Source};
use crate::exchange::request::Request;
use crate::exchange::route::Route;
use crate::exchange::rulebook::Wanted;

/// The most passwords that are verified at once.
const AT_ONCE: usize = 2;
/// The most requests of all clients that wait for a verification.
const WAITING: usize = 64;
/// The most requests of one client that wait for a verification.
const OF_ONE: usize = 16;
/// How long a request waits for its verification to begin.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a correct password is remembered.
const REMEMBERED: Duration = Duration::from_secs(300);
/// The most passwords that are remembered.
const MOST_REMEMBERED: usize = 4_096;

static VERIFYING: Semaphore = Semaphore::const_new(AT_ONCE);
static QUEUE: Queue = Queue(Mutex::new(Vec::new()));
static RIGHT: Mutex<Option<HashMap<Print, Instant>>> = Mutex::new(None);

/// The credentials that a request shows.
enum Shown<'r> {
    Password(String, Vec<u8>),
    Token(&'r [u8]),
    Nothing,
}

/// Returns the name of the user whose credentials `request` shows; `None` if its rules require no credentials, and
/// for a token without a name.
///
/// # Errors
/// The refusal: 401, or 407 of a forward proxy; 503 when too many passwords are being verified.
pub(crate) async fn check(request: &Request) -> Result<Option<Arc<str>>, Box<Reply>> {
    let is_free = request.by_peer || request.is_purge();
    let Some(wanted) = request.ruling.wanted.as_ref().filter(|_| !is_free) else { return Ok(None) };
    match shown(request) {
        Shown::Token(token) => match wanted.name_of(token) {
            Some(name) => Ok((!name.is_empty()).then(|| name.into())),
            None => Err(refusal(request)),
        },
        Shown::Password(name, password) => {
            let Some(users) = wanted.users.as_ref() else { return Err(refusal(request)) };
            let (print, user) = (users.print(&name, &password), name.as_str().into());
            if is_remembered(&print) {
                return Ok(Some(user));
            }
            let users = Arc::clone(users);
            match verify(network(request.client.ip(), 32, 64), move || users.are(&name, &password)).await {
                Some(true) => {
                    remember(print);
                    Ok(Some(user))
                }
                Some(false) => Err(refusal(request)),
                None => Err(busy()),
            }
        }
        Shown::Nothing => Err(refusal(request)),
    }
}

/// Whether `request` lacks the credentials that its rules require; verifies passwords in this thread.
pub(crate) fn lacks(request: &Request) -> bool {
    let is_free = request.by_peer || request.is_purge();
    let Some(wanted) = request.ruling.wanted.as_ref().filter(|_| !is_free) else { return false };
    match shown(request) {
        Shown::Token(token) => wanted.name_of(token).is_none(),
        Shown::Password(name, password) => {
            wanted.users.as_ref().is_none_or(|users| !users.are(&name, &password))
        }
        Shown::Nothing => true,
    }
}

impl Wanted {
    fn name_of(&self, token: &[u8]) -> Option<&str> {
        self.tokens.as_ref()?.name_of(token)
    }
}

fn shown(request: &Request) -> Shown<'_> {
    let value = request.credentials.as_ref().map_or(&b""[..], HeaderValue::as_bytes);
    let space = value.iter().position(|byte| *byte == b' ').unwrap_or(value.len());
    let (scheme, rest) = value.split_at(space);
    let rest = rest.trim_ascii();
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return Shown::Token(rest);
    }
    let pair = || {
        let mut decoded = STANDARD.decode(rest).ok()?;
        let colon = decoded.iter().position(|byte| *byte == b':')?;
        let password = decoded.split_off(colon + 1);
        decoded.truncate(colon);
        Some(Shown::Password(String::from_utf8(decoded).ok()?, password))
    };
    match scheme.eq_ignore_ascii_case(b"basic") {
        true => pair().unwrap_or(Shown::Nothing),
        false => Shown::Nothing,
    }
}

/// Waits for a permit and returns the result of `password`; `None` if the queue is full or the wait takes too long. A
/// client that disconnects gives up its place in the queue, and a verification that has begun keeps its permit until
/// it ends.
async fn verify(client: IpAddr, password: impl FnOnce() -> bool + Send + 'static) -> Option<bool> {
    let place = QUEUE.enter(client)?;
    let turn = tokio::time::timeout(PATIENCE, VERIFYING.acquire()).await.ok()?.ok()?;
    drop(place);
    let verify = move || {
        let _turn = turn;
        password()
    };
    tokio::task::spawn_blocking(verify).await.ok()
}

/// The clients of the waiting requests.
struct Queue(Mutex<Vec<IpAddr>>);

/// A place in a queue, until it is dropped.
struct QueueSlot<'q> {
    queue: &'q Queue,
    client: IpAddr,
}

impl Queue {
    /// Returns a place for a request of `client`; `None` if the client has as many places as it may, or all are
    /// taken.
    fn enter(&self, client: IpAddr) -> Option<QueueSlot<'_>> {
        let mut waiting = self.waiting();
        let own = waiting.iter().filter(|other| **other == client).count();
        (own < OF_ONE && waiting.len() < WAITING).then(|| {
            waiting.push(client);
            QueueSlot { queue: self, client }
        })
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<IpAddr>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for QueueSlot<'_> {
    fn drop(&mut self) {
        let mut waiting = self.queue.waiting();
        if let Some(at) = waiting.iter().position(|client| *client == self.client) {
            waiting.swap_remove(at);
        }
    }
}

fn is_remembered(print: &Print) -> bool {
    let right = RIGHT.lock().unwrap_or_else(PoisonError::into_inner);
    right.as_ref().and_then(|right| right.get(print)).is_some_and(|since| since.elapsed() < REMEMBERED)
}

fn remember(print: Print) {
    let mut right = RIGHT.lock().unwrap_or_else(PoisonError::into_inner);
    let right = right.get_or_insert_default();
    if right.len() >= MOST_REMEMBERED {
        right.retain(|_, since| since.elapsed() < REMEMBERED);
    }
    if right.len() < MOST_REMEMBERED {
        right.insert(print, Instant::now());
    }
}

/// Returns the refusal of a request without the credentials that its rules require.
pub(crate) fn refusal(request: &Request) -> Box<Reply> {
    let (status, name) = match request.route {
        Route::Anywhere => (StatusCode::PROXY_AUTHENTICATION_REQUIRED, header::PROXY_AUTHENTICATE),
        Route::Site(_) => (StatusCode::UNAUTHORIZED, header::WWW_AUTHENTICATE),
    };
    let text = format!("{}: a rule of this proxy requires a password or a token\n", status.as_str());
    let mut reply = Reply::text(status, text, Outcome::forwarded(Kind::Refused, Why::Unauthorized));
    let Some(wanted) = &request.ruling.wanted else { return Box::new(reply) };
    let realm = wanted.realm.as_deref().unwrap_or("larder");
    let challenges = [
        wanted.users.as_ref().map(|_| format!("Basic realm=\"{realm}\", charset=\"UTF-8\"")),
        wanted.tokens.as_ref().map(|_| format!("Bearer realm=\"{realm}\"")),
    ];
    let values =
        challenges.into_iter().flatten().filter_map(|challenge| HeaderValue::try_from(challenge).ok());
    if let Source::Fields(fields) = &mut reply.fields {
        values.for_each(|value| _ = fields.append(name.clone(), value));
    }
    Box::new(reply)
}

fn busy() -> Box<Reply> {
    let text = "503: too many passwords are being verified; try again in 1 s\n".to_owned();
    let outcome = Outcome::forwarded(Kind::Refused, Why::Unauthorized);
    Box::new(Reply::text(StatusCode::SERVICE_UNAVAILABLE, text, outcome))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_guesses_leaves_places_to_others() {
        let queue = Queue(Mutex::default());
        let [greedy, other, last] = [[192, 0, 2, 1], [192, 0, 2, 2], [192, 0, 2, 3]].map(IpAddr::from);
        let mut held: Vec<_> = (0..2 * WAITING).filter_map(|_| queue.enter(greedy)).collect();
        assert_eq!(held.len(), OF_ONE);
        let place = queue.enter(other);
        assert!(place.is_some());
        held.pop();
        assert!(queue.enter(greedy).is_some(), "a place that was given up is there again");
        drop((held, place));
        let full: Vec<_> = (0..WAITING).map(|at| queue.enter([10, 0, 0, at as u8].into())).collect();
        assert!(full.iter().all(Option::is_some) && queue.enter(last).is_none());
        drop(full);
        assert!(queue.enter(last).is_some());
    }
}
