//! Patterns of paths, hosts and media types. A pattern that can never match, since the compared text never has its
//! form, is an error: a rule that never applies gives no protection.

use larder_proxy::settings::{Pattern, normal_path};

/// Parses a pattern of paths, which are compared in their normal form: decoded, without empty segments, `.` and `..`.
pub(super) fn path_pattern(text: &str) -> Result<Pattern, String> {
    let shown = text.escape_debug();
    if let Some(path) = text.strip_prefix('!') {
        let path = path.escape_debug();
        return Err(format!("'{shown}': write not, as in match = {{ not = {{ path = \"{path}\" }} }}"));
    }
    if !text.starts_with(['/', '*', '~']) {
        return Err(format!(
            "'{shown}' is not a path: begin it with '/', with '*', or with '~' and a regular expression"
        ));
    }
    if text.starts_with('~') {
        return Pattern::parse(text);
    }
    if text.contains('?') {
        return Err(format!("'{shown}': paths are compared without their query; use match.query for that"));
    }
    let rooted = if text.starts_with('/') { text.to_owned() } else { format!("/{text}") };
    let normal = normal_path(&rooted);
    if *normal != *rooted.as_bytes() {
        let normal = String::from_utf8_lossy(&normal[rooted.len() - text.len()..]).into_owned();
        return Err(format!(
            "'{shown}' never matches: paths are compared in one form, in which this is '{}'",
            normal.escape_debug()
        ));
    }
    Pattern::parse(text)
}

/// Parses a pattern of hosts, which are compared without their port.
pub(super) fn host_pattern(text: &str) -> Result<Pattern, String> {
    let shown = text.escape_debug();
    if text.starts_with('~') {
        return Pattern::parse_folding(text);
    }
    let has_port = text.contains("]:") || (text.contains(':') && !text.starts_with('['));
    if has_port || text.contains(['/', '@', ' ']) {
        return Err(format!("'{shown}' never matches: write a host alone, without scheme, port and path"));
    }
    if !text.is_ascii() {
        return Err(format!("'{shown}' never matches: clients send the ASCII form of such names (xn--..)"));
    }
    // A dot at the end does not change the host.
    Pattern::parse_folding(text.strip_suffix('.').unwrap_or(text))
}

/// Parses a pattern of media types, which are compared without parameters.
pub(super) fn type_pattern(text: &str) -> Result<Pattern, String> {
    let shown = text.escape_debug();
    let is_type = text.contains('/') || text.contains('*');
    match text.starts_with('~') || (is_type && !text.contains([';', ' '])) {
        true => Pattern::parse_folding(text),
        false => {
            Err(format!("'{shown}' never matches: write a media type without parameters, such as \"text/*\""))
        }
    }
}
