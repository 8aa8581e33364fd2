//! What the proxy of a run has done: read from its access log, told in two lines, and written as JSON.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::cli::clock::now;
use crate::cli::units::{about_count, about_size, counted};
use crate::cli::words::printable;

/// The most hosts that the second line names.
const MOST_NAMED: usize = 4;

/// Programs whose work is done in containers, by servers that know nothing of the environment of a command.
const CONTAINED: [&str; 6] = ["buildah", "buildctl", "docker", "docker-compose", "nerdctl", "podman"];

/// Seconds for which it is remembered that an origin has answered in an intercepted tunnel.
const REMEMBERED: u64 = 7 * 86_400;

/// A line of the access log.
#[derive(Deserialize)]
struct Request {
    method: String,
    url: String,
    status: u16,
    bytes: u64,
    micros: u64,
    outcome: String,
    reason: String,
    origin_micros: Option<u64>,
    /// Bytes of a response in slices that were not stored.
    #[serde(default)]
    fetched_bytes: u64,
}

/// The report of a run.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) command: Vec<String>,
    pub(super) exit_code: u8,
    /// The duration of the command.
    pub(super) seconds: f64,
    /// Requests that the proxy has read, those in intercepted tunnels included.
    pub(super) requests: u64,
    /// Requests that the cache has answered without an origin.
    hits: u64,
    /// Requests that the cache has answered after an origin has confirmed that its response is current.
    revalidated: u64,
    /// Requests without an answer, refused ones, and tunnels that could not be opened.
    failed: u64,
    /// Contents with another digest than their registry tells.
    pub(super) refused: u64,
    /// Bytes of responses.
    bytes: u64,
    /// Bytes of responses from the cache.
    bytes_from_cache: u64,
    /// How long origins would have taken for the hits, by the requests that they have answered; `null`: not known.
    seconds_saved: Option<f64>,
    /// The same by host.
    hosts: BTreeMap<String, HostReport>,
    /// Tunnels, whose requests the proxy could not see, by host.
    unseen: BTreeMap<String, Tunnels>,
    /// How long requests to hosts took, in this run and earlier ones.
    #[serde(skip)]
    pub(super) times: Times,
    #[serde(skip)]
    decisions: Vec<String>,
}

/// The requests to one host.
#[derive(Debug, Default, Serialize)]
struct HostReport {
    requests: u64,
    hits: u64,
    bytes: u64,
}

/// The tunnels to one host.
#[derive(Debug, Default, Serialize)]
struct Tunnels {
    tunnels: u64,
    bytes: u64,
    /// The reason of the last one.
    reason: String,
}

/// What is remembered of the requests that origins have answered, by host with its port if its URLs have one.
pub(super) type Times = BTreeMap<String, HostTimes>;

/// The sums of such requests.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(super) struct HostTimes {
    /// The time of the last answer in an intercepted tunnel, in UNIX seconds; 0: none since the last failure.
    #[serde(default)]
    intercepted: u64,
    requests: u64,
    bytes: u64,
    /// Microseconds until the first byte.
    before: u64,
    /// Microseconds from there until the end.
    after: u64,
}

impl HostTimes {
    /// Returns the microseconds that the origin would take for a response of `bytes`.
    fn of(&self, bytes: u64) -> f64 {
        let average = self.before as f64 / self.requests.max(1) as f64;
        average + bytes as f64 * self.after as f64 / self.bytes.max(1) as f64
    }

    /// Whether the origin has answered in an intercepted tunnel not long before `now`, in UNIX seconds.
    pub(super) fn is_known(&self, now: u64) -> bool {
        now.checked_sub(self.intercepted).is_some_and(|age| age < REMEMBERED)
    }
}

impl Report {
    /// Returns the report by the access log at `path`, and by the `times` of earlier runs.
    pub(super) fn of(path: &Path, times: Times) -> Self {
        let mut report = Self { times, ..Self::default() };
        let lines = File::open(path).into_iter().flat_map(|file| BufReader::new(file).lines());
        let requests = lines.map_while(Result::ok);
        let requests: Vec<Request> = requests.filter_map(|line| serde_json::from_str(&line).ok()).collect();
        requests.iter().for_each(|request| report.add(request));
        let hits = requests.iter().filter(|request| request.is_hit());
        let saved = hits.filter_map(|hit| {
            let times = report.times.get(site_of(&hit.url)).filter(|times| times.requests > 0)?;
            Some((times.of(hit.bytes) - hit.micros as f64).max(0.0) / 1e6)
        });
        let saved: Vec<f64> = saved.collect();
        report.seconds_saved =
            (!saved.is_empty() || report.hits == 0).then(|| saved.iter().sum::<f64>() + 0.0);
        report
    }

