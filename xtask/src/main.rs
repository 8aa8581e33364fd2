//! Developer commands, run as `cargo x COMMAND`: all steps between a clone and a merged change.
//!
//! This crate depends on no other crate of the workspace than the testkit, and on that without its feature `proxy`,
//! which needs further crates. So it builds in seconds, even while the other crates do not compile.

/// Prints a line as the macro of this name in `std` does, which panics if the reader has gone, such as `head`.
macro_rules! println {
    () => { println!("") };
    ($($words:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stdout(), format_args!("{}\n", format_args!($($words)*)));
    }};
}

mod args;
mod bench;
mod client;
mod conformance;
mod dist;
mod fuzz;
mod go;
mod h2spec;
mod javascript;
mod ledger;
mod packages;
mod program;
mod python;
mod soak;
mod steps;
mod test_programs;
mod testssl;
mod tidy;

use anyhow::Result;
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo x COMMAND

  test     install what the tests need, then formatting, tidy, lints, every test, the package and h2spec
  tidy     check what a machine can: dependency directions, file lengths, links, leftovers
  pictures render the dashboard and docs/report in docs/pictures, and every state in target/pictures, in two minutes
  h2spec   every case of h2spec, strictly, over TLS and in clear; builds h2spec with Go if it is not installed
             --larder PATH   a build to test (the debug build)
  testssl  what testssl.sh finds in listeners with TLS, in some minutes; fails if anything is worse than LOW
             --larder PATH   a build to test (the debug build)
  conformance  the public HTTP caching suite against a release build, beside the expected results; --http2 asks in HTTP/2
             --suite DIR     a clone of http-tests/cache-tests in which `npm install` has run
             --larder PATH   test this program instead of building one
             --write         store the results as the expected ones
  dist     build the packages of a release: .deb, tarball, image, SBOM and SHA256SUMS in target/dist; the same bytes each time
             --larder PATH   pack this program instead of building it for each package, which takes ten minutes each
             --target TRIPLE the target of tarball and image (a static program with musl, if rustc and gcc have that)
             --test          install, upgrade, remove and purge the .deb in a root of its own, and run the image (as root)
             --twice         build each program in a second folder, too; fails if it has other bytes
  fuzz     run the fuzz targets, as many at once as there are processors
             --seconds N     how long each runs (10)
             --only A,B      which (all in fuzz/targets)
             --keep          add new short inputs that reach more code to fuzz/corpus
  ledger   the cache lines that two workers write in common while they answer hits; fails if there are more than its list
           allows (needs strace and valgrind; some minutes)
             --quick         one load only
             --larder PATH   a build to test (the release build)
  soak     an ordinary load on a release build, beside it all hostile clients and origins at once, and checkers of what is
           promised, with faults, on proxies of their own; checks memory, errors, content and times (needs redis-server)
             --minutes N     how long; the first third is without the hostile ones (3)
             --only A,B      which hostile clients and checkers (all); the checkers: tags, purges, kills, segments,
                             cluster, memory
             --seed N        repeat the choices of checkers, though not their timing (random)
             --control NAME  run this checker alone, without what keeps its promise: it has to find violations
             --larder PATH   test this program instead of building one
  bench    hits | misses | memory: this proxy beside its peers, in one run (bench/README.md)
             --seconds N     how long each measurement lasts (5)
             --rounds N      measurements per server, interleaved (3)
             --only A,B      which servers (all that are installed)
             --size 1k,1m    which objects, for `hits` (both)
             --larder PATH   measure this program instead of building one
             --before PATH   this earlier build and the current one in turn, round by round, and what the current one costs
                             beside it; also with tls, h2, cluster, control, purge and rules (--rounds 5)
             --json FILE     also write the numbers to a file
             --install       install the peers that are missing
             --quick         less of everything: 1 second, 2 rounds
           all: every bench below and above, and one table of every goal; fails if one is missed, as each bench does
             --quick         the quick form of each
             --only A,B      which benches (all)
             --json FILE, --install  as above
           tls: hits over TLS, handshakes and latencies, beside the same without TLS, nginx, HAProxy and h2o
             --quick         less of everything: 1 second, 2 rounds, 1 of latencies
             --seconds N, --rounds N, --json FILE, --install, --larder PATH  as above
           h2: hits over HTTP/2 with 1, 10 and 100 streams, over TLS and in clear, beside HTTP/1.1, nginx, HAProxy and h2o
             --quick         less of everything: 1 second, 2 rounds, fewer cases
             --seconds N, --rounds N, --json FILE, --install, --larder PATH  as above
           doors: calls through each RPC listener, beside HTTP and Thrift's own server
             --quick         less of everything: 5000 calls, 2 rounds
             --calls N, --rounds N, --json FILE, --install  as above
           slices: hits of ranges of an object of 1 GiB that is stored by slices, beside an object of 1 MiB and nginx
             --quick, --seconds N, --rounds N, --json FILE, --larder PATH, --install  as above
           purge: what clients notice of a purge of 100000 objects
             --quick         1 round (of 5)
             --seconds N, --rounds N, --json FILE, --larder PATH  as above
           upgrade: what clients notice of an upgrade, beside those of nginx and a reload of HAProxy
             --quick         1 round (of 3)
             --seconds N, --rounds N, --json FILE, --install, --larder PATH  as above
           rules: what rules cost a hit
             --quick, --seconds N, --rounds N, --json FILE, --larder PATH, --install  as above
           run: downloads of packages and of a layer behind `larder run`, beside those without it and behind mitmproxy
             --quick         a layer of 256 MiB (of 2 GiB)
             --rounds N, --json FILE, --larder PATH, --install  as above
           scale: what a hit costs with 1, 2 and 64 workers, how long locks are held, and a model for more cores
             --quick, --seconds N, --rounds N, --json FILE, --larder PATH, --install  as above
           replay: how fast traces are replayed
             --against PATH  beside libCacheSim's cachesim, if it is not on the path
             --trace A,B     traces in addition to the generated one (all in traces/)
             --quick         1 round
             --rounds N      as above; --json FILE too
           learn: misses of `adaptive` beside those of fixed policies
             --trace A,B     traces instead of those in traces/, beside the generated ones
             --quick         2 sizes (of 6)
             --larder PATH, --json FILE  as above
           disk: the disk tier beside the memory tier and nginx, its writes and its starts
             --quick         less of everything: 1 second, 2 rounds, 100000 objects
             --seconds N, --rounds N, --json FILE, --install  as above
             --objects N     objects stored before the starts (1000000)
             --only A,B      of hits, cold, writes, start (all)
             --folder DIR    where, on the file system to measure (that of temporary files)
             --larder PATH   measure this program instead of building one
           control: reads and writes of a backend, straight and through a cache and a gateway
             --quick         less of everything: 1 second, 1 round
             --seconds N, --rounds N, --json FILE, --larder PATH  as above
           cluster: what a request costs nodes, by where its answer comes from, beside one node by itself
             --quick         less of everything: 1 second, 2 rounds
             --seconds N, --rounds N, --json FILE, --install, --larder PATH  as above
           observe: the same load without statistics and with each kind of database
             --quick         less of everything: 3 rounds (of 25), 10 seconds of outage
             --seconds N, --rounds N, --json FILE, --install, --larder PATH  as above
             --outage N      seconds that a database server stands still (60)
             --only A,B      of sqlite, mariadb, postgres (all)

