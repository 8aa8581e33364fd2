//! Threads of low priority, for work that takes much processor time. Other requests take precedence over it.

use std::{io, thread};

use tokio::sync::oneshot;

/// Added to the nice value of the process.
const NICE: i32 = 10;

/// Starts a thread that does `work` at low priority. Errors: the kernel's error, if it refuses a thread.
pub fn start(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let work = move || {
        if let Err(error) = rustix::process::nice(NICE) {
            tracing::debug!("a thread runs at the priority of requests: {error}");
        }
        work();
    };
    thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
}

/// Returns the result of `work`, which a thread of low priority does; `None` if there is no thread for it, or if it
/// panics. The work goes on if the caller does not wait for its end.
pub async fn run<T: Send + 'static>(name: &str, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, receiver) = oneshot::channel();
    // Without a receiver, the result is not needed.
    let started = start(name, move || drop(sender.send(work())));
    if let Err(error) = started {
        tracing::debug!("{name}: no thread: {error}");
        return None;
    }
    receiver.await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_has_a_lower_priority_than_its_caller() {
        let niceness = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            stat.rsplit_once(')').unwrap().1.split_whitespace().nth(16).unwrap().parse::<i32>().unwrap()
        };
        let before = niceness();
        assert_eq!(run("test", niceness).await, Some((before + NICE).min(19)));
        assert_eq!(niceness(), before);
        assert_eq!(run("test", || panic!("a test")).await, None::<()>);
    }
}
