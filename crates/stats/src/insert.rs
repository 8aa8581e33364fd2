//! Writes the rows of a batch, its roll-up, the contents of the cache, and predictions.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::connection::{Connection, Upsert, Value};
use crate::failure::Failure;
use crate::rollup::{Key, Sums};
use crate::row::{Row, figure, fitted, width};
use crate::transaction::{Content, Prediction};

/// Rows in one statement. There are few sizes, so that statements are prepared once; the largest stays far below any
/// database's limit of values. Only few large statements are sent, since each delays other threads on its processor.
const SIZES: &[usize] = &[256, 64, 16, 4, 1];
/// Rows in one statement while a server has time: small enough not to delay other threads on its processor.
const AT_LEISURE: &[usize] = &[16, 4, 1];
/// Rows in one statement that is not prepared and costs as much as twenty rows.
const COPIED: &[usize] = &[64];
/// The pause between two statements, in which other threads have the processor, as long as there is time.
const REST: Duration = Duration::from_millis(1);
/// The number of waiting rows from which on they are written without pauses.
const MANY: usize = 4_096;

const TRANSACTION: &[&str] = &[
    "time",
    "instance",
    "door",
    "site",
    "route",
    "method",
    "url",
    "status",
    "outcome",
    "reason",
    "requests",
    "bytes",
    "service_us",
    "origin_us",
    "age",
    "tier",
    "client",
    "http_version",
];

const HOUR: Upsert<'_> = Upsert {
    key: &["hour", "instance", "site", "route", "door", "outcome", "status"],
    sums: &["requests", "bytes", "service_us", "origin_requests", "origin_us"],
    latest: &[],
};

const CONTENT: &[&str] =
    &["instance", "place", "hash", "url", "size", "stored", "expires", "hits", "tags", "tier"];

const PREDICTION: Upsert<'_> = Upsert {
    key: &["hour", "instance", "tier", "policy", "size"],
    sums: &["requests", "hits", "hits_error", "bytes", "bytes_from_cache"],
    latest: &["running"],
};

const WRITER: Upsert<'_> = Upsert { key: &["run"], sums: &["batch"], latest: &["instance", "written"] };

/// Adds rows to `transactions`.
pub(crate) async fn transactions(
    connection: &mut Connection,
    instance: &str,
    rows: &[Row],
) -> Result<(), Failure> {
    let has_time = connection.is_apart() && rows.len() < MANY;
    let sizes = match (connection.copies(), has_time) {
        (true, _) => COPIED,
        (false, true) => AT_LEISURE,
        (false, false) => SIZES,
    };
    for chunk in chunks(rows, sizes) {
        let values = chunk.iter().flat_map(|row| transaction(instance, row)).collect::<Vec<_>>();
        connection.append("transactions", TRANSACTION, &values).await?;
        if has_time {
            tokio::time::sleep(REST).await;
        }
    }
    Ok(())
}

fn transaction<'r>(instance: &'r str, row: &'r Row) -> [Value<'r>; TRANSACTION.len()] {
    let of = &row.of;
    [
        number(of.time),
        Value::Text(instance),
        Value::Text(&of.door),
        Value::Text(&of.site),
        Value::Text(&of.route),
        Value::Text(&of.method),
        Value::Text(&of.url),
        number(of.status.into()),
        Value::Text(&of.outcome),
        Value::Text(&of.reason),
        number(row.requests),
        number(of.bytes),
        number(of.service_us),
        Value::Figure(of.origin_us.map(figure)),
        Value::Figure(of.age.map(figure)),
        Value::Text(&of.tier),
        Value::Text(&of.client),
        Value::Text(&of.http_version),
    ]
}

/// Adds sums to `hours`.
pub(crate) async fn hours(
    connection: &mut Connection,
    instance: &str,
    sums: &BTreeMap<Key<'_>, Sums>,
) -> Result<(), Failure> {
    let sums = sums.iter().collect::<Vec<_>>();
    for chunk in chunks(&sums, SIZES) {
        let sql = connection.upsert("hours", &HOUR, chunk.len());
        let values = chunk.iter().flat_map(|(key, sums)| hour(instance, key, sums)).collect::<Vec<_>>();
        connection.execute(&sql, &values).await?;
    }
    Ok(())
}

fn hour<'r>(instance: &'r str, key: &Key<'r>, sums: &Sums) -> [Value<'r>; 12] {
    [
        number(key.hour),
        Value::Text(instance),
        Value::Text(key.site),
        Value::Text(key.route),
        Value::Text(key.door),
        Value::Text(key.outcome),
        number(key.status.into()),
        number(sums.requests),
        number(sums.bytes),
        number(sums.service_us),
        number(sums.origin_requests),
        number(sums.origin_us),
    ]
}

