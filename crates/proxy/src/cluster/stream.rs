//! The stream of invalidations as the engine keeps it: the entries that this node adds and reads.
//!
//! Orders that cannot be added at once wait in a queue with a limit. When the queue is full, it is replaced by one
//! entry that makes the other nodes distrust everything. The same entry is added if orders waited when a process
//! died, which a [note](super::pending) records. An order that is added twice does no harm.

use std::collections::{BTreeSet, VecDeque};
use std::mem;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use larder_cluster::message::{Message, Order};
use larder_cluster::seal::MessageKind;
use larder_cluster::{GapReason, Point, Position};
use parking_lot::Mutex;
use redis::{Cmd, Pipeline, Value};
use tokio::sync::{Notify, watch};

use super::Cluster;
use super::engine::{EngineError, Link};
use super::order_queue::{OrderQueue, SCOPES};
use super::pending::OrderFile;
use super::sealed::{self, ForgeryCounts};

/// About how many entries the stream keeps for nodes that are away.
pub(crate) const KEPT: usize = 1 << 16;
/// The most orders that wait to be added.
const WAITING: usize = 4_096;
/// The most entries that are read at once.
pub(super) const BATCH: usize = 512;
/// The pause before adding is tried again.
const PAUSE: Duration = Duration::from_millis(200);
/// How long a request to another node waits for orders of this node that are in flight to the stream.
const UNDER_WAY: Duration = Duration::from_millis(50);
/// The interval at which the end of a process checks whether orders wait.
const LOOK: Duration = Duration::from_millis(10);

/// Writes the position that a node has obeyed, and answers with the entries from there on and the identity of the
/// engine: a restarted engine may have lost acknowledged entries. The position is written since an engine that
/// another one has replaced refuses changes.
///
/// Keys: the stream, the positions. Values: the node's name, its position, how many entries, the note.
const READ: &str = "\
redis.call('HSET', KEYS[2], ARGV[1], ARGV[4])
return {string.match(redis.call('INFO', 'server'), 'run_id:(%w+)'), \
redis.call('XRANGE', KEYS[1], ARGV[2], '+', 'COUNT', ARGV[3])}";

/// The same without writing a position.
///
/// Keys: the stream. Values: a position, how many entries.
const PEEK: &str = "\
return {string.match(redis.call('INFO', 'server'), 'run_id:(%w+)'), \
redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])}";

/// Adds an entry, and answers with the identity of the engine and the entry's number.
///
/// Keys: the stream. Values: about how many entries are kept, the fields of this one.
const ADD: &str = "\
local id = redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', unpack(ARGV, 2))
return {string.match(redis.call('INFO', 'server'), 'run_id:(%w+)'), id}";

/// Answers with the identity of the engine and the last entry's number. It also tries a write, usually without effect:
/// an engine that was replaced by another one, and may have lost entries, refuses writes.
///
/// Keys: the stream, the positions. Values: the node's name, its position as it is noted.
const LAST: &str = "\
redis.call('HSETNX', KEYS[2], ARGV[1], ARGV[2])
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
return {string.match(redis.call('INFO', 'server'), 'run_id:(%w+)'), last[1] and last[1][1] or ''}";

/// Answers with the identity of the engine and the last entry's number. An empty stream gets an entry.
///
/// Keys: the stream. Values: the fields of that entry.
const END: &str = "\
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
local id = last[1] and last[1][1] or redis.call('XADD', KEYS[1], '*', unpack(ARGV))
return {string.match(redis.call('INFO', 'server'), 'run_id:(%w+)'), id}";

/// The orders that this node publishes to the others.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    waiting: Mutex<OrderQueue>,
    more: Notify,
    added: AtomicU64,
    failed: AtomicU64,
    /// Records that orders wait, in case this process dies.
    pending: OrderFile,
    /// Orders that are being published.
    telling: watch::Sender<OrdersInProgress>,
}

/// Orders that are being published. If the flow of a request is dropped, the rest of them is published later.
struct UnpublishedPurges<'c> {
    stream: &'c Stream,
    parts: VecDeque<Order>,
}

impl Drop for UnpublishedPurges<'_> {
    fn drop(&mut self) {
        self.parts.drain(..).for_each(|part| self.stream.wait(part));
    }
}

/// The numbers of orders that are being put in force and published, until they are in the stream or wait.
#[derive(Debug, Default)]
struct OrdersInProgress {
    begun: u64,
    numbers: BTreeSet<u64>,
}

/// An order that is being put in force and published, until it is dropped.
pub(crate) struct PublishGuard<'s> {
    stream: &'s Stream,
    number: u64,
}

