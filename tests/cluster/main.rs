//! Nodes that serve as one cache: membership, ownership, and failures of a node or of the engine. The engine is a real
//! `redis-server`; all connections use the loopback interface.

mod checker;
mod clocks;
mod departure;
mod encrypted;
mod failover;
mod invalidations;
mod members;
mod own_writes;
mod partitions;
mod peers;
mod queries;
mod relay;
mod rings;
mod tier;
mod why;
mod world;
