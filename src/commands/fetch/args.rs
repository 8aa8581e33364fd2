//! The command line of `larder fetch`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use http::{HeaderName, HeaderValue};
use larder_rpc::line::Form;
use larder_rpc::thrift::{Protocol, Transport};
use larder_words::named;

use crate::cli::numbers::whole;
use crate::cli::traces::TraceOptions;
use crate::cli::{admin, choice, units};

pub(crate) const EXAMPLES: &str = "\
Examples:
  larder fetch http://example.com/
      the page, through the forward proxy on 127.0.0.1:3128
  larder fetch https://example.com/ --text
      the page as text, as wide as the terminal
  larder fetch http://example.com/ --http2 --repeat 1000
      one page 1,000 times in HTTP/2, with the server's counters and latencies
  larder fetch http://example.com/ http://example.org/ --via thrift --save pages
      two pages from a Thrift server, into files of a folder
  larder fetch http://example.com/ --via line --server 127.0.0.1:3130 --repeat 1000
      one page 1,000 times, with the server's counters and latencies
  larder fetch --workload zipf.txt --origin http://127.0.0.1:3000 --connections 8 --reset --via thrift
      every request of a workload, 8 at a time, and the server's statistics from then on
  larder fetch --workload crud.txt --origin http://127.0.0.1:8080 --server 127.0.0.1:8080 --rate 500
      500 requests a second with their methods and bodies, to a reverse proxy
  larder fetch --stats --via thrift
      the server's statistics

A status other than 2xx is a failure; in a workload, only a 5xx or a missing answer is. Failures are counted, and cause exit
code 1. Requests that are measured (--workload, --repeat, --rate, --json) follow no redirects.

A workload is the output of larder workload, or any trace with URLs that larder describe reads. A host with a path, without
a scheme, is fetched by http. Over HTTP, all its requests are
sent, with methods, fields and bodies; over other protocols, only its GETs. Its times are ignored: each connection sends the next
request when its last answer has arrived. With --rate, requests are due at random moments, and latency counts from the moment at
which a request was due, so it includes the wait for a connection.";

/// The arguments of `fetch`: the pages, the server, and the destination of the answers.
#[derive(Clone, Debug, Args)]
pub(crate) struct Fetch {
    /// Pages to fetch
    #[arg(value_name = "URL", required_unless_present_any = ["workload", "stats"], value_parser = url)]
    pub(super) urls: Vec<String>,
    /// Protocol: HTTP to a forward proxy, or RPC to a server
    #[arg(long, value_name = "DOOR", default_value = "http", value_parser = choice(Via::NAMES))]
    pub(super) via: Via,
    /// Server address [default: 127.0.0.1 with port 3128 for http, 9090 for thrift, 9111 for onc, 3130 for line]
    #[arg(long, value_name = "HOST:PORT", value_parser = server)]
    pub(super) server: Option<String>,
    /// Admin listener for statistics, or off [default: for thrift and line the server, else 127.0.0.1:9145]
    #[arg(long, value_name = "ADDRESS", value_parser = statistics_source)]
    pub(super) admin: Option<String>,
    /// Transport of thrift [default: framed]
    #[arg(long, value_name = "TRANSPORT", value_parser = choice(TRANSPORTS))]
    pub(super) transport: Option<Transport>,
    /// Protocol of thrift [default: binary]
    #[arg(long, value_name = "PROTOCOL", value_parser = choice(PROTOCOLS))]
    pub(super) protocol: Option<Protocol>,
    /// Form of the line protocol [default: framed]
    #[arg(long, value_name = "FORM", value_parser = choice(FORMS))]
    pub(super) form: Option<Form>,
    /// Use HTTP/2: with the proxy, or through its tunnel with the server of an https URL
    #[arg(long)]
    pub(super) http2: bool,
    /// Write the page to this file
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["workload", "save"])]
    pub(super) output: Option<PathBuf>,
    /// Write each page to a file in this folder, named after its URL
    #[arg(long, value_name = "FOLDER")]
    pub(super) save: Option<PathBuf>,
    /// Convert HTML to text
    #[arg(long)]
    pub(super) text: bool,
    /// Fetch everything this many times, print no pages, and show statistics
    #[arg(long, value_name = "N", conflicts_with = "output", value_parser = whole::<usize>(1..=u64::MAX))]
    pub(super) repeat: Option<usize>,
    /// Send the requests of this trace in order, and show statistics; - is standard input
    #[arg(long, value_name = "FILE", conflicts_with = "urls")]
    pub(super) workload: Option<PathBuf>,
    /// The options for reading the trace.
    #[command(flatten)]
    pub(super) reading: TraceOptions,
    /// Prefix for the paths of a workload
    #[arg(long, value_name = "URL", value_parser = url, requires = "workload")]
    pub(super) origin: Option<String>,
    /// Send this many requests a second on average, at random moments, even if answers are late
    #[arg(long, value_name = "N", conflicts_with = "output", value_parser = rate)]
    pub(super) rate: Option<f64>,
    /// Field of each request, by http; repeatable
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = header)]
    pub(super) headers: Vec<(String, String)>,
    /// Number of parallel connections [default: 1; with --rate 64]
    #[arg(long, value_name = "N", value_parser = whole::<usize>(1..=1_024))]
    pub(super) connections: Option<usize>,
    /// Show only the server's statistics
    #[arg(long, conflicts_with_all = ["urls", "workload"])]
    pub(super) stats: bool,
    /// Reset the server's statistics first
    #[arg(long)]
    pub(super) reset: bool,
    /// Show statistics as JSON
    #[arg(long, conflicts_with = "output")]
    pub(super) json: bool,
    /// Time limit for a page
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = timeout)]
    pub(super) timeout: Duration,
}

