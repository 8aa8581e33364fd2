//! Fetches that no client has requested. A fetch that stores no response has no other effect: the URL is not marked as
//! hit-for-miss, no reason is recorded for `why`, and a client that waits for the fetch leads the next one.

use std::time::Duration;

use http::StatusCode;
use larder_predict::PrefetchResult;
use larder_semantics::fields::Fields;
use larder_semantics::range::ContentRange;
use larder_semantics::status::Why;
use larder_semantics::storable::Times;
use larder_store::JoinResult;
use larder_store::fill::{FillWriter, Piece};

use super::{Meaning, OriginAnswer};
use crate::base::clock;
use crate::cache::doubt::Doubt;
use crate::exchange::request::Request;
use crate::flow::context::Context;
use crate::flow::fetch_scope::FetchScope;
use crate::flow::fill_task::{Allowance, FillTask};
use crate::flow::revalidation::Revalidation;
use crate::flow::stored::Lookup;
use crate::flow::upstream::{self, Answer};
use crate::http::body::Upload;

/// The longest document that is fetched for the sake of a file, in bytes.
const LONGEST_BESIDE: u64 = 64 << 10;
/// The longest time that the file waits for it.
const PATIENCE_BESIDE: Duration = Duration::from_secs(10);

/// Fetches and stores the document that `request` is for, or waits until another request has done so.
pub(crate) async fn beside(cx: Context<'_>, request: &Request) {
    let fills = &cx.worker.cache.fills;
    let stored = async {
        match fills.join_own(&request.key, &[]) {
            JoinResult::Writer(writer) => {
                let lookup = Lookup { entry: None, epoch: fills.epoch_of(request.hash) };
                prefetch(cx, request, writer, lookup, LONGEST_BESIDE).await;
            }
            JoinResult::Follow(mut reader) => {
                while !matches!(reader.next().await, Piece::End(_)) {
                    reader.sent();
                }
            }
        }
    };
    // Without the document, the file is fetched as though there were none.
    let _ = tokio::time::timeout(PATIENCE_BESIDE, stored).await;
}

/// Fetches at most `most` bytes of content for `request`, which no client has made, after `lookup`.
pub(crate) async fn prefetch(
    cx: Context<'_>,
    request: &Request,
    writer: FillWriter,
    lookup: Lookup,
    most: u64,
) -> PrefetchResult {
    let stored = lookup.left(&cx.worker.cache.fills, request);
    let own = stored.as_ref().filter(|entry| *entry.key() == *request.key);
    let wants_part = request.fields.contains("range");
    let revalidation = Revalidation::about(own, wants_part);
    let changed = revalidation.fields(&request.fields, wants_part);
    let asked = changed.as_deref().unwrap_or(&request.fields);
    let doubt = Doubt::about(&cx.worker.cache, &request.key);
    let start = cx.begin(request);
    let (mut nothing, fetch) = (Upload::Empty, Some(writer.fetch()));
    let answer = match upstream::send(cx.worker, cx.plan, request, asked, &mut nothing, fetch).await {
        Ok(answer) => answer,
        Err(error) if error.why == Why::Overloaded => return PrefetchResult::Unsent,
        Err(error) => {
            tracing::debug!("{} was not prefetched: {error}", request.logged_url());
            return PrefetchResult::Failed(0);
        }
    };
    let times = Times {
        requested: answer.requested,
        received: clock::now(),
        by_age: answer.by_peer,
        ..Times::default()
    };
    let confirmed = revalidation.confirmed(cx.plan, request, &answer);
    let by_answer = confirmed.as_ref().map_or(&answer.ruling, |(ruling, _)| ruling).clone();
    let ruling = by_answer.as_ref().unwrap_or(&request.ruling);
    let cx = Context { rules: &ruling.caching, ..cx };
    let (sent, stored, own_tag, why) = (asked, stored.as_ref(), None, Why::Absent);
    let by_peer = answer.by_peer;
    let fetched = OriginAnswer { cx, request, sent, why, times, stored, own_tag, by_peer, start, doubt };
    match fetched.understand(&revalidation, &answer) {
        Meaning::StillGood(entry) => {
            match fetched.still_good(FetchScope::Leads(Box::new(writer)), entry, confirmed, &answer) {
                Ok(_) => PrefetchResult::Stored(0),
                Err(_) => PrefetchResult::Failed(0),
            }
        }
        Meaning::Answer => fetched.keep(writer, answer, most).await,
        Meaning::AskAgain(_)
        | Meaning::StaleInstead(_)
        | Meaning::Completes(..)
        | Meaning::Opens(_)
        | Meaning::Contains(..) => PrefetchResult::Failed(0),
    }
}

impl OriginAnswer<'_> {
    /// Stores the answer if that is allowed and it is no error: a missing resource may exist when a client requests it.
    async fn keep(&self, writer: FillWriter, answer: Answer, most: u64) -> PrefetchResult {
        if !is_kept(answer.status) {
            return PrefetchResult::Failed(0);
        }
        let Ok(keeping) = self.judge(self.cx.rules, answer.status, &*answer.fields) else {
            return PrefetchResult::Refused(0);
        };
        let length = answer.download.length();
        if length.is_some_and(|length| length > most) {
            return PrefetchResult::Failed(0);
        }
        let stored = self.stored_lines(&answer, keeping.freshness.date);
        let Answer { status, fields, download, .. } = answer;
        let expected = (status == StatusCode::PARTIAL_CONTENT).then(|| ContentRange::of(&*fields)).flatten();
        let head = self.head(status, stored, keeping, length);
        let allowance = Allowance::new(most);
        let task = self.task(writer, expected, None);
        let mut task = FillTask { allowance: Some(allowance.clone()), ..task };
        self.cx.worker.cache.hit_for_miss.clear(self.request.hash);
        let kept = self.kept(&head);
        task.writer.limit(kept);
        let is_stored = task.writer.stream(head);
        // A client may read it by now, even if it is not stored.
        task.carry(download, None).await;
        match is_stored && !allowance.is_exceeded() {
            true => PrefetchResult::Stored(allowance.arrived()),
            false => PrefetchResult::Failed(allowance.arrived()),
        }
    }
}

fn is_kept(status: StatusCode) -> bool {
    status.is_success() || status.is_redirection()
}
