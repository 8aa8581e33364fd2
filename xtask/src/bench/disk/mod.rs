//! `cargo x bench disk`: the disk tier compared with the memory tier and with nginx on the same file system: hits,
//! writes of a full disk, and starts with many objects. All figures are measured on the running program.

mod hits;
mod servers;
mod starts;
mod writes;

use super::goal::Goal;
use super::options::{self, claim_cores};
use super::origin::Origin;
use super::peers::{self, Peer, Programs, Which};
use super::server::RunningServer;
use super::table::{self, Row};
use crate::{args, packages};
use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};
use std::path::PathBuf;

/// The parts that can be measured separately.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Hits,
    Cold,
    Writes,
    Start,
}

const PARTS: &[(&str, Part)] =
    &[("hits", Part::Hits), ("cold", Part::Cold), ("writes", Part::Writes), ("start", Part::Start)];

/// A number of objects of 512 bytes that the disk of `start` can certainly hold.
const MOST_OBJECTS: u32 = 5_000_000;

/// The options of `cargo x bench disk`.
pub(crate) struct Options {
    common: options::Options,
    parts: Vec<Part>,
    objects: u32,
    folder: PathBuf,
}

impl Options {
    /// Reads the words after `bench disk`. Fails on an unknown word, or an invalid value; the error names it.
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let more = [("--objects", true), ("--only", true), ("--folder", true)];
        let (common, words) = options::Options::with(words, &more, [1, 2], [5, 3])?;
        let objects = words.number("--objects", if common.quick { 100_000 } else { 1_000_000 })?;
        if objects > MOST_OBJECTS {
            bail!("option `--objects` takes {MOST_OBJECTS} at most, but got `{objects}`");
        }
        let parts = args::chosen(words.get("--only"), "part", PARTS)?;
        let folder = words.get("--folder").map_or_else(std::env::temp_dir, PathBuf::from);
        Ok(Self { common, parts, objects, folder })
    }
}

/// The common environment of all parts.
struct Bench<'a> {
    options: &'a Options,
    programs: Programs,
    origin: &'a Origin,
    with_nginx: bool,
}

impl Bench<'_> {
    fn has(&self, part: Part) -> bool {
        self.options.parts.contains(&part)
    }

    /// Whether this server can take part.
    fn takes(&self, peer: &Peer) -> bool {
        self.with_nginx || peer.which == Which::Larder
    }

    fn start(&self, peer: &Peer) -> Result<RunningServer> {
        let started = RunningServer::start_in(&self.options.folder, peer, &self.programs, self.origin);
        started.with_context(|| peer.name.to_owned())
    }
}

/// Runs the bench and prints its tables, and the goals with their results. Fails if a program is missing, a build
/// fails, or a server did not take part to the end.
pub(crate) fn run(options: &Options) -> Result<Vec<Goal>> {
    let with_nginx = prepare(options)?;
    let programs = Programs::given(&peers::program(options.common.larder.as_deref())?);
    claim_cores(&options.folder)?;
    let origin = Origin::start();
    let bench = Bench { options, programs, origin: &origin, with_nginx };
    let (mut goals, mut report) = (Vec::new(), Map::new());
    let mut show = |name: &str, title: &str, rows: &[Row]| {
        if !rows.is_empty() {
            println!("\n{title}");
            table::print(rows);
            report.insert(name.to_owned(), table::json(rows));
        }
    };
    if bench.has(Part::Hits) || bench.has(Part::Cold) {
        let [warm, cold] = hits::measure(&bench, &mut goals)?;
        show("hits", "hits, all in the page cache", &warm);
        show("cold", "hits, nothing in the page cache", &cold);
    }
    if bench.has(Part::Writes) {
        show("writes", "writes of a full disk", &writes::measure(&bench, &mut goals)?);
    }
    if bench.has(Part::Start) {
        let title = format!("starts with {} objects of 512 bytes", options.objects);
        show("starts", &title, &starts::measure(&bench, &mut goals)?);
    }
    show("goals", "goals", &goals.iter().map(Goal::row).collect::<Vec<_>>());
    table::write(options.common.json.as_deref(), &Value::Object(report))?;
    Ok(goals)
}

/// Checks that the required programs are installed. Returns whether nginx is.
fn prepare(options: &Options) -> Result<bool> {
    let missing = packages::missing([&packages::WRK, &peers::NGINX]);
    if options.common.install {
        packages::install(&missing)?;
    } else if missing.contains(&&packages::WRK) {
        bail!("wrk makes the load and is not installed; run: {}", packages::command_line(&[&packages::WRK]));
    } else if !missing.is_empty() {
        println!("without nginx (add --install, or run: {})", packages::command_line(&missing));
    }
    if servers::is_in_memory(&options.folder)? {
        let folder = options.folder.display();
        println!("{folder} is in memory; name a folder on a disk by --folder for figures of a disk");
    }
    Ok(options.common.install || missing.is_empty())
}

#[cfg(test)]
mod tests {
    use super::{Options, Part};

    fn parse(line: &str) -> anyhow::Result<Options> {
        Options::parse(&crate::args::words(line))
    }

    #[test]
    fn quick_is_less_of_what_is_not_said() {
        let figures = |line| {
            let options = parse(line).unwrap();
            (options.common.duration.as_secs(), options.common.rounds, options.objects)
        };
        assert_eq!(figures(""), (5, 3, 1_000_000));
        assert_eq!(figures("--quick"), (1, 2, 100_000));
        assert_eq!(figures("--quick --rounds 7 --objects 5"), (1, 7, 5));
    }

    #[test]
    fn parts_are_all_or_those_named() {
        assert_eq!(parse("").unwrap().parts.len(), 4);
        assert_eq!(parse("--only start,cold").unwrap().parts, [Part::Start, Part::Cold]);
    }

    #[test]
    fn wrong_words_are_named() {
        for (line, complaint) in [
            ("--only write", "unknown part `write`; did you mean `writes`?"),
            ("--object 5", "unknown option `--object`; did you mean `--objects`?"),
            ("--objects 5000001", "option `--objects` takes 5000000 at most, but got `5000001`"),
            ("--seconds 0", "option `--seconds` needs a whole number above 0, but got `0`"),
        ] {
            assert_eq!(parse(line).err().unwrap().to_string(), complaint, "{line}");
        }
    }
}
