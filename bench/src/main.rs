//! The floor: the minimum work of a process that answers HTTP requests over sockets.
//!
//! One thread, unless more are requested, one epoll for each, a fixed answer: no parsing beyond finding the end of the
//! head, no routing, no clock, no log. Its CPU time per request is the denominator of every ratio that `cargo x bench`
//! prints. It is not a web server: the answer to every request is 1 KiB, or 1 MiB if the path starts with `/1m`.

mod responder;

use anyhow::{Context, Result, bail};
use responder::Seat;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (address, threads) = match &words[..] {
        [address] => (address, "1"),
        [address, threads] => (address, threads.as_str()),
        _ => bail!("usage: floor ADDRESS:PORT [THREADS]"),
    };
    let address: SocketAddr =
        address.parse().with_context(|| format!("address `{address}` is not ADDRESS:PORT"))?;
    let threads: usize = threads.parse().with_context(|| format!("`{threads}` is no number of threads"))?;
    let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    let seats: Vec<_> = (0..threads).map(|_| Seat::new()).collect::<Result<_>>()?;
    let shared = Arc::new((listener, seats));
    let (ended, result) = channel();
    for number in 0..threads {
        let (shared, ended) = (Arc::clone(&shared), ended.clone());
        thread::spawn(move || ended.send(responder::serve(&shared.0, &shared.1, number)));
    }
    drop(ended);
    result.recv().context("all threads have panicked")?
}
