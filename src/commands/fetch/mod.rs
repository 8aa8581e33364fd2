//! `larder fetch`: pages from a server, over any of its protocols, once or as a workload.

mod args;
mod client;
mod explanations;
mod http;
mod measure;
mod names;
mod page_output;
mod pages;
mod report;
mod rpc;
mod server;
mod tunnel;

use std::path::Path;

use larder_lab::trace;
use larder_lab::workload::Requests;
use larder_rpc::{Answer, Call};
use serde_json::json;

use crate::cli::admin::{ADMIN, AdminListener};
use crate::cli::{Failure, counters, say};
use args::Via;
pub(super) use args::{EXAMPLES, Fetch};
use measure::{ClientFigures, Plan};
use page_output::PageOutput;
use report::Figures;
use server::Server;

/// The most failures of a workload that are shown.
const SHOWN: usize = 10;
/// The default number of connections for requests at a rate.
const OPEN: usize = 64;

/// Fetches the pages that the user named.
pub(crate) fn run(args: &Fetch) -> Result<(), Failure> {
    let is_measured = args.workload.is_some() || args.repeat.is_some() || args.rate.is_some() || args.json;
    let server = Server::new(args)?;
    check_protocol(args)?;
    let statistics = StatisticsSource::new(args);
    let keep = PageOutput::new(args, is_measured)?;
    let plan = if is_measured && !args.stats { Some(plan(args)?) } else { None };
    if args.reset {
        server.call(&Call::Reset)?;
    }
    if args.stats {
        let figures = statistics.figures(&server).map_err(Failure::Failed)?;
        show(args, &server, figures.as_ref(), None);
        return Ok(());
    }
    let failures = match plan {
        Some(plan) => {
            let measured = measure::run(&server, plan, keep)?;
            let mut failures = failures(&measured);
            let figures = statistics.figures(&server).map_err(|why| failures.push(why)).ok().flatten();
            show(args, &server, figures.as_ref(), Some(&measured));
            failures
        }
        None => {
            let connections = if keep.in_order() { 1 } else { args.connections.unwrap_or(1) };
            pages::run(&server, &args.urls, connections, &keep)?
        }
    };
    if failures.is_empty() { Ok(()) } else { Err(Failure::Failed(failures.join("\n"))) }
}

/// Checks that the protocol has what the arguments request.
fn check_protocol(args: &Fetch) -> Result<(), Failure> {
    let works = |option: &str, with: &str| {
        Err(Failure::Refused(format!("{option} works with {with} only, not with {}", args.via.name())))
    };
    if args.reset && !args.via.has_statistics() {
        return works("--reset", "thrift and line");
    }
    if !args.headers.is_empty() && args.via != Via::Http {
        return works("--header", "http");
    }
    Ok(())
}

/// The source of the server's statistics.
enum StatisticsSource {
    /// No statistics are wanted.
    Off,
    /// The server, by the protocol of the pages.
    Calls,
    /// The admin listener at this address.
    Admin(String),
}

impl StatisticsSource {
    fn new(args: &Fetch) -> Self {
        match (args.admin.as_deref(), args.via) {
            (Some("off"), _) => Self::Off,
            (Some(admin), _) => Self::Admin(admin.to_owned()),
            (None, via) if via.has_statistics() => Self::Calls,
            (None, _) => Self::Admin(ADMIN.to_owned()),
        }
    }

    /// Returns the server's statistics, or the reason why there are none, in one line.
    fn figures(&self, server: &Server) -> Result<Option<Figures>, String> {
        match self {
            Self::Off => Ok(None),
            Self::Admin(admin) => {
                let (_, numbers) = counters::read(&AdminListener::at(admin))?;
                Ok(Some(report::of_admin(numbers)))
            }
            Self::Calls => match server.call(&Call::Statistics) {
                Ok(Answer::Statistics(statistics)) => Ok(Some(report::of_server(&statistics))),
                Ok(_) => Err(format!("{}: no statistics, but an answer to another call", server.address)),
                Err(Failure::Failed(why) | Failure::Refused(why)) => Err(why),
                Err(Failure::Ended(code)) => Err(format!("exit code {code}")),
            },
        }
    }
}

