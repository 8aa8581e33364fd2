//! The attempts at one request of a site: chooses an origin, tries another one if that fails before it answers, and asks
//! a second one if the answer is late.

use std::borrow::Cow;
use std::pin::pin;
use std::time::{Duration, Instant};

use http::{HeaderMap, Method, StatusCode};
use larder_semantics::fields::Fields;
use larder_semantics::methods::is_idempotent;
use larder_semantics::status::Why;

use crate::base::networks::network;
use crate::exchange::plan::Plan;
use crate::exchange::request::Request;
use crate::exchange::request_destination::{self, RequestDestination};
use crate::exchange::route::SiteState;
use crate::flow::rewrite::AnswerSource;
use crate::flow::sending::{Protocol, SiteAddress, once};
use crate::flow::worker::Worker;
use crate::http::body::Upload;
use crate::http::response::Head;
use crate::origin::{Client, Download, OriginError, OriginLoad, Turn, s3};

/// The result of an attempt.
type AttemptResult = Result<(Head, Box<Download>), OriginError>;

/// The answer of an origin.
struct OriginAnswer<'p> {
    turn: Turn<'p>,
    load: Option<OriginLoad>,
    head: Head,
    download: Box<Download>,
    /// Whether no other origin has been asked: the client of a sticky session stays with this one.
    is_first: bool,
}

/// An attempt at an origin.
struct Attempt<'p> {
    turn: Turn<'p>,
    /// Counts as a request in progress there.
    load: Option<OriginLoad>,
    answered: AttemptResult,
}

/// Sends `request` of `worker` with `fields` to an origin of `site`. The error is the reason why there is no answer, after the last
/// attempt.
pub(super) async fn at_site(
    worker: &Worker,
    plan: &Plan,
    site: &SiteState,
    request: &Request,
    fields: &HeaderMap,
    content: &mut Upload,
) -> AttemptResult {
    let (clients, chosen) = (worker.clients(plan), request_destination::of(site, request));
    let client = clients.of_site(site.number);
    let has_content = !content.is_empty();
    check(&chosen, request, has_content)?;
    chosen.pool.requested();
    let sent = AttemptRequest { client, plan, request, fields, chosen: &chosen };
    let retries = request.ruling.retries.unwrap_or(site.settings.retries);
    let (mut tries_left, mut unsent) = (retries, true);
    // An answer that is used only if no other origin has one.
    let mut declined: Option<OriginAnswer<'_>> = None;
    let mut next = chosen.pool.next(None, request.session.as_deref(), sent.choice(&sent.key()));
    loop {
        let begun = chosen.pool.is_timed().then(Instant::now);
        let Attempt { turn, load, answered } = match sent.late(has_content) {
            None => sent.attempt(next, content).await,
            // In a box: otherwise the state of all other requests would be larger.
            Some(late) => Box::pin(sent.hedged(next, late)).await,
        };
        match answered {
            Ok((head, download)) => {
                turn.succeeded();
                turn.answered(worker.number, head.status, begun);
                let is_first = declined.is_none();
                declined.take().into_iter().for_each(|earlier| earlier.download.spare());
                let other = sent.instead_of(turn, head.status, has_content).filter(|_| tries_left > 0);
                let answer = OriginAnswer { turn, load, head, download, is_first };
                let Some(other) = other else {
                    return match turn.signer() {
                        None => sent.rewritten(site, answer),
                        // In a box: otherwise the state of all other requests would be larger.
                        Some(_) => Box::pin(sent.accepted(site, answer)).await,
                    };
                };
                declined = Some(answer);
                next = other;
                tries_left -= 1;
            }
            Err(error) => {
                turn.failed(&error.detail);
                // Content can be sent once only.
                let is_whole = !has_content || !content.is_empty();
                // An earlier try may have reached an origin, even if this one has not.
                unsent &= error.unsent;
                if !error.unsent {
                    request.lose_try();
                }
                if !is_whole || !sent.may_repeat(&error) || tries_left == 0 || !chosen.pool.may_retry() {
                    return match declined {
                        Some(answer) => Box::pin(sent.accepted(site, answer)).await,
                        None => Err(OriginError { unsent, ..error }),
                    };
                }
                tracing::debug!("{}: {error}; trying again", request.logged_url());
                next = chosen.pool.next(Some(turn), request.session.as_deref(), sent.choice(&sent.key()));
                tries_left -= 1;
                // Let the doubt about a lost try begin before the next try is sent.
                tokio::task::yield_now().await;
            }
        }
    }
}

/// Checks whether the origins may be asked. The error is the reason why no origin is asked.
fn check(chosen: &RequestDestination<'_>, request: &Request, has_content: bool) -> Result<(), OriginError> {
    if chosen.leads_out() {
        return Err(leads_out());
    }
    match chosen.pool.has_buckets() {
        true => s3::check(&request.method, has_content, &request.path),
        false => Ok(()),
    }
}

fn leads_out() -> OriginError {
    let detail = "filled in from the request, the path of a rule's 'rewrite' has segments '.' or '..'";
    OriginError::unsent(StatusCode::BAD_GATEWAY, Why::OriginForbidden, detail)
}

/// The request of all attempts.
struct AttemptRequest<'s> {
    client: &'s Client,
    plan: &'s Plan,
    request: &'s Request,
    fields: &'s HeaderMap,
    chosen: &'s RequestDestination<'s>,
}

