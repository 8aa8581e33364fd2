//! Changing data behind a cache and a gateway: no client gets a response that was superseded before its request. The
//! backend numbers the versions of its data, and the clients compare them.
//!
//! `LARDER_REQUESTS=1000000` makes the long runs long.

#![allow(clippy::unwrap_used, reason = "the helpers are tests, too")]

mod coupled;
mod stack;
