//! Nodes that serve as one cache: who is in, who is asked for what, and what happens when one of them, or the engine,
//! is gone. The engine is a real `redis-server`; everything is on loopback.

#[allow(dead_code, unused_imports, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

#[path = "../tls/authority.rs"]
#[allow(dead_code, reason = "the tests of TLS use the rest")]
mod authority;
mod checker;
mod clocks;
mod encrypted;
mod engine;
mod experiment;
mod failover;
mod invalidations;
mod members;
mod nodes;
mod own_writes;
mod partitions;
mod peers;
mod queries;
mod relay;
mod rings;
mod tier;
mod why;
mod world;
