//! Connections to origins that wait for another request.
//!
//! Nobody watches one: whether it is still good is looked at when it is taken, and by a sweep now and
//! then that also lets go of those that waited too long.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use super::exchange::Connection;
use crate::clock;

/// How long a connection waits for another request, in milliseconds.
const PATIENCE: u64 = 30_000;
/// How often those that are no good are swept out.
const SWEEP: Duration = Duration::from_secs(2);
/// Connections that wait for one origin.
const MOST: usize = 256;

/// The waiting connections of one client.
#[derive(Debug, Default)]
pub(super) struct Idle(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    /// By authority: without TLS, and with it.
    connections: [HashMap<Box<str>, Vec<Since>>; 2],
    swept: bool,
}

#[derive(Debug)]
struct Since {
    connection: Box<Connection>,
    /// In `clock::millis`.
    since: u64,
}

impl Idle {
    /// A connection to `authority` that is still good, the last one used first.
    pub(super) fn take(&self, https: bool, authority: &str) -> Option<Box<Connection>> {
        let mut waiting = self.waiting();
        let to_it = waiting.connections[usize::from(https)].get_mut(authority)?;
        std::iter::from_fn(|| to_it.pop()).find_map(|mut one| one.is_good().then_some(one.connection))
    }

    /// Lets a connection wait.
    pub(super) fn put(self: &Arc<Self>, connection: Box<Connection>) {
        let mut waiting = self.waiting();
        if !std::mem::replace(&mut waiting.swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
        let (https, authority) = connection.target();
        let connections = &mut waiting.connections[usize::from(https)];
        let since = clock::millis();
        match connections.get_mut(authority) {
            Some(to_it) if to_it.len() < MOST => to_it.push(Since { connection, since }),
            Some(_) => {}
            None => {
                let authority = Box::from(authority);
                connections.insert(authority, vec![Since { connection, since }]);
            }
        }
    }

    /// Lets go of those that are no good. False when none is left.
    fn sweep(&self) -> bool {
        let mut waiting = self.waiting();
        for connections in &mut waiting.connections {
            connections.retain(|_, to_it| {
                to_it.retain_mut(Since::is_good);
                !to_it.is_empty()
            });
        }
        waiting.swept = waiting.connections.iter().any(|connections| !connections.is_empty());
        waiting.swept
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Since {
    fn is_good(&mut self) -> bool {
        clock::millis() < self.since + PATIENCE && self.connection.is_quiet()
    }
}

/// Sweeps until nothing waits, or nobody can take it any more.
async fn sweep(idle: Weak<Idle>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        if !idle.upgrade().is_some_and(|idle| idle.sweep()) {
            return;
        }
    }
}
