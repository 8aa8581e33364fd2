//! A glob and, on a second line, a URL: no panic, each error is one line, and a purge reaches exactly the URLs that begin
//! and end as the glob does.

#![no_main]

use http::HeaderMap;
use larder_proxy::{glob_of_purge, inventory};
use larder_semantics::key;
use larder_semantics::purge::{Effect, Scope};
use larder_store::Purges;
use libfuzzer_sys::fuzz_target;

/// Whether `scope` has this key, by its definition.
fn has(scope: &Scope, key: &[u8]) -> bool {
    let (path, _) = key::split_at_query(key);
    match scope {
        Scope::Prefix(start) => key.starts_with(start),
        Scope::Glob { start, end } => {
            start.len() + end.len() <= path.len() && path.starts_with(start) && path.ends_with(end)
        }
        _ => false,
    }
}

fuzz_target!(|bytes: &[u8]| {
    // No target has a NUL, and no key a fragment.
    let text = std::str::from_utf8(bytes).ok().filter(|text| !text.contains(['\0', '#']));
    let Some(text) = text else { return };
    let (glob, url) = text.split_once('\n').unwrap_or((text, "http://a/b/1.png?c"));
    let scopes = match glob_of_purge(glob) {
        Ok(scopes) => scopes,
        Err(why) => return assert_eq!(why.lines().count(), 1, "{why}"),
    };
    assert!(glob.contains('*') && !scopes.is_empty(), "{glob}");
    let within = glob.replacen('*', "/between.", 1);
    for url in [url, within.as_str()] {
        for key in inventory::keys(url).into_iter().flatten() {
            let expected = scopes.iter().any(|scope| has(scope, &key));
            let purges = [(Effect::Remove, scopes.clone())];
            assert_eq!(Purges::would_reach(&purges, &key, &HeaderMap::new()), expected, "{glob} {url}");
            assert!(expected || url != within, "{glob} does not reach {url}");
        }
    }
});
