//! The command line of `larder simulate`.

use std::num::{NonZeroU16, NonZeroUsize};
use std::path::PathBuf;

use clap::Args;
use larder_evict::By;
use larder_lab::subject::Size;
use larder_predict::Predictor;

use crate::cli::numbers::whole;
use crate::cli::traces::TraceOptions;
use crate::cli::words::hint;
use crate::cli::{choice, units};
use crate::config::bounds::THREADS;

pub(crate) const EXAMPLES: &str = "\
Examples:
  larder simulate access.log
      every policy at 0.1%, 1%, 10% and 30% of all objects in the log
  larder simulate access.log --policy lru,sieve,s3fifo:small=0.2 --capacity 64MiB,1GiB
      three policies at two sizes, in bytes
  larder simulate access.log --policy all --capacity 1000,10% --by entries --json
      capacities in numbers of objects; the result as JSON
  larder simulate huge.zst --sample 0.01 --curve --plot curves.svg
      miss-ratio curves from a hundredth of the objects
  larder simulate access.log --policy lru --capacity 1GiB --nodes 1,3,10
      clusters of one, three and ten nodes of 1 GiB: common hit ratio, and requests between nodes
  larder simulate access.log --policy lru --capacity 1GiB --prefetch association
      benefits and costs of prefetching, before it is switched on
  larder simulate access.log --advise --policy lru --capacity 64MiB
      what other sizes and policies would have brought to a cache of 64 MiB under lru
  larder simulate access.log --config larder.toml
      the same with the cost of a month, by the prices in [cost]
  larder simulate --list
      the policies, their parameters, papers and costs

Ctrl-C prints the finished cells and exits with 1; a second one stops at once.";

/// The arguments of `simulate`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Simulate {
    /// Trace files; - is standard input
    #[arg(value_name = "TRACE", required_unless_present = "list")]
    pub(super) traces: Vec<PathBuf>,
    /// Policies with their parameters, or all
    #[arg(long, value_name = "POLICIES", default_value = "all")]
    pub(super) policy: Vec<String>,
    /// Put this admission filter in front of every policy that has none
    #[arg(long, value_name = "FILTER")]
    pub(super) admission: Option<String>,
    /// Capacities: 1% of all objects or bytes, 64MiB, or plain numbers
    /// [default: 0.1%,1%,10%,30%; with --curve 21 sizes]
    #[arg(long, value_name = "SIZES", value_delimiter = ',', value_parser = size, verbatim_doc_comment)]
    pub(super) capacity: Vec<Size>,
    /// Unit of capacities [default: bytes if the trace has sizes]
    #[arg(long, value_name = "UNIT", value_parser = choice(By::NAMES))]
    pub(super) by: Option<By>,
    /// Share of the requests at the beginning that are not counted
    #[arg(long, value_name = "SHARE", value_parser = warmup, default_value = "0%")]
    pub(super) warmup: f64,
    /// Seed of the policies' random numbers
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = whole::<u64>(0..=u64::MAX))]
    pub(super) seed: u64,
    /// Number of parallel replays [default: one for each core]
    #[arg(long, value_name = "NUMBER", value_parser = whole::<NonZeroUsize>(THREADS))]
    pub(super) threads: Option<NonZeroUsize>,
    /// Sweep many sizes, and every size of lru: exact in entries, about right in bytes
    #[arg(long)]
    pub(super) curve: bool,
    /// Print the table of larder advise for a cache of the first capacity under the first policy; with --sample,
    /// shadows see this share of the keys
    #[arg(long, conflicts_with_all = ["csv", "curve", "reference", "plot", "nodes", "prefetch"])]
    pub(super) advise: bool,
    /// Show what a month of the traffic costs, by the prices in [cost] of this config file
    #[arg(long, value_name = "FILE", conflicts_with_all = ["reference", "nodes", "prefetch"])]
    pub(super) config: Option<PathBuf>,
    /// Print JSON
    #[arg(long, conflicts_with = "csv")]
    pub(super) json: bool,
    /// Print comma-separated values
    #[arg(long)]
    pub(super) csv: bool,
    /// Draw the miss ratios into this SVG file; with several traces, one file for each
    #[arg(long, value_name = "FILE")]
    pub(super) plot: Option<PathBuf>,
    /// List the policies and stop
    #[arg(long, conflicts_with = "traces")]
    pub(super) list: bool,
    /// Print a reference of the policies in Markdown, with results on the traces
    #[arg(long, conflicts_with_all = ["json", "csv", "curve"])]
    pub(super) reference: bool,
    /// The options for reading the files.
    #[command(flatten)]
    pub(super) reading: TraceOptions,
    /// Clusters.
    #[command(flatten)]
    pub(super) cluster: Cluster,
    /// Prefetching.
    #[command(flatten)]
    pub(super) prefetch: Prefetch,
}

