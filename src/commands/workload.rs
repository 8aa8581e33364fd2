//! `larder workload`: generates a workload and writes it.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use larder_lab::workload::{self, Crud, Dataset, Latency, Method, Order, Pages, Rate, Sizes, Web};

use crate::cli::files::unwritten;
use crate::cli::numbers::whole;
use crate::cli::traces::{self, TraceOptions};
use crate::cli::{Failure, units};

const EXAMPLES: &str = "\
Examples:
  larder workload zipf --requests 1000000 --pages 100000 --exponent 0.9 -o zipf.txt
  larder workload shuffle --pages 200 --copies 7-16 --sizes lognormal:8KiB,1.3
  larder workload web --like access.log --requests 1000000 -o web.txt
  larder workload import access.log -o log.txt
  larder workload crud --writes 20% --endpoints trace/ -o crud.txt
  larder simulate zipf.txt --policy all --capacity 1%,10%

The first lines of a workload's file contain the model, its parameters and the seed; the same seed generates the same
workload.";

/// The number of pages of a workload.
const PAGES: RangeInclusive<u64> = 1..=100_000_000;
/// The number of requests of a scan, and of the pause before it.
const WALK: RangeInclusive<u64> = 0..=1_000_000_000;
/// Numbers of at least one.
const SOME: RangeInclusive<u64> = 1..=u64::MAX;

/// The arguments of `workload`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct WorkloadArgs {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Debug, Subcommand)]
enum Kind {
    /// Each page a random number of times, in random order
    Shuffle {
        /// Number of pages
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = whole::<u32>(PAGES))]
        pages: u32,
        /// Range of the number of requests for each page
        #[arg(long, value_name = "N-M", default_value = "7-16", value_parser = copies)]
        copies: RangeInclusive<u32>,
        #[command(flatten)]
        common: Common,
    },
    /// Small pages, then larger ones, then the largest, repeatedly
    Staged {
        /// Number of pages
        #[arg(long, value_name = "N", default_value_t = 50, value_parser = whole::<u32>(PAGES))]
        pages: u32,
        /// Number of repetitions
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = whole::<u32>(1..=u32::MAX.into()))]
        rounds: u32,
        /// Probability that a page repeats one of its kind from the previous repetition: 0 draws evenly
        #[arg(long, value_name = "SHARE", default_value = "0%", value_parser = units::parse_share)]
        locality: f64,
        #[command(flatten)]
        common: Common,
    },
    /// Independent requests, with popularity by Zipf's law: few pages are much more popular than the others
    Zipf {
        #[command(flatten)]
        zipf: Skew,
        #[command(flatten)]
        common: Common,
    },
    /// A service's users reading and writing, with methods and bodies
    Crud {
        /// Number of requests
        #[arg(long, value_name = "N", default_value_t = 15_000, value_parser = whole::<u64>(SOME))]
        requests: u64,
        /// Number of users, paths and skills, each
        #[arg(long, value_name = "N", default_value_t = 100, value_parser = whole::<u32>(PAGES))]
        entities: u32,
        /// Share of the requests that change something
        #[arg(long, value_name = "SHARE", default_value = "20%", value_parser = units::parse_share)]
        writes: f64,
        /// Exponent of the endpoints' popularity; with 0, all are equally popular
        #[arg(long, value_name = "S", default_value = "0.99", value_parser = exponent)]
        exponent: f64,
        /// Write the endpoints of each method to a separate file in this directory
        #[arg(long, value_name = "DIR")]
        endpoints: Option<PathBuf>,
        #[command(flatten)]
        common: Common,
    },
    /// Two months of a person's browsing
    Browsing {
        /// 1: one page has nearly half of the visits; 2: visits are spread more evenly
        #[arg(long, value_name = "1|2", default_value = "1", value_parser = dataset)]
        dataset: Dataset,
        #[command(flatten)]
        common: Common,
    },
    /// Web traffic: popularity, sizes and reuse as in a trace
    Web {
        /// Model trace [default: a sample of web and CDN traffic]
        #[arg(long, value_name = "TRACE")]
        like: Option<PathBuf>,
        #[command(flatten)]
        reading: TraceOptions,
        /// Number of requests [default: as in the trace]
        #[arg(long, value_name = "N", value_parser = whole::<u64>(SOME))]
        requests: Option<u64>,
        /// Number of pages [default: as in the trace]
        #[arg(long, value_name = "N", value_parser = whole::<u32>(PAGES))]
        pages: Option<u32>,
        #[command(flatten)]
        common: Common,
    },
    /// The requests of a trace of any format, as a workload that can be sent
    Import {
        /// The trace file; - is standard input
        #[arg(value_name = "TRACE")]
        trace: PathBuf,
        #[command(flatten)]
        reading: TraceOptions,
        /// Output file [default: standard output]
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Zipf, with scans of pages that are requested once
    Scan {
        #[command(flatten)]
        zipf: Skew,
        /// Number of other requests between two scans
        #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = whole::<u64>(WALK))]
        every: u64,
        /// Number of pages in a scan
        #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = whole::<u64>(WALK))]
        length: u64,
        #[command(flatten)]
        common: Common,
    },
    /// Zipf, with a new page that gets a large share of all requests for a while
    Burst {
        #[command(flatten)]
        zipf: Skew,
        /// Start of the burst, as a share of all requests
        #[arg(long, value_name = "SHARE", default_value = "50%", value_parser = units::parse_share)]
        from: f64,
        /// End of the burst, as a share of all requests
        #[arg(long, value_name = "SHARE", default_value = "60%", value_parser = units::parse_share)]
        to: f64,
        /// Share of the requests for the new page meanwhile
        #[arg(long, value_name = "SHARE", default_value = "80%", value_parser = units::parse_share)]
        share: f64,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Clone, Copy, Debug, Args)]
