//! Policies, filters and the shard, as users of the crate see them. The tests are one program: each program compiles every
//! policy, which takes longer than the tests.

mod adaptive;
mod filters;
mod golden;
mod laws;
mod models;
mod naive;
mod operations;
mod registry;
mod spec;
