//! Nodes that serve as one cache: membership, ownership, and failures of a node or of the engine. The engine is a real
//! `redis-server`; all connections use the loopback interface.

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
