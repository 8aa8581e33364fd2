//! What another policy or another size of a running cache would bring.
//!
//! A [`Panel`] has a shadow for each policy and size: a cache without contents, under the very policy code that serves.
//! Shadows see the requests for a [`Sample`] of the keys, and are smaller in the same proportion (spatial sampling: C.
//! Waldspurger et al., SHARDS, FAST 2015, and miniature simulations, ATC 2017). A sample that has a very hot key or a very large
//! object by chance, or lacks it, misleads (D. Carra, G. Neglia, ATC 2020): so the heaviest keys ([`Heavy`]) and all large objects are in every sample,
//! and counted for themselves. What the cache really does corrects the rest ([`Estimate`]). Shadows obey lifetimes, purges and uncacheable responses, as the [`Request`]s tell them.
//!
//! Outside this crate: locks, clocks, sockets, and the meaning of a key.

mod advice;
mod auto;
mod counts;
mod endless;
mod estimate;
mod giant;
mod heavy;
mod late;
mod panel;
mod prices;
mod report;
mod request;
mod row;
mod sample;
mod selection;
mod shadow;
mod stack;
mod window;

pub use advice::{Advice, Doubt};
pub use auto::{Auto, Switch};
pub use counts::{Sums, Traffic};
pub use estimate::Estimate;
pub use heavy::Heavy;
pub use late::{LATE, LateRequests, LateRoute};
pub use panel::{Panel, PanelSettings, Size};
pub use prices::{Bill, Prices};
pub use report::{Cell, Check, Ratios, Report, Tier, WindowReport};
pub use request::{Answer, Change, Freshness, Request};
pub use sample::Sample;
pub use window::INTERVAL;
