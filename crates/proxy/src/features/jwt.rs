//! Verifies the JSON Web Tokens of requests whose rules require one.
//!
//! Keys at a URL are fetched when the first token needs them, again after ten minutes, and at once when a token names an
//! unknown one, but for that at most once a minute. If a fetch fails, the known keys stay in use.
//!
//! Rules with conditions on claims hold once the token is verified: see [`Request::rule_by_claims`].

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use larder_semantics::status::Why;
use parking_lot::Mutex;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout;

use super::auth_request::{PATIENCE, ask, take};
use crate::base::clock;
use crate::base::outcome::{Kind, Outcome};
use crate::base::settings::{Claims, JwkSet, Jwt, KeySource, Origin, TokenFault};
use crate::exchange::plan::Plan;
use crate::exchange::reply::{Reply, Source};
use crate::exchange::request::Request;
use crate::exchange::route::{Route, SiteState};
use crate::flow::context::failure;
use crate::flow::worker::Worker;
use crate::origin::Client;

/// How old keys may become.
const OLDEST: Duration = Duration::from_secs(600);
/// The least time between two fetches of keys that a token names and the set lacks.
const PAUSE: Duration = Duration::from_secs(60);
/// The least time between any two fetches of the same keys.
const RETRY: Duration = Duration::from_secs(1);
/// The most bytes of a set of keys.
const LARGEST: usize = 256 << 10;

/// The keys at one URL.
#[derive(Default)]
struct KeySet {
    keys: Mutex<Option<Arc<JwkSet>>>,
    asked: AsyncMutex<RequestTimes>,
}

/// When keys were asked for, at the end of that.
#[derive(Default)]
struct RequestTimes {
    last: Option<Instant>,
    /// For a token that names an unknown one.
    for_newer: Option<Instant>,
}

/// All keys, by their URL, and by the site if it has settings of its own for TLS.
static KEYS: LazyLock<Mutex<HashMap<String, Arc<KeySet>>>> = LazyLock::new(Mutex::default);

/// Checks the token of `request`, and adds the claims that its origin gets. Errors: the reply to a request that is not
/// served.
pub(crate) async fn check(worker: &Worker, plan: &Plan, request: &mut Request) -> Result<(), Box<Reply>> {
    let (Some(token), Route::Site(site)) = (request.token.take(), &request.route) else { return Ok(()) };
    let Some(jwt) = request.ruling.jwt.clone().flatten() else { return Ok(()) };
    if token.is_empty() {
        return Err(refusal(request, TokenFault::Missing));
    }
    let now = || u64::from(clock::now());
    let verified = match &jwt.keys {
        KeySource::File(_, keys) => jwt.verify(keys, &token, now()),
        KeySource::Url(place) => {
            let clients = worker.clients(plan);
            let client = clients.of_site(site.number);
            let set = key_set(site, place);
            let mut keys = set.current(worker, client, place, false).await;
            let found = keys.as_ref().map(|keys| jwt.verify(keys, &token, now()));
            match found {
                Some(Err(TokenFault::UnknownKey)) => {
                    keys = set.current(worker, client, place, true).await;
                    let keys = keys.ok_or_else(unanswered)?;
                    jwt.verify(&keys, &token, now())
                }
                Some(found) => found,
                None => return Err(unanswered()),
            }
        }
    };
    match verified {
        Ok(claims) => {
            if request.route.rulebook(&plan.forward).looks_at_claims() {
                request.claims = Some(Arc::new(claims.all()));
            }
            take(request, taken(&jwt, &claims));
            Ok(())
        }
        Err(fault) => Err(refusal(request, fault)),
    }
}

/// Returns the keys at `place`. A site that trusts other authorities uses no keys that another site has fetched.
fn key_set(site: &SiteState, place: &Origin) -> Arc<KeySet> {
    let own = site.settings.tls.as_ref().map_or("", |_| &site.settings.name);
    Arc::clone(KEYS.lock().entry(format!("{place} {own}")).or_default())
}

