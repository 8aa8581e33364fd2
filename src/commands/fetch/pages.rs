//! Fetches pages to be shown or saved, one after the other on each of several connections.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::client;
use super::page_output::PageOutput;
use super::server::Server;
use crate::cli::Failure;
use crate::cli::progress::Bar;

/// Fetches all `urls` from `server`, on `connections` connections at once. Returns the failed ones with the reason, a
/// line each. Errors: a connection cannot be prepared.
pub(super) fn run(
    server: &Server,
    urls: &[String],
    connections: usize,
    keep: &PageOutput,
) -> Result<Vec<String>, Failure> {
    let bar = Bar::new(server.via.name(), urls.len());
    let work = SharedWork { server, urls, next: AtomicUsize::new(0), keep: Mutex::new(keep), bar: &bar };
    let parts: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..connections).map(|_| scope.spawn(|| work.run())).collect();
        workers.into_iter().map(thread::ScopedJoinHandle::join).collect()
    });
    bar.finish();
    let mut failures = Vec::new();
    for part in parts {
        failures.extend(part.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
    }
    Ok(failures)
}

/// The state that workers share.
struct SharedWork<'w> {
    server: &'w Server,
    urls: &'w [String],
    next: AtomicUsize,
    /// Locked while a page is saved: a URL that is fetched twice at once has one file.
    keep: Mutex<&'w PageOutput>,
    bar: &'w Bar,
}

impl SharedWork<'_> {
    fn run(&self) -> Result<Vec<String>, Failure> {
        let (mut failures, mut client) = (Vec::new(), self.server.client()?);
        while let Some(url) = self.urls.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            let page = client::page(&mut *client, url);
            let kept = page
                .and_then(|page| self.keep.lock().unwrap_or_else(PoisonError::into_inner).page(url, &page));
            failures.extend(kept.err().map(|why| format!("{url}: {why}")));
            self.bar.advance(1);
        }
        Ok(failures)
    }
}
