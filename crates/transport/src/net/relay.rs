//! Relays the bytes of a connection under TLS for those who need a socket.

use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split};
use tokio::net::UnixStream;
use tokio::time::sleep;

/// The bytes of the buffer in each direction.
const BUFFER: usize = 16 << 10;
/// The interval between looks whether the other end of the socket is closed.
const PAUSE: Duration = Duration::from_secs(1);

/// Relays between `secured` and `far` until both directions have ended. If the other end of `far` is closed, the peer of
/// `secured` is not waited for: it may never end the connection, or read no more.
pub(super) async fn relay(secured: impl AsyncRead + AsyncWrite, far: UnixStream) -> io::Result<()> {
    let (mut from_peer, mut to_peer) = split(secured);
    let there = async {
        let mut buffer = vec![0; BUFFER];
        loop {
            match received(&far, &mut buffer).await? {
                0 => return to_peer.shutdown().await,
                length => to_peer.write_all(&buffer[..length]).await?,
            }
            to_peer.flush().await?;
        }
    };
    let back = async {
        let mut buffer = vec![0; BUFFER];
        loop {
            match from_peer.read(&mut buffer).await? {
                0 => return Ok(shutdown(&far, Shutdown::Write)?),
                length => send(&far, &buffer[..length]).await?,
            }
        }
    };
    let gone = async {
        while !is_closed(&far)? {
            sleep(PAUSE).await;
        }
        // What it has sent before may still be on its way.
        sleep(PAUSE).await;
        Ok(())
    };
    tokio::select! {
        ended = async { tokio::try_join!(there, back).map(drop) } => ended,
        gone = gone => gone,
    }
}

async fn received(stream: &UnixStream, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        stream.readable().await?;
        match stream.try_read(buffer) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            read => return read,
        }
    }
}

async fn send(stream: &UnixStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.writable().await?;
        match stream.try_write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            sent => bytes = &bytes[sent?..],
        }
    }
    Ok(())
}

/// Whether the other end of `stream` neither sends nor reads any more.
fn is_closed(stream: &UnixStream) -> io::Result<bool> {
    let mut looked = [PollFd::new(stream, PollFlags::empty())];
    poll(&mut looked, Some(&Timespec::default()))?;
    Ok(looked[0].revents().contains(PollFlags::HUP))
}

#[cfg(test)]
mod tests {
    use tokio::io::duplex;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn bytes_go_both_ways_after_the_end_of_one() {
        let (peer, secured) = duplex(100);
        let (mut near, far) = UnixStream::pair().unwrap();
        let relaying = tokio::spawn(relay(secured, far));
        let (mut from_relay, mut to_relay) = split(peer);
        let (long, mut text) = ("question".repeat(100_000), String::new());
        let asking = async {
            near.write_all(long.as_bytes()).await?;
            near.shutdown().await
        };
        tokio::try_join!(asking, from_relay.read_to_string(&mut text)).unwrap();
        assert!(text == long);
        to_relay.write_all(b"answer").await.unwrap();
        to_relay.shutdown().await.unwrap();
        text.clear();
        near.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "answer");
        relaying.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_silent_peer_is_not_waited_for() {
        for length in [0, 10_000] {
            let (_peer, secured) = duplex(100);
            let (near, far) = UnixStream::pair().unwrap();
            rustix::net::send(&near, &vec![0; length], rustix::net::SendFlags::empty()).unwrap();
            assert!(!is_closed(&far).unwrap());
            shutdown(&near, Shutdown::Write).unwrap();
            assert!(!is_closed(&far).unwrap(), "it may still read");
            drop(near);
            timeout(10 * PAUSE, relay(secured, far)).await.unwrap().unwrap();
        }
    }
}