struct Skew {
    /// Number of requests
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = whole::<u64>(SOME))]
    requests: u64,
    /// Number of pages
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = whole::<u32>(PAGES))]
    pages: u32,
    /// Exponent of Zipf's law: with 0, all pages are equally popular; the web has 0.6 to 1
    #[arg(long, value_name = "S", default_value = "0.9", value_parser = exponent)]
    exponent: f64,
}

#[derive(Clone, Debug, Args)]
struct Common {
    /// fixed:20KiB, uniform:1KiB-64KiB, lognormal:MEDIAN,SIGMA or web; browsing and web have their own sizes
    #[arg(long, value_name = "MODEL", default_value = "web", value_parser = sizes)]
    sizes: Sizes,
    /// Time to fetch a page: constant:20ms, lognormal:MEDIAN,SIGMA or persize:START,BYTES-A-SECOND
    #[arg(long, value_name = "MODEL", default_value = "lognormal:50ms,0.5", value_parser = latency)]
    latency: Latency,
    /// Requests a second, at random moments
    #[arg(long, value_name = "N", default_value = "10", value_parser = rate)]
    rate: Rate,
    /// Seed of all random numbers
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0..=u64::MAX))]
    seed: u64,
    /// Output file [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Writes the workload that the user described.
pub(crate) fn run(args: WorkloadArgs) -> Result<(), Failure> {
    let (order, common) = match args.kind {
        Kind::Crud { requests, entities, writes, exponent, endpoints, common } => {
            let crud = Crud { requests, entities, writes, exponent };
            if let Some(directory) = endpoints {
                write_endpoints(&crud, &directory)?;
            }
            let made = crud.workload(&common.pages(), common.rate, common.seed);
            return save(made, common.output.as_deref());
        }
        Kind::Shuffle { pages, copies, common } => (Order::Shuffle { pages, copies }, common),
        Kind::Staged { pages, rounds, locality, common } => {
            (Order::Staged { pages, rounds, locality }, common)
        }
        Kind::Zipf { zipf: Skew { requests, pages, exponent }, common } => {
            (Order::Zipf { requests, pages, exponent }, common)
        }
        Kind::Browsing { dataset, common } => (Order::Browsing(dataset), common),
        Kind::Import { trace, reading, output } => {
            let made =
                workload::import(traces::read(&trace, &reading.options())?, &trace.display().to_string());
            return save(made, output.as_deref());
        }
        Kind::Web { like, reading, requests, pages, common } => {
            let model = match like {
                Some(path) => Web::fit(&traces::read(&path, &reading.options())?),
                None => Web::default(),
            };
            let requests = requests.unwrap_or(model.requests);
            let objects = pages.unwrap_or(model.objects);
            (Order::Web(Web { requests, objects, ..model }), common)
        }
        Kind::Scan { zipf: Skew { requests, pages, exponent }, every, length, common } => {
            (Order::Scan { requests, pages, exponent, every, length }, common)
        }
        Kind::Burst { zipf: Skew { requests, pages, exponent }, from, to, share, common } => {
            let at = |share: f64| (requests as f64 * share) as u64;
            (Order::Burst { requests, pages, exponent, span: (at(from), at(to)), share }, common)
        }
    };
    save(workload::pages(&order, &common.pages(), common.rate, common.seed), common.output.as_deref())
}

impl Common {
    fn pages(&self) -> Pages {
        Pages { sizes: self.sizes.clone(), latency: self.latency }
    }
}

