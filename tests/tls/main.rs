//! Listeners with TLS: certificates, versions, sessions, and requests over them. Most clients are curl and OpenSSL's.

mod alerts;
mod certificates;
mod client_certificates;
mod clients;
mod handshakes;
mod hsts;
mod identified;
mod libraries;
mod lines;
mod origins;
mod records;
mod requests;
mod sessions;
mod tlslite;
mod wild;

use larder_testkit::{Authority, Larder, Origin, site};

/// Starts a reverse proxy before `origin` that also listens for TLS, with `keys` of the site's table.
fn larder(authority: &Authority, origin: &Origin, keys: &str) -> Larder {
    Larder::start(&config(authority, origin, keys))
}

fn config(authority: &Authority, origin: &Origin, keys: &str) -> String {
    let pair = authority.pair("site", &["site.test", "localhost"]);
    format!("{LISTEN}{}{}", pair.table(), site(&[origin], keys))
}

const LISTEN: &str = "[reverse]\nlisten = '127.0.0.1:0'\nlisten_tls = '127.0.0.1:0'\n";
/// The name of a TLS listener for sites.
const TLS: &str = "reverse, TLS";
