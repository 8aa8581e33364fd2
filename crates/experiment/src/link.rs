//! A simulated network link: forwards the bytes of connections with a delay and at a limited rate.
//!
//! It runs in a separate thread. Delays use the runtime's timer, which counts milliseconds. Connecting has no delay.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Halt;
use super::server_thread::ServerThread;

/// The number of bytes in one read.
const PIECE: usize = 16 << 10;
/// The maximum number of pieces of a connection in flight in one direction.
const UNDER_WAY: usize = 1_024;

/// The properties of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkQuality {
    /// The round-trip time.
    pub(super) round_trip: Duration,
    /// Bytes a second, for all connections together, in each direction; `None` for no limit.
    pub(super) rate: Option<u64>,
}

/// An open link. It closes when this value is dropped.
pub(super) struct Link {
    passed: Arc<AtomicU64>,
    thread: ServerThread,
}

impl Link {
    /// Opens a link to `to`. Fails if the system lacks resources.
    pub(super) fn open(to: SocketAddr, quality: LinkQuality) -> Result<Self, Halt> {
        let passed = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&passed);
        let thread = ServerThread::start("link", move |listener| accept(listener, to, quality, counter));
        let thread = thread.map_err(|error| Halt::because("cannot open a link", error))?;
        Ok(Self { passed, thread })
    }

    /// Returns the address at which the link accepts connections.
    pub(super) fn address(&self) -> SocketAddr {
        self.thread.address()
    }

    /// Returns the bytes forwarded so far in both directions.
    pub(super) fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }
}

/// One direction of the link.
struct Direction {
    quality: LinkQuality,
    /// The time when the last bytes will have been sent.
    free: Cell<Instant>,
    passed: Arc<AtomicU64>,
}

impl Direction {
    fn new(quality: LinkQuality, passed: &Arc<AtomicU64>) -> Rc<Self> {
        Rc::new(Self { quality, free: Cell::new(Instant::now()), passed: Arc::clone(passed) })
    }

    /// Returns the arrival time of `bytes` that are sent now.
    fn due(&self, bytes: usize) -> Instant {
        self.passed.fetch_add(bytes as u64, Ordering::Relaxed);
        let takes = self.quality.rate.map_or(0.0, |rate| bytes as f64 / rate.max(1) as f64);
        let left = self.free.get().max(Instant::now()) + Duration::from_secs_f64(takes);
        self.free.set(left);
        left + self.quality.round_trip / 2
    }
}

async fn accept(
    listener: std::net::TcpListener,
    to: SocketAddr,
    quality: LinkQuality,
    passed: Arc<AtomicU64>,
) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    let (there, back) = (Direction::new(quality, &passed), Direction::new(quality, &passed));
    // If a connection cannot be accepted, the measurement fails with an error.
    while let Ok((near, _)) = listener.accept().await {
        let (there, back) = (Rc::clone(&there), Rc::clone(&back));
        tokio::task::spawn_local(async move {
            let Ok(far) = TcpStream::connect(to).await else { return };
            let _ = (near.set_nodelay(true), far.set_nodelay(true));
            let ((near_from, near_to), (far_from, far_to)) = (near.into_split(), far.into_split());
            tokio::join!(pass(near_from, far_to, &there), pass(far_from, near_to, &back));
        });
    }
}

/// Forwards bytes until one end closes; then closes the other.
async fn pass(from: OwnedReadHalf, mut to: OwnedWriteHalf, direction: &Direction) {
    let (send, mut arriving) = mpsc::channel::<(Instant, Bytes)>(UNDER_WAY);
    let write = async {
        while let Some((due, piece)) = arriving.recv().await {
            tokio::time::sleep_until(due).await;
            if to.write_all(&piece).await.is_err() {
                return;
            }
        }
        // A receiver that has closed needs no message.
        let _ = to.shutdown().await;
    };
    tokio::join!(read(from, send, direction), write);
}

async fn read(mut from: OwnedReadHalf, send: mpsc::Sender<(Instant, Bytes)>, direction: &Direction) {
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(PIECE);
        match from.read_buf(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => {
                if send.send((direction.due(count), buffer.split().freeze())).await.is_err() {
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::thread;

    use super::*;

    /// Returns the round-trip time of `bytes` over a link to an echo server.
    fn time(quality: LinkQuality, bytes: usize) -> Duration {
        let echo = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let link = Link::open(echo.local_addr().unwrap(), quality).unwrap();
        let echoing = thread::spawn(move || {
            let (mut stream, _) = echo.accept().unwrap();
            let mut buffer = vec![0; bytes];
            stream.read_exact(&mut buffer).unwrap();
            stream.write_all(&buffer).unwrap();
        });
        let mut stream = std::net::TcpStream::connect(link.address()).unwrap();
        let begun = std::time::Instant::now();
        let (sent, mut came) = (vec![7; bytes], vec![0; bytes]);
        stream.write_all(&sent).unwrap();
        stream.read_exact(&mut came).unwrap();
        let took = begun.elapsed();
        echoing.join().unwrap();
        assert_eq!((came == sent, link.passed()), (true, 2 * bytes as u64));
        took
    }

    #[test]
    fn a_far_link_delivers_everything_after_its_round_trip() {
        let far = LinkQuality { round_trip: Duration::from_millis(40), rate: None };
        assert!(time(far, 3) >= far.round_trip);
    }

    #[test]
    fn a_slow_link_takes_its_time_for_much() {
        let slow = LinkQuality { round_trip: Duration::ZERO, rate: Some(1 << 20) };
        assert!(time(slow, 50 << 10) >= Duration::from_millis(2 * 48));
    }
}
