//! A gateway beside its backend: answers 304 to who shows a tag that is current, and stores nothing but tags.
//!
//! What the pools do is in `larder-tags`; here requests are carried past them.

use std::borrow::Cow;
use std::future::ready;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, Method, StatusCode};
use larder_cluster::message;
use larder_semantics::status::Why;
use larder_tags::{Asked, Pools, Report, Segment, Settings, Ticket, Verdict};
use serde::Serialize;

use crate::base::clock;
use crate::base::outcome::{Kind, Outcome};
use crate::base::settings::{Origin, Site};
use crate::cluster::change::Change;
use crate::exchange::reply::{Content, Reply, Source};
use crate::exchange::request::Request;
use crate::exchange::settled::Settled;
use crate::features::validator;
use crate::flow::follow::left;
use crate::flow::pass;
use crate::flow::serve::failure;
use crate::flow::upstream::{self, Answer};
use crate::flow::worker::{Plan, Worker};
use crate::http::body::Upload;
use crate::http::response::Lines;
use crate::origin::{Chunk, Download};

/// Content that nobody wants is read on to its end up to this many bytes, since a connection is worth more.
const WORTH_READING: u64 = 64 << 10;

/// The pools of all gateways. A site is known by its name, and keeps them when the config is read again.
pub(crate) struct Gateways {
    all: Mutex<Vec<Gateway>>,
    settled: Settled,
}

struct Gateway {
    site: String,
    origins: Vec<Origin>,
    settings: Settings,
    pools: Arc<Pools>,
}

/// What a gateway's pools hold and did.
#[derive(Debug, Serialize)]
pub(crate) struct Holdings {
    pub(crate) site: String,
    pub(crate) pools: Vec<Report>,
}

impl Gateways {
    /// None yet; `settled` is what the last process said of those that it had.
    pub(crate) fn new(settled: Settled) -> Self {
        Self { all: Mutex::default(), settled }
    }

    /// The pools of `site`, if it is a gateway. Those of one that has changed are emptied. A gateway starts in doubt,
    /// unless the last process ended it with nothing in progress.
    pub(crate) fn open(&self, site: &Site) -> Option<Arc<Pools>> {
        let settings = site.tags.as_ref()?;
        let mut all = self.all();
        if let Some(known) = all.iter_mut().find(|known| known.site == site.name) {
            if known.origins != site.origins || known.settings != *settings {
                known.pools.change(settings.clone());
                (known.origins, known.settings) = (site.origins.clone(), settings.clone());
            }
            return Some(Arc::clone(&known.pools));
        }
        let pools = Arc::new(Pools::new(settings.clone(), seconds));
        if !self.settled.has(&site.name, &site.origins) {
            pools.start_in_doubt();
        }
        let (origins, settings) = (site.origins.clone(), settings.clone());
        all.push(Gateway { site: site.name.clone(), origins, settings, pools: Arc::clone(&pools) });
        Some(pools)
    }

    /// Blanks what a change concerns that went through a gateway of the same name on another node; says no more than
    /// that it did, unless it `is_over`.
    pub(crate) fn changed_elsewhere(&self, pools: &message::Pools, is_over: bool) {
        let all = self.all();
        let segment = pools.pool.as_deref().map_or(Segment::Anywhere, |name| Segment::Named(name.into()));
        let known = all.iter().filter(|known| known.site == pools.site);
        known.for_each(|known| known.pools.changed_elsewhere(&segment, is_over));
    }

    /// Blanks all pools of all gateways.
    pub(crate) fn blank_all(&self) {
        self.all().iter().for_each(|known| known.pools.changed_elsewhere(&Segment::Anywhere, true));
    }

    /// The same; and none makes tags for a while.
    pub(crate) fn start_in_doubt(&self) {
        self.all().iter().for_each(|known| known.pools.start_in_doubt());
    }

    /// Says for the next process which gateways have nothing in progress and nothing in doubt. To be called when there
    /// are no connections any more.
    pub(crate) fn ended(&self) {
        let all = self.all();
        let settled = all.iter().filter(|known| known.pools.is_settled());
        self.settled.write(settled.map(|known| (known.site.as_str(), known.origins.as_slice())));
    }

    fn all(&self) -> MutexGuard<'_, Vec<Gateway>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What all of them hold and did.
    pub(crate) fn report(&self) -> Vec<Holdings> {
        self.all()
            .iter()
            .map(|known| Holdings { site: known.site.clone(), pools: known.pools.report() })
            .collect()
    }
}

/// Seconds of a clock that nobody sets: a doubt is as long as it should be.
fn seconds() -> u32 {
    u32::try_from(clock::millis() / 1_000).unwrap_or(u32::MAX)
}

/// The reply to a request for a gateway.
pub(crate) async fn serve(
    worker: &Arc<Worker>,
    plan: &Arc<Plan>,
    pools: &Arc<Pools>,
    request: &mut Request,
) -> Reply {
    // A trusted proxy asks by either scheme, and the backend may answer differently.
    let authority: Cow<'_, str> = match request.scheme {
        "https" => format!("https://{}", request.authority).into(),
        _ => (&*request.authority).into(),
    };
    let target = request.path.as_bytes();
    // What a gateway has not heard of it cannot answer 304 for.
    let is_plain = request.upgrade.is_none()
        && request.content.is_empty()
        && request.awaited.is_none()
        && !validator::is_marked(&request.fields);
    let asked = match request.method == Method::GET && !is_plain {
        true => Asked::Pass(pools.pass(&request.method, target)),
        false => pools.ask(&request.method, authority.as_bytes(), target, &request.fields),
    };
    match asked {
        Asked::NotModified(fields) => {
            let outcome = Outcome { ttl: None, ..Outcome::hit(Kind::Hit, Why::TagCurrent, 0) };
            not_modified(fields, outcome)
        }
        Asked::Forward(ticket) => forward(worker, plan, request, &ticket).await,
        Asked::Change(held) => {
            let held = Change::new(&worker.shared, request, held);
            change(worker, plan, request, held).await
        }
        Asked::Pass(lines) => {
            let why = if is_plain && request.method != Method::GET { Why::Method } else { Why::Bypass };
            with(pass::through(worker, plan, request, why).await, lines)
        }
    }
}

