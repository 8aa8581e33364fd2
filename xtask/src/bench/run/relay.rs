//! A relay before a server that acts as a line: bytes arrive later, and so many in a second.

use anyhow::{Context, Result};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The time to the server and back.
pub(super) const ROUND_TRIP: Duration = Duration::from_millis(20);
/// Bits in a second, in each direction.
pub(super) const RATE: u32 = 100_000_000;

/// Bytes that are delayed as a piece, and the most pieces of a connection under way: together what the line holds.
const PIECE: usize = 16 << 10;
const MOST: usize = 16;

/// One direction of the line, which all connections share: the time at which it has sent all that it was given.
type Direction = Arc<Mutex<Instant>>;

/// A part of a stream, and the time at which it arrives. It is empty at the end.
type Piece = (Instant, Vec<u8>);

/// Starts a relay to a port of this machine, and returns its own. Fails if there is no port.
pub(super) fn start(server: u16) -> Result<u16> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port for the relay")?;
    let port = listener.local_addr()?.port();
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, server));
    let free = || Direction::new(Mutex::new(Instant::now()));
    let (up, down) = (free(), free());
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let (up, down) = (Arc::clone(&up), Arc::clone(&down));
            thread::spawn(move || carry(&client, server, [up, down]));
        }
    });
    Ok(port)
}

/// Carries a connection, until both sides have ended. An error of one of them ends it for the other.
fn carry(client: &TcpStream, server: SocketAddr, [up, down]: [Direction; 2]) {
    // The handshake of TCP takes a round trip, too.
    thread::sleep(ROUND_TRIP);
    let Ok(server) = TcpStream::connect(server) else { return };
    for stream in [client, &server] {
        let _ = stream.set_nodelay(true);
    }
    thread::scope(|scope| {
        for (from, to, direction) in [(client, &server, up), (&server, client, down)] {
            let (sender, receiver) = sync_channel(MOST);
            scope.spawn(move || read(from, &direction, &sender));
            scope.spawn(move || write(to, &receiver));
        }
    });
}

fn read(mut from: &TcpStream, direction: &Direction, pieces: &SyncSender<Piece>) {
    let mut buffer = vec![0; PIECE];
    loop {
        let read = from.read(&mut buffer).unwrap_or(0);
        let mut free = direction.lock().unwrap_or_else(PoisonError::into_inner);
        *free = Instant::now().max(*free) + Duration::from_secs_f64(read as f64 * 8.0 / f64::from(RATE));
        let arrival = *free + ROUND_TRIP / 2;
        drop(free);
        if pieces.send((arrival, buffer[..read].to_vec())).is_err() || read == 0 {
            return;
        }
    }
}

fn write(mut to: &TcpStream, pieces: &Receiver<Piece>) {
    for (arrival, piece) in pieces {
        thread::sleep(arrival.saturating_duration_since(Instant::now()));
        if piece.is_empty() || to.write_all(&piece).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

#[cfg(test)]
mod tests {
    use super::{RATE, ROUND_TRIP, start};
    use larder_testkit::{listen, serve};
    use std::io::{Read, Write};
    use std::net::{Shutdown, TcpStream};
    use std::time::{Duration, Instant};

    #[test]
    fn bytes_take_as_long_as_on_the_line() {
        const LENGTH: usize = 1 << 20;
        let (listener, address) = listen();
        serve(listener, |mut stream| {
            let mut question = [0; 1];
            stream.read_exact(&mut question).unwrap();
            stream.write_all(&vec![1; LENGTH]).unwrap();
        });
        let begun = Instant::now();
        let mut stream = TcpStream::connect(("127.0.0.1", start(address.port()).unwrap())).unwrap();
        stream.write_all(b"?").unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let least = ROUND_TRIP * 2 + Duration::from_secs_f64(LENGTH as f64 * 8.0 / f64::from(RATE));
        assert_eq!(answer.len(), LENGTH);
        assert!(begun.elapsed() >= least, "{:?}", begun.elapsed());
    }
}
