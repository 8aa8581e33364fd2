//! The work of the shadow caches beside requests: feeding them, and the automatic choice of the policy.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use larder_advise::Switch;
use larder_evict::Spec;

use crate::base::low_priority;
use crate::flow::worker::ProcessState;

/// The interval at which the workers' queues are emptied.
const INTERVAL: Duration = Duration::from_millis(250);

/// Starts the thread that feeds the shadow caches, if there are any, until the process ends. Errors: the kernel's
/// error, if it refuses a thread.
pub fn start(shared: &Arc<ProcessState>) -> io::Result<()> {
    if shared.advisor.is_none() {
        return Ok(());
    }
    let shared = Arc::downgrade(shared);
    low_priority::start("advise", move || {
        while let Some(shared) = shared.upgrade() {
            feed(&shared);
            drop(shared);
            thread::sleep(INTERVAL);
        }
    })
}

fn feed(shared: &ProcessState) {
    let Some(advisor) = &shared.advisor else { return };
    advisor.work();
    if !shared.plan().settings.memory.auto {
        return;
    }
    let Some((found, switch)) = advisor.judge() else { return };
    if let Some(switch) = switch {
        change_policy(shared, &switch);
    }
    tracing::debug!("policies were compared: {found}");
}

fn change_policy(shared: &ProcessState, switch: &Switch) {
    let Switch { from, to, is_return, .. } = switch;
    let Ok(policy) = Spec::parse(&to.policy) else { return };
    let (gain, error) = (to.gain * 100.0, to.error * 100.0);
    let why = if *is_return { "again, since the other one did not hold what it promised" } else { "instead" };
    tracing::info!(
        "memory runs under {policy} {why}: it hits {gain:.1} +-{error:.1} points more than {from}"
    );
    shared.run_policy(policy);
}