impl<'s> AttemptRequest<'s> {
    /// Returns what chooses the origin, if there are several: the URL, or the client.
    fn key(&self) -> Cow<'s, [u8]> {
        match self.chosen.pool {
            pool if !pool.has_choice() => Cow::default(),
            pool if pool.is_by_client() && !self.is_part() => {
                network(self.request.client.ip(), 32, 64).to_string().into_bytes().into()
            }
            _ => self.request.url_key().into(),
        }
    }

    /// Returns this key, and whether it alone chooses.
    fn choice<'k>(&self, key: &'k [u8]) -> (&'k [u8], bool) {
        (key, self.is_part())
    }

    /// Whether the request is for a part that is perhaps stored by slices, of which all have to come from one origin: servers
    /// of one site may have entity-tags of their own.
    fn is_part(&self) -> bool {
        let is_sliced = self.request.ruling.caching().is_some_and(|rules| rules.slice.is_some());
        is_sliced && self.request.session.is_none() && self.fields.contains("range")
    }

    /// Returns the time after which another origin is asked, too; `None` for a request that may be sent to one only.
    fn late(&self, has_content: bool) -> Option<Duration> {
        self.chosen.pool.late().filter(|_| self.may_have_several_answers(has_content))
    }

    fn may_have_several_answers(&self, has_content: bool) -> bool {
        let is_safe = matches!(self.request.method, Method::GET | Method::HEAD);
        is_safe && !has_content && self.request.upgrade.is_none()
    }

    /// Returns the origin that is asked after that of `turn` has answered with this status, if rules want that.
    fn instead_of(&self, turn: Turn<'s>, status: StatusCode, has_content: bool) -> Option<Turn<'s>> {
        let statuses = self.request.ruling.retry_on.as_ref()?;
        let is_declined = statuses.iter().any(|own| own.contains(&status.as_u16()));
        if !is_declined || !self.may_have_several_answers(has_content) {
            return None;
        }
        let pool = self.chosen.pool;
        let other = pool.next(Some(turn), None, self.choice(&self.key()));
        (!other.is_at(turn) && pool.may_retry()).then_some(other)
    }

    /// Whether the request may be sent again after this error.
    fn may_repeat(&self, error: &OriginError) -> bool {
        // After a malformed answer it may not: the origin has processed the request, and would answer the same.
        error.unsent || is_idempotent(&self.request.method) && error.why != Why::OriginMalformed
    }

    /// Returns the answer of an origin of `site` in the form for clients. Errors: that of a bucket which refuses the request.
    async fn accepted(&self, site: &SiteState, mut answer: OriginAnswer<'_>) -> AttemptResult {
        if let Some(signer) = answer.turn.signer() {
            let OriginAnswer { head, download, .. } = &mut answer;
            signer.accept(&self.request.method, head, download).await?;
        }
        self.rewritten(site, answer)
    }

    /// Returns an accepted answer in the form for clients.
    fn rewritten(&self, site: &SiteState, answer: OriginAnswer<'_>) -> AttemptResult {
        let OriginAnswer { turn, load, mut head, download, is_first } = answer;
        self.request.session.iter().filter(|_| is_first).for_each(|session| turn.keep(session));
        let origin = turn.origin();
        self.request.origin.answered_by(&origin.authority);
        let host = self.chosen.host_at(origin, self.request);
        AnswerSource { site, origin, host, request: self.request }.rewrite(&mut head.fields);
        Ok((head, download.in_progress(load)))
    }

    /// Sends the request to the origin of `turn`, with a signature if that is a bucket.
    async fn attempt(&self, turn: Turn<'s>, content: &mut Upload) -> Attempt<'s> {
        let load = turn.begun();
        let &Self { client, plan, request, fields, chosen } = self;
        let origin = turn.origin();
        let path = chosen.path_at(origin, request);
        let mut to = SiteAddress {
            https: origin.https,
            protocol: if origin.http2 { Protocol::Http2 } else { Protocol::Http1 },
            authority: &origin.authority,
            host: chosen.host_at(origin, request),
            path: &path,
            signed: None,
        };
        let signed = match turn.signer() {
            // In a box: otherwise the state of all other requests would be larger.
            Some(signer) => {
                let signed = Box::pin(signer.sign(client, &request.method, (to.host, &path), fields));
                signed.await.map(Some)
            }
            None => Ok(None),
        };
        let answered = match &signed {
            Ok(signed) => {
                to.signed = signed.as_ref();
                to.path = to.signed.map_or(to.path, |signed| &signed.path);
                once(client, plan, request, fields, content, &to).await
            }
            Err(error) => Err(error.clone()),
        };
        Attempt { turn, load, answered }
    }

    /// Sends a request without content to the origin of `turn`, and to another one if there is no answer after `late`.
    /// The first answer is used, and the other request ends with its connection.
    async fn hedged(&self, turn: Turn<'s>, late: Duration) -> Attempt<'s> {
        let (mut nothing, mut no_more) = (Upload::Empty, Upload::Empty);
        let mut first = pin!(self.attempt(turn, &mut nothing));
        if let Ok(attempt) = tokio::time::timeout(late, first.as_mut()).await {
            return attempt;
        }
        let pool = self.chosen.pool;
        let other = pool.next(Some(turn), None, self.choice(&self.key()));
        if other.is_at(turn) || !pool.may_hedge() {
            return first.await;
        }
        let mut second = pin!(self.attempt(other, &mut no_more));
        let (attempt, is_first) = tokio::select! {
            attempt = first.as_mut() => (attempt, true),
            attempt = second.as_mut() => (attempt, false),
        };
        match attempt.answered {
            Ok(_) => attempt,
            Err(error) => {
                attempt.turn.failed(&error.detail);
                if is_first { second.await } else { first.await }
            }
        }
    }
}
