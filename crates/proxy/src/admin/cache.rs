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
use larder_store::disks::{Held, Name};
use serde::Serialize;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::Sender;
use url::form_urlencoded;

use super::{Answer, State, TEXT, response, stream};
use crate::base::shown::write_json;
use crate::features::inventory::{self, Keys, LEAST_RATE};

/// The most answers in progress; each takes a thread.
pub(crate) const MOST: usize = 4;
/// Bytes of content that are sent at once.
const PIECE: usize = 64 << 10;
/// The interval of a check's progress reports.
const EVERY: Duration = Duration::from_secs(1);
/// The default rate of a check, in bytes per second.
const RATE: u64 = 100 << 20;

/// The task of a request.
#[derive(Debug, PartialEq)]
enum Question {
    List(Option<Keys>),
    Get(Name),
    Verify(u64),
}

/// Answers a request for `/cache` or a path below it.
pub(super) async fn answer(state: &State, path: &str, query: Option<&str>) -> Response<Answer> {
    let refuse = |status, why: String| response(status, TEXT, format!("{why}\n").into());
    let question = match Question::read(path, query.unwrap_or_default()) {
        Ok(question) => question,
        Err((status, why)) => return refuse(status, why),
    };
    let store = Arc::clone(&state.shared.cache.store);
    if !store.has_near() && !matches!(question, Question::List(_)) {
        return refuse(
            StatusCode::NOT_FOUND,
            "there is no disk cache here; larder serve --disk DIR adds one".into(),
        );
    }
    if let Some(directory) = store.disks.unknown() {
        let why = format!("{} is still being read after a start; ask again later", directory.display());
        return refuse(StatusCode::SERVICE_UNAVAILABLE, why);
    }
    let Ok(permit) = Arc::clone(&state.looks).try_acquire_owned() else {
        let why = format!("{MOST} such requests are in progress already; ask again later");
        return refuse(StatusCode::SERVICE_UNAVAILABLE, why);
    };
    match question {
        Question::List(keys) => made("application/x-ndjson", permit, None, move |outlet| {
            inventory::list(store.near(), Some(&store), keys.as_ref(), &mut |object| outlet.line(&object));
        }),
        Question::Verify(rate) => made("application/x-ndjson", permit, None, move |outlet| {
            verify(&store, rate, outlet);
        }),
        Question::Get(name) => {
            let found = tokio::task::spawn_blocking(move || store.disks.named(name)).await;
            match found.ok().flatten() {
                Some(held) => dump(held, permit),
                None => refuse(StatusCode::NOT_FOUND, format!("nothing is stored under the name {name}")),
            }
        }
    }
}

impl Question {
    fn read(path: &str, query: &str) -> Result<Self, (StatusCode, String)> {
        let bad = |why: String| (StatusCode::BAD_REQUEST, why);
        let parameter = |known: &str| {
            let mut value = None;
            for (name, given) in form_urlencoded::parse(query.as_bytes()) {
                match name == known {
                    true => value = Some(given),
                    false if known.is_empty() => return Err(bad("this takes no parameters".into())),
                    false => {
                        let name = name.escape_debug();
                        return Err(bad(format!("unknown parameter '{name}'; known: {known}")));
                    }
                }
            }
            Ok(value)
        };
        match path.strip_prefix("/cache").unwrap_or(path) {
            "" => {
                let keys = parameter("url")?.map(|url| inventory::keys(&url).map_err(bad)).transpose()?;
                Ok(Self::List(keys))
            }
            "/verify" => match parameter("rate")? {
                None => Ok(Self::Verify(RATE)),
                Some(rate) => {
                    rate.parse().ok().filter(|rate| *rate >= LEAST_RATE).map(Self::Verify).ok_or_else(|| {
                        bad(format!(
                            "rate '{}': write bytes a second, at least {LEAST_RATE}",
                            rate.escape_debug()
                        ))
                    })
                }
            },
            name => {
                parameter("")?;
                let name = name.strip_prefix('/').unwrap_or(name);
                name.parse().map(Self::Get).map_err(|_| {
                    let name = name.escape_debug();
                    (
                        StatusCode::NOT_FOUND,
                        format!("'{name}' is not the name of an object, which has 16 hex digits"),
                    )
                })
            }
        }
    }
}

fn verify(store: &Store, rate: u64, outlet: &mut Outlet) {
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

fn dump(held: Held, permit: OwnedSemaphorePermit) -> Response<Answer> {
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
        let keys = inventory::keys("http://a/?b=c&d").unwrap();
        let table = [
            ("/cache", "", Ok(Question::List(None))),
            ("/cache", "url=http%3A%2F%2Fa%2F%3Fb%3Dc%26d", Ok(Question::List(Some(keys)))),
            ("/cache", "url=a", Err((400, "'a': write the scheme too, such as 'http://a'"))),
            ("/cache", "ulr=a", Err((400, "unknown parameter 'ulr'; known: url"))),
            ("/cache/verify", "", Ok(Question::Verify(100 << 20))),
            ("/cache/verify", "rate=65536", Ok(Question::Verify(65536))),
            ("/cache/verify", "rate=1", Err((400, "rate '1': write bytes a second, at least 65536"))),
            (
                "/cache/00000000000000ff",
                "",
                "00000000000000ff".parse().map(Question::Get).map_err(|_| (0, "")),
            ),
            ("/cache/00000000000000ff", "a", Err((400, "this takes no parameters"))),
            ("/cache/%00", "", Err((404, "'%00' is not the name of an object, which has 16 hex digits"))),
        ];
        for (path, query, expected) in table {
            let read = Question::read(path, query).map_err(|(status, why)| (status.as_u16(), why));
            assert_eq!(read, expected.map_err(|(status, why)| (status, why.to_owned())), "{path}?{query}");
        }
    }
}
