//! The command lines of what looks into a running larder: `why`, `log`, `top`; and of `purge`.

use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use crate::remote::Listener;
use crate::units::parse_duration;

pub(crate) const WHY_EXAMPLES: &str = "\
Examples:
  larder why http://127.0.0.1:8080/
      what would become of a GET for this URL at this moment; no origin is asked
  larder why http://127.0.0.1:8080/ -H 'Host: docs.example' -H 'Authorization: Bearer x'
  larder why http://127.0.0.1:8080/ --method HEAD --json
  larder why --reasons > reasons.md
      every reason there is, what it means and what may help

Write the URL as clients do, with the host that they name.";

pub(crate) const LOG_EXAMPLES: &str = "\
Examples:
  larder log
      every request as it ends, until you stop it
  larder log --outcome miss --url /api/
  larder log --status 5xx --json
  larder log --slower 100ms --for 1m

Outcomes: hit, stale-hit, coalesced, revalidated, miss, pass, refused, failed.
Nothing is collected while nobody looks. What comes too fast to be shown is counted.";

pub(crate) const TOP_EXAMPLES: &str = "\
Examples:
  larder top
      what is asked for most, every second anew; sums are of the last one to two minutes
  larder top --by misses
  larder top --for 10s --json

Hit ratio = hits / (hits + validated + misses). In a pipe it looks for 5 seconds and prints one table.";

pub(crate) const PURGE_EXAMPLES: &str = "\
Examples:
  larder purge http://127.0.0.1:8080/index.html
      the next request for it asks the origin; what is stored may stand in if that fails
  larder purge --tag product-17 --hard
      whatever has this tag is gone
  larder purge --prefix http://127.0.0.1:8080/img/
  larder purge --group users --host 127.0.0.1:8080
  larder purge --all --hard --count

A purge reaches all variants, in memory and on disk, for clients of all listeners, and wins over what is being fetched.
It is in force when this command ends. To learn how many objects it reached, write --count: it waits until memory has
been looked through. To learn which nodes of the cluster have it in force, write --wait. With both, what lies on disks is
counted, too.";

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
    /// For clients of these listeners: forward or reverse [default: those that know the URL]
    #[arg(long, value_name = "ROLE")]
    pub(crate) role: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the list of all reasons instead, in Markdown
    #[arg(long, exclusive = true)]
    pub(crate) reasons: bool,
    /// Whom to ask.
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
    /// Only those whose URL has this in it
    #[arg(long, value_name = "TEXT")]
    pub(crate) url: Option<String>,
    /// Only those that took longer than this
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) slower: Option<Duration>,
    /// End after so long
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) limit: Option<Duration>,
    /// Print each request as JSON, a line each
    #[arg(long)]
    pub(crate) json: bool,
    /// Whom to ask.
    #[command(flatten)]
    pub(crate) listener: Listener,
}

/// What `top` shows.
#[derive(Debug, Args)]
pub(crate) struct Top {
    /// Rank URLs by requests, hits, validated, misses, bytes, or the time that origins took
    #[arg(long, value_name = "MEASURE", default_value = "requests")]
    pub(crate) by: String,
    /// End after so long [default: 5s in a pipe]
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) limit: Option<Duration>,
    /// Print one table, as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Whom to ask.
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
    /// All that begins like this URL; repeatable
    #[arg(long, value_name = "URL", value_parser = NonEmptyStringValueParser::new(), conflicts_with_all = ["tag", "group", "host", "all"])]
    pub(crate) prefix: Vec<String>,
    /// All that has this tag (Cache-Tag, Surrogate-Key, xkey); repeatable
    #[arg(long, value_parser = NonEmptyStringValueParser::new(), conflicts_with_all = ["group", "host", "all"])]
    pub(crate) tag: Vec<String>,
    /// All of this cache group (Cache-Groups) of the host; repeatable
    #[arg(long, value_parser = NonEmptyStringValueParser::new(), requires = "host", conflicts_with = "all")]
    pub(crate) group: Vec<String>,
    /// All of this host; the host of the group
    #[arg(long, value_parser = NonEmptyStringValueParser::new(), conflicts_with = "all")]
    pub(crate) host: Option<String>,
    /// Everything
    #[arg(long)]
    pub(crate) all: bool,
    /// Keep it, marked stale: it is validated before it is used again, and may stand in if the origin fails [default]
    #[arg(long, conflicts_with = "hard")]
    pub(crate) soft: bool,
    /// Remove it
    #[arg(long)]
    pub(crate) hard: bool,
    /// Wait until memory has been looked through, and say how many objects it reached; with --wait, on disks, too
    #[arg(long)]
    pub(crate) count: bool,
    /// Wait until all nodes of the cluster have it in force
    #[arg(long)]
    pub(crate) wait: bool,
    /// Wait no longer for the nodes than this [default: 5s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "wait")]
    pub(crate) timeout: Option<Duration>,
    /// Print JSON, a line for each
    #[arg(long)]
    pub(crate) json: bool,
    /// Whom to ask.
    #[command(flatten)]
    pub(crate) listener: Listener,
}

/// What can be purged besides URLs.
const OTHERS: [&str; 5] = ["prefix", "tag", "group", "host", "all"];
