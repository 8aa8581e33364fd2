//! A request that may change what the backend would answer, from its arrival to its end.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};

use crate::pools::Pools;
use crate::push;
use crate::segment::Segment;

/// A request that may change something, on its way. While it is held, tags are made and matched; when it goes,
/// however that happens, those made meanwhile are blanked.
///
/// If nobody has seen its end by then, the backend may still be at it: no tags are made for a while.
pub struct Change {
    pools: Arc<Pools>,
    segment: Segment,
    is_over: bool,
}

impl Change {
    pub(crate) fn new(pools: Arc<Pools>, segment: Segment) -> Self {
        pools.change_began();
        pools.blank(&segment);
        Self { pools, segment, is_over: false }
    }

    /// The backend has answered with `status`. To be called before anybody else hears of that; what holds this
    /// should go when the last of the answer's content goes out.
    ///
    /// 502 and 504 come from an intermediary, which does not know how the request ended.
    pub fn answered(&mut self, status: StatusCode) {
        self.is_over = !matches!(status, StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT);
        self.pools.blank(&self.segment);
    }

    /// A try of the request got no answer, and it is being sent again: the backend may have carried out the first try, so
    /// that a doubt begins now and not when the last try ends.
    pub fn lost_try(&self) {
        self.pools.changed_elsewhere(&self.segment, false);
    }

    /// The backend has not seen any of the request, and never will.
    pub fn never_sent(&mut self) {
        self.is_over = true;
    }

    /// Where it belongs.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Whether the backend is done with it, as far as one knows.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// The field lines to be added to whatever is answered.
    pub fn lines(&self) -> HeaderMap {
        let settings = self.pools.settings();
        settings.push.map(|_| push::invalidates(&self.segment, &settings.couplings)).unwrap_or_default()
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        // A request reads the generation before it looks for a doubt: in this order it cannot miss both.
        if !self.is_over {
            self.pools.doubt(&self.segment);
        }
        self.pools.blank(&self.segment);
        // Last: as long as it counts as open, nobody takes the pools for settled.
        self.pools.change_ended();
    }
}
