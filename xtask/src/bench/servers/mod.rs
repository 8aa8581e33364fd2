//! `cargo x bench hits`, `misses` and `memory`: this proxy beside its peers.

mod as_run;
mod entrant;
mod memory;
mod rounds;

use super::goal::{self, Goal};
use super::measure::Object;
use super::options::{self, claim_cores};
use super::origin::Origin;
use super::peers::{self, Peer, Subject, Which};
use super::server::{self, RunningServer};
use super::{CONNECTIONS, table};
use crate::{args, packages};
use anyhow::{Result, bail};

/// The objects of `hits`.
const OBJECTS: &[Object] = &[
    Object { name: "1k", path: "/1k", length: 1024, connections: CONNECTIONS },
    Object { name: "1m", path: "/1m", length: 1024 * 1024, connections: CONNECTIONS },
];

/// The options of `cargo x bench hits`, `misses` and `memory`.
pub(super) struct Options {
    common: options::Options,
    subject: Subject,
    peers: Vec<&'static Peer>,
    objects: Vec<Object>,
    /// Whether servers have logs and other usual settings.
    as_run: bool,
}

impl Options {
    /// Reads the words after the subject. Fails on an unknown word, or an invalid value; the error names it.
    pub(super) fn parse(subject: Subject, words: &[String]) -> Result<Self> {
        let more = [("--only", true), ("--size", true), ("--as-run", false)];
        let (common, words) = options::Options::with(words, &more, [1, 2], [5, 3])?;
        let as_run = words.has("--as-run");
        if as_run && (subject != Subject::Hits || words.get("--only").is_some()) {
            bail!("option `--as-run` is for `hits`, without `--only`");
        }
        let sizes = Some(words.get("--size").unwrap_or(if as_run { "1k" } else { "1k,1m" }));
        let objects: Vec<_> = OBJECTS.iter().map(|object| (object.name, *object)).collect();
        Ok(Self {
            common,
            subject,
            peers: if as_run { as_run::peers() } else { choose_peers(subject, words.get("--only"))? },
            objects: args::chosen(sizes, "size", &objects)?,
            as_run,
        })
    }
}

/// Returns the peers that take part: the requested ones, or the subject's default. For hits, the floor always takes
/// part.
fn choose_peers(subject: Subject, only: Option<&str>) -> Result<Vec<&'static Peer>> {
    let able = peers::ALL.iter().filter(|peer| (peer.suits)(subject));
    let able: Vec<_> = able.map(|peer| (peer.name, peer)).collect();
    let mut chosen = args::chosen(only, "server", &able)?;
    if only.is_none() && subject == Subject::Misses {
        chosen.retain(|peer| peer.usual_for_misses);
    }
    if subject == Subject::Hits {
        chosen.retain(|peer| peer.which != Which::Floor);
        chosen.insert(0, &peers::FLOOR);
    }
    Ok(chosen)
}

/// Measures servers, prints their table and goals, and returns the goals. Fails if wrk is missing, a build fails, or
/// any server did not take part to the end; the table of the others is printed first.
pub(super) fn run(options: &Options) -> Result<Vec<Goal>> {
    let chosen = present(options)?;
    let programs = peers::build(&chosen, options.common.larder.as_deref())?;
    claim_cores(&server::in_memory())?;
    let origin = Origin::start();
    let mut failures = Vec::new();
    let mut servers = Vec::new();
    for peer in chosen {
        match RunningServer::start(peer, &programs, &origin) {
            Ok(server) => servers.push(server),
            Err(error) => failures.push(format!("{}: {error:#}", peer.name)),
        }
    }
    let (rows, goals) = match options.subject {
        Subject::Hits => rounds::hits(options, &servers, &origin, &mut failures)?,
        Subject::Misses => rounds::misses(options, &servers, &origin, &mut failures)?,
        Subject::Memory => memory::memory(&servers, &origin, &mut failures),
    };
    table::print(&rows);
    goal::print(&goals);
    table::write(options.common.json.as_deref(), &table::json(&rows))?;
    for failure in &failures {
        println!("left out: {failure}");
    }
    match failures.len() {
        0 => Ok(goals),
        count => bail!("{count} of the servers could not be measured"),
    }
}

/// Returns the chosen peers that are installed. Prints the names of the others with the way to install them, or
/// installs them.
fn present(options: &Options) -> Result<Vec<&'static Peer>> {
    let wanted: Vec<_> = options.peers.iter().filter_map(|peer| peer.package.as_ref()).collect();
    let mut missing = packages::missing(wanted.into_iter().chain([&packages::WRK]));
    if options.common.install {
        packages::install(&missing)?;
        missing.clear();
    }
    if missing.contains(&&packages::WRK) {
        bail!("wrk makes the load and is not installed; run: {}", packages::command_line(&[&packages::WRK]));
    }
    if !missing.is_empty() {
        let names: Vec<_> = missing.iter().map(|package| package.name).collect();
        let command = packages::command_line(&missing);
        println!("not installed: {} (add --install, or run: {command})", names.join(", "));
    }
    Ok(options.peers.iter().copied().filter(|peer| peer.is_here(&missing)).collect())
}

#[cfg(test)]
mod tests {
    use super::{Options, Subject};

    fn parse(subject: Subject, line: &str) -> anyhow::Result<Options> {
        Options::parse(subject, &crate::args::words(line))
    }

    fn names(subject: Subject, line: &str) -> Vec<&'static str> {
        parse(subject, line).unwrap().peers.iter().map(|peer| peer.name).collect()
    }

    #[test]
    fn hits_always_have_their_floor() {
        assert_eq!(names(Subject::Hits, "--only larder,nginx"), ["floor", "larder", "nginx"]);
        assert_eq!(names(Subject::Hits, "--only nginx,floor"), ["floor", "nginx"]);
    }

    #[test]
    fn as_people_run_them_larders_are_beside_peers_with_logs() {
        let names = names(Subject::Hits, "--as-run");
        for name in ["floor", "larder-bare", "larder-as-run", "nginx-log", "varnish", "haproxy-log"] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
        assert!(parse(Subject::Misses, "--as-run").is_err());
    }

    #[test]
    fn each_subject_has_its_usual_servers() {
        assert_eq!(
            names(Subject::Hits, ""),
            ["floor", "larder", "nginx", "varnish", "haproxy", "trafficserver"]
        );
        assert_eq!(names(Subject::Misses, ""), ["larder", "nginx"]);
        assert_eq!(names(Subject::Misses, "--only haproxy"), ["haproxy"]);
        assert_eq!(names(Subject::Memory, ""), ["larder", "varnish"]);
    }

    #[test]
    fn defaults_and_values() {
        let options = parse(Subject::Hits, "--size 1m --rounds 7").unwrap();
        assert!(
            options.subject == Subject::Hits
                && options.common.rounds == 7
                && options.common.duration.as_secs() == 5
        );
        assert_eq!(options.objects.len(), 1);
        assert_eq!(options.objects[0].length, 1 << 20);
        let quick = parse(Subject::Misses, "--quick --rounds 4").unwrap();
        assert!(quick.common.rounds == 4 && quick.common.duration.as_secs() == 1);
    }

    #[test]
    fn wrong_words_are_named() {
        for (line, complaint) in [
            ("--only ngnix", "unknown server `ngnix`; did you mean `nginx`?"),
            ("--size 1g", "unknown size `1g`; did you mean `1k`?"),
            ("--rounds 0", "option `--rounds` needs a whole number above 0, but got `0`"),
        ] {
            assert_eq!(parse(Subject::Hits, line).err().unwrap().to_string(), complaint, "{line}");
        }
    }
}
