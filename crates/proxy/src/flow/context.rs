//! The context of a flow: worker, settings and rules.

use std::sync::Arc;

use http::{Method, StatusCode};
use larder_semantics::status::Why;
use larder_semantics::storable::Rules;
use larder_store::tier::FetchStart;

use crate::base::outcome::{Kind, Outcome};
use crate::exchange::client_cert::names_client;
use crate::exchange::plan::Plan;
use crate::exchange::reply::Reply;
use crate::exchange::request::Request;
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
pub(crate) fn failure(status: StatusCode, why: Why) -> Reply {
    let text = format!("{}: {}\n", status.as_str(), why.explanation());
    Reply::text(status, text, Outcome::forwarded(Kind::Failed, why))
}

/// Returns the reason why the cache does not handle a request; `None` if it handles it.
pub(crate) fn passes(request: &Request, has_content: bool) -> Option<Why> {
    match request.method {
        Method::GET if request.upgrade.is_none() && !has_content => None,
        Method::HEAD if !has_content => None,
        Method::GET => Some(Why::Bypass),
        _ => Some(Why::Method),
    }
}