impl Drop for PublishGuard<'_> {
    fn drop(&mut self) {
        self.stream.telling.send_modify(|under_way| _ = under_way.numbers.remove(&self.number));
    }
}

/// An entry of the stream.
pub(super) struct Entry {
    pub(super) position: Position,
    /// `None`: no node wrote it, so it is ignored.
    pub(super) message: Option<Result<Message, GapReason>>,
}

impl Stream {
    /// Returns the number of published orders.
    pub(crate) fn added(&self) -> u64 {
        self.added.load(Ordering::Relaxed)
    }

    /// Returns how often an order could not be published at once.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// Returns the number of orders that wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.lock().orders.len()
    }

    /// Returns the number of orders that this node has given, if all of them are in the stream.
    pub(super) fn ordered(&self) -> Option<u64> {
        let OrdersInProgress { begun, numbers } = &*self.telling.borrow();
        (numbers.is_empty() && self.waiting() == 0).then_some(*begun)
    }

    /// Waits for a short time until all orders of this node so far are in the stream; false: some are not.
    pub(super) async fn is_told(&self) -> bool {
        let begun = self.telling.borrow().begun;
        let is_over =
            |under_way: &OrdersInProgress| under_way.numbers.first().is_none_or(|first| *first >= begun);
        let mut telling = self.telling.subscribe();
        let is_over = tokio::time::timeout(UNDER_WAY, telling.wait_for(is_over)).await;
        matches!(is_over, Ok(Ok(_))) && self.waiting() == 0
    }

    /// Records that an order is about to be put in force and published: other nodes' responses may be older.
    pub(crate) fn telling(&self) -> PublishGuard<'_> {
        let mut number = 0;
        self.telling.send_modify(|under_way| {
            number = under_way.begun;
            under_way.begun += 1;
            under_way.numbers.insert(number);
        });
        PublishGuard { stream: self, number }
    }

    fn wait(&self, order: Order) {
        let mut queue = self.waiting.lock();
        if queue.joins(&order) {
            return;
        }
        if queue.orders.len() >= WAITING {
            tracing::warn!("{WAITING} purges wait for the engine; the other nodes will validate everything");
            queue.orders.clear();
            queue.push(Order::Distrust);
        }
        queue.push(order);
        drop(queue);
        self.more.notify_one();
    }

    /// Keeps the note in `directory` from now on. If there is one, orders of an earlier process were waiting.
    pub(super) fn keep_note(&self, directory: &Path) {
        if self.pending.keep(directory) {
            tracing::warn!(
                "purges of this node waited for the engine when its process ended; the other nodes will validate everything"
            );
            self.wait(Order::Distrust);
        }
    }

    /// Returns the order that has waited longest, and its number.
    fn first(&self) -> Option<(u64, Order)> {
        self.waiting.lock().orders.front().cloned()
    }

    /// Removes the order of this number, which was added, unless the queue has been discarded meanwhile.
    fn done(&self, number: u64) {
        let mut queue = self.waiting.lock();
        if queue.orders.front().is_some_and(|(first, _)| *first == number) {
            queue.orders.pop_front();
        }
    }
}

impl Cluster {
    /// Returns the identity of this node in the entries that it adds.
    pub(super) fn by(&self) -> String {
        format!("{}/{}", self.settings.node, self.id)
    }

    /// Publishes `order` to the other nodes. When this returns its last entry, all of it is in the stream.
    ///
    /// An order that is put in force here earlier has to be [under way](Stream::telling) before that: responses
    /// fetched in between could come from a node that does not know of it. The error is the reason why it is not in the
    /// stream. It is tried again, until this process ends.
    pub(crate) async fn tell(self: &Arc<Self>, order: Order) -> Result<Point, EngineError> {
        let stream = &self.invalidations.stream;
        let _telling = stream.telling();
        // Dropped before `_telling`: the rest of the order waits before it counts as published.
        let mut untold = UnpublishedPurges { stream, parts: parts(order).into() };
        let mut last = None;
        while let Some(part) = untold.parts.front() {
            match self.add(part).await {
                Ok(point) => {
                    last = Some(point);
                    untold.parts.pop_front();
                }
                Err(error) => {
                    stream.failed.fetch_add(1, Ordering::Relaxed);
                    drop(untold);
                    self.write_note().await;
                    return Err(error);
                }
            }
        }
        last.ok_or_else(|| strange("an empty order"))
    }

    /// Publishes `order` as soon as possible, and does not wait.
    pub(crate) fn tell_later(&self, order: Order) {
        parts(order).into_iter().for_each(|part| self.invalidations.stream.wait(part));
    }

