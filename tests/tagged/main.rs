//! Changing data: gateways that keep tags, and caches that ask each time. What is tagged, and for whom, is tested
//! with the pools themselves; here they meet sockets, and clients and backends that fail.

#[allow(dead_code, unused_imports, reason = "each test program uses a part of it")]
#[path = "../support/mod.rs"]
mod support;

mod always;
mod gateway;
mod overlaps;
mod pushed;

use support::{Larder, Origin};

/// A gateway in front of `origin`, of which `users` blanks `paths`, with `keys` besides.
fn gateway(origin: &Origin, keys: &str) -> Larder {
    Larder::with_site(&[origin], &format!("role = 'tags'\ncouple = {{ users = ['paths'] }}\n{keys}"))
}

/// A cache in front of `backend`.
fn cache(backend: &str, keys: &str) -> Larder {
    Larder::start(&format!("name = 'front'\n[[site]]\norigin = '{backend}'\n{keys}"))
}

/// Whether the gateway knows `tag` to be current for `target`, without asking its backend.
fn is_current(larder: &Larder, target: &str, tag: &str) -> bool {
    larder.ask(&format!("GET {target}\nIf-None-Match: {tag}")).cache() == "hit; detail=tag-current"
}
