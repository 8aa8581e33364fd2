//! Connects to a name with several addresses: they are tried one after the other, the next one when the earlier ones have
//! failed or take long (Happy Eyeballs, RFC 8305).

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::net::TcpStream;

/// Time for which the next address waits for the answer of those before it (section 8).
const DELAY: Duration = Duration::from_millis(250);

/// A connection that is being made.
type Attempt = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

/// Returns the addresses in the order in which they are tried: that of the resolver, but with families in turn (section
/// 4), so that a family without a route costs one delay.
fn order(addresses: &[SocketAddr]) -> impl Iterator<Item = SocketAddr> {
    let first = addresses.first().is_some_and(SocketAddr::is_ipv6);
    let (mut ones, mut others): (Vec<_>, Vec<_>) =
        addresses.iter().copied().partition(|address| address.is_ipv6() == first);
    ones.reverse();
    others.reverse();
    std::iter::from_fn(move || {
        std::mem::swap(&mut ones, &mut others);
        others.pop().or_else(|| ones.pop())
    })
}

/// Connects to one of `addresses`: the first that answers. Errors: the last failure, after all addresses have failed.
pub(super) async fn connect(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    if let [only] = addresses {
        return TcpStream::connect(only).await;
    }
    let (mut waiting, mut attempts) = (order(addresses).peekable(), Vec::<Attempt>::new());
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    loop {
        if let Some(address) = waiting.next() {
            attempts.push(Box::pin(TcpStream::connect(address)));
        }
        if attempts.is_empty() {
            return Err(last);
        }
        let ended = poll_fn(|cx| poll_ended(&mut attempts, cx));
        let ended = match waiting.peek() {
            Some(_) => tokio::time::timeout(DELAY, ended).await.ok(),
            None => Some(ended.await),
        };
        match ended {
            Some(Ok(stream)) => return Ok(stream),
            Some(Err(error)) => last = error,
            None => {}
        }
    }
}

/// Returns the result of the first attempt that has ended, and removes it.
fn poll_ended(attempts: &mut Vec<Attempt>, cx: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
    for at in 0..attempts.len() {
        if let Poll::Ready(ended) = attempts[at].as_mut().poll(cx) {
            drop(attempts.remove(at));
            return Poll::Ready(ended);
        }
    }
    Poll::Pending
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::time::Instant;

    use tokio::net::{TcpListener, TcpSocket};

    use super::*;

    #[test]
    fn rfc_8305_section_4_families_take_turns() {
        let all = |list: &[&str]| list.iter().map(|text| text.parse().unwrap()).collect::<Vec<SocketAddr>>();
        let found = all(&["[::1]:1", "[::2]:1", "[::3]:1", "192.0.2.1:1", "192.0.2.2:1"]);
        let expected = all(&["[::1]:1", "192.0.2.1:1", "[::2]:1", "192.0.2.2:1", "[::3]:1"]);
        assert_eq!(order(&found).collect::<Vec<_>>(), expected);
    }

    #[tokio::test]
    async fn a_silent_address_costs_one_delay_and_a_refused_one_none() {
        let well = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let refused = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap();
        // A listener whose queue is full does not answer.
        let silent = TcpSocket::new_v4().unwrap();
        silent.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        let silent = silent.listen(1).unwrap();
        let (at_silent, at_well) = (silent.local_addr().unwrap(), well.local_addr().unwrap());
        let mut queue = Vec::new();
        while let Ok(queued) = tokio::time::timeout(DELAY / 5, TcpStream::connect(at_silent)).await {
            queue.push(queued.unwrap());
        }
        let begun = Instant::now();
        assert_eq!(connect(&[refused, at_silent, at_well]).await.unwrap().peer_addr().unwrap(), at_well);
        assert!(begun.elapsed() >= DELAY);
        assert_eq!(connect(&[refused, refused]).await.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
    }
}
