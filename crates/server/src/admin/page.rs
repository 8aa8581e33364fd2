//! The dashboard: a page with its scripts and styles, all of them part of this program. These files have no figures and
//! no secrets, so every client may have them; the scripts request the figures from the other paths, as any client does.

use std::path::PathBuf;

use bytes::Bytes;
use http::header::ACCEPT;
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::{Either, Full};
use serde::Serialize;

use super::{Answer, prepared};
use crate::base::settings::{self, Role};
use crate::flow::worker::ProcessState;

const PAGE: &[u8] = include_bytes!("page/index.html");
const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

/// The path below `/page/`, the media type and the content of a file.
type File = (&'static str, &'static str, &'static [u8]);

/// A file of the page, whose path in the source is the same as below `/page/`.
macro_rules! file {
    ($name:literal, $kind:expr) => {
        ($name, $kind, include_bytes!(concat!("page/", $name)))
    };
}

const FILES: &[File] = &[
    file!("advice.js", SCRIPT),
    file!("ahead.js", SCRIPT),
    file!("charts.js", SCRIPT),
    file!("cluster.js", SCRIPT),
    file!("contents.js", SCRIPT),
    file!("dom.js", SCRIPT),
    file!("findings.js", SCRIPT),
    file!("fit.js", SCRIPT),
    file!("format.js", SCRIPT),
    file!("history.js", SCRIPT),
    file!("live.js", SCRIPT),
    file!("main.js", SCRIPT),
    file!("purge.js", SCRIPT),
    file!("sites.js", SCRIPT),
    file!("source.js", SCRIPT),
    file!("table.js", SCRIPT),
    file!("theme.js", SCRIPT),
    file!("tiles.js", SCRIPT),
    file!("troubles.js", SCRIPT),
    file!("urls.js", SCRIPT),
    file!("why.js", SCRIPT),
    file!("parts.css", STYLE),
    file!("style.css", STYLE),
    file!("icon.svg", "image/svg+xml"),
    file!("uplot/uPlot.iife.min.js", SCRIPT),
    file!("uplot/uPlot.min.css", STYLE),
    file!("uplot/LICENSE", super::TEXT),
];

/// Returns the page, if `fields` accept HTML; programs that do not show it get no page.
pub(super) fn index(fields: &HeaderMap) -> Option<Response<Answer>> {
    let accepts_html = |value: &HeaderValue| value.to_str().is_ok_and(|text| text.contains("text/html"));
    fields.get_all(ACCEPT).iter().any(accepts_html).then(|| part(HTML, PAGE))
}

pub(super) fn file(name: &str) -> Option<Response<Answer>> {
    let (_, kind, content) = FILES.iter().find(|(known, ..)| *known == name)?;
    Some(part(kind, content))
}

fn part(kind: &'static str, content: &'static [u8]) -> Response<Answer> {
    prepared(kind, Either::Left(Full::new(Bytes::from_static(content))))
}

/// The content of the page while there are no figures: the description of this proxy, and the addresses for requests.
#[derive(Debug, Serialize)]
pub(super) struct PageInfo {
    version: &'static str,
    /// Whether a statistics database is kept.
    statistics: bool,
    /// Whether this proxy is a node of a cluster.
    clustered: bool,
    /// Whether there are shadow caches.
    shadows: bool,
    listeners: Vec<Listener>,
}

#[derive(Debug, Serialize)]
struct Listener {
    role: &'static str,
    /// Whether it speaks TLS.
    tls: bool,
    address: String,
    /// The host of a site that clients reach there, if the listener is for sites.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
}

impl PageInfo {
    pub(super) fn of(shared: &ProcessState) -> Self {
        let plan = shared.plan();
        let settings = &plan.settings;
        let host = settings.sites.first().and_then(|site| site.hosts.first());
        let host = host.map(|host| host.replacen('*', "www", 1));
        // The listeners for HTTP were bound first. Their ports may have been chosen by the kernel.
        let bound = shared.own.addresses();
        let listener = |(number, listener): (usize, &settings::Listener)| Listener {
            role: listener.role.name(),
            tls: listener.tls,
            address: match bound.get(number) {
                Some(bound) if listener.address.port() == 0 => bound.to_string(),
                _ => listener.address.to_string(),
            },
            host: host.clone().filter(|_| listener.role == Role::Reverse),
        };
        let socket = |path: &PathBuf| Listener {
            role: Role::Reverse.name(),
            tls: false,
            address: format!("{}{}", settings::Origin::SOCKET, path.display()),
            host: host.clone(),
        };
        let sockets = settings.sockets.paths.iter().map(socket);
        Self {
            version: env!("CARGO_PKG_VERSION"),
            statistics: shared.observers.ledger.is_some(),
            clustered: shared.cluster.is_some(),
            shadows: shared.advisor.is_some(),
            listeners: settings.listen.iter().enumerate().map(listener).chain(sockets).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns every path that a text of the page names.
    fn named(text: &str) -> impl Iterator<Item = &str> {
        let quoted = text.split('"').skip(1).step_by(2);
        quoted.filter_map(|path| path.strip_prefix("/page/").or_else(|| path.strip_prefix("./")))
    }

    #[test]
    fn the_page_names_only_parts_that_there_are() {
        let texts =
            FILES.iter().filter(|(name, ..)| !name.starts_with("uplot/")).map(|(.., content)| *content);
        let mut parts = vec!["uplot/LICENSE"];
        for text in texts.chain([PAGE]) {
            parts.extend(named(std::str::from_utf8(text).unwrap()));
        }
        parts.sort_unstable();
        parts.dedup();
        let mut known: Vec<_> = FILES.iter().map(|(name, ..)| *name).collect();
        known.sort_unstable();
        assert_eq!(parts, known);
    }

    #[test]
    fn only_clients_that_accept_html_get_the_page() {
        let answer = |accept: &'static str| {
            index(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))])).is_some()
        };
        assert!(answer("text/html,application/xhtml+xml,*/*;q=0.8"));
        assert!(!answer("*/*") && !answer("application/json") && index(&HeaderMap::new()).is_none());
    }
}
