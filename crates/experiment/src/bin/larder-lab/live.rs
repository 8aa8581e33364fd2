//! `larder-lab live`: the parts of experiments that are separate processes. They are hidden from users and from the help.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use larder_cli::{Failure, say, units};
use larder_experiment::cache_lines::{self, Layout};
use larder_experiment::services::{Backend, Cost, Options};
use larder_experiment::{Outcome, Plan, Times, drive};
use larder_lab::workload::Crud;
use serde_json::{Value, json};

/// One part each.
#[derive(Debug, Subcommand)]
pub(crate) enum Live {
    /// A backend of three coupled services
    Services(Services),
    /// Clients that read from that backend and write to it; prints JSON
    Drive(Drive),
    /// Threads that count in a table over cache lines; prints nanoseconds for an operation
    Lines(Lines),
}

#[derive(Debug, Args)]
pub(crate) struct Lines {
    /// Layout of the entries
    #[arg(long, value_name = "NAME", value_parser = layout)]
    layout: Layout,
    /// Number of threads
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// Number of operations of each thread
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    operations: u32,
}

fn layout(name: &str) -> Result<Layout, String> {
    Layout::of_name(name).ok_or_else(|| format!("known: {}", Layout::ALL.map(Layout::name).join(" ")))
}

#[derive(Debug, Args)]
pub(crate) struct Services {
    /// Listen here
    #[arg(long, value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Number of users, paths and skills, each
    #[arg(long, value_name = "N", default_value_t = 100)]
    entities: u32,
    /// Minimum time of an answer in microseconds
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 0)]
    cost: u64,
    /// Spend this time computing instead of waiting
    #[arg(long)]
    busy: bool,
    /// Send entity tags
    #[arg(long)]
    etags: bool,
    /// Lifetime of answers in seconds
    #[arg(long, value_name = "SECONDS")]
    lifetime: Option<u32>,
    /// Additional bytes of each answer to a GET
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    filler: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Drive {
    /// Server address
    #[arg(long, value_name = "ADDRESS")]
    to: SocketAddr,
    /// Number of clients
    #[arg(long, value_name = "N", default_value_t = 8)]
    clients: u32,
    /// Number of requests of all clients together
    #[arg(long, value_name = "N", default_value_t = 15_000)]
    requests: u64,
    /// Share of the requests that change something
    #[arg(long, value_name = "SHARE", default_value = "20%", value_parser = units::parse_share)]
    writes: f64,
    /// Number of users, paths and skills, each
    #[arg(long, value_name = "N", default_value_t = 100)]
    entities: u32,
    /// Exponent of the endpoints' popularity; with 0, all are equally popular
    #[arg(long, value_name = "S", default_value_t = 0.99)]
    exponent: f64,
    /// Seed of all random numbers
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Stop sending after this many seconds
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
}

/// Runs the part.
pub(crate) fn run(live: &Live) -> Result<(), Failure> {
    match live {
        Live::Services(services) => serve(services),
        Live::Drive(clients) => ask(clients),
        Live::Lines(Lines { layout, threads, operations }) => {
            say(&format!("{:.3}", cache_lines::time(*layout, *threads, *operations)));
            Ok(())
        }
    }
}

fn serve(services: &Services) -> Result<(), Failure> {
    let Services { listen, entities, cost, busy, etags, lifetime, filler } = *services;
    let cost = Cost { time: Duration::from_micros(cost), is_busy: busy };
    let failed = |error| Failure::Failed(format!("cannot serve at {listen}: {error}"));
    let options = Options { entities, cost, etags, lifetime, filler };
    let backend = Backend::bind(listen, options).map_err(failed)?;
    say(&format!("listening on {}", backend.address().map_err(failed)?));
    backend.run().map_err(failed)
}

fn ask(clients: &Drive) -> Result<(), Failure> {
    let Drive { to, clients, requests, writes, entities, exponent, seed, seconds } = *clients;
    let workload = Crud { requests, entities, writes, exponent };
    let limit = seconds.map(Duration::from_secs);
    let plan = Plan { to: to.into(), clients, workload, seed, limit, stop: Arc::default() };
    let outcome = drive(&plan).map_err(|error| Failure::Failed(format!("cannot ask {to}: {error}")))?;
    say(&show(&outcome).to_string());
    Ok(())
}

fn show(outcome: &Outcome) -> Value {
    let times = |times: &Times| {
        let us = |time: Duration| time.as_secs_f64() * 1e6;
        let [p50, p99, longest] = [50.0, 99.0, 100.0].map(|percent| us(times.percentile(percent)));
        json!({"count": times.count(), "mean": us(times.mean()), "p50": p50, "p99": p99, "longest": longest})
    };
    let examples = outcome.examples.iter().map(|(path, stale)| format!("{path}: {stale}"));
    json!({
        "reads": times(&outcome.reads),
        "writes": times(&outcome.writes),
        "statuses": outcome.statuses,
        "failed": outcome.failed,
        "stale": outcome.stale,
        "examples": examples.collect::<Vec<_>>(),
        "seconds": outcome.elapsed.as_secs_f64(),
    })
}
