//! The dates of versions that an index lists without them: those of their files, as their registry says.
//!
//! What is found out is kept, so that later requests for the index ask for new versions only.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::Method;
use larder_packages::age::{Dates, http_date};
use larder_packages::{Digest, Document, digest};
use larder_semantics::fields::Fields;
use tokio::task::JoinSet;

use crate::exchange::request::Request;
use crate::flow::worker::Worker;
use crate::http::response::Lines;
use crate::origin::Download;

/// Asks for a resource beside the one that is being answered.
pub(in crate::flow) type Ask = fn(Arc<Worker>, Request) -> Beside;

/// Its fields and its content, if the status is 200. A box, since the one that is being answered waits for it.
pub(in crate::flow) type Beside = Pin<Box<dyn Future<Output = Option<(Box<Lines>, Box<Download>)>> + Send>>;

/// The registry of an index document, which is asked for what the document does not say.
#[derive(Clone)]
pub(super) struct Registry {
    pub(super) worker: Arc<Worker>,
    pub(super) ask: Ask,
}

/// The most files that are asked for because of one index: those that it lists last.
const MOST: usize = 1_000;
/// The most such requests at once.
const AT_ONCE: usize = 16;
/// The longest information about a version of a Go module, in bytes.
const LONGEST_INFO: usize = 64 << 10;

/// Returns the dates of versions, given with a file each; `asked` returns the request for it. Of several files of a version, the
/// youngest counts.
pub(super) async fn of_files(
    registry: &Registry,
    files: Vec<(String, String)>,
    asked: &impl Fn(&str) -> Option<Request>,
) -> HashMap<String, u32> {
    let mut dates: HashMap<String, u32> = HashMap::new();
    let last = &files[files.len().saturating_sub(MOST)..];
    for some in last.chunks(AT_ONCE) {
        let mut running = JoinSet::new();
        for (number, file) in some {
            if let Some(asked) = asked(file) {
                let (registry, number) = (registry.clone(), number.clone());
                running.spawn(async move { (number, registry.date(asked).await) });
            }
        }
        for (number, date) in running.join_all().await {
            if let Some(date) = date {
                dates.entry(number).and_modify(|own| *own = date.max(*own)).or_insert(date);
            }
        }
    }
    dates
}

impl Registry {
    /// Returns the SHA-1 of the content that answers `asked`, as Maven writes it.
    pub(super) async fn digest(&self, asked: Option<Request>) -> Option<Vec<u8>> {
        let (_, mut download) = self.ask(asked?).await?;
        let content = download.whole(Document::LONGEST).await.ok()?;
        let digest = Digest::of(digest::Algorithm::Sha1, &content).to_string();
        Some(digest.strip_prefix("sha1:")?.get(..40)?.as_bytes().to_vec())
    }

    /// Returns the date of the version that `asked` is for: the one that is known, or that of the last change of the file. A
    /// document may say it, as those of Go's modules do.
    async fn date(&self, asked: Request) -> Option<u32> {
        let plan = self.worker.plan();
        let resource = asked.package(&asked.ruling)?;
        let known = || plan.packages.date(&asked.key, &resource, Dates::Registry);
        if let Some(date) = known() {
            return Some(date);
        }
        if resource.document().is_some() {
            let (_, mut download) = self.ask(asked.in_background()).await?;
            download.whole(LONGEST_INFO).await.ok()?;
            return known();
        }
        let head = Request { method: Method::HEAD, ..asked.in_background() };
        let (fields, _) = self.ask(head).await?;
        let date = http_date(str::from_utf8(fields.first("last-modified")?).ok()?)?;
        plan.packages.set_date(&asked.key, &resource, date);
        Some(date)
    }

    fn ask(&self, asked: Request) -> Beside {
        (self.ask)(Arc::clone(&self.worker), asked)
    }
}
