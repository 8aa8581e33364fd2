//! Stores a whole response by slices while it arrives: one that memory does not take as a whole.
//!
//! The client that caused the fetch reads the slices as they arrive. If it leaves, the fetch ends behind the current slice:
//! what is missing is fetched by ranges later. If it reads slowly, others do not wait for it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use larder_store::fill::{FillWriter, StoragePlace};
use larder_store::{Entry, SlicedBody};
use tokio::sync::mpsc::{Sender, channel};
use tokio::time::timeout;

use super::{AHEAD, source};
use crate::exchange::pieces::{PieceQueue, QueuedPiece};
use crate::flow::worker::Worker;
use crate::origin::{Chunk, Download};

/// How long other requests wait for the next slices while the client does not read.
const PATIENCE: Duration = Duration::from_millis(500);

/// The rest of a response that arrives.
struct ResponseRest {
    worker: Arc<Worker>,
    entry: Entry,
    sliced: Arc<SlicedBody>,
    download: Box<Download>,
    cost: u32,
    /// Bytes that have arrived, and belong to the next slice.
    early: Vec<u8>,
    /// The first of the slices that follow, with their numbers, so that other requests wait for them.
    ahead: VecDeque<(u64, FillWriter)>,
}

/// Begins to store the content of `download`, which took this `cost`, as the slices of `entry`; returns the content for its
/// client.
pub(crate) fn begin(
    worker: &Arc<Worker>,
    entry: Entry,
    sliced: Arc<SlicedBody>,
    (download, cost): (Box<Download>, u32),
) -> PieceQueue {
    let (sender, pieces) = channel(1);
    let length = sliced.len();
    let worker = Arc::clone(worker);
    let (early, ahead) = Default::default();
    let mut carving = ResponseRest { worker, entry, sliced, download, cost, early, ahead };
    carving.lead(0);
    tokio::spawn(carving.run(sender));
    PieceQueue::new(pieces, length)
}

impl ResponseRest {
    async fn run(mut self, to: Sender<QueuedPiece>) {
        let last = self.sliced.index(self.sliced.len() - 1);
        for index in 0..=last {
            let Some(writer) = self.announce(index, &to).await else { return };
            if let Err(error) = self.copy(index, writer).await {
                return tracing::warn!("content truncated: {error}");
            }
        }
    }

    /// Announces the slice with this number to its readers, of which the client is one; `None` if that has left.
    async fn announce(&mut self, index: u64, to: &Sender<QueuedPiece>) -> Option<FillWriter> {
        let permit = match timeout(PATIENCE, to.reserve()).await {
            Ok(permit) => permit,
            Err(_) => {
                // The requests that wait for the next slices fetch them.
                self.ahead.clear();
                to.reserve().await
            }
        };
        let permit = permit.ok()?;
        self.lead(index);
        let is_led = self.ahead.front().is_some_and(|(next, _)| *next == index);
        let led = if is_led { self.ahead.pop_front() } else { None };
        let mut writer = match led {
            Some((_, writer)) => writer,
            None => {
                // Another request fetches it, or has stored it.
                let (fills, key) = (&self.worker.cache.fills, self.sliced.key(self.entry.key(), index));
                let mut writer = fills.alone(&key, fills.epoch(&key));
                writer.limit(StoragePlace::Nowhere);
                writer
            }
        };
        let (reader, range) = (writer.reader(), self.sliced.range(index));
        source::announce(&self.worker, &mut writer, &range, self.cost);
        permit.send(QueuedPiece::Arriving(reader, range.end - range.start));
        writer.keep().await;
        Some(writer)
    }

    /// Leads the fills of the slices from this number on that other requests may read soon.
    fn lead(&mut self, index: u64) {
        let last = self.sliced.index(self.sliced.len() - 1);
        let next = self.ahead.back().map_or(index, |(known, _)| known + 1);
        for index in next..=last.min(index + AHEAD as u64) {
            let writer = source::lead(&self.worker.cache, &self.entry, &self.sliced, index);
            self.ahead.extend(writer.map(|writer| (index, writer)));
        }
    }

    /// Copies the content of the slice with this number, and publishes it. The error is the reason why the content is
    /// truncated.
    async fn copy(&mut self, index: u64, mut writer: FillWriter) -> Result<(), String> {
        let range = self.sliced.range(index);
        let mut left = (range.end - range.start) as usize;
        while left > 0 {
            if self.early.is_empty() {
                match self.download.next().await? {
                    Some(Chunk::Data(data)) => self.early.extend_from_slice(data),
                    Some(Chunk::Trailers(_)) => {}
                    None => return Err("the origin stopped in the middle".to_owned()),
                }
            }
            let taken = self.early.len().min(left);
            let appended = writer.append(&self.early[..taken]).await;
            appended.map_err(|error| error.to_string())?;
            self.early.drain(..taken);
            left -= taken;
        }
        // A slice that is not stored is fetched when it is needed again.
        let _ = writer.finish(None);
        Ok(())
    }
}
