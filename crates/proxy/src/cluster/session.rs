//! Clients that move from node to node: a response to a change has its position in the stream of purges ([`POSITION`]).
//! The client sends this position to the next node, which then sends no older response.
//!
//! A node that has applied the stream up to that position continues at once. Any other node reads the current end of
//! the stream from the engine, and waits until it has applied the stream up to there. So for any position, a client
//! waits at most for one read of the stream and its entries, and stored responses may still answer. If that takes too
//! long, the request is sent to the origin. Requests share the reads: there is one at a time, and a pause between two.

use std::time::{Duration, Instant};

use http::HeaderValue;
use larder_cluster::seal::MessageKind;
use larder_cluster::{Follower, Point};
use larder_semantics::fields::Fields;
use tokio::sync::Mutex;

use super::Cluster;
use super::engine::EngineError;
use crate::exchange::position::{ClientPosition, RequiredPosition};
use crate::exchange::request::Request;
use crate::http::names::POSITION;

/// The longest value of the field.
const LONGEST: usize = 128;
/// The least time between the starts of two looks at the stream.
const PAUSE: Duration = Duration::from_millis(2);

/// The last look at the stream.
#[derive(Debug, Default)]
pub(super) struct LastLookup(Mutex<Option<EndLookup>>);

#[derive(Debug)]
struct EndLookup {
    begun: Instant,
    /// The end of the stream; `None`: the engine did not answer.
    end: Option<Point>,
}

/// Waits for a short time until this node has obeyed the purges that `request` awaits. False: it has not, and another
/// node waits for that. A client then gets a response of the origin, and the result is true.
pub(crate) async fn catch_up(cluster: Option<&Cluster>, request: &mut Request) -> bool {
    let (Some(cluster), Some(awaited)) = (cluster, request.awaited.take()) else { return true };
    match &awaited {
        RequiredPosition::Place(place) => cluster.invalidations.reach(place).await,
        RequiredPosition::Shown(shown) => {
            if !cluster.reach(*shown).await {
                request.asked.no_cache = true;
                request.awaited = Some(awaited);
            }
            true
        }
    }
}

/// Returns the last position that a request shows. There may be several lines, or an intermediary may have joined
/// them into one.
pub(super) fn last_shown(fields: &impl Fields) -> Option<&[u8]> {
    let line = fields.lines(POSITION).last()?;
    line.rsplit(|byte| *byte == b',').next().map(<[u8]>::trim_ascii)
}

impl Cluster {
    /// Returns the value of the field for a change whose entry is at `point`.
    pub(crate) fn shown(&self, point: &Point) -> HeaderValue {
        let text = ClientPosition::of(point).text();
        let seal = self.seal.text(MessageKind::Client, &[text.as_bytes()]);
        HeaderValue::try_from(format!("{text}.{seal}")).unwrap_or_else(|_| HeaderValue::from_static(""))
    }

    /// Returns the position in `value` of the field, if this node has not obeyed the stream up to there. A value that
    /// no node of this cluster has written is ignored.
    pub(crate) fn awaited(&self, value: &[u8]) -> Option<ClientPosition> {
        let text = std::str::from_utf8(value).ok().filter(|text| text.len() <= LONGEST)?;
        let (shown, seal) = ClientPosition::read(text)?;
        let is_sealed = self.seal.is(MessageKind::Client, &[shown.text().as_bytes()], seal.as_bytes());
        (is_sealed && !shown.is_reached(&self.invalidations.follower.borrow())).then_some(shown)
    }

    /// Waits for a short time until this node has obeyed the stream up to the position of a client.
    pub(crate) async fn reach(&self, shown: ClientPosition) -> bool {
        let came = Instant::now();
        let reached = async {
            let end = self.end_since(came).await?;
            let is_reached = |follower: &Follower| shown.is_reached(follower) || follower.has_reached(&end);
            self.invalidations.follower.subscribe().wait_for(is_reached).await.ok().map(drop)
        };
        matches!(tokio::time::timeout(self.invalidations.patience(), reached).await, Ok(Some(())))
    }

    /// Returns the end of the stream at a moment after the request `came`.
    async fn end_since(&self, came: Instant) -> Option<Point> {
        let mut looked = self.invalidations.looks.0.lock().await;
        if let Some(last) = &*looked {
            if last.begun >= came {
                return last.end.clone();
            }
            tokio::time::sleep(PAUSE.saturating_sub(last.begun.elapsed())).await;
        }
        let begun = Instant::now();
        let end = self.look().await;
        if let Err(error) = &end {
            tracing::debug!("the end of the stream is not known: {error}");
        }
        let end = end.ok();
        *looked = Some(EndLookup { begun, end: end.clone() });
        end
    }

    async fn look(&self) -> Result<Point, EngineError> {
        let position = self.invalidations.follower.borrow().position();
        let position = position.ok_or_else(|| EngineError::Refused("this node follows no stream".into()))?;
        self.last(position).await
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use larder_cluster::Position;
    use larder_semantics::fields::HeadLines;

    use super::*;

    fn shown(engine: &str, position: &str) -> ClientPosition {
        let point = Point { engine: engine.into(), position: position.parse().expect("a position") };
        ClientPosition::of(&point)
    }

    #[test]
    fn a_position_is_reached_on_its_own_engine_only() {
        let follower = Follower::at("e", Position::new(5, 1));
        for (engine, position, expected) in
            [("e", "5-1", true), ("e", "4-9", true), ("e", "5-2", false), ("f", "1-0", false)]
        {
            assert_eq!(shown(engine, position).is_reached(&follower), expected, "{engine} {position}");
        }
        assert!(!shown("e", "0-0").is_reached(&Follower::default()));
    }

    #[test]
    fn there_is_one_way_to_write_a_position() {
        let text = shown("e", "5-1").text();
        assert_eq!(ClientPosition::read(&format!("{text}.seal")), Some((shown("e", "5-1"), "seal")));
        for wrong in [
            text.clone(),
            format!("0{text}.seal"),
            format!("+{text}.seal"),
            format!("{text}0.seal"),
            text.to_uppercase() + ".seal",
            text.replace('.', ".+") + ".seal",
            "5-1.seal".to_owned(),
            "..".to_owned(),
            String::new(),
        ] {
            assert_eq!(ClientPosition::read(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn of_several_positions_the_last_one_counts() {
        let last = |lines: &str| last_shown(&HeadLines(lines.as_bytes())).map(<[u8]>::to_vec);
        assert_eq!(last("Host: a\r\n"), None);
        for lines in [
            "Larder-Position: b\r\n",
            "Larder-Position: a\r\nlarder-position: b\r\n",
            "Larder-Position: a, b\r\n",
            "Larder-Position: c\r\nLarder-Position: a ,b\r\n",
        ] {
            assert_eq!(last(lines).as_deref(), Some(&b"b"[..]), "{lines}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text: String) {
            if let Some((shown, seal)) = ClientPosition::read(&text) {
                prop_assert_eq!(format!("{}.{seal}", shown.text()), text);
            }
        }

        #[test]
        fn positions_come_back_as_they_were_written(millis: u64, count: u64, engine in "[0-9a-f]{40}") {
            let point = Point { engine: engine.into(), position: Position::new(millis, count) };
            let text = ClientPosition::of(&point).text();
            prop_assert!(text.len() + 33 <= LONGEST);
            let text = format!("{text}.-");
            prop_assert_eq!(ClientPosition::read(&text), Some((ClientPosition::of(&point), "-")));
        }
    }
}
