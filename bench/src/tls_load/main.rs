//! Load over TLS for `cargo x bench tls`, and the time that the cipher alone takes.
//!
//! Requests are due at random moments that do not depend on answers. The latency of each counts from its due time, so
//! that a stall of the server adds to the latency of all requests that were due meanwhile. One thread and one epoll
//! serve all connections: a thread for each would use more CPU time than the servers that it measures.

mod cipher;
mod connection;
mod load;

use anyhow::{Context, Result, bail};
use connection::Connection;
use load::Load;
use std::net::SocketAddr;
use std::time::Duration;

const USAGE: &str =
    "usage: tls-load ADDRESS:PORT CERTIFICATE PATH CONNECTIONS MILLISECONDS [REQUESTS A SECOND]
       tls-load cipher ADDRESS:PORT CERTIFICATE MILLISECONDS";

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["cipher", address, certificate, time] => {
            let suite = Connection::open(at(address)?, &connection::config(certificate)?)?.suite()?;
            println!("{suite:?} {}", cipher::nanoseconds(suite, milliseconds(time)?)?);
        }
        [address, certificate, path, connections, time, ref rate @ ..] if rate.len() < 2 => {
            let rate = rate.first().map(|rate| rate.parse::<u32>().with_context(|| format!("rate `{rate}`")));
            let load = Load {
                address: at(address)?,
                config: connection::config(certificate)?,
                path,
                connections: connections.parse().with_context(|| format!("number `{connections}`"))?,
                duration: milliseconds(time)?,
                rate: rate.transpose()?,
            };
            println!("{}", load.run()?);
        }
        _ => bail!(USAGE),
    }
    Ok(())
}

fn at(word: &str) -> Result<SocketAddr> {
    word.parse().with_context(|| format!("address `{word}`"))
}

fn milliseconds(word: &str) -> Result<Duration> {
    Ok(Duration::from_millis(word.parse().with_context(|| format!("milliseconds `{word}`"))?))
}
