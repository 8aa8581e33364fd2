//! Current events, as server-sent events: `/live` has the figures of `/stats`, `/top` the most requested URLs, `/log`
//! every request with its decision. No events are collected while no client listens.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};

use super::query::Query;
use super::stream::{Events, events};
use super::{Call, Outcome, Refusal, State, Stats};
use crate::base::outcome::Kind;
use crate::observe::top::{Rank, Top};
use crate::observe::transaction::{Filter, Statuses, Transaction};
use crate::observe::watch::{self, Watcher};

/// What selects requests by their status.
const STATUSES: &str = "a number from 100 to 599, such as 404, or a class, such as 4xx";
/// The interval at which figures are sent.
const EVERY: Duration = Duration::from_secs(1);
/// How long a log is silent at most.
const SILENCE: Duration = Duration::from_secs(10);
/// The most requests that a log shows at once; the others are only counted.
const AT_ONCE: usize = 1_000;

/// Sends the figures.
pub(super) fn figures(call: &Call<'_>) -> Outcome {
    stream(call, |events| send_figures(events, Arc::clone(call.state)))
}

/// Sends the most requested URLs.
pub(super) fn top(call: &Call<'_>) -> Outcome {
    let (rank, window) = (rank(&call.query)?, window(&call.query)?);
    let watcher = || call.state.shared.observers.watch.begin();
    stream(call, |events| send_top(events, watcher(), (rank, window)))
}

/// Sends every request, from the moment at which the client reads the head of the answer.
pub(super) fn log(call: &Call<'_>) -> Outcome {
    let filter = filter(&call.query)?;
    stream(call, |events| send_log(events, call.state.shared.observers.watch.begin(), filter))
}

fn stream<F>(call: &Call<'_>, send: impl FnOnce(Events) -> F) -> Outcome
where
    F: Future<Output = ()> + Send + 'static,
{
    let Some(seat) = call.state.shared.observers.watch.seat() else {
        let why = format!("{} such streams are open already; close one", watch::MOST);
        return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, why));
    };
    Ok(events(|events| {
        let work = send(events);
        async move {
            let _seat = seat;
            work.await;
        }
    }))
}

fn rank(query: &Query<'_>) -> Result<Rank, String> {
    Ok(query.choose("by", &Rank::ALL)?.unwrap_or_default())
}

/// Returns the time over which requests are summed.
fn window(query: &Query<'_>) -> Result<Duration, String> {
    let read = |text: &str| text.parse().ok().filter(|minutes| (2..=60).contains(minutes));
    let minutes = query.parse("minutes", "a number of minutes from 2 to 60", read)?;
    Ok(Duration::from_secs(60 * minutes.unwrap_or(2)))
}

fn filter(query: &Query<'_>) -> Result<Filter, String> {
    Ok(Filter {
        site: query.get("site").map(str::to_owned),
        statuses: query.parse("status", STATUSES, Statuses::read)?,
        outcome: query.choose("outcome", &Kind::ALL)?,
        url: query.get("url").map(str::to_owned),
        slower: query
            .parse("slower_us", "microseconds", |text| text.parse().ok())?
            .map(Duration::from_micros),
    })
}

async fn send_figures(mut events: Events, state: Arc<State>) {
    let mut ticks = ticks();
    loop {
        ticks.tick().await;
        events.add("", &Stats::gather(&state));
        if !events.send().await {
            return;
        }
    }
}

async fn send_top(mut events: Events, mut watcher: Watcher, (rank, window): (Rank, Duration)) {
    let (mut top, mut ticks) = (Top::new(Instant::now(), window), ticks());
    loop {
        let now = Instant::now();
        tokio::select! {
            () = watcher.watch(|seen| top.count(seen, now)) => {}
            _ = ticks.tick() => {
                events.add("", &top.report(rank, Instant::now(), watcher.missed()));
                if !events.send().await {
                    return;
                }
            }
        }
    }
}

async fn send_log(mut events: Events, mut watcher: Watcher, filter: Filter) {
    let (mut beyond, mut told) = (0, 0);
    loop {
        let mut room = AT_ONCE;
        let show = |seen: &_| match (filter.takes(seen), room) {
            (false, _) => {}
            (true, 0) => beyond += 1,
            (true, _) => {
                room -= 1;
                events.add("", &Transaction::of(seen));
            }
        };
        // No event is lost when the wait times out.
        let _ = tokio::time::timeout(SILENCE, watcher.watch(show)).await;
        let dropped = watcher.missed() + beyond;
        if dropped > told {
            told = dropped;
            events.add("dropped", &json!({ "dropped": dropped }));
        }
        if !events.send().await {
            return;
        }
    }
}

fn ticks() -> tokio::time::Interval {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_read_and_wrong_ones_explained() {
        let filter = |query| filter(&Query::new(query));
        let rank = |query| rank(&Query::new(query));
        let read = filter("site=a&status=4xx&outcome=stale-hit&url=%2Fb&slower_us=10000");
        let expected = Filter {
            site: Some("a".to_owned()),
            statuses: Some(Statuses::Class(4)),
            outcome: Some(Kind::StaleHit),
            url: Some("/b".to_owned()),
            slower: Some(Duration::from_millis(10)),
        };
        assert_eq!((read, filter("")), (Ok(expected), Ok(Filter::default())));
        for (query, why) in [
            (
                "status=4",
                "status '4': expected a number from 100 to 599, such as 404, or a class, such as 4xx",
            ),
            ("slower_us=1ms", "slower_us '1ms': expected microseconds"),
        ] {
            assert_eq!(filter(query), Err(why.to_owned()), "{query}");
        }
        assert!(filter("outcome=x").is_err_and(|why| why.ends_with("refused, failed")));
        assert_eq!(
            rank("by=x"),
            Err("by 'x': expected requests, hits, validated, misses, bytes, time".to_owned())
        );
        assert_eq!(rank("by=time"), Ok(Rank::Time));
    }
}
