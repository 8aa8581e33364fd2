//! Clients that send one request after the other until they are stopped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use larder_testkit::{Client, Larder};

const CLIENTS: usize = 4;

/// Running clients.
pub(crate) struct Traffic {
    stopped: Arc<AtomicBool>,
    clients: Vec<JoinHandle<()>>,
}

impl Traffic {
    /// Starts clients that request the paths that `path` returns for 0, 1, 2, and so on.
    pub(crate) fn start(larder: &Larder, path: impl Fn(u64) -> String + Send + Sync + 'static) -> Self {
        let (stopped, path) = (Arc::new(AtomicBool::new(false)), Arc::new(path));
        let next = Arc::new(AtomicU64::new(0));
        let clients = (0..CLIENTS).map(|_| {
            let (stopped, path, next) = (Arc::clone(&stopped), Arc::clone(&path), Arc::clone(&next));
            let address = larder.address();
            std::thread::spawn(move || {
                let mut client = Client::to(address);
                while !stopped.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    client.ask(&format!("GET {}", path(number)));
                }
            })
        });
        Self { clients: clients.collect(), stopped }
    }

    /// Stops the clients and waits for the last responses.
    pub(crate) fn stop(self) {
        self.stopped.store(true, Ordering::Relaxed);
        for client in self.clients {
            client.join().expect("a client that was answered");
        }
    }
}
