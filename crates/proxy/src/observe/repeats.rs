//! Repeated warnings: the first one is logged, and the following ones are counted. Their number is logged after a
//! second, then every ten seconds, until there are no more.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

/// Time after which the number is logged for the first time, and then again.
const FIRST: Duration = Duration::from_secs(1);
const LATER: Duration = Duration::from_secs(10);
/// Maximum of separate texts; all further ones count as one.
const MOST: usize = 256;

/// The recent warnings with their counts, by their common text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Repeats(Arc<Mutex<HashMap<Box<str>, u64>>>);

impl Repeats {
    /// Logs `whole`, or counts it if a warning with the same `text` was logged recently.
    pub(crate) fn warn(&self, text: &str, whole: impl FnOnce() -> String) {
        if self.is_first(text) {
            let whole = whole();
            tracing::warn!("{whole}");
        }
    }

    /// Whether the caller logs a warning: one with the same `text` was not logged recently. Otherwise, it is counted.
    pub(crate) fn is_first(&self, text: &str) -> bool {
        let mut known = self.0.lock();
        let text = if known.len() >= MOST && !known.contains_key(text) { OTHERS } else { text };
        if let Some(more) = known.get_mut(text) {
            *more += 1;
            return false;
        }
        known.insert(text.into(), 0);
        drop(known);
        tokio::spawn(self.clone().sum_up(text.into()));
        true
    }

    async fn sum_up(self, text: Box<str>) {
        let mut wait = FIRST;
        loop {
            tokio::time::sleep(wait).await;
            let more = {
                let mut known = self.0.lock();
                let more = known.get_mut(&text).map_or(0, std::mem::take);
                if more == 0 {
                    known.remove(&text);
                    return;
                }
                more
            };
            tracing::warn!("{more} more times within {} s: {text}", wait.as_secs());
            wait = LATER;
        }
    }
}

const OTHERS: &str = "other reasons";

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_of_equal_warnings_is_logged_and_the_others_are_counted() {
        let repeats = Repeats::default();
        let mut logged = 0;
        for _ in 0..100 {
            repeats.warn("refused", || {
                logged += 1;
                String::new()
            });
        }
        assert_eq!((logged, repeats.0.lock()["refused"]), (1, 99));
        let is_logged = async {
            while repeats.0.lock()["refused"] != 0 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(10 * FIRST, is_logged).await.expect("their number is logged");
    }

    #[tokio::test]
    async fn repeats_tell_a_limited_number_of_warnings_apart() {
        let repeats = Repeats::default();
        let mut logged = 0;
        for n in 0..2 * MOST {
            repeats.warn(&n.to_string(), || {
                logged += 1;
                String::new()
            });
        }
        assert_eq!((logged, repeats.0.lock().len()), (MOST + 1, MOST + 1));
    }
}
