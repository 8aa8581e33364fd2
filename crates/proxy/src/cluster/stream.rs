//! The stream of invalidations as the engine keeps it: what this node adds, and what it reads.
//!
//! What cannot be added at once waits, in a queue with a limit. When that is full, nobody knows any more what was in
//! it; so all of it becomes one entry by which others distrust everything. The same is added for what waited when a
//! process died, where a [note](super::pending) says that something did. What is added twice does no harm.

use std::collections::{BTreeSet, VecDeque};
use std::mem;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use larder_cluster::message::{Message, Order};
use larder_cluster::seal::MessageKind;
use larder_cluster::{Missed, Point, Position};
use redis::{Cmd, Pipeline, Value};
use tokio::sync::{Notify, watch};

use super::Cluster;
use super::engine::{EngineError, Link};
use super::pending::Pending;
use super::sealed::{self, Forged};

/// About as many entries are kept for those who are away.
pub(crate) const KEPT: usize = 1 << 16;
/// As many wait to be added.
const WAITING: usize = 4_096;
/// As many are read at once.
pub(super) const BATCH: usize = 512;
/// As many scopes are in one entry.
const SCOPES: usize = 256;
/// How long is waited before adding is tried again.
const PAUSE: Duration = Duration::from_millis(200);
/// A request for another node waits so long for orders of this node that are on their way to the stream.
const UNDER_WAY: Duration = Duration::from_millis(50);
/// How often the end of a process looks whether something waits.
const LOOK: Duration = Duration::from_millis(10);

/// Notes how far a node has obeyed, and answers from there on; and whose answer that is, since an engine that was
/// restarted may have lost acknowledged entries. A note is a change: an engine that may make none, because
/// another one has taken over, refuses it.
///
/// Keys: the stream, the positions. Values: the node's name, its position, how many entries, the note.
const READ: &str = "\
redis.call('HSET', KEYS[2], ARGV[1], ARGV[4])
return {string.match(redis.call('INFO', 'server'), 'run_id:(%w+)'), \
redis.call('XRANGE', KEYS[1], ARGV[2], '+', 'COUNT', ARGV[3])}";

/// The same without a note.
///
/// Keys: the stream. Values: a position, how many entries.
const PEEK: &str = "\
return {string.match(redis.call('INFO', 'server'), 'run_id:(%w+)'), \
redis.call('XRANGE', KEYS[1], ARGV[1], '+', 'COUNT', ARGV[2])}";

/// Adds an entry, and answers whose stream that is now in, and where.
///
/// Keys: the stream. Values: about how many entries are kept, the fields of this one.
const ADD: &str = "\
local id = redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', unpack(ARGV, 2))
return {string.match(redis.call('INFO', 'server'), 'run_id:(%w+)'), id}";

/// Answers which entry is the last, and whose answer that is. It tries to make a change, though one of nothing as a rule, since an
/// engine that may make none, because another one has taken over, may have lost what was added there.
///
/// Keys: the stream, the positions. Values: the node's name, its position as it is noted.
const LAST: &str = "\
redis.call('HSETNX', KEYS[2], ARGV[1], ARGV[2])
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
return {string.match(redis.call('INFO', 'server'), 'run_id:(%w+)'), last[1] and last[1][1] or ''}";

/// Answers which entry is the last, and whose answer that is. A stream without one gets one.
///
/// Keys: the stream. Values: the fields of that entry.
const END: &str = "\
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
local id = last[1] and last[1][1] or redis.call('XADD', KEYS[1], '*', unpack(ARGV))
return {string.match(redis.call('INFO', 'server'), 'run_id:(%w+)'), id}";

/// What this node has to tell others.
#[derive(Debug, Default)]
pub(crate) struct Stream {
    waiting: Mutex<Waiting>,
    more: Notify,
    added: AtomicU64,
    failed: AtomicU64,
    /// Says that something waits, in case this process dies.
    pending: Pending,
    /// Orders that are being told.
    telling: watch::Sender<UnderWay>,
}

/// Orders that wait to be added, each with a number: orders may be equal.
#[derive(Debug, Default)]
struct Waiting {
    orders: VecDeque<(u64, Order)>,
    next: u64,
}

/// Orders that are being told. What is left of them when the flow of a request is dropped is told later.
struct Untold<'c> {
    stream: &'c Stream,
    parts: VecDeque<Order>,
}

impl Drop for Untold<'_> {
    fn drop(&mut self) {
        self.parts.drain(..).for_each(|part| self.stream.wait(part));
    }
}

/// Orders that have begun to be put in force and told, by number, until they are in the stream or wait.
#[derive(Debug, Default)]
struct UnderWay {
    begun: u64,
    numbers: BTreeSet<u64>,
}