/// The options of `simulate` for clusters.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Clusters")]
pub(super) struct Cluster {
    /// Replay through clusters of this many nodes, such as 1,3,10, each with the capacity
    #[arg(
        long,
        value_name = "NUMBERS",
        value_delimiter = ',',
        value_parser = whole::<u16>(1..=1_000),
        conflicts_with_all = ["curve", "reference"]
    )]
    pub(super) nodes: Vec<u16>,
    /// Shares of each node's capacity for copies of hot objects, which other nodes own
    #[arg(
        long,
        value_name = "SHARES",
        value_delimiter = ',',
        value_parser = hot,
        default_value = "0%,10%",
        requires = "nodes"
    )]
    pub(super) hot: Vec<f64>,
    /// Share of the requests that a load balancer sends to the object's owner; the rest arrives anywhere
    #[arg(long, value_name = "SHARE", value_parser = units::parse_share, default_value = "0%", requires = "nodes")]
    pub(super) affinity: f64,
    /// Remove this many nodes half-way
    #[arg(long, value_name = "NUMBER", default_value_t = 0, value_parser = whole::<u16>(0..=999), requires = "nodes")]
    pub(super) lose: u16,
    /// Assign objects by a fixed pool of this many slots instead of the ring
    #[arg(long, value_name = "NUMBER", value_parser = whole::<NonZeroU16>(1..=u16::MAX.into()), requires = "nodes")]
    pub(super) slots: Option<NonZeroU16>,
}

/// The options of `simulate` for prefetching.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Prefetching")]
pub(super) struct Prefetch {
    /// Prefetch by these predictions: association, sequence
    #[arg(
        id = "prefetch",
        long = "prefetch",
        value_name = "PREDICTIONS",
        value_delimiter = ',',
        value_parser = kind,
        conflicts_with_all = ["nodes", "curve", "reference"]
    )]
    pub(super) kinds: Vec<Predictor>,
    /// Share of the traffic that prefetches of no use may have
    #[arg(
        id = "prefetch_traffic",
        long = "prefetch-traffic",
        value_name = "SHARE",
        value_parser = units::parse_share,
        default_value = "5%",
        requires = "prefetch"
    )]
    pub(super) traffic: f64,
}

/// Parses `1%`, `64MiB`, or a plain number in the unit of the capacity.
fn size(text: &str) -> Result<Size, String> {
    match (text.ends_with('%'), text.parse()) {
        (true, _) => units::parse_share(text).map(Size::Share),
        (_, Ok(number)) => Ok(Size::Units(number)),
        _ => units::parse_size(text).map(Size::Bytes),
    }
}

fn kind(text: &str) -> Result<Predictor, String> {
    Predictor::of_name(text).ok_or_else(|| {
        let names = Predictor::ALL.map(Predictor::name);
        let hint = hint(text, names);
        format!("unknown prediction '{}'{hint}; known: {}", text.escape_debug(), names.join(" "))
    })
}

fn warmup(text: &str) -> Result<f64, String> {
    match units::parse_share(text)? {
        1.0 => Err("a warm-up of 100% leaves nothing to count".to_owned()),
        share => Ok(share),
    }
}

fn hot(text: &str) -> Result<f64, String> {
    match units::parse_share(text)? {
        1.0 => Err("hot objects cannot have 100%: owned objects need room".to_owned()),
        share => Ok(share),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capacities_are_shares_sizes_or_numbers() {
        let table = [
            ("1%", Ok(Size::Share(0.01))),
            ("0.1%", Ok(Size::Share(0.001))),
            ("64KiB", Ok(Size::Bytes(65_536))),
            ("1000", Ok(Size::Units(1_000))),
            ("101%", Err("'101%' is not a share from 0% to 100%".to_owned())),
            ("1KBit", Err("unknown unit 'KBit' in '1KBit'; known: B KiB MiB GiB TiB".to_owned())),
        ];
        for (text, expected) in table {
            assert_eq!(size(text), expected, "{text}");
        }
    }
}
