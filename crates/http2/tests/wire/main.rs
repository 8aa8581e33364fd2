//! Tests of connections with the bytes of a client: requests, windows, order, ends, attacks.

mod attacks;
mod client;
mod flow;
mod frames;
mod hpack;
mod pieces;
mod requests;
mod tunnels;
