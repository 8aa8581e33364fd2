//! The floor: the minimum work of a process that answers HTTP requests over sockets.
//!
//! One thread, one epoll, a fixed answer: no parsing beyond finding the end of the head, no routing, no clock, no log.
//! Its CPU time per request is the denominator of every ratio that `cargo x bench` prints. It is not a web server: the
//! answer to every request is 1 KiB, or 1 MiB if the path starts with `/1m`.

mod responder;

use anyhow::{Context, Result, bail};
use std::net::{SocketAddr, TcpListener};

fn main() -> Result<()> {
    let mut words = std::env::args().skip(1);
    let (Some(word), None) = (words.next(), words.next()) else {
        bail!("usage: floor ADDRESS:PORT");
    };
    let address: SocketAddr =
        word.parse().with_context(|| format!("address `{word}` is not ADDRESS:PORT"))?;
    let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    responder::serve(&listener)
}