named! {
    /// The protocol of the server.
    pub(super) enum Via, name {
        Http = "http",
        Thrift = "thrift",
        Onc = "onc",
        Line = "line",
    }
}

impl Via {
    /// Whether the protocol transports pages and statistics by the same calls.
    pub(super) fn has_statistics(self) -> bool {
        matches!(self, Self::Thrift | Self::Line)
    }

    /// Returns the default address of the server.
    pub(super) fn address(self) -> SocketAddr {
        let port = match self {
            Self::Http => 3128,
            Self::Thrift => 9090,
            Self::Onc => 9111,
            Self::Line => 3130,
        };
        SocketAddr::from(([127, 0, 0, 1], port))
    }
}

const TRANSPORTS: &[(&str, Transport)] = &[("framed", Transport::Framed), ("buffered", Transport::Buffered)];
const PROTOCOLS: &[(&str, Protocol)] = &[("binary", Protocol::Binary), ("compact", Protocol::Compact)];
const FORMS: &[(&str, Form)] = &[("framed", Form::Framed), ("bare", Form::Bare)];

/// Whether `text` begins like a URL that can be fetched.
pub(super) fn is_url(text: &str) -> bool {
    let begins =
        |scheme: &str| text.get(..scheme.len()).is_some_and(|head| head.eq_ignore_ascii_case(scheme));
    begins("http://") || begins("https://")
}

fn url(text: &str) -> Result<String, String> {
    if !is_url(text) {
        return Err(match text.contains("://") {
            true => "only http and https can be fetched".to_owned(),
            false => format!("write the scheme too, such as 'http://{}'", text.escape_debug()),
        });
    }
    reqwest::Url::parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

fn statistics_source(text: &str) -> Result<String, String> {
    if text == "off" { Ok(text.to_owned()) } else { admin::address(text) }
}

fn server(text: &str) -> Result<String, String> {
    match admin::has_port(text) {
        true => Ok(text.to_owned()),
        false => Err("expected a host and a port, such as 127.0.0.1:3128".to_owned()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate| (1e-3..=1e6).contains(rate));
    rate.ok_or_else(|| "expected requests a second, from 0.001 to 1000000".to_owned())
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("expected NAME: VALUE")?;
    let (name, value) = (name.trim(), value.trim());
    HeaderName::from_bytes(name.as_bytes())
        .map_err(|_| format!("'{}' is not a field name", name.escape_debug()))?;
    HeaderValue::from_str(value).map_err(|_| format!("'{}' is not a field value", value.escape_debug()))?;
    Ok((name.to_owned(), value.to_owned()))
}

fn timeout(text: &str) -> Result<Duration, String> {
    let time = units::parse_duration(text)?;
    if time.is_zero() { Err("must be greater than 0".to_owned()) } else { Ok(time) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_a_scheme_that_can_be_fetched() {
        let table = [
            ("http://a/", Ok(())),
            ("HTTPS://a", Ok(())),
            ("a.test/x", Err("write the scheme too, such as 'http://a.test/x'")),
            ("ftp://a/", Err("only http and https can be fetched")),
            ("http://", Err("empty host")),
            ("http://a:99999/", Err("invalid port number")),
        ];
        for (text, expected) in table {
            assert_eq!(url(text).as_ref().map(|_| ()).map_err(String::as_str), expected, "{text}");
        }
    }

    #[test]
    fn fields_have_a_name_and_a_value() {
        let pair = |name: &str, value: &str| Ok((name.to_owned(), value.to_owned()));
        assert_eq!(header("Accept: a, b"), pair("Accept", "a, b"));
        assert_eq!(header("X:"), pair("X", ""));
        for text in ["Accept", "A b: c", ": c", "A: b\r\nC: d"] {
            assert!(header(text).is_err(), "{text}");
        }
    }

    #[test]
    fn servers_have_a_host_and_a_port() {
        for text in ["127.0.0.1:80", "localhost:3128", "[::1]:9090"] {
            assert_eq!(server(text).as_deref(), Ok(text));
        }
        for text in ["localhost", ":80", "a:", "a:70000", "http://a:80"] {
            assert!(server(text).is_err(), "{text}");
        }
    }
}
