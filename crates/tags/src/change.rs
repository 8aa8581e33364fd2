//! A request that may change the backend's responses, from its arrival to its end.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};

use crate::pools::Pools;
use crate::push;
use crate::segment::Segment;

/// A request in progress that may change data. Tags can be created and matched while this value exists; when
/// it is dropped, in any way, the tags created meanwhile are blanked.
///
/// If the end of the request is unknown by then, the backend may still be processing it: no tags are created
/// for a while.
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

    /// Records that the backend has answered with `status`. To be called before any client can get the
    /// answer. The caller should drop this value before it sends the last of the answer's content.
    ///
    /// 502 and 504 come from an intermediary, which does not know how the request ended.
    pub fn answered(&mut self, status: StatusCode) {
        self.is_over = !matches!(status, StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT);
        self.pools.blank(&self.segment);
    }

    /// Records that an attempt of the request got no answer, and the request is being sent again. The backend
    /// may have processed the first attempt, so the doubt begins now and not at the end of the last attempt.
    pub fn lost_try(&self) {
        self.pools.changed_elsewhere(&self.segment, false);
    }

    /// Records that the backend has received no part of the request, and never will.
    pub fn never_sent(&mut self) {
        self.is_over = true;
    }

    /// Returns the segment of the request.
    pub fn segment(&self) -> &Segment {
        &self.segment
    }

    /// Whether the backend has finished the request, as far as is known.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the field lines to add to any response to the request.
    pub fn lines(&self) -> HeaderMap {
        let settings = self.pools.settings();
        settings.push.map(|_| push::invalidates(&self.segment, &settings.couplings)).unwrap_or_default()
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        // A request reads the generation before it checks for a doubt: in this order it sees at least one of the two.
        if !self.is_over {
            self.pools.doubt(&self.segment);
        }
        self.pools.blank(&self.segment);
        // Last: while the change counts as open, the pools do not count as settled.
        self.pools.change_ended();
    }
}
