//! `cargo x bench hits --as-run`: servers as people run them, with a log of all requests, and what each part of that costs
//! a Larder: a JSON log, ten rules, a field that a rule sets, statistics, and compression for clients that accept none.
//!
//! NGINX buffers its log, and HAProxy writes each line at once. Varnish writes its log to shared memory, which cannot be
//! turned off; a program that writes it to a file would be a further cost.

use super::entrant::Entrant;
use crate::bench::goal::Goal;
use crate::bench::measure::median;
use crate::bench::peers::{self, Peer, Setup, Start, Which};
use crate::bench::rules::rules;
use anyhow::Result;
use std::fs;

/// The maximum cost of a hit with all parts over the floor, and of the log alone in units of the floor.
const MOST: f64 = 1.5;
const LOG_MOST: f64 = 0.1;

const BARE: &str = "larder-bare";
const LOG: &str = "larder-log";
const WHOLE: &str = "larder-as-run";

const KEYS_OF_LOG: &str = "access_log = \"json\"\naccess_log_file = \"@DIR@/access.log\"\n";
const SET: &str = "[[site.rule]]\nreply.set = { X-Frame-Options = \"DENY\" }\n";
const COMPRESS: &str = "compress = [\"zstd\", \"br\", \"gzip\"]\n";
const STATISTICS: &str = "sqlite:@DIR@/stats.db";

const fn larder(name: &'static str, configure: fn(&Setup) -> Result<Start>) -> Peer {
    Peer::apart(name, Which::Larder, None, configure)
}

/// The Larders that are compared with each other.
static LARDERS: [Peer; 7] = [
    larder(BARE, |setup| configure(setup, "", "none", "")),
    larder(LOG, |setup| configure(setup, KEYS_OF_LOG, "none", "")),
    larder("larder-rules", |setup| configure(setup, "", "none", &rules(10))),
    larder("larder-reply.set", |setup| configure(setup, "", "none", SET)),
    larder("larder-compress", |setup| configure(setup, "", "none", COMPRESS)),
    larder("larder-statistics", |setup| configure(setup, "", STATISTICS, "")),
    larder(WHOLE, |setup| configure(setup, KEYS_OF_LOG, STATISTICS, &[COMPRESS, &rules(10), SET].concat())),
];

/// NGINX with a log in JSON, which it buffers.
static NGINX: Peer = Peer::apart("nginx-log", Which::Installed, Some(peers::NGINX), |setup| {
    let log = "log_format json escape=json '{\"time\":\"$time_iso8601\",\"client\":\"$remote_addr\",\
               \"method\":\"$request_method\",\"url\":\"$request_uri\",\"status\":$status,\"bytes\":$bytes_sent,\
               \"seconds\":$request_time,\"cache\":\"$upstream_cache_status\",\"referer\":\"$http_referer\",\
               \"user_agent\":\"$http_user_agent\"}'; access_log access.log json buffer=64k flush=1s;";
    let start = peers::nginx_with(setup, "1g", peers::NGINX_FRUGAL)?;
    edit(setup, "nginx.conf", &[("access_log off;", log)])?;
    Ok(start)
});

/// HAProxy with its log on standard output, which is a file.
static HAPROXY: Peer = Peer::apart("haproxy-log", Which::Installed, Some(peers::HAPROXY), |setup| {
    let start = peers::haproxy(setup)?;
    let global = ("nbthread 1", "nbthread 1\n    log stdout format raw local0");
    edit(setup, "haproxy.cfg", &[global, ("mode http", "mode http\n    log global\n    option httplog")])?;
    Ok(start)
});

/// Replaces texts in a configuration.
fn edit(setup: &Setup, name: &str, changes: &[(&str, &str)]) -> Result<()> {
    let path = setup.folder.join(name);
    let text = fs::read_to_string(&path)?;
    let changed = changes.iter().fold(text, |text, (from, to)| text.replace(from, to));
    Ok(fs::write(&path, changed)?)
}

/// Returns the servers that take part: the floor, Larders, and peers with their logs.
pub(super) fn peers() -> Vec<&'static Peer> {
    let varnish = peers::ALL.iter().filter(|peer| peer.name == "varnish");
    std::iter::once(&peers::FLOOR).chain(&LARDERS).chain([&NGINX, &HAPROXY]).chain(varnish).collect()
}

fn configure(setup: &Setup, top: &str, statistics: &str, site: &str) -> Result<Start> {
    let folder = setup.folder.to_string_lossy();
    let statistics = statistics.replace("@DIR@", &folder);
    let text = format!(
        "{top}[reverse]\nlisten = \"127.0.0.1:@PORT@\"\n[stats]\nurl = \"{statistics}\"\n[[site]]\n\
         origin = \"http://127.0.0.1:@ORIGIN@\"\n{site}"
    );
    let config = peers::write(setup, "larder.toml", &text)?;
    Ok(peers::start(&["serve", "--config", &config, "--admin", "off", "--threads", "1"]))
}

/// Returns the goals: the cost of a hit as people run it, and of its log.
pub(super) fn goals(entrants: &[Entrant<'_>]) -> Vec<Goal> {
    let ratio = |name: &str| {
        let find = |name: &str| entrants.iter().find(|entrant| entrant.server.name == name);
        let (own, floor) = (find(name)?, find(peers::FLOOR.name)?);
        let pairs = own.samples.iter().zip(&floor.samples);
        Some(median(pairs.map(|(own, floor)| own.cpu / floor.cpu).collect()))
    };
    let log = || Some(ratio(LOG)? - ratio(BARE)?);
    let goal =
        |what: &str, most, figure: Option<f64>| Goal::new(what.to_owned(), most, figure.unwrap_or(f64::NAN));
    vec![
        goal("a hit as people run it / floor", MOST, ratio(WHOLE)),
        goal("the log of a hit / floor", LOG_MOST, log()),
    ]
}
