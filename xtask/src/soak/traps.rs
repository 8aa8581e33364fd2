//! The hostile origin: each first part of a path is a different attack on a proxy. It listens on many addresses of this
//! machine, as many origins would.

use super::{content, give_way, ordinary::Random};
use anyhow::{Context, Result, anyhow};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The number of addresses in addition to 127.0.0.1: 127.0.1.1 and so on.
pub(super) const NEIGHBOURS: u8 = 60;
/// The duration of slow answers.
const SLOW: Duration = Duration::from_secs(20);

/// The seed of the next answer.
static UNIQUE: AtomicU64 = AtomicU64::new(0);

/// A hostile origin.
pub(super) struct Traps {
    pub(super) port: u16,
}

/// Listens until the program ends.
pub(super) fn start() -> Result<Traps> {
    let first = TcpListener::bind("127.0.0.1:0").context("cannot listen on 127.0.0.1")?;
    let port = first.local_addr()?.port();
    let others =
        (1..=NEIGHBOURS).filter_map(|last| TcpListener::bind((format!("127.0.1.{last}"), port)).ok());
    let listeners = std::iter::once(first).chain(others).collect();
    // The threads that it starts inherit its priority.
    let begun = std::thread::spawn(move || begin(listeners));
    begun.join().map_err(|_| anyhow!("the hostile origins have not begun"))?;
    Ok(Traps { port })
}

fn begin(listeners: Vec<TcpListener>) {
    give_way();
    for listener in listeners {
        larder_testkit::answer(listener, |request, stream| {
            let target = request.target.as_str();
            let path = target
                .strip_prefix("http://")
                .map_or(target, |rest| rest.find('/').map_or("/", |at| &rest[at..]));
            answer(stream, path, &mut Random(UNIQUE.fetch_add(1, Ordering::Relaxed)))
        });
    }
}

/// Answers as the path's first part specifies.
fn answer(stream: &mut TcpStream, path: &str, random: &mut Random) -> Result<()> {
    let storable = "Cache-Control: public, max-age=600\r\n";
    let body = [b'e'; 1_000];
    match path.split(['/', '?']).nth(1).unwrap_or_default() {
        "large-head" => {
            let lines: String = (0..40).map(|n| format!("X-Field-{n}: {}\r\n", "v".repeat(1_000))).collect();
            stream.write_all(&content::answer("200 OK", &format!("{storable}{lines}"), &body))?;
        }
        "unstored-head" => {
            let lines = format!("Cache-Control: no-store\r\nX-Long: {}\r\n", "v".repeat(60_000));
            stream.write_all(&content::answer("200 OK", &lines, b""))?;
        }
        "bomb" => {
            let lines = format!("{storable}Content-Type: text/html\r\nContent-Encoding: zstd\r\n");
            stream.write_all(&content::answer("200 OK", &lines, &bomb()))?;
        }
        "unique-fields" => {
            let unique = random.next();
            let lines: String =
                (0..8).map(|n| format!("X-Unique-{n}: {unique}{}\r\n", "u".repeat(900))).collect();
            stream.write_all(&content::answer("200 OK", &format!("{storable}{lines}"), &body))?;
        }
        "vary" => {
            let lines = format!("{storable}Vary: Accept-Language, X-Other\r\n");
            stream.write_all(&content::answer("200 OK", &lines, &body))?;
        }
        "group" => {
            let group = random.next();
            let lines = format!("{storable}Cache-Group-Invalidation: \"{group}\"\r\n");
            stream.write_all(&content::answer("200 OK", &lines, &body))?;
        }
        "error" => {
            let status = if random.coin() { "400 Bad Request" } else { "503 Service Unavailable" };
            let lines = if random.coin() { storable } else { "Cache-Control: no-store\r\n" };
            stream.write_all(&content::answer(status, lines, &body))?;
        }
        "behind" => behind(stream, path)?,
        "slow-head" => drip(stream, &content::answer("200 OK", storable, &body))?,
        "trickle" => {
            stream.write_all(
                format!("HTTP/1.1 200 OK\r\n{storable}Content-Length: 8388608\r\n\r\n").as_bytes(),
            )?;
            drip(stream, &[b't'; 4_096])?;
        }
        _ => stream.write_all(&content::answer("200 OK", storable, &body))?,
    }
    Ok(())
}

/// Returns content in zstd that is a little longer than 8 MiB without it: blocks of 128 KiB of one byte (RFC 8878 section
/// 3.1.1.2).
fn bomb() -> Vec<u8> {
    let begin = [0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3];
    let blocks = (0..65).flat_map(|number| [2 | u8::from(number == 64), 0, 0x10, b'b']);
    begin.into_iter().chain(blocks).collect()
}

/// Sends bytes after an answer that has no content, or has ended: another request would take them for its own answer.
fn behind(stream: &mut TcpStream, path: &str) -> Result<()> {
    let foreign = content::answer("200 OK", "Cache-Control: max-age=600\r\n", b"foreign");
    let head = match path.len() % 3 {
        0 => "HTTP/1.1 204 No Content\r\n\r\n",
        1 => "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n",
        _ => "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 2\r\n\r\nok",
    };
    stream.write_all(head.as_bytes())?;
    std::thread::sleep(Duration::from_millis(2));
    stream.write_all(&foreign)?;
    Ok(())
}

/// Sends a byte at intervals, as long as the client waits, up to a limit.
fn drip(stream: &mut TcpStream, bytes: &[u8]) -> Result<()> {
    let begun = Instant::now();
    for byte in bytes {
        stream.write_all(&[*byte])?;
        std::thread::sleep(Duration::from_millis(50));
        if begun.elapsed() > SLOW {
            break;
        }
    }
    stream.shutdown(std::net::Shutdown::Both)?;
    Ok(())
}
