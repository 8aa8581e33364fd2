//! The access log: one line a request on standard output, readable or JSON.

use std::fmt::Write as _;
use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Instant;

use serde::Serialize;

use crate::clock;
use crate::http1::head::{Head, Target};
use crate::outcome::Outcome;
use crate::settings::{AccessLog, Door};
use larder_semantics::date;

/// What is remembered of a request until its reply has left.
#[derive(Debug)]
pub(crate) struct Line {
    client: SocketAddr,
    method: String,
    target: String,
    /// The door it came through, if not by HTTP.
    door: Option<Door>,
    begun: Instant,
}

#[derive(Serialize)]
struct Json<'l> {
    time: &'l str,
    client: String,
    method: &'l str,
    url: &'l str,
    #[serde(skip_serializing_if = "Option::is_none")]
    door: Option<&'l str>,
    status: u16,
    bytes: u64,
    micros: u64,
    cache: &'l str,
    /// Where the answer was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    tier: Option<&'l str>,
}

impl Line {
    /// Begins the line of a request that has just been read.
    pub(crate) fn begin(head: &Head<'_>, client: SocketAddr) -> Self {
        let target = match head.target {
            Target::Origin { host, path } => format!("http://{host}{path}"),
            Target::Absolute { scheme, authority, path } => format!("{scheme}://{authority}{path}"),
            Target::Authority(authority) => authority.to_owned(),
            Target::Asterisk { host } => format!("http://{host} *"),
        };
        Self { client, method: head.method.to_string(), target, door: None, begun: Instant::now() }
    }

    /// Begins the line of a call for `url` through `door`.
    pub(crate) fn of_call(door: Door, url: &str, client: SocketAddr) -> Self {
        let (method, target) = ("GET".to_owned(), url.escape_debug().to_string());
        Self { client, method, target, door: Some(door), begun: Instant::now() }
    }

    /// Writes it, with what came of the request. A log that cannot be written costs no request.
    pub(crate) fn end(&self, form: AccessLog, status: u16, outcome: &Outcome, bytes: u64) {
        let mut cache = Vec::with_capacity(64);
        outcome.cache_status("").write_parameters(&mut cache);
        let cache = String::from_utf8_lossy(&cache);
        let cache = cache.trim_start_matches("; ");
        let time = date::format(clock::now());
        let time = std::str::from_utf8(&time).unwrap_or_default();
        let micros = self.begun.elapsed().as_micros() as u64;
        let mut line = String::with_capacity(200);
        match form {
            AccessLog::Off => return,
            AccessLog::Text => {
                let Self { client, method, target, .. } = self;
                let client = client.ip();
                let _ =
                    write!(line, "{time} {client} {method} {target} {status} {bytes}B {micros}us {cache}");
            }
            AccessLog::Json => {
                let door = self.door.map(Door::name);
                let (client, method, url) = (self.client.ip().to_string(), &*self.method, &*self.target);
                let tier = outcome.is_hit().then(|| outcome.tier.name());
                let json = Json { time, client, method, url, door, status, bytes, micros, cache, tier };
                line.push_str(&serde_json::to_string(&json).unwrap_or_default());
            }
        }
        line.push('\n');
        let _ = std::io::stdout().write_all(line.as_bytes());
    }
}
