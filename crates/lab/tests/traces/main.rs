//! Traces: their formats, their replays, and the workloads that make them.

mod adaptive;
mod formats;
mod nodes;
mod prefetch;
mod products;
mod readers;
mod reference;
mod shipped;
mod strange;
mod sweep;
mod workloads;