    fn add(&mut self, request: &Request) {
        let host = host_of(&request.url);
        self.decisions.push(request.decision());
        if request.method == "CONNECT" {
            match (&*request.outcome, &*request.reason) {
                (_, "intercepted") => {}
                ("pass", reason) => {
                    let tunnels = self.unseen.entry(host.to_owned()).or_default();
                    tunnels.tunnels += 1;
                    tunnels.bytes += request.bytes;
                    reason.clone_into(&mut tunnels.reason);
                }
                // It could not be opened.
                _ => self.failed += 1,
            }
            return;
        }
        let of_host = self.hosts.entry(host.to_owned()).or_default();
        self.requests += 1;
        of_host.requests += 1;
        self.bytes += request.bytes;
        of_host.bytes += request.bytes;
        let stored = request.bytes.saturating_sub(request.fetched_bytes);
        match request.outcome.as_str() {
            _ if request.is_hit() => {
                self.hits += 1;
                of_host.hits += 1;
                self.bytes_from_cache += stored;
            }
            // Not all of its slices were stored.
            "hit" | "stale-hit" => self.bytes_from_cache += stored,
            "revalidated" => {
                self.revalidated += 1;
                self.bytes_from_cache += stored;
            }
            "failed" | "refused" => self.failed += 1,
            _ => {}
        }
        let times = self.times.entry(site_of(&request.url).to_owned()).or_default();
        match request.outcome.as_str() {
            "miss" | "revalidated" | "pass" if request.url.starts_with("https:") => times.intercepted = now(),
            "failed" if request.reason != "only-if-cached" => times.intercepted = 0,
            _ => {}
        }
        if let (Some(before), "miss") = (request.origin_micros, request.outcome.as_str()) {
            times.requests += 1;
            times.bytes += request.bytes;
            times.before += before;
            times.after += request.micros.saturating_sub(before);
        }
    }

    /// Returns the two lines at the end of a run.
    pub(super) fn summary(&self) -> [String; 2] {
        let first = match self.requests {
            0 if self.failed == 0 && !self.unseen.is_empty() => {
                "no request could be read: all passed in tunnels".to_owned()
            }
            0 if self.failed == 0 => self.told_none(),
            requests => {
                let hits = 100 * (self.hits + self.revalidated) / requests.max(1);
                let failed = match self.failed {
                    0 => String::new(),
                    failed => format!(", {} failed", about_count(failed)),
                };
                let saved =
                    self.seconds_saved.map_or_else(String::new, |saved| format!(", {saved:.1} s saved"));
                let refused = match self.refused {
                    0 => String::new(),
                    refused => format!(", {} with a wrong digest", about_count(refused)),
                };
                format!(
                    "{}, {} and {} revalidated ({hits}%){failed}{refused}, {} of {} from the cache{saved}",
                    counted(requests, "request", "requests"),
                    counted(self.hits, "hit", "hits"),
                    about_count(self.revalidated),
                    about_size(self.bytes_from_cache),
                    about_size(self.bytes),
                )
            }
        };
        [first, self.told_unseen()]
    }

    /// Says why no request may have come.
    fn told_none(&self) -> String {
        let name = self.command.first().and_then(|word| Path::new(word).file_name()?.to_str());
        match name.filter(|name| CONTAINED.contains(name)) {
            Some(name) => format!(
                "no request came: the containers and servers of {name} do not see this environment; larder env docker prints settings for them"
            ),
            None => "no request came: the command made none, or a program made them that does not see its environment".to_owned(),
        }
    }

    fn told_unseen(&self) -> String {
        if self.unseen.is_empty() {
            return "no tunnel passed unseen".to_owned();
        }
        let named = self.unseen.iter().take(MOST_NAMED).map(|(host, tunnels)| {
            let why =
                if tunnels.reason == "method" { String::new() } else { format!(", {}", tunnels.reason) };
            format!("{} ({}{why})", printable(host), counted(tunnels.tunnels, "tunnel", "tunnels"))
        });
        let named = named.collect::<Vec<_>>().join(", ");
        let rest = match self.unseen.len().saturating_sub(MOST_NAMED) {
            0 => String::new(),
            rest => format!(" and {}", counted(rest as u64, "other host", "other hosts")),
        };
        let is_other = |tunnels: &Tunnels| tunnels.reason == "method";
        let hint =
            if self.unseen.values().any(is_other) { "; --host adds a host, --all adds all" } else { "" };
        format!("passed unseen: {named}{rest}{hint}")
    }