example: cargo x bench disk --quick --only hits,cold --folder /var/tmp";

/// The exit code for an invalid command line, the same as in `larder`.
const WRONG_WORDS: u8 = 2;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = match words.split_first() {
        Some((command, rest)) => (command.as_str(), rest),
        None => ("help", &[][..]),
    };
    let asks_for_help = |word: &String| word == "--help" || word == "-h";
    let command = if rest.iter().any(asks_for_help) { "help" } else { command };
    let result = match command {
        "test" => args::parse(rest, &[]).map(|_| steps::test()),
        "tidy" => args::parse(rest, &[]).map(|_| tidy::run()),
        "pictures" => args::parse(rest, &[]).map(|_| steps::pictures()),
        "conformance" => conformance::Options::parse(rest).map(conformance::Options::run),
        "h2spec" => program::chosen(rest).map(h2spec::run),
        "testssl" => program::chosen(rest).map(testssl::run),
        "dist" => dist::Dist::parse(rest).map(dist::Dist::run),
        "fuzz" => fuzz::Fuzz::parse(rest).map(|fuzz| fuzz.run()),
        "ledger" => ledger::Options::parse(rest).map(ledger::Options::run),
        "soak" => soak::Soak::parse(rest).map(soak::Soak::run),
        "bench" => bench::Bench::parse(rest).map(|bench| bench.run()),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        other => Err(args::unknown(
            "command",
            other,
            &[
                "test",
                "tidy",
                "pictures",
                "conformance",
                "h2spec",
                "testssl",
                "dist",
                "fuzz",
                "ledger",
                "soak",
                "bench",
                "help",
            ],
        )),
    };
    match result {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => complain(&error, 1),
        Err(error) => complain(&error, WRONG_WORDS),
    }
}

fn complain(error: &anyhow::Error, code: u8) -> ExitCode {
    eprintln!("error: {error:#}");
    ExitCode::from(code)
}

/// Returns the workspace's folder, which contains this crate's own.
fn root() -> PathBuf {
    let mut folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    folder.pop();
    folder
}

/// Returns a command for the cargo that runs this program, or for the one on the path.
fn cargo() -> std::process::Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = std::process::Command::new(program);
    command.current_dir(root());
    if std::env::var_os("CI").is_some() {
        // In CI everything is built once, and nobody debugs it: data for either would only take time.
        command.envs([("CARGO_INCREMENTAL", "0"), ("CARGO_PROFILE_DEV_DEBUG", "none")]);
    }
    command
}

/// Returns the text of a file, or an error that names it.
fn read(path: &std::path::Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| anyhow::anyhow!("cannot read {}: {error}", path.display()))
}
