//! The command lines of `why`, `log`, `top` and `purge`.

use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use crate::remote::Listener;
use crate::units::parse_duration;

pub(crate) const WHY_EXAMPLES: &str = "\
Examples:
  larder why http://127.0.0.1:8080/
      what the cache would do with a GET for this URL now; nothing is sent to an origin
  larder why http://127.0.0.1:8080/ -H 'Host: docs.example' -H 'Authorization: Bearer x'
  larder why http://127.0.0.1:8080/ --method HEAD --json
  larder why --reasons > reasons.md
      every reason, with its meaning and remedy

Write the URL as clients do, with the same host name.";

pub(crate) const LOG_EXAMPLES: &str = "\
Examples:
  larder log
      every request as it ends, until you stop it
  larder log --outcome miss --url /api/
  larder log --status 5xx --json
  larder log --slower 100ms --for 1m

Outcomes: hit, stale-hit, coalesced, revalidated, miss, pass, refused, failed.
Requests are collected only while this runs. Requests that come too fast to be shown are counted.";

pub(crate) const TOP_EXAMPLES: &str = "\
Examples:
  larder top
      the most requested URLs of the last one to two minutes, every second
  larder top --by misses
  larder top --for 10s --json

Hit ratio = hits / (hits + validated + misses). In a pipe it collects for 5 seconds and prints one table.";

pub(crate) const PURGE_EXAMPLES: &str = "\
Examples:
  larder purge http://127.0.0.1:8080/index.html
      the next request revalidates it; the stored response may replace an error
  larder purge --tag product-17 --hard
      removes all responses with this tag
  larder purge --prefix http://127.0.0.1:8080/img/
  larder purge --group users --host 127.0.0.1:8080
  larder purge --all --hard --count

A purge covers all variants, in memory and on disk, for clients of all listeners, and fetches in progress. It is in force
when this command ends. --count waits until memory has been searched, and reports how many objects the purge reached.
--wait waits for all nodes of the cluster, and reports which have it in force. With both, objects on disks are counted,
too.";

/// What `why` explains.
#[derive(Debug, Args)]
pub(crate) struct Why {
    /// The URL, as clients write it
    #[arg(value_name = "URL", required_unless_present = "reasons")]
    pub(crate) url: Option<String>,
    /// A field of the request; repeatable
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// The request's method [default: GET]
    #[arg(long, value_name = "METHOD")]
    pub(crate) method: Option<String>,
    /// For clients of these listeners: forward or reverse [default: those that serve the URL]
    #[arg(long, value_name = "ROLE")]
    pub(crate) role: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the list of all reasons instead, in Markdown
    #[arg(long, exclusive = true)]
    pub(crate) reasons: bool,
    /// The admin listener.
    #[command(flatten)]
    pub(crate) listener: Listener,
}

/// Which requests `log` shows.
#[derive(Debug, Args)]
pub(crate) struct Log {
    /// Only those for this site
    #[arg(long, value_name = "NAME")]
    pub(crate) site: Option<String>,
    /// Only those answered with this status, such as 404, or one of this class, such as 4xx
    #[arg(long, value_name = "STATUS")]
    pub(crate) status: Option<String>,
    /// Only those with this outcome
    #[arg(long, value_name = "WORD")]
    pub(crate) outcome: Option<String>,
    /// Only those whose URL contains this text
    #[arg(long, value_name = "TEXT")]
    pub(crate) url: Option<String>,
    /// Only those that took longer than this
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) slower: Option<Duration>,
    /// End after this time
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) limit: Option<Duration>,
    /// Print each request as JSON, a line each
    #[arg(long)]
    pub(crate) json: bool,
    /// The admin listener.
    #[command(flatten)]
    pub(crate) listener: Listener,
}

/// What `top` shows.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Rank URLs by requests, hits, validated, misses, bytes, or origin time
    #[arg(long, value_name = "MEASURE", default_value = "requests")]
    pub(crate) by: String,
    /// End after this time [default: 5s in a pipe]
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) limit: Option<Duration>,
    /// Print one table, as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The admin listener.
    #[command(flatten)]
    pub(crate) listener: Listener,
}

/// What `purge` purges, and how.
#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Purge {
    /// The URLs, as clients write them
    #[arg(value_name = "URL", value_parser = NonEmptyStringValueParser::new(), conflicts_with_all = OTHERS)]
    pub(crate) urls: Vec<String>,
    /// All URLs with this prefix; repeatable
    #[arg(long, value_name = "URL", value_parser = NonEmptyStringValueParser::new(), conflicts_with_all = ["tag", "group", "host", "all"])]
    pub(crate) prefix: Vec<String>,
    /// All responses with this tag (Cache-Tag, Surrogate-Key, xkey); repeatable
    #[arg(long, value_parser = NonEmptyStringValueParser::new(), conflicts_with_all = ["group", "host", "all"])]
    pub(crate) tag: Vec<String>,
    /// All responses of this cache group (Cache-Groups) of the host; repeatable
    #[arg(long, value_parser = NonEmptyStringValueParser::new(), requires = "host", conflicts_with = "all")]
    pub(crate) group: Vec<String>,
    /// All responses of this host; with --group, the host of the group
    #[arg(long, value_parser = NonEmptyStringValueParser::new(), conflicts_with = "all")]
    pub(crate) host: Option<String>,
    /// Everything
    #[arg(long)]
    pub(crate) all: bool,
    /// Mark them stale: they are revalidated before use, and may replace an error [default]
    #[arg(long, conflicts_with = "hard")]
    pub(crate) soft: bool,
    /// Remove them
    #[arg(long)]
    pub(crate) hard: bool,
    /// Wait until memory has been searched, and report the number of objects; with --wait, also on disks
    #[arg(long)]
    pub(crate) count: bool,
    /// Wait until all nodes of the cluster have the purge in force
    #[arg(long)]
    pub(crate) wait: bool,
    /// Longest wait for the nodes [default: 5s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "wait")]
    pub(crate) timeout: Option<Duration>,
    /// Print JSON, a line for each
    #[arg(long)]
    pub(crate) json: bool,
    /// The admin listener.
    #[command(flatten)]
    pub(crate) listener: Listener,
}

/// What can be purged besides URLs.
const OTHERS: [&str; 5] = ["prefix", "tag", "group", "host", "all"];
