//! The context of a flow: worker, settings and rules.

use std::sync::Arc;

use http::{HeaderValue, StatusCode, header};
use larder_semantics::status::Why;
use larder_semantics::storable::Rules;
use larder_store::tier::FetchStart;

use crate::base::outcome::{Kind, Outcome};
use crate::exchange::client_cert::names_client;
use crate::exchange::plan::Plan;
use crate::exchange::reply::{Reply, Source};
use crate::exchange::request::Request;
use crate::flow::decide::Decision;
use crate::flow::worker::Worker;
use crate::observe::Observers;

/// The context of a flow.
#[derive(Clone, Copy)]
pub(crate) struct Context<'c> {
    pub(crate) worker: &'c Arc<Worker>,
    pub(crate) plan: &'c Arc<Plan>,
    pub(crate) rules: &'c Rules,
}

impl Context<'_> {
    pub(crate) fn observers(&self) -> &Observers {
        &self.worker.shared.observers
    }

    /// Returns the beginning of a fetch for `request`, whose response far tiers may keep unless it may be for one client.
    pub(crate) fn begin(&self, request: &Request) -> FetchStart {
        match names_client(&request.fields) {
            true => FetchStart::default(),
            false => self.worker.cache.store.begin(),
        }
    }

    /// Removes all that is stored under `key`, in all tiers.
    pub(crate) fn remove(&self, key: &[u8]) {
        let store = &self.worker.cache.store;
        store.remove(key);
        store.forget_far(key, &[]);
    }
}

/// Returns the reply to a request for which there is no response to send.
#[cold]
pub(crate) fn failure(status: StatusCode, why: Why) -> Reply {
    let text = format!("{}: {}\n", status.as_str(), why.explanation());
    // Nothing has failed where this proxy may not ask.
    let kind = if status == StatusCode::FORBIDDEN { Kind::Refused } else { Kind::Failed };
    let mut reply = Reply::text(status, text, Outcome::forwarded(kind, why));
    if let (Source::Fields(fields), StatusCode::METHOD_NOT_ALLOWED) = (&mut reply.fields, status) {
        // RFC 9110 section 15.5.6.
        fields.insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    reply
}

/// Returns the refusal of a request that accepts only a stored response, for this reason.
#[cold]
pub(crate) fn refused(why: Why) -> Reply {
    const ONLY_IF_CACHED: &str =
        "504: no stored response fits, and the request accepts no other (only-if-cached)\n";
    const PREFETCH: &str =
        "503: no stored response fits, and prefetches of clients are not sent to origins\n";
    let (status, text) = match why {
        Why::OnlyIfCached => (StatusCode::GATEWAY_TIMEOUT, ONLY_IF_CACHED),
        _ => (StatusCode::SERVICE_UNAVAILABLE, PREFETCH),
    };
    Reply::text(status, text.to_owned(), Outcome::forwarded(Decision::Refuse(why).kind(), why))
}
