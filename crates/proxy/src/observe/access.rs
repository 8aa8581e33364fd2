//! The access log: one line a request on standard output, readable or JSON.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use serde::Serialize;

use super::memo::{Ended, Memo};
use crate::clock;
use crate::settings::{AccessLog, Door};
use larder_semantics::date;

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

/// Writes the line of a request that took `took`. A log that cannot be written costs no request.
pub(crate) fn write(form: AccessLog, memo: &Memo, ended: &Ended, took: Duration) {
    let Ended { status, outcome, bytes, .. } = *ended;
    let mut cache = Vec::with_capacity(64);
    outcome.cache_status("").write_parameters(&mut cache);
    let cache = String::from_utf8_lossy(&cache);
    let cache = cache.trim_start_matches("; ");
    let time = date::format(clock::now());
    let time = std::str::from_utf8(&time).unwrap_or_default();
    let micros = took.as_micros() as u64;
    let mut line = String::with_capacity(200);
    match form {
        AccessLog::Off => return,
        AccessLog::Text => {
            let Memo { method, target, .. } = memo;
            let client = memo.client.ip();
            let _ = write!(line, "{time} {client} {method} {target} {status} {bytes}B {micros}us {cache}");
        }
        AccessLog::Json => {
            let door = memo.door.map(Door::name);
            let (client, method, url) = (memo.client.ip().to_string(), memo.method.as_str(), &*memo.target);
            let tier = outcome.is_hit().then(|| outcome.tier.name());
            let json = Json { time, client, method, url, door, status, bytes, micros, cache, tier };
            line.push_str(&serde_json::to_string(&json).unwrap_or_default());
        }
    }
    line.push('\n');
    let _ = std::io::stdout().write_all(line.as_bytes());
}
