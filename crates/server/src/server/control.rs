//! The commands to a running proxy.

use crate::base::settings::Settings;

/// A command to a running proxy.
#[derive(Debug)]
pub enum Control {
    /// Use these settings from now on.
    Reload(Box<Settings>),
    /// Reopen the access log.
    Reopen,
    /// Start a successor from the file of this program, hand over to it, and end.
    Upgrade,
    /// Accept no more connections, finish the requests in flight, then end.
    Drain,
    /// End at once.
    Stop,
}
