//! Real origins (nginx, Apache, a Python server) behind the real binary, and real clients (curl, apt, wrk) before it.
//!
//! What an origin answers directly is the oracle for what it answers through the cache. A program that is
//! missing fails its tests and says how to get it.

mod apt;
mod clients;
mod curl;
mod documents;
mod https;
mod purges;
mod servers;
mod slow;

use larder_testkit::Larder;

/// A reverse proxy in front of `origin`, and where it is.
fn reverse(origin: &str) -> (Larder, String) {
    let larder = Larder::start(&format!("[[site]]\norigin = '{origin}'\n"));
    let url = format!("http://{}", larder.address());
    (larder, url)
}
