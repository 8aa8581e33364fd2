//! Accepts connections on a worker, and admits their clients to the protocol of each listening socket.

mod admit;
pub mod front;
mod intercepted;
mod seats;

use std::io;
use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use self::admit::ConnectionContext;
use self::front::Sockets;
use self::seats::{Newcomer, Seats};
use crate::flow::interceptor::InterceptedTunnel;
use crate::flow::worker::{ProcessState, Worker};
use crate::rpc;

/// A worker that has not begun, with all that it accepts.
struct Beginner {
    context: ConnectionContext,
    sockets: Sockets,
    newcomers: UnboundedReceiver<Newcomer>,
    intercepted: UnboundedReceiver<InterceptedTunnel>,
}

/// Starts a thread for each of these sets of sockets, each with a runtime of its own, which `runtime` makes.
///
/// # Errors
/// Those of runtimes and threads.
pub fn start(
    shared: &Arc<ProcessState>,
    rpc: &Arc<rpc::State>,
    sockets: Vec<Sockets>,
    runtime: impl Fn() -> io::Result<Runtime>,
) -> io::Result<()> {
    let worker = |_: &Sockets| {
        let (intercepting, intercepted) = unbounded_channel();
        (Worker::new(shared, intercepting), intercepted)
    };
    let (workers, intercepted): (Vec<_>, Vec<_>) = sockets.iter().map(worker).unzip();
    let (seats, newcomers) = Seats::new(&workers);
    let seats = Arc::new(seats);
    let arrivals = newcomers.into_iter().zip(intercepted);
    for ((worker, sockets), (newcomers, intercepted)) in workers.into_iter().zip(sockets).zip(arrivals) {
        let runtime = runtime()?;
        let thread = std::thread::Builder::new().name(format!("worker-{}", worker.number));
        let (idle, rpc, seats) = (Arc::default(), Arc::clone(rpc), Arc::clone(&seats));
        let context = ConnectionContext { worker, idle, rpc, seats };
        let beginner = Beginner { context, sockets, newcomers, intercepted };
        thread.spawn(move || beginner.run(&runtime))?;
    }
    Ok(())
}

impl Beginner {
    fn run(self, runtime: &Runtime) {
        let Self { context, sockets, newcomers, intercepted } = self;
        runtime.spawn(intercepted::accept(context.clone(), intercepted));
        runtime.block_on(admit::work(context, sockets, newcomers));
    }
}
