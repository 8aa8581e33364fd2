//! Changing data: gateways that store tags, and caches that revalidate each use. Unit tests of the pools cover the
//! choice of tagged responses; these tests add sockets, and clients and backends that fail.

mod always;
mod checker;
mod doubt;
mod gateway;
mod late;
mod overlaps;
mod pushed;
mod restarts;

use larder_testkit::{Larder, Origin, site};

/// Starts a gateway before `origin`, with a coupling by which changes of `users` blank `paths`, and `keys`.
fn gateway(origin: &Origin, keys: &str) -> Larder {
    started(origin, "", keys)
}

/// Starts a gateway like [`gateway`], with `rules`.
fn started(origin: &Origin, rules: &str, keys: &str) -> Larder {
    let keys = format!("role = 'tags'\ncouple = {{ users = ['paths'] }}\n{keys}");
    let config = format!("{}{rules}", site(&[origin], &keys));
    Larder::start_settled(&config, &[("site1", &origin.url())])
}

/// Starts a cache before `backend`.
fn cache(backend: &str, keys: &str) -> Larder {
    Larder::start(&format!("name = 'front'\n[[site]]\norigin = '{backend}'\n{keys}"))
}

/// Whether the gateway confirms `tag` as current for `target` without a request to its backend.
fn is_current(larder: &Larder, target: &str, tag: &str) -> bool {
    larder.ask(&format!("GET {target}\nIf-None-Match: {tag}")).cache() == "hit; detail=tag-current"
}