/// Replaces this instance's rows of `contents`.
pub(crate) async fn contents(
    connection: &mut Connection,
    instance: &str,
    contents: &[Content],
) -> Result<(), Failure> {
    let delete = format!("DELETE FROM contents WHERE instance = {}", connection.place(1));
    connection.execute(&delete, &[Value::Text(instance)]).await?;
    let mut place = 0;
    for chunk in chunks(contents, if connection.copies() { COPIED } else { SIZES }) {
        let texts = chunk.iter().map(texts).collect::<Vec<_>>();
        let numbered = chunk.iter().zip(&texts).zip(place..);
        let values = numbered.flat_map(|((of, texts), place)| content(instance, place, of, texts));
        connection.append("contents", CONTENT, &values.collect::<Vec<_>>()).await?;
        place += chunk.len() as u64;
    }
    Ok(())
}

fn texts(of: &Content) -> [Cow<'_, str>; 4] {
    [
        fitted(&of.hash, width::NAME),
        fitted(&of.url, width::LONG),
        fitted(&of.tags, width::LONG),
        fitted(&of.tier, width::WORD),
    ]
}

fn content<'r>(
    instance: &'r str,
    place: u64,
    of: &Content,
    [hash, url, tags, tier]: &'r [Cow<'_, str>; 4],
) -> [Value<'r>; CONTENT.len()] {
    [
        Value::Text(instance),
        number(place),
        Value::Text(hash),
        Value::Text(url),
        number(of.size),
        number(of.stored),
        number(of.expires),
        number(of.hits),
        Value::Text(tags),
        Value::Text(tier),
    ]
}

/// Adds predictions to those of the same hour.
pub(crate) async fn predictions(
    connection: &mut Connection,
    instance: &str,
    predictions: &[Prediction],
) -> Result<(), Failure> {
    let sql = connection.upsert("predictions", &PREDICTION, 1);
    for of in predictions {
        let (tier, policy) = (fitted(&of.tier, width::WORD), fitted(&of.policy, width::PHRASE));
        let values = [
            number(of.hour),
            Value::Text(instance),
            Value::Text(&tier),
            Value::Text(&policy),
            number(of.size),
            number(of.requests),
            number(of.hits),
            number(of.hits_error),
            number(of.bytes),
            number(of.bytes_from_cache),
            number(of.is_running.into()),
        ];
        connection.execute(&sql, &values).await?;
    }
    Ok(())
}

/// Registers a run of the program. `now` is in milliseconds since 1970.
pub(crate) async fn writer(
    connection: &mut Connection,
    instance: &str,
    run: i64,
    now: u64,
) -> Result<(), Failure> {
    let sql = connection.upsert("writers", &WRITER, 1);
    let values = [Value::Figure(Some(run)), number(0), Value::Text(instance), number(now)];
    connection.execute(&sql, &values).await.map(drop)
}

/// Records that a run writes its batch of this number. Returns false if it has done so before: the answer to
/// a commit can be lost, and an abandoned connection may commit later, but not after this statement.
pub(crate) async fn is_first(
    connection: &mut Connection,
    run: i64,
    batch: i64,
    now: u64,
) -> Result<bool, Failure> {
    let [batch_is, now_is, run_is, below] = [1, 2, 3, 4].map(|number| connection.place(number));
    let sql = format!(
        "UPDATE writers SET batch = {batch_is}, written = {now_is} WHERE run = {run_is} AND batch < {below}"
    );
    let [run_value, batch_value] = [run, batch].map(|value| Value::Figure(Some(value)));
    if connection.execute(&sql, &[batch_value, number(now), run_value, batch_value]).await? > 0 {
        return Ok(true);
    }
    let known = connection.number(&format!("SELECT batch FROM writers WHERE run = {run}")).await?;
    known.map(|_| false).ok_or(Failure::Forgotten)
}

fn number(value: u64) -> Value<'static> {
    Value::Figure(Some(figure(value)))
}

/// Splits rows into chunks of these sizes, the largest first; a rest smaller than all of them stays whole.
fn chunks<'r, T>(mut rows: &'r [T], sizes: &[usize]) -> impl Iterator<Item = &'r [T]> {
    std::iter::from_fn(move || {
        let fits = sizes.iter().find(|size| **size <= rows.len());
        let (chunk, rest) = rows.split_at(fits.map_or(rows.len(), |size| *size));
        rows = rest;
        (!chunk.is_empty()).then_some(chunk)
    })
}
