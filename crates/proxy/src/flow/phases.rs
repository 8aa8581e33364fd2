//! The phases of a process.
//!
//! A process drains before it ends, or because a successor has its listening sockets. With a successor there is no hurry:
//! idle connections are told at their next request that they end, so that no request meets a closed connection.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::watch;
use tokio::time::Instant;

/// The phase of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// It accepts connections.
    #[default]
    Serving,
    /// A successor is about to accept connections. It may still fail.
    HandingOver,
    /// A successor accepts connections.
    HandedOver,
    /// The process ends.
    Ending,
}

/// The phase of this process, and its changes.
#[derive(Debug, Default)]
pub struct Phases {
    /// Twice the number of changes so far, plus 1 unless the phase is [`Phase::Serving`]: a check costs one atomic load.
    pub(super) changes: AtomicU64,
    phase: watch::Sender<Phase>,
    /// When the process began to end.
    ended: OnceLock<Instant>,
}

impl Phases {
    /// Enters the phase `next` from one of `before`. Returns whether it was one of these.
    pub(super) fn enter(&self, before: &[Phase], next: Phase) -> bool {
        self.phase.send_if_modified(|phase| {
            let may_enter = before.contains(phase);
            if may_enter {
                *phase = next;
                if next == Phase::Ending {
                    self.ended.get_or_init(Instant::now);
                }
                let number = self.changes.load(Ordering::Relaxed) / 2 + 1;
                self.changes.store(2 * number + u64::from(next != Phase::Serving), Ordering::Release);
            }
            may_enter
        })
    }

    /// Whether idle connections wait for their next request.
    pub(crate) fn has_time(&self) -> bool {
        *self.phase.borrow() != Phase::Ending
    }

    /// Returns once the process ends, and tells since when.
    pub(super) async fn ending(&self) -> Instant {
        // The sender lives as long as the process's state.
        let _ = self.phase.subscribe().wait_for(|phase| *phase == Phase::Ending).await;
        *self.ended.get_or_init(Instant::now)
    }

    /// Returns once a successor accepts connections.
    pub async fn handed_over(&self) {
        // The sender lives as long as the process's state.
        let _ = self.phase.subscribe().wait_for(|phase| *phase == Phase::HandedOver).await;
    }

    /// Returns whether connections are accepted, once it is certain who accepts them.
    pub(crate) async fn accepts(&self) -> bool {
        let mut phases = self.phase.subscribe();
        let settled = phases.wait_for(|phase| *phase != Phase::HandingOver).await;
        settled.is_ok_and(|phase| *phase == Phase::Serving)
    }
}