impl KeySet {
    /// Returns the keys. Fetches them if there are none, or if they are old, or if `wants_newer` ones.
    async fn current(
        &self,
        worker: &Worker,
        client: &Client,
        place: &Origin,
        wants_newer: bool,
    ) -> Option<Arc<JwkSet>> {
        let (known, came) = (self.keys.lock().clone(), Instant::now());
        // Requests wait for a fetch in progress only if they cannot do without it.
        let asked = match known.is_none() || wants_newer {
            true => Some(self.asked.lock().await),
            false => self.asked.try_lock().ok(),
        };
        let Some(mut asked) = asked else { return known };
        let least = if known.is_none() || wants_newer { RETRY } else { OLDEST };
        let is_within = |asked: Option<Instant>, least| asked.is_some_and(|asked| asked.elapsed() < least);
        let is_shared = asked.last.is_some_and(|asked| asked >= came);
        if is_shared || is_within(asked.last, least) || (wants_newer && is_within(asked.for_newer, PAUSE)) {
            return self.keys.lock().clone();
        }
        let fetched = timeout(PATIENCE, fetch(client, place)).await;
        asked.last = Some(Instant::now());
        if wants_newer {
            asked.for_newer = asked.last;
        }
        match fetched.unwrap_or_else(|_| Err("no whole answer in time".to_owned())) {
            Ok(keys) => *self.keys.lock() = Some(Arc::new(keys)),
            Err(why) => {
                worker
                    .shared
                    .observers
                    .repeats
                    .warn(&why, || format!("the keys of tokens at {place}: {why}"));
            }
        }
        self.keys.lock().clone()
    }
}

/// Fetches the keys. The error is the reason why there are none, in one line.
async fn fetch(client: &Client, place: &Origin) -> Result<JwkSet, String> {
    let (head, mut download) = ask(client, place, &Method::GET, HeaderMap::new(), None).await?;
    if head.status != StatusCode::OK {
        return Err(format!("status {}", head.status.as_u16()));
    }
    JwkSet::parse(&download.whole(LARGEST).await?)
}

/// Returns the fields that the origin gets.
fn taken(jwt: &Jwt, claims: &Claims) -> super::permissions::TakenFields {
    let field = |(name, claim): &(http::HeaderName, String)| {
        let texts: Vec<_> = claims.texts(claim).collect();
        Some((name.clone(), HeaderValue::try_from(texts.join(", ")).ok().filter(|_| !texts.is_empty())?))
    };
    jwt.send.iter().filter_map(field).collect()
}

fn unanswered() -> Box<Reply> {
    Box::new(failure(StatusCode::SERVICE_UNAVAILABLE, Why::AuthUnanswered))
}

/// Returns the refusal of a token (RFC 6750 section 3).
fn refusal(request: &Request, fault: TokenFault) -> Box<Reply> {
    let (status, why, error) = match fault {
        TokenFault::Claim => (StatusCode::FORBIDDEN, Why::AccessDenied, Some("insufficient_scope")),
        TokenFault::Missing => (StatusCode::UNAUTHORIZED, Why::Unauthorized, None),
        _ => (StatusCode::UNAUTHORIZED, Why::Unauthorized, Some("invalid_token")),
    };
    let realm = request.ruling.realm.as_deref().unwrap_or("larder");
    let more = error.map(|error| format!(", error=\"{error}\", error_description=\"{}\"", fault.text()));
    let challenge = format!("Bearer realm=\"{realm}\"{}", more.unwrap_or_default());
    let text = format!("{}: {}\n", status.as_str(), fault.text());
    let mut reply = Reply::text(status, text, Outcome::forwarded(Kind::Refused, why));
    if let (Source::Fields(fields), Ok(challenge)) = (&mut reply.fields, HeaderValue::try_from(challenge)) {
        fields.insert(header::WWW_AUTHENTICATE, challenge);
    }
    Box::new(reply)
}
