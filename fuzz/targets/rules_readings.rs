//! A path, a query and a line of cookies, one on each line: rules know each path, and conditions hold for each name, that
//! models of NGINX, PHP, Python and others find.

#![no_main]

#[path = "../../crates/rules/tests/models/mod.rs"]
mod models;

use libfuzzer_sys::fuzz_target;
use models::checks::{missed_cookie, missed_parameter, unknown_path};

fuzz_target!(|bytes: &[u8]| {
    let Some(text) = str::from_utf8(bytes).ok().filter(|text| text.is_ascii()) else { return };
    // No request has control characters in its target or in a field.
    let mut lines = text.lines().map(|line| line.replace(|c: char| c.is_ascii_control() && c != '\t', ""));
    let mut next = || lines.next().unwrap_or_default();
    let path = format!("/{}", next().replace(['?', '#'], ""));
    assert_eq!(unknown_path(&path), None, "{path}");
    let query = next();
    assert_eq!(missed_parameter(&query), None, "{query}");
    let cookies = next();
    assert_eq!(missed_cookie(cookies.trim_matches([' ', '\t'])), None, "{cookies}");
});
