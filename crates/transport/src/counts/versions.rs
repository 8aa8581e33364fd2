//! The versions of HTTP that clients speak: their names, and counts of their requests.

use std::sync::atomic::{AtomicU64, Ordering};

use http::Version;

/// The supported versions, oldest first, each with its name in logs and metrics, and in `Via`, which has two numbers even
/// where the second is always 0 (RFC 9110 section 2.5).
const ALL: [(Version, &str, &str); 3] =
    [(Version::HTTP_10, "1.0", "1.0"), (Version::HTTP_11, "1.1", "1.1"), (Version::HTTP_2, "2", "2.0")];

/// The counts of one worker, which is their only writer.
#[derive(Debug, Default)]
pub struct Versions([AtomicU64; ALL.len()]);

/// Returns the position of a version, oldest first: less than three.
#[inline]
pub fn position(version: Version) -> usize {
    match version {
        Version::HTTP_10 => 0,
        Version::HTTP_11 => 1,
        _ => 2,
    }
}

/// Returns the version's name in logs and metrics: `1.0`, `1.1` or `2`.
pub fn name(version: Version) -> &'static str {
    ALL[position(version)].1
}

/// Returns the version's name in `Via`.
pub fn name_in_via(version: Version) -> &'static str {
    ALL[position(version)].2
}

impl Versions {
    /// Counts a request.
    #[inline]
    pub fn count(&self, version: Version) {
        // The worker is the only writer, so no locked instruction is needed.
        let count = &self.0[position(version)];
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// Returns the sums of the requests of these workers, by version.
pub fn sum<'v>(all: impl Iterator<Item = &'v Versions>) -> [(&'static str, u64); ALL.len()] {
    let mut sums = ALL.map(|(_, name, _)| (name, 0));
    for versions in all {
        for ((_, sum), count) in sums.iter_mut().zip(&versions.0) {
            *sum += count.load(Ordering::Relaxed);
        }
    }
    sums
}
