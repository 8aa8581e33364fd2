//! `GET /history`: past requests, by minute or hour, site or route, from the statistics database.

use std::time::Duration;

use http::StatusCode;
use larder_stats::{Counts, Database, Dimension, Group};
use serde::Serialize;

use super::query::Query;
use super::{Call, Outcome, Refusal, json};
use crate::base::clock;
use crate::counts::counters::Ratios;

/// How far back a question goes by default.
const SINCE: Duration = Duration::from_secs(3_600);
/// How far back a question may go.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);
/// The most groups in an answer, those with the most requests first; minutes and hours are not limited.
const SHOWN: usize = 100;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Minute,
    Other(Dimension),
}

/// Requests of one group.
#[derive(Debug, Serialize)]
struct Row {
    /// The beginning of the minute or hour in which they came, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<u64>,
    /// The name of the group, unless it is a time.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(flatten)]
    counts: Counts,
    #[serde(flatten)]
    ratios: Ratios,
}

/// Answers a question.
pub(super) async fn answer(call: Call<'_>) -> Outcome {
    let (by, since) = read(&call.query)?;
    let Some(ledger) = &call.state.shared.observers.ledger else {
        let why = "there is no statistics database here; larder serve --stats URL adds one";
        return Err(Refusal::new(StatusCode::NOT_FOUND, why));
    };
    let (url, permit) = (ledger.url().to_owned(), call.state.look()?);
    // A query of the database may be slow.
    let rows = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        rows(&url, by, since)
    });
    let rows = rows.await?.map_err(|why| {
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, format!("statistics database: {why}"))
    })?;
    Ok(json(&rows))
}

fn read(query: &Query<'_>) -> Result<(By, Duration), String> {
    let named = |word: &str| match word {
        "minute" => Some(By::Minute),
        word => Dimension::of_name(word).map(By::Other),
    };
    let by =
        query.parse("by", &format!("minute, {}", Dimension::ALL.map(Dimension::name).join(", ")), named)?;
    let seconds = |text: &str| text.parse().ok().map(Duration::from_secs).filter(|since| *since <= LONGEST);
    let since = query.parse("since", "seconds, a year's at most", seconds)?;
    Ok((by.unwrap_or(By::Other(Dimension::Hour)), since.unwrap_or(SINCE)))
}

fn rows(url: &str, by: By, since: Duration) -> Result<Vec<Row>, String> {
    let mut database = Database::open_read(url).map_err(|error| error.to_string())?;
    let since = clock::unix_millis().saturating_sub(since.as_millis() as u64);
    let groups = match by {
        By::Minute => database.by_minute(since),
        By::Other(dimension) => database.by(dimension, since),
    };
    let groups = groups.map_err(|error| error.to_string())?;
    let is_time = matches!(by, By::Minute | By::Other(Dimension::Hour));
    let shown = if is_time { usize::MAX } else { SHOWN };
    Ok(groups.into_iter().take(shown).map(|group| Row::of(group, is_time)).collect())
}

impl Row {
    fn of(group: Group, is_time: bool) -> Self {
        let Group { name, counts } = group;
        Self {
            time: if is_time { name.parse().ok() } else { None },
            name: (!is_time).then_some(name),
            ratios: Ratios::of(&counts),
            counts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_read_and_wrong_ones_explained() {
        let seconds = Duration::from_secs;
        for (query, expected) in [
            ("", Ok((By::Other(Dimension::Hour), seconds(3_600)))),
            ("by=minute&since=60", Ok((By::Minute, seconds(60)))),
            ("by=route", Ok((By::Other(Dimension::Route), seconds(3_600)))),
            ("since=31622401", Err("since '31622401': expected seconds, a year's at most")),
            ("since=1h", Err("since '1h': expected seconds, a year's at most")),
        ] {
            assert_eq!(read(&Query::new(query)), expected.map_err(str::to_owned), "{query}");
        }
        let wrong = read(&Query::new("by=day")).unwrap_err();
        assert!(wrong.starts_with("by 'day': expected minute, site, "), "{wrong}");
    }
}
