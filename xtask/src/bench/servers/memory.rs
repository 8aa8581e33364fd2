//! `memory`: the bytes that a server uses for an object in addition to its body, measured by storing many.

use crate::bench::goal::Goal;
use crate::bench::lap::Lap;
use crate::bench::origin::Origin;
use crate::bench::peers::Which;
use crate::bench::process;
use crate::bench::server::RunningServer;
use crate::bench::table::{Cell, Row};
use crate::client::Client;
use anyhow::{Result, bail};
use std::ops::Range;

/// So many that the constant memory of a server is a rounding error.
const OBJECTS: u64 = 200_000;
const BODY: u64 = 1024;
/// The number of objects stored before the first reading, so that it includes the initial buffers and threads of a
/// server.
const WARM_UP: u64 = 2_000;
const CONNECTIONS: usize = 8;
/// The maximum bytes for an object in addition to its body, over those of the most economical peer.
const AS_SMALL: f64 = 1.0;
/// The distance between objects that are requested again: they must still be stored.
const CHECK_EVERY: u64 = 997;

/// Returns the table of overheads, and its goal; a server that fails is omitted and named in `failures`.
pub(super) fn memory(
    servers: &[RunningServer],
    origin: &Origin,
    failures: &mut Vec<String>,
) -> (Vec<Row>, Vec<Goal>) {
    let mut rows = Vec::new();
    let (mut own, mut cheapest) = (None, f64::NAN);
    for server in servers {
        eprintln!("filling {} with {OBJECTS} objects", server.name);
        match measure(server, origin) {
            Ok((row, beyond)) => {
                rows.push(row);
                match server.which {
                    Which::Larder => own = Some(beyond),
                    _ => cheapest = beyond.min(cheapest),
                }
            }
            Err(error) => failures.push(format!("{}: {error:#}", server.name)),
        }
    }
    let what = "bytes beyond a body / the cheapest peer's".to_owned();
    let goal = own.map(|own| Goal::new(what, AS_SMALL, own / cheapest));
    (rows, goal.into_iter().collect())
}

/// Returns a row, and the bytes for an object in addition to its body.
fn measure(server: &RunningServer, origin: &Origin) -> Result<(Row, f64)> {
    fill(server.port, 0..WARM_UP)?;
    let before = process::resident(&server.processes()?)?;
    fill(server.port, WARM_UP..WARM_UP + OBJECTS)?;
    let after = process::resident(&server.processes()?)?;
    check_stored(server.port, origin)?;
    let beyond = (after as f64 - before as f64) / OBJECTS as f64 - BODY as f64;
    let mebibytes = |bytes: u64| Cell::number(bytes as f64 / f64::from(1 << 20), 1);
    let row = vec![
        ("server", Cell::word(server.name)),
        ("objects", Cell::number(OBJECTS as f64, 0)),
        ("before MiB", mebibytes(before)),
        ("after MiB", mebibytes(after)),
        ("bytes/object beyond the body", Cell::number(beyond, 0)),
    ];
    Ok((row, beyond))
}

fn fill(port: u16, objects: Range<u64>) -> Result<()> {
    let lap = Lap { port, length: BODY, connections: CONNECTIONS, depth: 1, path: &path };
    lap.run(objects).map(|_| ())
}

/// Checks that the counted objects are stored, by requesting a sample of them again.
fn check_stored(port: u16, origin: &Origin) -> Result<()> {
    let mut client = Client::connect(port)?;
    let before = origin.requests();
    let mut asked = 0;
    for object in (0..WARM_UP + OBJECTS).step_by(CHECK_EVERY as usize) {
        client.get(&path(object))?;
        asked += 1;
    }
    match origin.requests() - before {
        0 => Ok(()),
        gone => bail!("{gone} of {asked} objects were no longer stored"),
    }
}

/// Returns a path that makes the URL about 60 bytes long, a typical length.
fn path(object: u64) -> String {
    format!("/documents/section/{:03}/page-{object:08}.html", object % 1000)
}

#[cfg(test)]
mod tests {
    use super::path;

    #[test]
    fn urls_are_about_sixty_bytes_and_differ() {
        let length = "http://127.0.0.1:40000".len() + path(0).len();
        assert!((55..=65).contains(&length), "{length}");
        assert_ne!(path(1), path(1001));
    }
}