    /// Returns a line for each request, in the order of their ends.
    pub(super) fn decisions(&self) -> &[String] {
        &self.decisions
    }

    /// Returns the report as JSON.
    pub(super) fn json(&self) -> String {
        // Text and numbers can always be written.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

impl Request {
    fn is_hit(&self) -> bool {
        matches!(self.outcome.as_str(), "hit" | "stale-hit" | "coalesced") && self.fetched_bytes == 0
    }

    fn decision(&self) -> String {
        let Self { method, url, status, outcome, reason, bytes, .. } = self;
        format!("{method} {} {status} {} {outcome} ({reason})", printable(url), about_size(*bytes))
    }
}

/// Prints a line to standard error, beside those of the command.
pub(super) fn tell(line: &str) {
    // Without standard error, nobody reads it.
    let _ = writeln!(io::stderr(), "larder: {line}");
}

/// Returns the host of a URL or of the target of a tunnel, with its port if it has one.
fn site_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split(['/', '?']).next().unwrap_or_default()
}

/// Returns the same without a port.
fn host_of(url: &str) -> &str {
    let authority = site_of(url);
    match authority.rsplit_once(':') {
        Some((host, _)) if !host.is_empty() && !authority.ends_with(']') => host,
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::{Report, Times, host_of};

    fn line(
        method: &str,
        url: &str,
        (outcome, reason): (&str, &str),
        micros: u64,
        origin: Option<u64>,
    ) -> String {
        let origin = origin.map_or_else(String::new, |origin| format!(",\"origin_micros\":{origin}"));
        format!(
            "{{\"method\":\"{method}\",\"url\":\"{url}\",\"status\":200,\"bytes\":1000,\"micros\":{micros},\
             \"outcome\":\"{outcome}\",\"reason\":\"{reason}\"{origin}}}\n"
        )
    }

    fn report(lines: &[String], times: Times) -> Report {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), lines.concat()).expect("written");
        Report::of(file.path(), times)
    }

    #[test]
    fn hits_save_what_the_same_host_took_in_an_earlier_run() {
        let url = "https://a.test:8443/x";
        let first = report(
            &[
                line("CONNECT", "a.test:8443", ("pass", "intercepted"), 9_000_000, None),
                line("GET", url, ("miss", "absent"), 3_000_000, Some(1_000_000)),
            ],
            Times::default(),
        );
        assert_eq!((first.requests, first.hits, first.seconds_saved), (1, 0, Some(0.0)));
        let second = report(&[line("GET", url, ("hit", "fresh"), 0, None)], first.times);
        assert_eq!((second.requests, second.hits, second.seconds_saved), (1, 1, Some(3.0)));
        let [told, unseen] = second.summary();
        assert_eq!(
            told,
            "1 request, 1 hit and 0 revalidated (100%), 1000 B of 1000 B from the cache, 3.0 s saved"
        );
        assert_eq!(unseen, "no tunnel passed unseen");
    }

    #[test]
    fn tunnels_are_told_with_their_reasons() {
        let lines = [
            line("CONNECT", "a.test:443", ("pass", "method"), 1, None),
            line("CONNECT", "b.test:443", ("pass", "tunnel-distrusted"), 1, None),
        ];
        let report = report(&lines, Times::default());
        let [told, unseen] = report.summary();
        assert!(told.starts_with("no request could be read: "), "{told}");
        let hosts = "passed unseen: a.test (1 tunnel), b.test (1 tunnel, tunnel-distrusted)";
        assert_eq!(unseen, format!("{hosts}; --host adds a host, --all adds all"));
    }

    #[test]
    fn tunnels_that_fail_are_no_requests_and_pass_nothing() {
        let lines = [line("CONNECT", "c.test:443", ("failed", "origin-unresolved"), 1, None)];
        let [told, unseen] = report(&lines, Times::default()).summary();
        assert!(told.starts_with("0 requests, 0 hits and 0 revalidated (0%), 1 failed, "), "{told}");
        assert_eq!(unseen, "no tunnel passed unseen");
    }

    #[test]
    fn the_host_of_a_url_has_no_port() {
        for (url, host) in [
            ("https://a.test/b:c", "a.test"),
            ("https://a.test:1?b", "a.test"),
            ("[::1]:443", "[::1]"),
            ("http://[::1]/", "[::1]"),
        ] {
            assert_eq!(host_of(url), host);
        }
    }
}
