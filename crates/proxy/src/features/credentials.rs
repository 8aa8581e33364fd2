//! Verifies the credentials of requests whose rules require a user's password or a token (RFC 7617, RFC 6750).
//!
//! The verification of a password is slow by intention. So threads of low priority verify few passwords at once, one of
//! a client, other requests wait for a limited time, and correct passwords are remembered by a keyed hash while they are
//! in use. A client that shows wrong passwords gets 429 after some of them.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderValue, StatusCode, header};
use larder_semantics::status::Why;
use parking_lot::Mutex;

use super::auth_request::take;
use crate::base::low_priority;
use crate::base::networks::network;
use crate::base::outcome::{Kind, Outcome};
use crate::base::settings::{CountedRequests, Limit, LimitBy, Print, Rate};
use crate::exchange::limits::retry_after;
use crate::exchange::reply::{Reply, Source};
use crate::exchange::request::Request;
use crate::exchange::route::Route;
use crate::exchange::ruling::RequiredCredentials;
use crate::net::concurrency::ConcurrencyLimit;
use crate::net::limiter::{ExceededLimit, Limiter};

/// The most passwords that are verified at once. One client has at most half.
const AT_ONCE: usize = 2;
/// The most requests of all clients that wait for a verification. One client has at most half.
const WAITING: usize = 64;
/// How long a request waits for its verification to begin.
const PATIENCE: Duration = Duration::from_secs(5);
/// The wrong passwords that a client may show: some at once, and then one in six seconds.
const WRONG: Rate = Rate { requests: 10, period: Duration::from_secs(60), burst: 20 };
/// How long a correct password is remembered after its last use.
const REMEMBERED: Duration = Duration::from_secs(300);
/// The most passwords that are remembered.
const MOST_REMEMBERED: usize = 4_096;

static TURNS: LazyLock<Arc<ConcurrencyLimit>> =
    LazyLock::new(|| Arc::new(ConcurrencyLimit::new(AT_ONCE, WAITING)));
static FAILURES: LazyLock<Arc<Limiter>> = LazyLock::new(|| {
    let (by, counted) = (LimitBy::Client, CountedRequests::All);
    Arc::new(Limiter::new(Limit { rate: Some(WRONG), concurrent: None, by, counted }))
});
static RIGHT: Mutex<Option<HashMap<Print, Instant>>> = Mutex::new(None);

/// Returns the limit on wrong passwords.
pub fn failures() -> &'static Arc<Limiter> {
    &FAILURES
}

/// The reason why a password was not accepted.
enum Fault {
    Wrong,
    /// The client has shown too many wrong ones. It may show another one after this time.
    TooMany(Duration),
    /// Too many passwords are being verified.
    Busy,
}

/// The credentials that a request shows.
enum ClientCredentials<'r> {
    Password(String, Vec<u8>),
    Token(&'r [u8]),
    Nothing,
}

/// Returns the name of the user whose credentials `request` shows; `None` if its rules require no credentials, and
/// for a token without a name. Errors: the refusal: 401, or 407 of a forward proxy; 429 after too many wrong passwords;
/// 503 when too many passwords are being verified.
pub(crate) async fn check(request: &Request) -> Result<Option<Arc<str>>, Box<Reply>> {
    let is_free = request.by_peer || request.is_purge();
    let Some(wanted) = request.ruling.wanted.as_ref().filter(|_| !is_free) else { return Ok(None) };
    match shown(request) {
        ClientCredentials::Token(token) => match wanted.name_of(token) {
            Some(name) => Ok((!name.is_empty()).then(|| name.into())),
            None => Err(refusal(request)),
        },
        ClientCredentials::Password(name, password) => {
            let Some(users) = wanted.users.as_ref() else { return Err(refusal(request)) };
            let (print, user) = (users.print(&name, &password), name.as_str().into());
            if is_remembered(&print) {
                return Ok(Some(user));
            }
            let users = Arc::clone(users);
            match verify(request.client.ip(), print, move || users.are(&name, &password)).await {
                Ok(()) => Ok(Some(user)),
                Err(Fault::Wrong) => Err(refusal(request)),
                Err(Fault::TooMany(wait)) => Err(later(StatusCode::TOO_MANY_REQUESTS, wait)),
                Err(Fault::Busy) => Err(later(StatusCode::SERVICE_UNAVAILABLE, Duration::from_secs(1))),
            }
        }
        ClientCredentials::Nothing => Err(refusal(request)),
    }
}

