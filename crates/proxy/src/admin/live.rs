//! Current events, as server-sent events: `/live` has the figures of `/stats`, `/top` the most requested URLs, `/log`
//! every request with its decision. No events are collected while no client listens.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{Response, StatusCode};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};

use super::query::Query;
use super::stream::{Events, events};
use super::{Answer, State, Stats, TEXT, response};
use crate::base::outcome::Kind;
use crate::observe::top::{Rank, Top};
use crate::observe::transaction::{Filter, Statuses, Transaction};
use crate::observe::watch::{self, Watcher};

/// The interval at which figures are sent.
const EVERY: Duration = Duration::from_secs(1);
/// How long a log is silent at most.
const SILENCE: Duration = Duration::from_secs(10);
/// The most requests that a log shows at once; the others are only counted.
const AT_ONCE: usize = 1_000;

/// Answers a request for `/live`, `/top` or `/log`.
pub(super) fn answer(state: &Arc<State>, path: &str, query: Option<&str>) -> Response<Answer> {
    let stream = match path {
        "/live" => Query::read(query, &[]).map(|_| Stream::Live),
        "/top" => rank(query).map(Stream::Top),
        _ => filter(query).map(Stream::Log),
    };
    let stream = match stream {
        Ok(stream) => stream,
        Err(why) => return response(StatusCode::BAD_REQUEST, TEXT, format!("{why}\n").into()),
    };
    let Some(seat) = state.shared.observers.watch.seat() else {
        let why = format!("{} such streams are open already; close one\n", watch::MOST);
        return response(StatusCode::SERVICE_UNAVAILABLE, TEXT, why.into());
    };
    let state = Arc::clone(state);
    // From the moment at which a client reads the head of the answer, it misses no event.
    let watcher = (!matches!(stream, Stream::Live)).then(|| state.shared.observers.watch.begin());
    events(move |events| async move {
        let _seat = seat;
        match (stream, watcher) {
            (Stream::Top(rank), Some(watcher)) => top(events, watcher, rank).await,
            (Stream::Log(filter), Some(watcher)) => log(events, watcher, &filter).await,
            _ => live(events, &state).await,
        }
    })
}

enum Stream {
    Live,
    Top(Rank),
    Log(Filter),
}

fn rank(query: Option<&str>) -> Result<Rank, String> {
    let query = Query::read(query, &["by"])?;
    let names = Rank::ALL.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let named = |name: &str| Rank::ALL.iter().find(|(known, _)| *known == name).map(|(_, rank)| *rank);
    Ok(query.parse("by", &names, named)?.unwrap_or_default())
}

fn filter(query: Option<&str>) -> Result<Filter, String> {
    let query = Query::read(query, &["site", "status", "outcome", "url", "slower_us"])?;
    let outcomes = Kind::ALL.map(Kind::word).join(", ");
    let kind = |word: &str| Kind::ALL.into_iter().find(|kind| kind.word() == word);
    Ok(Filter {
        site: query.get("site").map(str::to_owned),
        statuses: query.parse("status", "a number, such as 404, or a class, such as 4xx", Statuses::read)?,
        outcome: query.parse("outcome", &outcomes, kind)?,
        url: query.get("url").map(str::to_owned),
        slower: query
            .parse("slower_us", "microseconds", |text| text.parse().ok())?
            .map(Duration::from_micros),
    })
}

async fn live(mut events: Events, state: &State) {
    let mut ticks = ticks();
    loop {
        ticks.tick().await;
        events.add("", &Stats::gather(state));
        if !events.send().await {
            return;
        }
    }
}

async fn top(mut events: Events, mut watcher: Watcher, rank: Rank) {
    let (mut top, mut ticks) = (Top::new(Instant::now()), ticks());
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

async fn log(mut events: Events, mut watcher: Watcher, filter: &Filter) {
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
        let read = filter(Some("site=a&status=4xx&outcome=stale-hit&url=%2Fb&slower_us=10000"));
        let expected = Filter {
            site: Some("a".to_owned()),
            statuses: Some(Statuses::Class(4)),
            outcome: Some(Kind::StaleHit),
            url: Some("/b".to_owned()),
            slower: Some(Duration::from_millis(10)),
        };
        assert_eq!((read, filter(None)), (Ok(expected), Ok(Filter::default())));
        for (query, why) in [
            ("status=4", "status '4': expected a number, such as 404, or a class, such as 4xx"),
            ("slower_us=1ms", "slower_us '1ms': expected microseconds"),
            ("stauts=4xx", "unknown parameter 'stauts'; known: site, status, outcome, url, slower_us"),
        ] {
            assert_eq!(filter(Some(query)), Err(why.to_owned()), "{query}");
        }
        assert!(filter(Some("outcome=x")).is_err_and(|why| why.ends_with("refused, failed")));
        assert_eq!(
            rank(Some("by=x")),
            Err("by 'x': expected requests, hits, validated, misses, bytes, time".to_owned())
        );
        assert_eq!(rank(Some("by=time")), Ok(Rank::Time));
    }
}
