//! The counters of a running proxy, as its admin listener returns them.

use serde_json::{Map, Value};

use super::admin::{AdminClient, AdminListener};

/// The counters of the proxy with this admin listener: the text as it came, and its content.
///
/// # Errors
/// Why there are none, in one line.
pub(crate) fn read(listener: &AdminListener) -> Result<(String, Map<String, Value>), String> {
    let text = AdminClient::new(listener)?.text("stats").map_err(|problem| problem.to_string())?;
    let failed = |error| format!("{}: its /stats are no JSON object: {error}", listener.admin);
    let numbers = serde_json::from_str(&text).map_err(failed)?;
    Ok((text, numbers))
}
