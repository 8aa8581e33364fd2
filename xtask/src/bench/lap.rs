//! A lap: many objects, each fetched once, over a few connections. It fills a cache, or must not find an object twice.

use super::measure::side_by_side;
use crate::client::Client;
use anyhow::{Result, bail};
use std::io::sink;
use std::ops::Range;
use std::time::{Duration, Instant};

/// The parameters of a lap.
pub(super) struct Lap<'a> {
    pub(super) port: u16,
    /// The length that each body must have, in bytes.
    pub(super) length: u64,
    pub(super) connections: usize,
    /// The number of requests that a connection sends before it reads the answers.
    pub(super) depth: usize,
    /// Returns the path of the object of a number.
    pub(super) path: &'a (dyn Fn(u64) -> String + Sync),
}

impl Lap<'_> {
    /// Fetches the objects of these numbers, and returns the time. Fails if an answer is missing or incomplete.
    pub(super) fn run(&self, objects: Range<u64>) -> Result<Duration> {
        let began = Instant::now();
        let numbers = |first| objects.clone().skip(first).step_by(self.connections);
        side_by_side(self.connections, |first| self.fetch(numbers(first)))?;
        Ok(began.elapsed())
    }

    fn fetch(&self, numbers: impl Iterator<Item = u64>) -> Result<()> {
        let mut client = Client::connect(self.port)?;
        let mut paths = numbers.map(self.path).peekable();
        while paths.peek().is_some() {
            let group: Vec<String> = paths.by_ref().take(self.depth).collect();
            client.request(&group)?;
            for path in &group {
                let length = client.answer(path, &mut sink())?;
                if length != self.length {
                    bail!("{path}: a body of {length} bytes, not {}", self.length);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Lap;
    use crate::bench::origin::Origin;

    #[test]
    fn each_object_is_asked_for_once() {
        let origin = Origin::start();
        for (connections, depth) in [(1, 1), (3, 1), (3, 4), (40, 2)] {
            let before = origin.requests();
            let path = |number| format!("/4k/{number}");
            let lap = Lap { port: origin.port(), length: 4096, connections, depth, path: &path };
            lap.run(10..33).unwrap();
            assert_eq!(origin.requests() - before, 23, "{connections} connections, {depth} at once");
        }
    }

    #[test]
    fn a_body_of_another_length_is_an_error() {
        let origin = Origin::start();
        let lap =
            Lap { port: origin.port(), length: 4095, connections: 2, depth: 2, path: &|_| "/4k".into() };
        assert_eq!(lap.run(0..2).unwrap_err().to_string(), "/4k: a body of 4096 bytes, not 4095");
    }
}
