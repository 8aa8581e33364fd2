//! A thread that serves connections at a free port of loopback.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread::{self, JoinHandle};

use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio::task::LocalSet;

/// A running thread. It ends when this value is dropped.
pub(super) struct ServerThread {
    address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    running: Option<JoinHandle<()>>,
}

impl ServerThread {
    /// Starts the thread `name`, in which `serve` gets the listener. Fails if the system lacks resources.
    pub(super) fn start<F: Future<Output = ()>>(
        name: &str,
        serve: impl FnOnce(TcpListener) -> F + Send + 'static,
    ) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let (end, ended) = oneshot::channel();
        let work = move || {
            LocalSet::new().block_on(&runtime, async {
                tokio::select! {
                    () = serve(listener) => {}
                    _ = ended => {}
                }
            });
        };
        let running = thread::Builder::new().name(name.to_owned()).spawn(work)?;
        Ok(Self { address, end: Some(end), running: Some(running) })
    }

    /// Returns the address of the listener.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for ServerThread {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(running) = self.running.take() {
            // A thread that panicked has already reported it.
            let _ = running.join();
        }
    }
}
