//! Deletes old rows, a few at a time, so that no lock is held for long.

use std::time::Duration;

use crate::connection::Connection;
use crate::failure::Failure;
use crate::options::Retention;

/// Rows deleted at once.
const STEP: i64 = 1_000;
/// The time for which a run of the program stays registered after its last batch.
const MONTH: Duration = Duration::from_secs(30 * 24 * 60 * 60);

/// Deletes some rows beyond the limits of `keep` at `now`, in milliseconds since 1970; returns true if there
/// may be more.
pub(crate) async fn delete(connection: &mut Connection, keep: &Retention, now: u64) -> Result<bool, Failure> {
    let before = |age: Duration| u128::from(now).saturating_sub(age.as_millis()) as i64;
    let old = old_rows(connection, before(keep.requests)).await?;
    let many = surplus_rows(connection, keep.rows).await?;
    let large = surplus_bytes(connection, keep.bytes).await?;
    let hours = old_hours(connection, "hours", before(keep.hours)).await?
        || old_hours(connection, "predictions", before(keep.hours)).await?;
    connection.run(&format!("DELETE FROM writers WHERE written < {}", before(MONTH))).await?;
    let deleted = old || many || large || hours;
    if deleted {
        connection.shrink().await?;
    }
    Ok(deleted)
}

async fn old_rows(connection: &mut Connection, before: i64) -> Result<bool, Failure> {
    let oldest = connection.number("SELECT MIN(time) FROM transactions").await?;
    if oldest.is_none_or(|oldest| oldest >= before) {
        return Ok(false);
    }
    let next = format!("SELECT time FROM transactions ORDER BY time, id LIMIT 1 OFFSET {STEP}");
    // All rows of a millisecond are deleted together, so that each step makes progress.
    let until = connection.number(&next).await?.map_or(before, |next| before.min(next + 1));
    connection.run(&format!("DELETE FROM transactions WHERE time < {until}")).await?;
    Ok(true)
}

/// Estimates the surplus by row numbers, since counting rows would read all of them.
async fn surplus_rows(connection: &mut Connection, limit: u64) -> Result<bool, Failure> {
    let first = connection.number("SELECT MIN(id) FROM transactions").await?;
    let last = connection.number("SELECT MAX(id) FROM transactions").await?;
    let (Some(first), Some(last)) = (first, last) else { return Ok(false) };
    let surplus = last.saturating_sub(first).saturating_add(1).saturating_sub_unsigned(limit);
    if surplus <= 0 {
        return Ok(false);
    }
    first_rows(connection, first, surplus.min(STEP)).await
}

/// Where no rows of requests are left, the other tables may still exceed the limit.
async fn surplus_bytes(connection: &mut Connection, limit: u64) -> Result<bool, Failure> {
    if connection.bytes().await?.is_none_or(|bytes| bytes.unsigned_abs() <= limit) {
        return Ok(false);
    }
    match connection.number("SELECT MIN(id) FROM transactions").await? {
        Some(first) => first_rows(connection, first, STEP).await,
        None => Ok(false),
    }
}

async fn first_rows(connection: &mut Connection, first: i64, count: i64) -> Result<bool, Failure> {
    connection.run(&format!("DELETE FROM transactions WHERE id < {}", first.saturating_add(count))).await?;
    Ok(true)
}

/// Deletes the oldest hour of a table.
async fn old_hours(connection: &mut Connection, table: &str, before: i64) -> Result<bool, Failure> {
    let oldest = connection.number(&format!("SELECT MIN(hour) FROM {table}")).await?;
    let Some(oldest) = oldest.filter(|oldest| *oldest < before) else { return Ok(false) };
    connection.run(&format!("DELETE FROM {table} WHERE hour = {oldest}")).await?;
    Ok(true)
}