    /// Adds the waiting orders, in an endless loop.
    pub(super) async fn add_what_waits(self: Arc<Self>) {
        let stream = &self.invalidations.stream;
        loop {
            let Some((number, order)) = stream.first() else {
                self.write_note().await;
                stream.more.notified().await;
                continue;
            };
            match self.add(&order).await {
                Ok(_) => stream.done(number),
                Err(_) => {
                    self.write_note().await;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    }

    /// Updates the note: whether orders wait.
    async fn write_note(self: &Arc<Self>) {
        if self.invalidations.stream.pending.is_kept() {
            let this = Arc::clone(self);
            let write =
                move || this.invalidations.stream.pending.write(|| this.invalidations.stream.waiting() > 0);
            // The thread has reported a panic itself.
            let _ = tokio::task::spawn_blocking(write).await;
        }
    }

    /// Waits for at most `patience` until no order waits. Orders that still wait are lost, unless there is a note.
    pub async fn finish_telling(&self, patience: Duration) {
        let begun = Instant::now();
        let stream = &self.invalidations.stream;
        while stream.waiting() > 0 && begun.elapsed() < patience {
            tokio::time::sleep(LOOK).await;
        }
        match (stream.waiting(), stream.pending.is_kept()) {
            (0, _) => {}
            (count, true) => tracing::warn!(
                "{count} purges wait for the engine; when this node starts again, the others will validate everything"
            ),
            (count, false) => tracing::error!(
                "{count} purges never reached the other nodes: the engine {} did not answer; purge there by hand",
                self.settings.engine
            ),
        }
    }

    async fn add(&self, order: &Order) -> Result<Point, EngineError> {
        let mut command = self.script(ADD, &["invalidations"]);
        command.arg(KEPT);
        self.write_fields(&mut command, order);
        let (engine, position): (String, String) = self.engine.command(&command).await?;
        let position = position.parse().map_err(|_| strange("the number of an entry"))?;
        let point = Point { engine: engine.into(), position };
        self.invalidations.added(&point);
        self.invalidations.stream.added.fetch_add(1, Ordering::Relaxed);
        Ok(point)
    }

    /// Records that `position` was obeyed. Returns the identity of the engine and its entries from there on.
    pub(super) async fn read(
        &self,
        link: &mut Link,
        position: Position,
    ) -> Result<(String, Vec<Entry>), EngineError> {
        let mut command = self.script(READ, &["invalidations", "positions"]);
        command.arg(&self.settings.node).arg(position.to_string()).arg(BATCH + 1);
        command.arg(self.sealed_position(position));
        let read: (String, Vec<Value>) = self.ask(link, &command).await?;
        let entries = read.1.into_iter().map(|entry| Entry::of(self, entry)).collect::<Option<_>>();
        Ok((read.0, entries.ok_or_else(|| strange("an entry"))?))
    }

    /// Returns the commands that read up to `most` entries from `position` on, and write nothing.
    pub(super) fn commands_for_stream(&self, position: Position, most: usize) -> Pipeline {
        let mut command = self.script(PEEK, &["invalidations"]);
        command.arg(position.to_string()).arg(most);
        let mut commands = redis::pipe();
        commands.add_command(command);
        commands
    }

    /// Returns the identity of the engine and the entries of that answer; `None`: the answer is malformed.
    pub(super) fn stream_of(&self, read: ((String, Vec<Value>),)) -> Option<(String, Vec<Entry>)> {
        let ((engine, entries),) = read;
        Some((engine, entries.into_iter().map(|entry| Entry::of(self, entry)).collect::<Option<_>>()?))
    }

    /// Returns the identity of the engine and its last entry.
    pub(super) async fn end(&self, link: &mut Link) -> Result<(String, Position), EngineError> {
        let mut command = self.script(END, &["invalidations"]);
        self.write_fields(&mut command, &Order::Begin);
        let (engine, last): (String, String) = self.ask(link, &command).await?;
        Ok((engine, last.parse().map_err(|_| strange("the number of an entry"))?))
    }

    /// Returns the last entry, for a node that has obeyed the stream up to `position`.
    pub(super) async fn last(&self, position: Position) -> Result<Point, EngineError> {
        let mut command = self.script(LAST, &["invalidations", "positions"]);
        command.arg(&self.settings.node).arg(self.sealed_position(position));
        let (engine, last): (String, String) = self.engine.command(&command).await?;
        let position = last.parse().map_err(|_| strange("the number of an entry"))?;
        Ok(Point { engine: engine.into(), position })
    }

    /// Waits until there is an entry after `position`, or for `most`.
    pub(super) async fn wait_for_news(
        &self,
        link: &mut Link,
        position: Position,
        most: Duration,
    ) -> Result<(), EngineError> {
        let mut command = redis::cmd("XREAD");
        command.arg("COUNT").arg(1).arg("BLOCK").arg(most.as_millis() as u64);
        command.arg("STREAMS").arg(self.key("invalidations")).arg(position.to_string());
        self.ask::<Value>(link, &command).await.map(drop)
    }

    /// Appends the fields of an entry by this node, sealed.
    fn write_fields(&self, command: &mut Cmd, order: &Order) {
        let fields = (Message { by: self.by(), order: order.clone() }).fields();
        let parts: Vec<_> = fields.iter().flat_map(|(field, value)| [field.as_bytes(), &value[..]]).collect();
        if self.seal.is_on() {
            command.arg(sealed::FIELD).arg(self.seal.text(MessageKind::Entry, &parts));
        }
        parts.into_iter().for_each(|part| _ = command.arg(part));
    }

    async fn ask<T: redis::FromRedisValue>(&self, link: &mut Link, command: &Cmd) -> Result<T, EngineError> {
        let answer = command.query_async(link).await;
        answer.map_err(|error| EngineError::Unreachable(error.to_string().into()))
    }
}

impl Entry {
    fn of(cluster: &Cluster, value: Value) -> Option<Self> {
        let Value::Array(parts) = value else { return None };
        let [Value::BulkString(number), Value::Array(fields)] = &parts[..] else { return None };
        let position = std::str::from_utf8(number).ok()?.parse().ok()?;
        let bytes =
            |value: &Value| if let Value::BulkString(bytes) = value { Some(bytes.clone()) } else { None };
        let fields: Vec<_> = fields.iter().map(bytes).collect::<Option<_>>()?;
        let parts = match cluster.unsealed(&fields) {
            Some(parts) => parts,
            None => return Some(Self { position, message: None }),
        };
        let (pairs, rest) = parts.as_chunks::<2>();
        let pairs = pairs.iter().map(|[name, value]| (&name[..], &value[..]));
        let message = match rest {
            [] => Message::parse(pairs).map_err(|_| GapReason::Unknown),
            _ => Err(GapReason::Unknown),
        };
        Some(Self { position, message: Some(message) })
    }
}

impl Cluster {
    /// Returns the fields of an entry without the seal in front of them; `None`: no node wrote the entry.
    fn unsealed<'f>(&self, fields: &'f [Vec<u8>]) -> Option<&'f [Vec<u8>]> {
        if !self.seal.is_on() {
            return Some(fields);
        }
        let sealed = fields.split_first_chunk().filter(|([name, shown], rest)| {
            let parts: Vec<_> = rest.iter().map(Vec::as_slice).collect();
            name == sealed::FIELD.as_bytes() && self.seal.is(MessageKind::Entry, &parts, shown)
        });
        if sealed.is_none() {
            ForgeryCounts::count(&self.forged.entries, "an entry of the stream of purges");
        }
        sealed.map(|(_, rest)| rest)
    }
}

/// Splits an order into entries of limited length.
pub(super) fn parts(mut order: Order) -> Vec<Order> {
    let Order::Purge(effect, scopes) = &mut order else { return vec![order] };
    let (effect, mut scopes, mut parts) = (*effect, mem::take(scopes), Vec::new());
    while scopes.len() > SCOPES {
        let rest = scopes.split_off(SCOPES);
        parts.push(Order::Purge(effect, mem::replace(&mut scopes, rest)));
    }
    parts.push(Order::Purge(effect, scopes));
    parts
}

fn strange(what: &str) -> EngineError {
    EngineError::Refused(format!("{what} is malformed").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_was_added_is_no_other_one_that_is_equal() {
        let stream = Stream::default();
        stream.wait(Order::Distrust);
        let (added, _) = stream.first().expect("it waits");
        // While it is being added, the queue is discarded: another `Distrust` now stands for its orders.
        (0..WAITING).for_each(|_| stream.wait(Order::Begin));
        assert_eq!(stream.first().map(|(_, order)| order), Some(Order::Distrust));
        stream.done(added);
        let (number, order) = stream.first().expect("it waits");
        assert_eq!(order, Order::Distrust, "it is not the one that was added");
        stream.done(number);
        assert_eq!(stream.first().map(|(_, order)| order), Some(Order::Begin));
    }

    #[test]
    fn the_unpublished_rest_of_a_dropped_order_waits_in_the_queue() {
        let stream = Stream::default();
        {
            let _telling = stream.telling();
            let _untold =
                UnpublishedPurges { stream: &stream, parts: [Order::Begin, Order::Distrust].into() };
            assert_eq!((stream.waiting(), stream.ordered()), (0, None));
        }
        assert_eq!((stream.waiting(), stream.ordered()), (2, None));
    }
}
