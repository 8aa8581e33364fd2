//! `larder fetch`: pages from a server, over any of its protocols, once or as a workload.

mod args;
mod door;
mod http;
mod keep;
mod names;
mod replay;
mod report;
mod said;
mod server;
mod tunnel;

use larder_lab::trace::{self, Trace};
use larder_rpc::{Answer, Call};
use serde_json::json;

use crate::cli::admin::{ADMIN, AdminListener};
use crate::cli::{Failure, counters, say, traces};
pub(super) use args::{EXAMPLES, Fetch};
use keep::Keep;
use replay::{List, Seen};
use report::Figures;
use server::Server;

/// How many failures of a workload are shown.
const SHOWN: usize = 10;

/// Fetches what the user asked for.
pub(crate) fn run(args: &Fetch) -> Result<(), Failure> {
    let measured = args.workload.is_some() || args.repeat.is_some() || args.json;
    let server = Server::new(args)?;
    let source = Source::new(args);
    if args.reset && !args.via.has_statistics() {
        let why = format!("--reset works with thrift and line only, not with {}", args.via.name());
        return Err(Failure::Refused(why));
    }
    let keep = Keep::new(args, measured)?;
    let list = if args.stats { None } else { Some(list(args)?) };
    if args.reset {
        server.call(&Call::Reset)?;
    }
    let Some(list) = list else {
        let figures = source.figures(&server).map_err(Failure::Failed)?;
        show(args, &server, figures.as_ref(), None);
        return Ok(());
    };
    let connections = if keep.in_order() { 1 } else { args.connections };
    let seen = replay::run(&server, &list, connections, &keep)?;
    let mut failures = failures(&seen, if measured { SHOWN } else { usize::MAX });
    if measured {
        let figures = source.figures(&server).unwrap_or_else(|why| {
            failures.push(why);
            None
        });
        show(args, &server, figures.as_ref(), Some(&seen));
    }
    if failures.is_empty() { Ok(()) } else { Err(Failure::Failed(failures.join("\n"))) }
}

/// The source of the server's statistics.
enum Source {
    Nobody,
    /// The server, by the door that pages come from.
    Calls,
    Admin(String),
}

impl Source {
    fn new(args: &Fetch) -> Self {
        match (args.admin.as_deref(), args.via) {
            (Some("off"), _) => Self::Nobody,
            (Some(admin), _) => Self::Admin(admin.to_owned()),
            (None, via) if via.has_statistics() => Self::Calls,
            (None, _) => Self::Admin(ADMIN.to_owned()),
        }
    }

    /// The server's statistics, or why there are none, in one line.
    fn figures(&self, server: &Server) -> Result<Option<Figures>, String> {
        match self {
            Self::Nobody => Ok(None),
            Self::Admin(admin) => {
                let (_, numbers) = counters::read(&AdminListener::at(admin))?;
                Ok(Some(report::of_admin(numbers)))
            }
            Self::Calls => match server.call(&Call::Statistics) {
                Ok(Answer::Statistics(statistics)) => Ok(Some(report::of_server(&statistics))),
                Ok(_) => Err(format!("{}: no statistics, but an answer to another call", server.address)),
                Err(Failure::Failed(why) | Failure::Refused(why)) => Err(why),
            },
        }
    }
}

/// What to fetch.
fn list(args: &Fetch) -> Result<List, Failure> {
    let times = args.repeat.unwrap_or(1);
    let Some(path) = &args.workload else {
        let order = (0..args.urls.len() as u32).collect();
        return Ok(List { urls: args.urls.clone(), order, times });
    };
    let trace = traces::read(path, &trace::Options::default())?;
    let urls = urls(&trace, args.origin.as_deref())
        .map_err(|why| Failure::Refused(format!("cannot send '{}': {why}", path.display())))?;
    Ok(List { urls, order: trace.ids().to_vec(), times })
}

/// The URL of each object of `trace`; paths are those of `origin`.
fn urls(trace: &Trace, origin: Option<&str>) -> Result<Vec<String>, String> {
    let objects = trace.shape().objects;
    let url = |id| match (trace.name(id), origin) {
        (None, _) => Err("it has numbers for objects, and no urls".to_owned()),
        (Some(name), _) if args::is_url(name) => Ok(name.to_owned()),
        (Some(path), Some(origin)) if path.starts_with('/') => {
            Ok(format!("{}{path}", origin.trim_end_matches('/')))
        }
        (Some(path), None) if path.starts_with('/') => {
            Err(format!("'{}' is a path; say of what with --origin URL", path.escape_debug()))
        }
        (Some(name), _) => Err(format!("'{}' is neither a url nor a path", name.escape_debug())),
    };
    (0..objects).map(url).collect()
}

/// The first `shown` failures, and how many more there are.
fn failures(seen: &Seen, shown: usize) -> Vec<String> {
    let mut lines: Vec<_> = seen.failures.iter().take(shown).cloned().collect();
    let more = seen.errors - lines.len() as u64;
    if more > 0 {
        lines.push(format!("{more} more failed"));
    }
    lines
}

fn show(args: &Fetch, server: &Server, figures: Option<&Figures>, seen: Option<&Seen>) {
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
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn sent(text: &'static str, origin: Option<&str>) -> Result<Vec<String>, String> {
        let (trace, _) = trace::read_from(Cursor::new(text), &trace::Options::default()).expect("a trace");
        urls(&trace, origin)
    }

    #[test]
    fn a_workload_has_urls_or_paths_of_an_origin() {
        let workload = "# larder workload 1\n0 GET /a 1 1\n5 GET http://b/ 1 1\n";
        let urls = |first: &str| Ok(vec![first.to_owned(), "http://b/".to_owned()]);
        assert_eq!(sent(workload, Some("http://o:1/")), urls("http://o:1/a"));
        assert_eq!(sent(workload, None), Err("'/a' is a path; say of what with --origin URL".to_owned()));
        assert_eq!(
            sent("a.test/x\na.test/y\n", Some("http://o")),
            Err("'a.test/x' is neither a url nor a path".to_owned())
        );
        assert_eq!(sent("17\n18\n", None), Err("it has numbers for objects, and no urls".to_owned()));
    }
}