/// An order that is being put in force and told, until it is dropped.
pub(crate) struct Telling<'s> {
    stream: &'s Stream,
    number: u64,
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        self.stream.telling.send_modify(|under_way| _ = under_way.numbers.remove(&self.number));
    }
}

/// An entry.
pub(super) struct Entry {
    pub(super) position: Position,
    /// `None`: no node wrote it, so that it means nothing.
    pub(super) message: Option<Result<Message, Missed>>,
}

impl Stream {
    /// How many orders others have been told.
    pub(crate) fn added(&self) -> u64 {
        self.added.load(Ordering::Relaxed)
    }

    /// How many of them could not be told at once.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// How many of them wait.
    pub(crate) fn waiting(&self) -> usize {
        self.queue().orders.len()
    }

    /// How many orders this node has given, if all of them are in the stream.
    pub(super) fn ordered(&self) -> Option<u64> {
        let UnderWay { begun, numbers } = &*self.telling.borrow();
        (numbers.is_empty() && self.waiting() == 0).then_some(*begun)
    }

    /// Waits for a short while until all that this node has ordered so far is in the stream; false: some of it is not.
    pub(super) async fn is_told(&self) -> bool {
        let begun = self.telling.borrow().begun;
        let is_over = |under_way: &UnderWay| under_way.numbers.first().is_none_or(|first| *first >= begun);
        let mut telling = self.telling.subscribe();
        let is_over = tokio::time::timeout(UNDER_WAY, telling.wait_for(is_over)).await;
        matches!(is_over, Ok(Ok(_))) && self.waiting() == 0
    }

    /// Says that an order is about to be put in force and told: what other nodes have may be older than that.
    pub(crate) fn telling(&self) -> Telling<'_> {
        let mut number = 0;
        self.telling.send_modify(|under_way| {
            number = under_way.begun;
            under_way.begun += 1;
            under_way.numbers.insert(number);
        });
        Telling { stream: self, number }
    }

    fn wait(&self, order: Order) {
        let mut queue = self.queue();
        if queue.orders.len() >= WAITING {
            tracing::warn!("{WAITING} purges wait for the engine; the other nodes will validate everything");
            queue.orders.clear();
            queue.push(Order::Distrust);
        }
        queue.push(order);
        drop(queue);
        self.more.notify_one();
    }

    /// Keeps the note in `directory` from now on. If there is one, an earlier process had something to say.
    pub(super) fn keep_note(&self, directory: &Path) {
        if self.pending.keep(directory) {
            tracing::warn!(
                "purges of this node waited for the engine when its process ended; the other nodes will validate everything"
            );
            self.wait(Order::Distrust);
        }
    }

    /// The order that has waited longest, and its number.
    fn first(&self) -> Option<(u64, Order)> {
        self.queue().orders.front().cloned()
    }

    /// Forgets the order of this number, which was added, unless the queue has been given up meanwhile.
    fn done(&self, number: u64) {
        let mut queue = self.queue();
        if queue.orders.front().is_some_and(|(first, _)| *first == number) {
            queue.orders.pop_front();
        }
    }

    fn queue(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn push(&mut self, order: Order) {
        self.orders.push_back((self.next, order));
        self.next += 1;
    }
}

impl Cluster {
    /// Who this node is to those who read what it adds.
    pub(super) fn by(&self) -> String {
        format!("{}/{}", self.settings.node, self.id)
    }

    /// Tells the other nodes; when this returns, it is in the stream, and that is its last entry there.
    ///
    /// What is to be in force here before has to be [under way](Stream::telling) before it is: what is fetched in between
    /// could come from a node that has not heard of it.
    ///
    /// # Errors
    /// Why it is not. It is tried again, until this process ends.
    pub(crate) async fn tell(self: &Arc<Self>, order: Order) -> Result<Point, EngineError> {
        let stream = &self.invalidations.stream;
        let _telling = stream.telling();
        // Dropped before `_telling`: what is left waits before it counts as told.
        let mut untold = Untold { stream, parts: parts(order).into() };
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
        last.ok_or_else(|| strange("an order without parts"))
    }

    /// Tells them as soon as that can be, and waits for nothing.
    pub(crate) fn tell_later(&self, order: Order) {
        parts(order).into_iter().for_each(|part| self.invalidations.stream.wait(part));
    }

    /// Adds what waits, for ever.
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

    /// Lets the note say whether something waits.
    async fn write_note(self: &Arc<Self>) {
        if self.invalidations.stream.pending.is_kept() {
            let this = Arc::clone(self);
            let write =
                move || this.invalidations.stream.pending.write(|| this.invalidations.stream.waiting() > 0);
            // A panic has been told by the thread itself.
            let _ = tokio::task::spawn_blocking(write).await;
        }
    }