/// Adds the name of the user to `request`, in the field that its rules name for that.
pub(crate) fn tell(request: &mut Request, user: Option<&str>) {
    let value = user.and_then(|user| HeaderValue::try_from(user).ok());
    let field = request.ruling.user_field.clone().zip(value);
    take(request, field.into_iter().collect());
}

/// Whether `request` lacks the credentials that its rules require; verifies passwords in this thread.
pub(crate) fn lacks(request: &Request) -> bool {
    let is_free = request.by_peer || request.is_purge();
    let Some(wanted) = request.ruling.wanted.as_ref().filter(|_| !is_free) else { return false };
    match shown(request) {
        ClientCredentials::Token(token) => wanted.name_of(token).is_none(),
        ClientCredentials::Password(name, password) => {
            wanted.users.as_ref().is_none_or(|users| !users.are(&name, &password))
        }
        ClientCredentials::Nothing => true,
    }
}

impl RequiredCredentials {
    fn name_of(&self, token: &[u8]) -> Option<&str> {
        self.tokens.as_ref()?.name_of(token)
    }
}

fn shown(request: &Request) -> ClientCredentials<'_> {
    let value = request.credentials.as_ref().map_or(&b""[..], HeaderValue::as_bytes);
    let space = value.iter().position(|byte| *byte == b' ').unwrap_or(value.len());
    let (scheme, rest) = value.split_at(space);
    let rest = rest.trim_ascii();
    if scheme.eq_ignore_ascii_case(b"bearer") {
        return ClientCredentials::Token(rest);
    }
    let pair = || {
        let mut decoded = STANDARD.decode(rest).ok()?;
        let colon = decoded.iter().position(|byte| *byte == b':')?;
        let password = decoded.split_off(colon + 1);
        decoded.truncate(colon);
        Some(ClientCredentials::Password(String::from_utf8(decoded).ok()?, password))
    };
    match scheme.eq_ignore_ascii_case(b"basic") {
        true => pair().unwrap_or(ClientCredentials::Nothing),
        false => ClientCredentials::Nothing,
    }
}

/// Waits for the turn of `client`, and verifies a password. A client that disconnects gives up its place in the queue. A
/// verification that has begun goes on to its end.
async fn verify(
    client: IpAddr,
    print: Print,
    is_right: impl FnOnce() -> bool + Send + 'static,
) -> Result<(), Fault> {
    let turn = tokio::time::timeout(PATIENCE, TURNS.enter(TURNS.claim(client, client), None)).await;
    let turn = turn.ok().and_then(Result::ok).ok_or(Fault::Busy)?;
    // Meanwhile, another request may have shown the same password.
    if is_remembered(&print) {
        return Ok(());
    }
    let holder = FAILURES.holder(network(client, 32, 64));
    if let Err(ExceededLimit::Rate(wait)) = FAILURES.enter(holder, Instant::now()) {
        return Err(Fault::TooMany(wait));
    }
    let verify = move || {
        let _turn = turn;
        let is_right = is_right();
        if is_right {
            FAILURES.give_back(holder);
            remember(print);
        }
        is_right
    };
    match low_priority::run("password", verify).await {
        Some(true) => Ok(()),
        Some(false) => Err(Fault::Wrong),
        None => Err(Fault::Busy),
    }
}

fn is_remembered(print: &Print) -> bool {
    let mut right = RIGHT.lock();
    let used = right.as_mut().and_then(|right| right.get_mut(print));
    let used = used.filter(|used| used.elapsed() < REMEMBERED);
    // While others guess from the same address, a user whose password is in use stays verified.
    used.map(|used| *used = Instant::now()).is_some()
}

fn remember(print: Print) {
    let mut right = RIGHT.lock();
    let right = right.get_or_insert_default();
    if right.len() >= MOST_REMEMBERED {
        right.retain(|_, used| used.elapsed() < REMEMBERED);
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

/// Returns the refusal of a password that is not verified now: the client may try again after `wait`.
fn later(status: StatusCode, wait: Duration) -> Box<Reply> {
    let seconds = wait.as_nanos().div_ceil(1_000_000_000).max(1);
    let why = match status {
        StatusCode::TOO_MANY_REQUESTS => "this client has shown too many wrong passwords",
        _ => "too many passwords are being verified",
    };
    let text = format!("{}: {why}; try again in {seconds} s\n", status.as_str());
    let outcome = Outcome::forwarded(Kind::Refused, Why::Unauthorized);
    Box::new(retry_after(Reply::text(status, text, outcome), seconds))
}
