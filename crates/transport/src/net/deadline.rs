//! A deadline that needs no timer and no read of the clock while bytes flow.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::time::{Instant, Sleep};

use crate::base::clock;

/// A deadline that costs nothing before the first wait, and one read of the clock for each wait after it: the timer is
/// armed once, and re-armed only when it fires too early.
#[derive(Debug)]
pub struct Deadline {
    limit: Duration,
    /// The deadline in `clock::millis`; `None` until the first wait.
    due: Option<u64>,
    timer: Option<Timer>,
}

#[derive(Debug)]
struct Timer {
    sleep: Pin<Box<Sleep>>,
    /// The waker that the timer wakes.
    waker: Waker,
    /// The time at which the timer fires, in `clock::millis`.
    at: u64,
}

impl Timer {
    /// Lets the timer wake the task of `cx`.
    fn wake(&mut self, cx: &mut Context<'_>) {
        if self.waker.will_wake(cx.waker()) {
            return;
        }
        if self.sleep.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        self.waker.clone_from(cx.waker());
    }
}

impl Deadline {
    /// Creates a deadline of this length, which is not armed yet.
    #[inline]
    pub fn new(limit: Duration) -> Self {
        Self { limit, due: None, timer: None }
    }

    /// Restarts the deadline with a new `limit`, which begins with the next wait.
    #[inline]
    pub fn set(&mut self, limit: Duration) {
        (self.limit, self.due) = (limit, None);
    }

    /// Drops the timer until the next wait.
    pub(crate) fn disarm(&mut self) {
        self.timer = None;
    }

    /// Restarts the deadline with the same limit.
    #[inline]
    pub fn restart(&mut self) {
        self.due = None;
    }

    /// Ready once the deadline has passed.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let now = clock::millis();
        let due = *self.due.get_or_insert(now + self.limit.as_millis() as u64);
        if due <= now {
            return Poll::Ready(());
        }
        match &mut self.timer {
            // The timer wakes the task in time. Then the deadline has passed, or the timer is armed again.
            Some(timer) if timer.at <= due && !timer.sleep.is_elapsed() => timer.wake(cx),
            _ => self.arm(cx, now, due),
        }
        Poll::Pending
    }

    fn arm(&mut self, cx: &mut Context<'_>, now: u64, due: u64) {
        let left = Duration::from_millis(due - now);
        let mut sleep = match self.timer.take() {
            Some(mut timer) => {
                timer.sleep.as_mut().reset(Instant::now() + left);
                timer.sleep
            }
            None => Box::pin(tokio::time::sleep(left)),
        };
        if sleep.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        self.timer = Some(Timer { sleep, waker: cx.waker().clone(), at: due });
    }
}
