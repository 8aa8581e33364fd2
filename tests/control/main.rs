//! Data that changes, behind a cache and a gateway: whatever clients read and write, none of them is told what had been
//! superseded when it asked. The backend numbers the versions of its data, and the clients compare.
//!
//! `LARDER_REQUESTS=1000000` makes the long runs long.

#![allow(clippy::unwrap_used, reason = "the helpers are tests, too")]

mod coupled;
mod stack;
