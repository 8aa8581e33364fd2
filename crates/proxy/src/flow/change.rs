//! Requests that may change a resource at the origin. If the result of such a change stays unknown, a doubt begins.

use std::sync::Arc;

use http::StatusCode;
use larder_cluster::message::Order;
use larder_semantics::fields::Fields;
use larder_semantics::purge::Scope;
use larder_semantics::{groups, invalidate, key};

use super::worker::ProcessState;
use crate::base::settings::DOUBT;
use crate::cache::{Cache, doubt};
use crate::cluster::Cluster;
use crate::exchange::request::Request;
use crate::exchange::route::Route;
use crate::origin::OriginError;

/// A request in flight that may change a resource at the origin. If it is dropped before its result is known, a doubt
/// begins.
pub(crate) struct Change {
    cache: Arc<Cache>,
    cluster: Option<Arc<Cluster>>,
    url: Vec<u8>,
    origin: Option<Vec<u8>>,
    seconds: u32,
    is_over: bool,
}

impl Change {
    /// Returns the change that `request` may make; `None` if its method is safe, or if its site has no doubts.
    pub(crate) fn of(shared: &ProcessState, request: &Request) -> Option<Self> {
        let seconds = match &request.route {
            Route::Site(site) => site.settings.doubt,
            Route::Anywhere => DOUBT,
        };
        (invalidate::is_unsafe(&request.method) && seconds > 0).then(|| Self {
            cache: Arc::clone(&shared.cache),
            cluster: shared.cluster.clone(),
            url: request.url_key().to_vec(),
            origin: key::origin(request.target()).map(<[u8]>::to_vec),
            seconds,
            is_over: false,
        })
    }

    /// Records that the origin has answered. A 502 or 504 comes from an intermediary that does not know the result of
    /// the change, unless it names cache groups: then the intermediary handles the unknown result itself.
    pub(crate) fn answered(mut self, request: &Request, status: StatusCode, fields: &impl Fields) -> Self {
        let is_unknown = matches!(status, StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT)
            && groups::invalidated(&request.method, fields).is_empty();
        self.is_over = !is_unknown && !request.has_lost_try();
        self
    }

    /// Begins the doubt on this node and notifies other nodes, without waiting for them. Also called when the first try
    /// of a change got no answer and the change is sent again.
    pub(crate) fn begin(&self) {
        let scopes = self.scopes();
        if let Some(cluster) = &self.cluster {
            cluster.tell_later(Order::Unsure(self.seconds, scopes.clone()));
        }
        doubt::begin(&self.cache, self.seconds, scopes);
    }

    /// Records that the request failed without an answer.
    pub(crate) fn failed(mut self, error: &OriginError) -> Self {
        self.is_over = error.unsent;
        self
    }

    /// Begins the doubt unless the result is known, and returns when it is in force on this node and other nodes have
    /// been notified. Returns whether the result is known.
    pub(crate) async fn end(mut self) -> bool {
        if self.is_over {
            return true;
        }
        // If this future is dropped early, `drop` repeats all of it.
        let (cache, seconds, scopes) = (Arc::clone(&self.cache), self.seconds, self.scopes());
        let told = Order::Unsure(seconds, scopes.clone());
        self.cache.on_a_thread(move || doubt::begin(&cache, seconds, scopes)).await;
        if let Some(cluster) = &self.cluster
            && let Err(error) = cluster.tell(told).await
        {
            tracing::debug!("a change with an unknown end reaches other nodes late: {error}");
        }
        self.is_over = true;
        false
    }

    fn scopes(&self) -> Vec<Scope> {
        let url = Scope::Url(self.url.clone());
        std::iter::once(url).chain(self.origin.clone().map(Scope::Origin)).collect()
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        if !self.is_over {
            self.begin();
        }
    }
}
