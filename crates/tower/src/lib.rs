//! Tag pools inside a backend: a [`tower`](https://docs.rs/tower) layer that answers requests with a current
//! entity-tag with 304, without calling the service behind it.
//!
//! It is the gateway of `larder serve` for operators who control the backend: same pools, same rules (see
//! `docs/control.md`). A cache in front with `validate = "always"` then validates each use, and the pools
//! answer; with [`Push`] it need not validate.
//!
//! Three things differ:
//!
//! - An earlier process that was killed may have left a change that the database still commits. The layer
//!   keeps no file about that, so [`TagLayer::new`] starts in doubt: for [`Settings::doubt`] it creates no
//!   tags. Use [`TagLayer::settled`] where no change of an earlier process can still be in progress.
//! - Layers in several processes are not notified of each other's changes. Run one process, or call
//!   [`Pools::changed_elsewhere`] for each change that another process has made.
//! - The layer does not remove `Upgrade` from an unsafe request. It does not see changes over a connection
//!   that has switched to another protocol.
//!
//! ```
//! use larder_tower::{Couplings, Settings, TagLayer};
//! # use std::collections::BTreeMap;
//! # use tower_layer::Layer;
//!
//! let couplings = BTreeMap::from([("users".into(), vec!["paths".into()])]);
//! let layer = TagLayer::new(Settings { couplings: Couplings::new(&couplings, false), ..Settings::default() });
//! # struct Service;
//! # let _ = layer.layer(Service);
//! ```
//!
//! Place it outside of every layer that changes data, and inside of layers that change responses from request to
//! request, such as compression. This crate has no runtime; any runtime that drives the service is suitable.

mod body;
mod service;

use std::sync::{Arc, OnceLock};
use std::time::Instant;

pub use body::TagBody;
pub use larder_tags::{Couplings, PoolReport, Pools, Push, Segment, Settings};
pub use service::TagService;

use tower_layer::Layer;

/// Puts tag pools in front of services. Clones, and the services made by them, share the pools.
#[derive(Clone, Debug)]
pub struct TagLayer {
    pools: Arc<Pools>,
}

impl TagLayer {
    /// Returns a layer with empty pools, which creates no tags for [`Settings::doubt`]: a change that an
    /// earlier process has begun may still be in progress.
    pub fn new(settings: Settings) -> Self {
        let layer = Self::settled(settings);
        layer.pools.start_in_doubt();
        layer
    }

    /// Returns a layer with empty pools, which creates tags at once: no change of an earlier process is in progress.
    pub fn settled(settings: Settings) -> Self {
        Self { pools: Arc::new(Pools::new(settings, seconds)) }
    }

    /// Returns the pools, whose [`report`](Pools::report) has their contents and counters.
    pub fn pools(&self) -> &Arc<Pools> {
        &self.pools
    }
}

impl<S> Layer<S> for TagLayer {
    type Service = TagService<S>;

    fn layer(&self, service: S) -> TagService<S> {
        TagService::new(service, Arc::clone(&self.pools))
    }
}

/// Returns the seconds since the first call.
fn seconds() -> u32 {
    static START: OnceLock<Instant> = OnceLock::new();
    u32::try_from(START.get_or_init(Instant::now).elapsed().as_secs()).unwrap_or(u32::MAX)
}
