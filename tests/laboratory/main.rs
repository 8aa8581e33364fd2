//! The laboratory's commands from the view of users: the real binary, its output, and its prediction of the proxy.

mod describe;
mod fetch;
mod served;
mod simulate;
mod workload;
