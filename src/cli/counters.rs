//! The counters of a running proxy, as its admin listener returns them.

use serde_json::{Map, Value};

use super::admin::{AdminClient, AdminListener};

/// Returns the counters of the proxy with this admin listener: the original text, and its content. The error is the
/// reason why there are none, in one line.
pub(crate) fn read(listener: &AdminListener) -> Result<(String, Map<String, Value>), String> {
    let text = AdminClient::new(listener)?.text("stats").map_err(|problem| problem.to_string())?;
    let other = |_| format!("{} is not the admin listener of a larder; --admin names one", listener.admin);
    let numbers = serde_json::from_str(&text).map_err(other)?;
    Ok((text, numbers))
}