    /// Waits until nothing waits any more, for so long at most. What waits then is lost, unless there is a note.
    pub(crate) async fn finish_telling(&self, patience: Duration) {
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

    /// Says that everything up to `position` was obeyed, and reads from there on: who the engine is, and what it has.
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

    /// What reads so many entries from `position` on, and nothing else.
    pub(super) fn commands_for_stream(&self, position: Position, most: usize) -> Pipeline {
        let mut command = self.script(PEEK, &["invalidations"]);
        command.arg(position.to_string()).arg(most);
        let mut commands = redis::pipe();
        commands.add_command(command);
        commands
    }

    /// What that has read: who the engine is, and the entries; `None`: it is not as the engine writes it.
    pub(super) fn stream_of(&self, read: ((String, Vec<Value>),)) -> Option<(String, Vec<Entry>)> {
        let ((engine, entries),) = read;
        Some((engine, entries.into_iter().map(|entry| Entry::of(self, entry)).collect::<Option<_>>()?))
    }

    /// Who the engine is, and the last entry that it has.
    pub(super) async fn end(&self, link: &mut Link) -> Result<(String, Position), EngineError> {
        let mut command = self.script(END, &["invalidations"]);
        self.write_fields(&mut command, &Order::Begin);
        let (engine, last): (String, String) = self.ask(link, &command).await?;
        Ok((engine, last.parse().map_err(|_| strange("the number of an entry"))?))
    }

    /// The last entry, as a node asks that has obeyed the stream up to `position`.
    pub(super) async fn last(&self, position: Position) -> Result<Point, EngineError> {
        let mut command = self.script(LAST, &["invalidations", "positions"]);
        command.arg(&self.settings.node).arg(self.sealed_position(position));
        let (engine, last): (String, String) = self.engine.command(&command).await?;
        let position = last.parse().map_err(|_| strange("the number of an entry"))?;
        Ok(Point { engine: engine.into(), position })
    }

    /// Waits until there is an entry behind `position`, or for `most`.
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

    fn script(&self, script: &str, keys: &[&str]) -> Cmd {
        let mut command = redis::cmd("EVAL");
        command.arg(script).arg(keys.len());
        keys.iter().for_each(|key| _ = command.arg(self.key(key)));
        command
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
            [] => Message::parse(pairs).map_err(|_| Missed::Unknown),
            _ => Err(Missed::Unknown),
        };
        Some(Self { position, message: Some(message) })
    }
}

impl Cluster {
    /// The fields of an entry without its seal, which stands before them; `None`: it is not that of a node.
    fn unsealed<'f>(&self, fields: &'f [Vec<u8>]) -> Option<&'f [Vec<u8>]> {
        if !self.seal.is_on() {
            return Some(fields);
        }
        let sealed = fields.split_first_chunk().filter(|([name, shown], rest)| {
            let parts: Vec<_> = rest.iter().map(Vec::as_slice).collect();
            name == sealed::FIELD.as_bytes() && self.seal.is(MessageKind::Entry, &parts, shown)
        });
        if sealed.is_none() {
            Forged::count(&self.forged.entries, "an entry of the stream of purges");
        }
        sealed.map(|(_, rest)| rest)
    }
}

/// An order as entries that are not too long.
fn parts(mut order: Order) -> Vec<Order> {
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
    EngineError::Refused(format!("{what} is not as the engine writes it").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_that_was_added_is_no_other_one_that_is_equal() {
        let stream = Stream::default();
        stream.wait(Order::Distrust);
        let (added, _) = stream.first().expect("it waits");
        // While it is being added, the queue is given up: another `Distrust` now stands for what was in it.
        (0..WAITING).for_each(|_| stream.wait(Order::Begin));
        assert_eq!(stream.first().map(|(_, order)| order), Some(Order::Distrust));
        stream.done(added);
        let (number, order) = stream.first().expect("it waits");
        assert_eq!(order, Order::Distrust, "it is not the one that was added");
        stream.done(number);
        assert_eq!(stream.first().map(|(_, order)| order), Some(Order::Begin));
    }

    #[test]
    fn what_is_left_of_an_order_that_is_dropped_waits_before_it_counts_as_told() {
        let stream = Stream::default();
        {
            let _telling = stream.telling();
            let _untold = Untold { stream: &stream, parts: [Order::Begin, Order::Distrust].into() };
            assert_eq!((stream.waiting(), stream.ordered()), (0, None));
        }
        assert_eq!((stream.waiting(), stream.ordered()), (2, None));
    }
}
