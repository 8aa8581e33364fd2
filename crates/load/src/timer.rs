//! Precise waits. The runtime's own timer counts milliseconds, so that a page with a delay of two would arrive after
//! three.
//!
//! All waits of a thread share one kernel timer, and those that end at about the same time share one system call: a
//! timer for each connection took more CPU time than answering, on the processor of the measured program.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use rustix::time::{timerfd_create, timerfd_settime};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::oneshot;

/// The minimum time between two expiries: waits that end within it end together.
const TOGETHER: Duration = Duration::from_micros(50);

/// The waits of a runtime's thread.
pub struct Timer {
    file: AsyncFd<OwnedFd>,
    waiting: Mutex<WaitQueue>,
}

#[derive(Default)]
struct WaitQueue {
    /// The waits by end time, and in the order in which they began.
    ends: BTreeMap<(Instant, u64), oneshot::Sender<()>>,
    begun: u64,
    /// The time for which the kernel timer is set, if it is.
    rings: Option<Instant>,
}

impl Timer {
    /// Creates a timer of the current runtime. Fails if the kernel has no more timers.
    #[allow(
        deprecated,
        reason = "what replaces it is unsafe, for files that may be closed meanwhile; this one is owned"
    )]
    pub fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let file = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let file = AsyncFd::with_interest(file, Interest::READABLE)?;
        Ok(Self { file, waiting: Mutex::default() })
    }

    /// Waits for `time`, while another task [runs](Self::run) the timer.
    ///
    /// # Errors
    /// If the kernel timer fails.
    pub async fn wait(&self, time: Duration) -> io::Result<()> {
        if time.is_zero() {
            return Ok(());
        }
        let (end, ended) = oneshot::channel();
        let at = Instant::now() + time;
        {
            let mut waiting = self.waiting();
            waiting.begun += 1;
            let key = (at, waiting.begun);
            waiting.ends.insert(key, end);
            if waiting.rings.is_none_or(|rings| at < rings) {
                self.ring(&mut waiting, at)?;
            }
        }
        ended.await.map_err(io::Error::other)
    }

    /// Ends waits when their time is over, forever.
    ///
    /// # Errors
    /// If the kernel timer fails.
    pub async fn run(&self) -> io::Result<()> {
        loop {
            // An unread expiry does not fire again; setting the timer clears it.
            self.file.readable().await?.clear_ready();
            let now = Instant::now();
            let mut waiting = self.waiting();
            waiting.rings = None;
            let later = waiting.ends.split_off(&(now, u64::MAX));
            let over = std::mem::replace(&mut waiting.ends, later);
            for end in over.into_values() {
                // The waiter may have been cancelled.
                let _ = end.send(());
            }
            if let Some((&(next, _), _)) = waiting.ends.first_key_value() {
                self.ring(&mut waiting, next.max(now + TOGETHER))?;
            }
        }
    }

    fn ring(&self, waiting: &mut WaitQueue, at: Instant) -> io::Result<()> {
        // A timer that is set to 0 never expires.
        let time = at.saturating_duration_since(Instant::now()).max(Duration::from_nanos(1));
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let seconds = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
        let due = Timespec { tv_sec: seconds, tv_nsec: time.subsec_nanos().into() };
        let once = Itimerspec { it_interval: none, it_value: due };
        timerfd_settime(self.file.get_ref(), TimerfdTimerFlags::empty(), &once)?;
        waiting.rings = Some(at);
        Ok(())
    }

    fn waiting(&self) -> MutexGuard<'_, WaitQueue> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(work: impl AsyncFn(&Timer)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
        runtime.block_on(async {
            let timer = Timer::new().unwrap();
            tokio::select! {
                ended = timer.run() => panic!("{ended:?}"),
                () = work(&timer) => {}
            }
        });
    }

    async fn waits(timer: &Timer, micros: u64) {
        let (begun, time) = (Instant::now(), Duration::from_micros(micros));
        timer.wait(time).await.unwrap();
        assert!(begun.elapsed() >= time);
    }

    #[test]
    fn each_wait_lasts_at_least_as_long_as_its_call_says() {
        within(async |timer| {
            for micros in [0, 300, 2_500, 0, 300] {
                waits(timer, micros).await;
            }
        });
    }

    #[test]
    fn a_short_wait_does_not_stay_for_a_long_one() {
        within(async |timer| {
            tokio::select! {
                biased;
                () = waits(timer, 60_000_000) => panic!("it is not over"),
                // The timer is set for the other wait when this one begins.
                () = waits(timer, 2_000) => {}
            }
        });
    }

    #[test]
    fn a_cancelled_wait_does_not_delay_others() {
        within(async |timer| {
            tokio::select! {
                biased;
                () = waits(timer, 1) => {}
                () = async {} => {}
            }
            waits(timer, 500).await;
        });
    }
}
