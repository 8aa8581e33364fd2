//! Hostile clients, hostile origins and other users of the machine: one file for each kind of attack. SECURITY.md lists
//! the guarantees.

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
