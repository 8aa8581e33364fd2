//! A request that may change something at the origin. If its end stays unknown, a doubt begins.

use std::sync::Arc;

use http::StatusCode;
use larder_cluster::message::Order;
use larder_semantics::fields::Fields;
use larder_semantics::purge::Scope;
use larder_semantics::{groups, invalidate, key};

use super::worker::Shared;
use crate::base::settings::DOUBT;
use crate::cache::{Cache, doubt};
use crate::cluster::Cluster;
use crate::exchange::request::Request;
use crate::exchange::route::Route;
use crate::origin::OriginError;

/// A request that may change something, on its way to an origin. If it is dropped before its end is known, a doubt
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
    /// That of `request`, if its method is unsafe.
    pub(crate) fn of(shared: &Shared, request: &Request) -> Option<Self> {
        let seconds = match &request.route {
            Route::Site(site) => site.settings.doubt,
            Route::Anywhere => DOUBT,
        };
        (invalidate::is_unsafe(&request.method) && seconds > 0).then(|| Self {
            cache: Arc::clone(&shared.cache),
            cluster: shared.cluster.clone(),
            url: request.key.clone(),
            origin: key::origin(request.target()).map(<[u8]>::to_vec),
            seconds,
            is_over: false,
        })
    }

    /// The origin has answered. 502 and 504 come from a server in between that does not know how the change ended,
    /// unless it names groups: then it takes care of them.
    pub(crate) fn answered(&mut self, request: &Request, status: StatusCode, fields: &impl Fields) {
        let is_unknown = matches!(status, StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT)
            && groups::invalidated(&request.method, fields).is_empty();
        self.is_over = !is_unknown && !request.has_lost_try();
    }

    /// Begins the doubt here and tells other nodes, without waiting for them: also while a change whose first try got no
    /// answer is sent again.
    pub(crate) fn begin(&self) {
        let scopes = self.scopes();
        if let Some(cluster) = &self.cluster {
            cluster.tell_later(Order::Unsure(self.seconds, scopes.clone()));
        }
        doubt::begin(&self.cache, self.seconds, scopes);
    }

    /// There is no answer.
    pub(crate) fn failed(&mut self, error: &OriginError) {
        self.is_over = error.unsent;
    }

    /// Begins the doubt, unless the end is known; returns when it is in force here and other nodes have been told.
    /// Whether the end is known.
    pub(crate) async fn end(mut self) -> bool {
        if self.is_over {
            return true;
        }
        // If this is dropped on the way, all of it happens once more.
        let (cache, seconds, scopes) = (Arc::clone(&self.cache), self.seconds, self.scopes());
        let told = Order::Unsure(seconds, scopes.clone());
        self.cache.on_a_thread(move || doubt::begin(&cache, seconds, scopes)).await;
        if let Some(cluster) = &self.cluster
            && let Err(error) = cluster.tell(told).await
        {
            tracing::debug!("other nodes do not hear at once of a change with an unknown end: {error}");
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
