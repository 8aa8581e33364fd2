//! Changing data: gateways that store tags, and caches that revalidate each use. Which responses are tagged is tested
//! with the pools themselves; here they meet sockets, and clients and backends that fail.

mod always;
mod checker;
mod doubt;
mod gateway;
mod late;
mod overlaps;
mod pushed;
mod restarts;

use larder_testkit::{Larder, Origin, site};

/// A gateway in front of `origin`, of which `users` blanks `paths`, with `keys` besides.
fn gateway(origin: &Origin, keys: &str) -> Larder {
    started(origin, "", keys)
}

/// The same with `tables` of the config file.
fn started(origin: &Origin, tables: &str, keys: &str) -> Larder {
    let keys = format!("role = 'tags'\ncouple = {{ users = ['paths'] }}\n{keys}");
    let config = format!("{tables}\n{}", site(&[origin], &keys));
    Larder::start_settled(&config, &[("site1", &origin.url())])
}

/// A cache in front of `backend`.
fn cache(backend: &str, keys: &str) -> Larder {
    Larder::start(&format!("name = 'front'\n[[site]]\norigin = '{backend}'\n{keys}"))
}

/// Whether the gateway knows `tag` to be current for `target`, without asking its backend.
fn is_current(larder: &Larder, target: &str, tag: &str) -> bool {
    larder.ask(&format!("GET {target}\nIf-None-Match: {tag}")).cache() == "hit; detail=tag-current"
}
