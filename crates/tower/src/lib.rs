//! Tag pools inside a backend: a [`tower`](https://docs.rs/tower) layer that answers 304 to who shows a current
//! entity-tag, without calling the service behind it.
//!
//! It is the gateway of `larder serve` for those who own the backend: same pools, same rules (see `docs/control.md`).
//! A cache in front, one with `validate = "always"`, then asks for each use and is answered from the pools; with
//! [`Push`] it need not ask.
//!
//! Three things differ:
//!
//! - An earlier process that was killed may have left a change that the database still commits. The layer keeps no file
//!   about that, so [`TagLayer::new`] starts in doubt: for [`Settings::doubt`] it makes no tags. Use
//!   [`TagLayer::settled`] where nothing of an earlier process can still be in progress.
//! - Layers in several processes do not hear of each other's changes. Run one process, or call
//!   [`Pools::changed_elsewhere`] for each change that another one has made.
//! - The layer does not remove `Upgrade` from an unsafe request. What is changed over a connection that has left HTTP, it
//!   does not see.
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
//! It belongs outside of whatever changes data, and inside of what changes answers from request to request, such as
//! compression. Not here: a runtime; any that drives the service will do.

mod body;
mod service;

use std::sync::{Arc, OnceLock};
use std::time::Instant;

pub use body::TagBody;
pub use larder_tags::{Couplings, PoolReport, Pools, Push, Segment, Settings};
pub use service::Tagged;

use tower_layer::Layer;

/// Puts tag pools in front of services. Clones, and the services made by them, share the pools.
#[derive(Clone, Debug)]
pub struct TagLayer {
    pools: Arc<Pools>,
}

impl TagLayer {
    /// A layer with empty pools, which makes no tags for [`Settings::doubt`]: a change that an earlier process has begun
    /// may still be in progress.
    pub fn new(settings: Settings) -> Self {
        let layer = Self::settled(settings);
        layer.pools.start_in_doubt();
        layer
    }

    /// A layer with empty pools, which makes tags at once: no change that an earlier process has begun is in progress.
    pub fn settled(settings: Settings) -> Self {
        Self { pools: Arc::new(Pools::new(settings, seconds)) }
    }

    /// The pools, whose [`report`](Pools::report) says what they hold and did.
    pub fn pools(&self) -> &Arc<Pools> {
        &self.pools
    }
}

impl<S> Layer<S> for TagLayer {
    type Service = Tagged<S>;

    fn layer(&self, service: S) -> Tagged<S> {
        Tagged::new(service, Arc::clone(&self.pools))
    }
}

/// Seconds since this was asked first.
fn seconds() -> u32 {
    static START: OnceLock<Instant> = OnceLock::new();
    u32::try_from(START.get_or_init(Instant::now).elapsed().as_secs()).unwrap_or(u32::MAX)
}