fn save(made: workload::Workload, output: Option<&Path>) -> Result<(), Failure> {
    let result = match output {
        Some(path) => File::create(path).and_then(|file| write_to(made, file)),
        None => write_to(made, io::stdout().lock()),
    };
    match result {
        // A reader that has closed standard output is not an error.
        Err(error) if output.is_none() && error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => {
            let place = output.map_or("standard output".into(), |path| path.display().to_string());
            Err(Failure::Failed(format!("cannot write to {place}: {}", unwritten(&error))))
        }
        Ok(_) => Ok(()),
    }
}

fn write_to(made: workload::Workload, out: impl Write) -> io::Result<u64> {
    let mut out = BufWriter::new(out);
    let count = workload::write(made, &mut out)?;
    out.flush()?;
    Ok(count)
}

/// Writes a file for each method, a path in each line.
fn write_endpoints(crud: &Crud, directory: &Path) -> Result<(), Failure> {
    let write = || {
        fs::create_dir_all(directory)?;
        for method in Method::ALL {
            let paths: String =
                crud.endpoints(method).iter().map(|endpoint| format!("{}\n", endpoint.path)).collect();
            fs::write(directory.join(format!("{}.txt", method.name().to_lowercase())), paths)?;
        }
        Ok(())
    };
    write().map_err(|error: io::Error| {
        Failure::Failed(format!("cannot write to {}: {}", directory.display(), unwritten(&error)))
    })
}

fn copies(text: &str) -> Result<RangeInclusive<u32>, String> {
    let range = text.split_once('-').and_then(|(least, most)| Some(least.parse().ok()?..=most.parse().ok()?));
    range.filter(|range| !range.is_empty()).ok_or_else(|| "expected a range, such as 7-16".to_owned())
}

fn dataset(text: &str) -> Result<Dataset, String> {
    match text {
        "1" => Ok(Dataset::One),
        "2" => Ok(Dataset::Two),
        _ => Err("expected 1 or 2".to_owned()),
    }
}

fn exponent(text: &str) -> Result<f64, String> {
    let exponent = text.parse().ok().filter(|exponent| (0.0..=10.0).contains(exponent));
    exponent.ok_or_else(|| "expected a number from 0 to 10".to_owned())
}

fn rate(text: &str) -> Result<Rate, String> {
    let rate = text.parse().ok().filter(|rate| (1e-3..=1e6).contains(rate));
    rate.map(Rate).ok_or_else(|| "expected requests a second, from 0.001 to 1000000".to_owned())
}

fn sizes(text: &str) -> Result<Sizes, String> {
    let (model, numbers) = text.split_once(':').unwrap_or((text, ""));
    match model {
        "web" if numbers.is_empty() => Ok(Sizes::Web),
        "fixed" => units::parse_size(numbers).map(Sizes::Fixed),
        "uniform" => {
            let (least, most) = numbers.split_once('-').ok_or("expected uniform:LEAST-MOST")?;
            let (least, most) = (units::parse_size(least)?, units::parse_size(most)?);
            if least <= most {
                Ok(Sizes::Uniform(least, most))
            } else {
                Err(format!("{least} is more than {most}"))
            }
        }
        "lognormal" => {
            let (median, sigma) = numbers.split_once(',').ok_or("expected lognormal:MEDIAN,SIGMA")?;
            Ok(Sizes::Lognormal { median: units::parse_size(median)? as f64, sigma: sigma_of(sigma)? })
        }
        _ => Err("expected fixed:SIZE, uniform:LEAST-MOST, lognormal:MEDIAN,SIGMA or web".to_owned()),
    }
}

fn latency(text: &str) -> Result<Latency, String> {
    let (model, numbers) = text.split_once(':').unwrap_or((text, ""));
    match model {
        "constant" => microseconds(numbers).map(Latency::Constant),
        "lognormal" => {
            let (median, sigma) = numbers.split_once(',').ok_or("expected lognormal:MEDIAN,SIGMA")?;
            Ok(Latency::Lognormal { median: microseconds(median)?.into(), sigma: sigma_of(sigma)? })
        }
        "persize" => {
            let (start, rate) = numbers.split_once(',').ok_or("expected persize:START,BYTES-A-SECOND")?;
            Ok(Latency::PerSize { start: microseconds(start)?, rate: units::parse_size(rate)? })
        }
        _ => Err("expected constant:TIME, lognormal:MEDIAN,SIGMA or persize:START,BYTES-A-SECOND".to_owned()),
    }
}

fn sigma_of(text: &str) -> Result<f64, String> {
    let sigma = text.parse().ok().filter(|sigma| (0.0..=10.0).contains(sigma));
    sigma.ok_or_else(|| format!("sigma cannot be '{}'; expected a number from 0 to 10", text.escape_debug()))
}

fn microseconds(text: &str) -> Result<u32, String> {
    let duration = units::parse_duration(text)?;
    duration.as_micros().try_into().map_err(|_| format!("'{}' is more than an hour", text.escape_debug()))
}