/// Sends on what may change something. The pools are blanked before anybody hears how it ended.
async fn change(worker: &Arc<Worker>, plan: &Arc<Plan>, request: &mut Request, mut held: Change) -> Reply {
    // On a connection that leaves HTTP nobody sees what changes.
    request.upgrade = None;
    let mut content = std::mem::take(&mut request.content);
    let lines = held.lines();
    let sent = upstream::send(worker, plan, request, &request.fields, &mut content).await;
    let reply = match sent {
        Ok(Answer { status, fields, download, .. }) => {
            // An earlier try may still be carried out, whatever the answer to the last one says.
            let known = if request.has_lost_try() { StatusCode::GATEWAY_TIMEOUT } else { status };
            let position = held.answered(known).await;
            let outcome = Outcome::forwarded(Kind::Pass, Why::Method).answered(status);
            upstream::pass_on(false, status, fields, download.guarded(held), outcome).at(position)
        }
        Err(error) => {
            if error.unsent {
                held.never_sent();
            }
            pass::failed(request, &error)
        }
    };
    with(reply, lines)
}

/// Asks the backend for what no tag is known for.
async fn forward(worker: &Arc<Worker>, plan: &Arc<Plan>, request: &Request, ticket: &Ticket) -> Reply {
    let mut fields = Cow::Borrowed(&request.fields);
    if Pools::is_conditioned_twice(&fields) {
        Pools::leave_tags(fields.to_mut());
    }
    let mut nothing = Upload::Empty;
    let sent = pin!(upstream::send(worker, plan, request, &fields, &mut nothing));
    let Answer { status, fields, download, .. } = match request.unless_left(sent, ready(())).await {
        Some(Ok(answer)) => answer,
        Some(Err(error)) => return pass::failed(request, &error),
        None => return left(),
    };
    let outcome = Outcome::forwarded(Kind::Miss, Why::TagUnknown).answered(status);
    match ticket.answer(&request.fields, status, &*fields, download.length()) {
        Verdict::Pass(lines) => with(upstream::pass_on(false, status, fields, download, outcome), lines),
        Verdict::NotModified(kept) => {
            read_on(download).await;
            not_modified(kept, Outcome { kind: Kind::Revalidated, ..outcome })
        }
        Verdict::Read(most, lines) => {
            let answer = Answer { status, fields, download, by_peer: false };
            read(request, ticket, answer, (most, lines), outcome).await
        }
    }
}

/// Reads an answer's content for its tag, and answers.
async fn read(
    request: &Request,
    ticket: &Ticket,
    answer: Answer,
    (most, lines): (u64, HeaderMap),
    outcome: Outcome,
) -> Reply {
    let Answer { status, fields, mut download, .. } = answer;
    let content = match whole(&mut download, most).await {
        Ok(Ok(content)) => content,
        Ok(Err(beginning)) => {
            let reply = upstream::pass_on(false, status, fields, download.behind(beginning), outcome);
            return with(reply, lines);
        }
        Err(error) => {
            tracing::warn!("{}: content truncated: {error}", request.logged_url());
            return failure(StatusCode::BAD_GATEWAY, Why::OriginMalformed);
        }
    };
    match ticket.content(&request.fields, &*fields, &content) {
        Verdict::NotModified(kept) => not_modified(kept, Outcome { kind: Kind::Revalidated, ..outcome }),
        Verdict::Pass(lines) | Verdict::Read(_, lines) => with(read_already(fields, content, outcome), lines),
    }
}

/// All of the content, or what has come of it when that was more than `most` bytes. Trailers are given up
/// (RFC 9110 section 6.5.1).
async fn whole(download: &mut Download, most: u64) -> Result<Result<Vec<u8>, Vec<u8>>, String> {
    let expected = download.length().and_then(|length| usize::try_from(length).ok()).unwrap_or(0);
    let mut content = Vec::with_capacity(expected);
    while let Some(chunk) = download.next().await? {
        if let Chunk::Data(data) = chunk {
            content.extend_from_slice(data);
        }
        if content.len() as u64 > most {
            return Ok(Err(content));
        }
    }
    Ok(Ok(content))
}

fn read_already(fields: Box<Lines>, content: Vec<u8>, outcome: Outcome) -> Reply {
    let length = Some(content.len() as u64);
    let content = Content::Bytes(content.into());
    Reply { length, content, ..Reply::new(StatusCode::OK, Source::Answer(fields), outcome) }
}

fn not_modified(fields: HeaderMap, outcome: Outcome) -> Reply {
    Reply::new(StatusCode::NOT_MODIFIED, Source::Fields(fields.into()), outcome)
}

/// The same reply with these lines besides.
fn with(mut reply: Reply, lines: HeaderMap) -> Reply {
    if !lines.is_empty() {
        reply.extra.get_or_insert_default().extend(lines);
    }
    reply
}

async fn read_on(mut download: Box<Download>) {
    if download.length().is_some_and(|length| length <= WORTH_READING) {
        while let Ok(Some(_)) = download.next().await {}
    }
}
