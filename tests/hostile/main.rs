//! Hostile clients, hostile origins and other users of the machine: one file for each kind of attack. SECURITY.md lists
//! the guarantees.

#[allow(dead_code, unused_imports, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

#[path = "../cluster/engine.rs"]
#[allow(dead_code, reason = "the tests of clusters use the rest")]
mod engine;
#[path = "../cluster/nodes.rs"]
#[allow(dead_code, reason = "the tests of clusters use the rest")]
mod nodes;

mod authority;
mod cluster;
mod crowds;
mod datagrams;
mod files;
mod inputs;
mod memory;
mod messages;
mod origins;
mod reuse;
mod secrets;
mod shared;
mod work;
