//! Stored responses on the admin listener: `/cache` lists them, `/cache/NAME` returns one response on a disk,
//! `/cache/verify` checks all responses on disks.
//!
//! A thread that may wait for disks makes the answers, and they are sent while they are made, so that they take the
//! same small amount of memory at every length. The work ends when the client disconnects.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Response, StatusCode};
use larder_store::Store;
use larder_store::disks::{Name, ResponseReader};
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::Sender;

use super::query::Query;
use super::{Answer, Call, Outcome, Refusal, State, stream};
use crate::base::shown::write_json;
use crate::features::inventory::{self, Keys, LEAST_RATE};

/// The media type of an answer in JSON lines.
const LINES: &str = "application/x-ndjson";
/// Bytes of content that are sent at once.
const PIECE: usize = 64 << 10;
/// The interval of a check's progress reports.
const EVERY: Duration = Duration::from_secs(1);
/// The default rate of a check, in bytes per second.
const RATE: u64 = 100 << 20;

/// Lists the stored responses: of a URL, or all.
pub(super) async fn list(call: Call<'_>) -> Outcome {
    let keys = keys(&call.query)?;
    let (store, permit) = begin(call.state)?;
    Ok(made(LINES, permit, None, move |outlet| {
        inventory::list(store.near(), Some(&store), keys.as_ref(), &mut |object| outlet.line(&object));
    }))
}

/// Checks all responses on the disks.
pub(super) async fn verify(call: Call<'_>) -> Outcome {
    let rate = rate(&call.query)?;
    let (store, permit) = begin_on_disks(call.state)?;
    Ok(made(LINES, permit, None, move |outlet| check(&store, rate, outlet)))
}

/// Returns one response on a disk.
pub(super) async fn get(call: Call<'_>) -> Outcome {
    let name = name(call.name)?;
    let (store, permit) = begin_on_disks(call.state)?;
    match tokio::task::spawn_blocking(move || store.disks.named(name)).await.ok().flatten() {
        Some(held) => Ok(dump(held, permit)),
        None => Err(Refusal::new(StatusCode::NOT_FOUND, format!("nothing is stored under the name {name}"))),
    }
}

fn begin_on_disks(state: &State) -> Result<(Arc<Store>, OwnedSemaphorePermit), Refusal> {
    if !state.shared.cache.store.has_near() {
        let why = "there is no disk cache here; larder serve --disk DIR adds one";
        return Err(Refusal::new(StatusCode::NOT_FOUND, why));
    }
    begin(state)
}

fn begin(state: &State) -> Result<(Arc<Store>, OwnedSemaphorePermit), Refusal> {
    let store = &state.shared.cache.store;
    if let Some(directory) = store.disks.unknown() {
        let why = format!("{} is still being read after a start; ask again later", directory.display());
        return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why));
    }
    Ok((Arc::clone(store), state.look()?))
}

fn keys(query: &Query<'_>) -> Result<Option<Keys>, String> {
    query.get("url").map(inventory::keys).transpose()
}

fn rate(query: &Query<'_>) -> Result<u64, String> {
    let Some(rate) = query.get("rate") else { return Ok(RATE) };
    rate.parse()
        .ok()
        .filter(|rate| *rate >= LEAST_RATE)
        .ok_or_else(|| format!("rate '{}': write bytes a second, at least {LEAST_RATE}", rate.escape_debug()))
}

fn name(text: &str) -> Result<Name, Refusal> {
    text.parse().map_err(|_| {
        let why = format!("'{}' is not the name of an object, which has 16 hex digits", text.escape_debug());
        Refusal::new(StatusCode::NOT_FOUND, why)
    })
}

fn check(store: &Store, rate: u64, outlet: &mut Outlet) {
    let mut said = Instant::now();
    let end = inventory::verify(&store.disks, rate, &mut |progress| {
        if said.elapsed() < EVERY {
            return !outlet.is_closed();
        }
        said = Instant::now();
        outlet.line(progress) && outlet.flush()
    });
    outlet.line(&end);
}

fn dump(held: ResponseReader, permit: OwnedSemaphorePermit) -> Response<Answer> {
    let (head, len) = (inventory::head(&held), held.content.len());
    made("application/http", permit, Some(head.len() as u64 + len), move |outlet| {
        if !outlet.send(Ok(head.into())) {
            return;
        }
        for at in (0..len).step_by(PIECE) {
            let piece = held.content.read(at..len.min(at + PIECE as u64));
            let is_damaged = piece.is_err();
            if !outlet.send(piece) || is_damaged {
                return;
            }
        }
    })
}

/// Returns the answer that `work` makes, of `length` bytes if that is known.
fn made(
    kind: &'static str,
    permit: OwnedSemaphorePermit,
    length: Option<u64>,
    work: impl FnOnce(&mut Outlet) + Send + 'static,
) -> Response<Answer> {
    let (sender, response) = stream::open(kind, length);
    tokio::task::spawn_blocking(move || {
        let mut outlet = Outlet { sender, piece: Vec::new() };
        work(&mut outlet);
        outlet.flush();
        drop(permit);
    });
    response
}

/// Sends an answer while it is made. All methods return false once the client has disconnected.
struct Outlet {
    sender: Sender<io::Result<Bytes>>,
    /// Lines that are collected until they fill a piece.
    piece: Vec<u8>,
}

impl Outlet {
    fn line(&mut self, line: &impl Serialize) -> bool {
        if let Err(error) = write_json(&mut self.piece, line) {
            return self.send(Err(error.into()));
        }
        self.piece.push(b'\n');
        self.piece.len() < PIECE || self.flush()
    }

    fn flush(&mut self) -> bool {
        let piece = std::mem::take(&mut self.piece);
        piece.is_empty() || self.send(Ok(piece.into()))
    }

    fn send(&self, piece: io::Result<Bytes>) -> bool {
        self.sender.blocking_send(piece).is_ok()
    }

    fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_read_and_wrong_ones_explained() {
        let of_url = inventory::keys("http://a/?b=c&d").unwrap();
        for (query, expected) in [
            ("", Ok(None)),
            ("url=http%3A%2F%2Fa%2F%3Fb%3Dc%26d", Ok(Some(of_url))),
            ("url=a", Err("'a': write the scheme too, such as 'http://a'".to_owned())),
        ] {
            assert_eq!(keys(&Query::new(query)), expected, "{query}");
        }
        for (query, expected) in [
            ("", Ok(100 << 20)),
            ("rate=65536", Ok(65536)),
            ("rate=1", Err("rate '1': write bytes a second, at least 65536".to_owned())),
        ] {
            assert_eq!(rate(&Query::new(query)), expected, "{query}");
        }
        assert_eq!(name("00000000000000ff").ok(), "00000000000000ff".parse().ok());
        let Refusal { status, why } = name("%00").unwrap_err();
        assert_eq!(
            (status.as_u16(), &*why),
            (404, "'%00' is not the name of an object, which has 16 hex digits")
        );
    }
}
