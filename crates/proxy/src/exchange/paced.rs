//! Content at a limited rate.

use std::num::NonZeroU64;
use std::ops::Range;
use std::time::Duration;

use http::HeaderMap;
use tokio::time::{Instant, sleep_until};

use super::sink::{SendError, Sink};
use crate::net::content::ContentFile;

/// The slices of a second.
const SLICES: u64 = 10;

/// The largest slice, in bytes.
const LARGEST: u64 = 1 << 20;

/// A sink that passes content on at a limited rate, in slices.
pub(crate) struct Paced<'s, S> {
    sink: &'s mut S,
    schedule: SliceSchedule,
}

/// The times of the slices.
struct SliceSchedule {
    /// Bytes in a second.
    rate: NonZeroU64,
    /// When the next slice may be sent.
    next: Instant,
}

impl<'s, S: Sink> Paced<'s, S> {
    /// Creates a sink that passes on `rate` bytes in a second. The first slice is sent at once.
    pub(crate) fn new(sink: &'s mut S, rate: NonZeroU64) -> Self {
        Self { sink, schedule: SliceSchedule { rate, next: Instant::now() } }
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
    fn turn(&mut self, bytes: u64, now: Instant) -> Option<Instant> {
        let time = self.next;
        let took = Duration::from_micros(bytes * 1_000_000 / self.rate);
        self.next = (time + took).max(now);
        (time > now).then_some(time)
    }
}

impl<S: Sink> Sink for Paced<'_, S> {
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
        let mut schedule = SliceSchedule { rate: NonZeroU64::new(10_000).unwrap(), next: begun };
        assert_eq!(schedule.slice(), 1_000);
        let mut now = begun;
        let mut turn = |pause: u64| {
            now += Duration::from_millis(pause);
            now = schedule.turn(1_000, now).unwrap_or(now);
            (now - begun).as_millis()
        };
        assert_eq!([0, 0, 0, 30].map(&mut turn), [0, 100, 200, 300]);
        assert_eq!([9_000, 0, 0].map(&mut turn), [9_300, 9_300, 9_400]);
    }
}
