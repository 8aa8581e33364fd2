//! Whether all threads of the process still serve: for a watchdog, which replaces a process that does not.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::{Handle, Runtime};

/// The runtimes of the threads that serve. A clone is the same.
#[derive(Clone, Debug, Default)]
pub struct Liveness(Arc<Mutex<Vec<Handle>>>);

impl Liveness {
    pub(super) fn watch(&self, runtime: &Runtime) {
        self.0.lock().push(runtime.handle().clone());
    }

    /// Whether threads have begun to serve. A successor's begin when its predecessor has handed over.
    pub fn has_begun(&self) -> bool {
        !self.0.lock().is_empty()
    }

    /// Whether each thread runs a new task within `limit`. It costs nothing between two calls.
    pub fn is_alive(&self, limit: Duration) -> bool {
        let threads = self.0.lock().clone();
        let (sender, receiver) = mpsc::channel();
        for thread in &threads {
            let sender = sender.clone();
            // An answer after the limit has no receiver any more.
            thread.spawn(async move {
                let _ = sender.send(());
            });
        }
        let end = Instant::now() + limit;
        let answers = || receiver.recv_timeout(end.saturating_duration_since(Instant::now())).is_ok();
        threads.iter().all(|_| answers())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use tokio::runtime::Builder;

    #[test]
    fn a_thread_that_is_stuck_is_noticed() {
        let liveness = Liveness::default();
        let (stop, until) = tokio::sync::oneshot::channel::<()>();
        let runtime = Builder::new_current_thread().build().expect("a runtime");
        liveness.watch(&runtime);
        let handle = runtime.handle().clone();
        let serving = thread::spawn(move || runtime.block_on(until));
        assert!(liveness.is_alive(Duration::from_secs(20)));

        let (release, held) = mpsc::channel::<()>();
        handle.spawn(async move { held.recv().is_err() });
        assert!(!liveness.is_alive(Duration::from_millis(50)));

        drop(release);
        assert!(liveness.is_alive(Duration::from_secs(20)));
        drop(stop);
        assert!(serving.join().expect("it ends").is_err());
    }
}
