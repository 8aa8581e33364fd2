//! Deals new connections fairly: a worker that has more than its share hands them to the one with the fewest.
//!
//! The kernel deals connections by a hash of their addresses, so that a few long ones, as of HTTP/2, may all meet one
//! worker. Only a connection that has just been accepted is handed on: it then stays on its worker.

use std::io;
use std::net::{SocketAddr, TcpStream as StdStream};
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::front::Front;
use crate::flow::drain::ConnectionPermit;
use crate::flow::worker::Worker;

/// A worker may have this many connections more than its share, or a larger part of its share: to hand a connection on
/// wakes another thread, which does not pay for short ones.
const SPARE: usize = 1;
const SPARE_SHARE: usize = 8;

/// The seats of all workers, by number.
pub(super) struct Seats(Box<[Seat]>);

/// A worker, as others hand connections to it.
struct Seat {
    worker: Arc<Worker>,
    newcomers: UnboundedSender<Newcomer>,
}

/// A connection that another worker has accepted.
pub(super) struct Newcomer {
    pub(super) front: Front,
    pub(super) stream: StdStream,
    pub(super) peer: SocketAddr,
    pub(super) permit: ConnectionPermit,
}

impl Seats {
    /// Returns the seats of these workers, and what others hand to each.
    pub(super) fn new(workers: &[Arc<Worker>]) -> (Self, Vec<UnboundedReceiver<Newcomer>>) {
        let seat = |worker: &Arc<Worker>| {
            let (newcomers, received) = unbounded_channel();
            (Seat { worker: Arc::clone(worker), newcomers }, received)
        };
        let (seats, received): (Vec<_>, _) = workers.iter().map(seat).unzip();
        (Self(seats.into()), received)
    }

    /// Hands a connection that `own` has accepted to another worker, if that is fairer. Otherwise returns the connection, and
    /// its permit. Errors: the runtime's error.
    pub(super) fn hand_on(
        &self,
        own: &Arc<Worker>,
        front: Front,
        stream: TcpStream,
        peer: SocketAddr,
    ) -> io::Result<Option<(TcpStream, ConnectionPermit)>> {
        let Some(seat) = self.fairer_than(own) else {
            return Ok(Some((stream, ConnectionPermit::take(own))));
        };
        // Counted before it arrives, so that the next connections see it.
        let permit = ConnectionPermit::take(&seat.worker);
        let newcomer = Newcomer { front, stream: stream.into_std()?, peer, permit };
        // A worker that has ended has closed its connections, and so is this one.
        let _ = seat.newcomers.send(newcomer);
        Ok(None)
    }

    /// Returns the seat with the fewest connections, if `own` has more than its share.
    fn fairer_than(&self, own: &Worker) -> Option<&Seat> {
        let all = own.shared.connections.count();
        if !is_above(own.connections.count(), all / self.0.len()) {
            return None;
        }
        let least = self.0.iter().min_by_key(|seat| seat.worker.connections.count())?;
        is_above(own.connections.count(), least.worker.connections.count()).then_some(least)
    }
}

/// Whether a worker with `own` connections has clearly more than `share`.
fn is_above(own: usize, share: usize) -> bool {
    own > share + SPARE.max(share / SPARE_SHARE)
}

#[cfg(test)]
mod tests {
    use super::is_above;

    #[test]
    fn a_worker_keeps_connections_up_to_a_little_more_than_its_share() {
        for (own, share, expected) in
            [(0, 0, false), (1, 0, false), (2, 0, true), (5, 4, false), (6, 4, true)]
        {
            assert_eq!(is_above(own, share), expected, "{own} of {share}");
        }
        assert!(!is_above(1_125, 1_000) && is_above(1_126, 1_000));
    }
}
