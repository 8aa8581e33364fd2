//! How an answer is stored: its head, the task that carries its content, and the tiers that keep it.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use larder_semantics::early_hints::EarlyHints;
use larder_semantics::fields::Fields;
use larder_semantics::freshness::Freshness;
use larder_semantics::range::ContentRange;
use larder_semantics::status::Why;
use larder_semantics::storable;
use larder_store::fill::{FillWriter, Head, StoragePlace};
use larder_store::{Entry, HintSource, Lines as KeptLines};

use super::OriginAnswer;
use crate::base::outcome::{Kind, Outcome};
use crate::exchange::reply::{Reply, Source};
use crate::flow::arriving;
use crate::flow::fill_task::{self, FillTask};
use crate::flow::storage_terms::{self, StorageTerms};
use crate::flow::upstream::Answer;
use crate::origin::Download;

impl OriginAnswer<'_> {
    /// Returns the lines of `answer` that are stored, with this date.
    pub(super) fn stored_lines(&self, answer: &Answer, date: u32) -> KeptLines {
        if answer.by_peer {
            return self.stored_fields(&answer.written(), date);
        }
        storage_terms::stored_lines(&self.cx.worker.cache.store.memory, self.cx.rules, &answer.fields, date)
    }

    /// Returns the lines of a response with these `fields` that are stored, with this date.
    pub(super) fn stored_fields(&self, fields: &HeaderMap, date: u32) -> KeptLines {
        let stored = storable::storable_fields(self.cx.rules, fields);
        self.cx.worker.cache.store.memory.keep(&stored, date)
    }

    pub(super) fn head(
        &self,
        status: StatusCode,
        fields: KeptLines,
        keeping: StorageTerms,
        length: Option<u64>,
    ) -> Arc<Head> {
        let StorageTerms { freshness, signature } = keeping;
        let cost = self.request.origin.micros();
        Arc::new(Head { status, fields, signature, freshness, cost, length })
    }

    pub(super) fn task(
        &self,
        mut writer: FillWriter,
        expected: Option<ContentRange>,
        whole: Option<u64>,
    ) -> FillTask {
        self.tell(&mut writer, expected.is_none());
        let replaces = self.own().cloned();
        FillTask { expected, whole, replaces, ..FillTask::new(self.cx.worker, writer) }
    }

    /// Tells `writer` where the response comes from. Far tiers keep only whole responses that this node has fetched from an
    /// origin.
    pub(super) fn tell(&self, writer: &mut FillWriter, is_whole: bool) {
        writer.asks_origin(!self.by_peer);
        if is_whole && !self.by_peer {
            writer.set_start(self.start.clone());
        }
    }

    /// Stores the content as it arrives, after the stored `beginning`, and makes this client a reader of the fill.
    pub(super) fn store(
        &self,
        mut task: FillTask,
        head: &Arc<Head>,
        fields: Source,
        answered: StatusCode,
        (download, beginning): (Box<Download>, Option<Entry>),
    ) -> Reply {
        let shared = &self.cx.worker.shared;
        shared.cache.hit_for_miss.clear(self.request.hash);
        let mut reader = task.writer.reader();
        if let Some(whole) = task.whole {
            reader.narrow(0, whole);
        }
        let kept = self.kept(head);
        task.writer.limit(kept);
        let is_expected = task.writer.stream(Arc::clone(head));
        let unstored = task.writer.unstored().filter(|_| !is_expected).and_then(fill_task::unstored);
        if let Some(why) = unstored {
            self.note(why, head.status, &head.fields.view());
        }
        self.hint(&task.writer, (head.status, &head.fields.special()), (&head.signature, head.freshness));
        task.start(download, beginning);
        let result = reader.result();
        let stored = fill_task::is_stored(self.cx.plan, &reader, is_expected);
        let may_be_stored = stored || is_expected && result.is_none();
        let refused = result.and_then(Result::err).and_then(fill_task::unstored);
        let why = unstored.or(refused).unwrap_or(self.why);
        // What is too large here may fit into a larger memory.
        let ttl = (may_be_stored || why == Why::TooLarge).then(|| head.freshness.ttl(self.times.received));
        let outcome = Outcome::forwarded(Kind::Miss, why).answered(answered);
        arriving::reply(self.request, head, fields, reader, Outcome { stored, ttl, ..outcome })
    }

    /// Keeps the links of a shareable response for early hints.
    pub(super) fn hint(
        &self,
        writer: &FillWriter,
        (status, fields): (StatusCode, &impl Fields),
        (signature, freshness): (&[u8], Freshness),
    ) {
        if self.cx.rules.early_hints != EarlyHints::Off {
            writer.hint(&HintSource { status, fields, signature, freshness });
        }
    }

    /// Returns the tiers that keep the answer. A response that another node owns is kept here if it is requested often.
    pub(super) fn kept(&self, head: &Head) -> StoragePlace {
        match self.cx.worker.shared.cluster.as_deref().filter(|_| self.by_peer) {
            None => StoragePlace::Everywhere,
            Some(cluster) => cluster.kept(&self.cx.worker.cache.store, &self.request.key, head.length),
        }
    }
}
