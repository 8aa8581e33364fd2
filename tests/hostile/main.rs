//! Hostile clients, hostile origins and careless neighbours: one file for each kind of harm. SECURITY.md names the promises.

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
