//! Content at a limited rate, of a reply or of all replies to a client.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::{Arc, LazyLock, Weak};
use std::time::Duration;

use http::HeaderMap;
use parking_lot::Mutex;
use tokio::time::{Instant, sleep_until};

use super::route::SiteNumber;
use super::sink::{SendError, Sink};
use crate::base::networks::network;
use crate::base::settings::{Bandwidth, BandwidthBy};
use crate::net::content::ContentFile;

/// The slices of a second.
const SLICES: u64 = 10;

/// The largest slice, in bytes.
const LARGEST: u64 = 1 << 20;

/// A sink that passes content on at a limited rate, in slices.
pub(crate) struct PacedSink<'s, S> {
    sink: &'s mut S,
    schedule: &'s SliceSchedule,
}

/// The times of the slices, of one reply or of several that share the rate.
#[derive(Debug)]
pub(crate) struct SliceSchedule {
    /// Bytes in a second.
    rate: NonZeroU64,
    /// When the next slice may be sent, and the bytes before that are sent at any rate.
    next: Mutex<(Instant, u64)>,
}

/// The schedules that clients have, or all of them together, by site and rate, for as long as replies are sent.
type Schedules = HashMap<(SiteNumber, NonZeroU64, IpAddr), Weak<SliceSchedule>>;

/// The schedules, and the number of them at which those that have ended are removed.
static CLIENTS: LazyLock<Mutex<(Schedules, usize)>> = LazyLock::new(Mutex::default);

/// The least number of schedules at which those that have ended are removed.
const FEW: usize = 64;

/// Returns the schedule of a reply of `site` to `client`.
pub(crate) fn schedule(bandwidth: Bandwidth, site: SiteNumber, client: IpAddr) -> Arc<SliceSchedule> {
    let Bandwidth { rate, by, after } = bandwidth;
    let new = || Arc::new(SliceSchedule { rate, next: Mutex::new((Instant::now(), after)) });
    let client = match by {
        BandwidthBy::Reply => return new(),
        BandwidthBy::Client => network(client, 32, 64),
        BandwidthBy::All => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
    };
    let (schedules, most) = &mut *CLIENTS.lock();
    if schedules.len() >= *most {
        schedules.retain(|_, schedule| schedule.strong_count() > 0);
        *most = (2 * schedules.len()).max(FEW);
    }
    let known = schedules.entry((site, rate, client)).or_default();
    known.upgrade().unwrap_or_else(|| {
        let new = new();
        *known = Arc::downgrade(&new);
        new
    })
}

impl<'s, S: Sink> PacedSink<'s, S> {
    /// Creates a sink that passes content on as `schedule` says. The first slice is sent at once.
    pub(crate) fn new(sink: &'s mut S, schedule: &'s SliceSchedule) -> Self {
        Self { sink, schedule }
    }

    /// Waits until a slice of this many bytes may be sent.
    async fn turn(&mut self, bytes: u64) -> Result<(), SendError> {
        if let Some(time) = self.schedule.turn(bytes, Instant::now()) {
            self.sink.flush().await?;
            sleep_until(time).await;
        }
        Ok(())
    }
}

impl SliceSchedule {
    /// Returns the length of a slice, in bytes.
    fn slice(&self) -> u64 {
        (self.rate.get() / SLICES).clamp(1, LARGEST)
    }

    /// Returns the time for a slice of this many bytes, if it is later than `now`. Time in which there was nothing to send
    /// is lost, but for the length of a slice: timers are late.
    fn turn(&self, bytes: u64, now: Instant) -> Option<Instant> {
        let (next, free) = &mut *self.next.lock();
        if *free > 0 {
            *free = free.saturating_sub(bytes);
            return None;
        }
        let time = *next;
        let took = Duration::from_micros(bytes * 1_000_000 / self.rate);
        *next = (time + took).max(now);
        (time > now).then_some(time)
    }
}

impl<S: Sink> Sink for PacedSink<'_, S> {
    async fn bytes(&mut self, bytes: &[u8]) -> Result<(), SendError> {
        for slice in bytes.chunks(self.schedule.slice() as usize) {
            self.turn(slice.len() as u64).await?;
            self.sink.bytes(slice).await?;
        }
        Ok(())
    }

    async fn file(&mut self, content: ContentFile<'_>, range: Range<u64>) -> Result<(), SendError> {
        let Range { start: mut at, end } = range;
        while at < end {
            let next = end.min(at + self.schedule.slice());
            self.turn(next - at).await?;
            self.sink.file(content, at..next).await?;
            at = next;
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), SendError> {
        self.sink.flush().await
    }

    fn stretch(&self) -> u64 {
        self.sink.stretch().min(self.schedule.slice())
    }

    async fn end(&mut self, trailers: &HeaderMap) -> Result<(), SendError> {
        self.sink.end(trailers).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_a_tenth_of_a_second_apart_and_pauses_are_lost() {
        let begun = Instant::now();
        let schedule =
            SliceSchedule { rate: NonZeroU64::new(10_000).unwrap(), next: Mutex::new((begun, 2_000)) };
        assert_eq!(schedule.slice(), 1_000);
        let mut now = begun;
        let mut turn = |pause: u64| {
            now += Duration::from_millis(pause);
            now = schedule.turn(1_000, now).unwrap_or(now);
            (now - begun).as_millis()
        };
        assert_eq!([0, 0].map(&mut turn), [0, 0], "bytes before the rate counts");
        assert_eq!([0, 0, 0, 30].map(&mut turn), [0, 100, 200, 300]);
        assert_eq!([9_000, 0, 0].map(&mut turn), [9_300, 9_300, 9_400]);
    }
}
