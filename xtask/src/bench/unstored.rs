//! The part of `cargo x bench rules` about compression of what is not stored: the CPU time that larder and NGINX take for
//! a MiB of text that they forward, as it is and by gzip of the same level, with buffers as they are by default.

use super::load::{self, Script};
use super::measure::median;
use super::options::Options;
use super::origin::{Origin, TEXT, TEXT_BYTES};
use super::peers::{self, NGINX, Peer, Programs, Setup, Start, Which};
use super::server::RunningServer;
use super::table::{Cell, Row};
use anyhow::{Result, bail};
use std::time::Duration;

/// Connections of the client, fewer than the replies that larder compresses at once.
const CONNECTIONS: u32 = 16;
/// The level of gzip, at which larder compresses what it does not store.
const LEVEL: u32 = 5;
const ACCEPT_ENCODING: &[&str] = &["Accept-Encoding: gzip"];

/// Measures both servers in each round.
pub(super) fn measure(options: &Options, programs: &Programs, origin: &Origin) -> Result<Vec<Row>> {
    let peers = [
        Peer::apart("larder", Which::Larder, None, larder),
        Peer::apart("nginx", Which::Installed, Some(NGINX), nginx),
    ];
    let script = Script::one()?;
    let mut measured = Vec::new();
    for peer in &peers {
        let server = RunningServer::start(peer, programs, origin)?;
        cost(&server, &script, options.duration, ACCEPT_ENCODING)?;
        measured.push((server, Vec::new()));
    }
    for round in 1..=options.rounds {
        eprintln!("compression of what is not stored, round {round} of {}", options.rounds);
        for (server, samples) in &mut measured {
            let plain = cost(server, &script, options.duration, &[])?;
            samples.push((plain, cost(server, &script, options.duration, ACCEPT_ENCODING)?));
        }
    }
    let of = |samples: &[(Cost, Cost)], figure: fn(&(Cost, Cost)) -> f64| {
        median(samples.iter().map(figure).collect())
    };
    let row = |(server, samples): &(RunningServer, Vec<(Cost, Cost)>)| -> Row {
        vec![
            ("a MiB of text, not stored", Cell::word(server.name)),
            ("plain CPU ms", Cell::number(of(samples, |(plain, _)| plain.millis), 2)),
            ("gzip CPU ms", Cell::number(of(samples, |(_, coded)| coded.millis), 2)),
            ("gzip % of plain", Cell::number(of(samples, |(_, coded)| coded.share), 1)),
        ]
    };
    Ok(measured.iter().map(row).collect())
}

/// The cost of forwarding a MiB, and its length at the client.
#[derive(Clone, Copy)]
struct Cost {
    millis: f64,
    /// In percent.
    share: f64,
}

/// Loads the server. Fails if content is not compressed exactly when it should be.
fn cost(server: &RunningServer, script: &Script, duration: Duration, fields: &[&str]) -> Result<Cost> {
    let url = format!("http://127.0.0.1:{}/{TEXT}", server.port);
    let (used, load) = server.cpu_during(|| load::run_at(script, &url, CONNECTIONS, duration, fields))?;
    let bytes = load.requests as f64 * TEXT_BYTES as f64;
    let share = load.bytes as f64 / bytes * 100.0;
    if (share < 60.0) == fields.is_empty() {
        bail!("{}: with {fields:?}, the client gets {share:.0}% of the bytes", server.name);
    }
    Ok(Cost { millis: used / 1e3 / bytes * f64::from(1 << 20), share })
}

fn larder(setup: &Setup) -> Result<Start> {
    peers::larder_of_site(setup, "", "compress = [\"gzip\"]\n")
}

fn nginx(setup: &Setup) -> Result<Start> {
    peers::nginx_with(setup, "1g", &format!("gzip on; gzip_comp_level {LEVEL}; gzip_proxied any;"))
}