/// Returns the requests to send, and the way to send them.
fn plan(args: &Fetch) -> Result<Plan, Failure> {
    let (mut requests, accepts): (_, fn(u16) -> bool) = match &args.workload {
        Some(path) => (workload(path, args)?, |status| status < 500),
        None => {
            let order: Vec<_> = (0..args.urls.len() as u32).collect();
            (Requests::gets(args.urls.clone(), &order), |status| (200..300).contains(&status))
        }
    };
    requests.add_fields(&args.headers);
    let connections = args.connections.unwrap_or(if args.rate.is_some() { OPEN } else { 1 });
    Ok(Plan { requests, times: args.repeat.unwrap_or(1), connections, rate: args.rate, accepts })
}

/// Reads the requests in the file at `path`, except those that the protocol does not have; paths are on the origin.
fn workload(path: &Path, args: &Fetch) -> Result<Requests, Failure> {
    let refused = |why: String| Failure::Refused(format!("cannot send '{}': {why}", path.display()));
    let (mut requests, reading) = trace::requests(path, &args.reading.options())
        .map_err(|error| Failure::Refused(error.to_string()))?;
    let mut notes = reading.notes();
    requests.change_urls(|url| url_of(url, args.origin.as_deref())).map_err(refused)?;
    if args.via != Via::Http {
        let others = requests.leave_gets();
        if others > 0 {
            let via = args.via.name();
            notes.push(format!("left out {others} with a method other than GET, which {via} does not have"));
        }
        if requests.is_empty() {
            return Err(refused("it has no GETs".to_owned()));
        }
    }
    for note in notes {
        eprintln!("larder: {}: {note}", path.display());
    }
    Ok(requests)
}

/// Returns the URL for `text` in a workload; paths are on `origin`, and `host/path` is a URL of http.
fn url_of(text: &str, origin: Option<&str>) -> Result<String, String> {
    match origin {
        _ if args::is_url(text) => Ok(text.to_owned()),
        _ if begins_with_host(text) => Ok(format!("http://{text}")),
        Some(origin) if text.starts_with('/') => Ok(format!("{}{text}", origin.trim_end_matches('/'))),
        None if text.starts_with('/') => {
            Err(format!("'{}' is a path; name its server by --origin URL", text.escape_debug()))
        }
        _ => Err(format!("'{}' is neither a url nor a path", text.escape_debug())),
    }
}

/// Whether `text` is a host, with or without a port, and a path, as logs of several sites have it.
fn begins_with_host(text: &str) -> bool {
    let host = text.split_once('/').map_or("", |(host, _)| host);
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-.:[]_".contains(c);
    !host.is_empty() && host.chars().all(is_host)
}

/// Returns the first failures, and the number of the others.
fn failures(seen: &ClientFigures) -> Vec<String> {
    let mut lines: Vec<_> = seen.failures.iter().take(SHOWN).cloned().collect();
    let more = seen.errors - lines.len() as u64;
    if more > 0 {
        lines.push(format!("{more} more failed"));
    }
    lines
}

fn show(args: &Fetch, server: &Server, figures: Option<&Figures>, seen: Option<&ClientFigures>) {
    let client = seen.map(report::of_client);
    if args.json {
        say(&json!({ "server": figures, "client": client }).to_string());
        return;
    }
    let title = format!("server ({} {})", server.via.name(), server.address);
    let tables = [(title.as_str(), figures), ("client", client.as_ref())];
    for (title, figures) in tables {
        if let Some(figures) = figures {
            say(&report::table(title, figures));
        }
    }
    if let Some(seen) = seen.filter(|seen| !seen.times.is_empty()) {
        say(&report::histogram(&seen.times));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workload_has_urls_or_paths_of_an_origin() {
        let path = "'/a' is a path; name its server by --origin URL";
        for (text, origin, expected) in [
            ("/a", Some("http://o:1/"), Ok("http://o:1/a")),
            ("http://b/", Some("http://o:1/"), Ok("http://b/")),
            ("HTTPS://b/", None, Ok("HTTPS://b/")),
            ("/a", None, Err(path)),
            ("a.test/x", Some("http://o"), Ok("http://a.test/x")),
            ("a.test:81/x", None, Ok("http://a.test:81/x")),
            ("a b/x", None, Err("'a b/x' is neither a url nor a path")),
            ("word", None, Err("'word' is neither a url nor a path")),
        ] {
            let url = url_of(text, origin);
            assert_eq!(url.as_deref().map_err(String::as_str), expected, "{text}");
        }
    }
}
