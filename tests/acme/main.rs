//! Certificates by ACME, from Pebble, the ACME server of Let's Encrypt for tests: both challenges, renewal, failures,
//! files, and clusters. All connections use the loopback interface.

#[allow(dead_code, unused_imports, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

#[allow(dead_code, reason = "a part of it is used here")]
#[path = "../cluster/engine.rs"]
mod engine;

mod clusters;
mod dns;
mod failures;
mod files;
mod orders;
mod pebble;
mod renewal;
mod world;
