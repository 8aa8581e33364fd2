//! Nodes that serve as one cache: who is in, who is asked for what, and what happens when one of them, or the engine,
//! is gone. The engine is a real `redis-server`; everything is on loopback.

mod checker;
mod clocks;
mod encrypted;
mod experiment;
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
