//! Real origins (nginx, Apache, a Python server) behind the real binary, and real clients (curl, apt, wrk) before it.
//!
//! The origin's direct response is the oracle for the response through the cache. A missing program fails its tests
//! with a message about its package.

mod apt;
#[path = "../dashboard/browser.rs"]
#[allow(dead_code, reason = "the tests of the dashboard use the rest")]
mod browser;
mod clients;
mod curl;
mod documents;
mod https;
mod purges;
mod servers;
mod slices;
mod slow;

use larder_testkit::Larder;

/// Starts a reverse proxy before `origin`, and returns its URL.
fn reverse(origin: &str) -> (Larder, String) {
    let larder = Larder::start(&format!("[[site]]\norigin = '{origin}'\n"));
    let url = format!("http://{}", larder.address());
    (larder, url)
}
