//! `larder fetch`: pages from a server, over any of its protocols, once or as a workload.

pub(crate) mod args;
mod door;
mod http;
mod keep;
mod names;
mod replay;
mod report;

use std::time::Duration;

use larder_lab::trace::{self, Trace};
use larder_rpc::line::Form;
use larder_rpc::thrift::{Protocol, Transport};
use larder_rpc::{Answer, Call};
use rustls::ClientConfig;
use serde_json::json;

use crate::args::ADMIN;
use crate::remote::Listener;
use crate::{Failure, say, stats, workload};
use args::{Fetch, Via};
use door::{Door, Rpc, Speech};
use http::Http;
use keep::Keep;
use replay::{List, Seen};
use report::Figures;

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

/// The server, and the protocol.
pub(super) struct Server {
    via: Via,
    address: String,
    way: Way,
    patience: Duration,
}

enum Way {
    Http(Box<ClientConfig>),
    Rpc(Speech),
}

impl Server {
    fn new(args: &Fetch) -> Result<Self, Failure> {
        let foreign = |is_there: bool, words: &str, via: Via| match is_there && args.via != via {
            true => {
                let (theirs, yours) = (via.name(), args.via.name());
                Err(Failure::Refused(format!("{words} with --via {theirs} only, not with --via {yours}")))
            }
            false => Ok(()),
        };
        foreign(args.transport.is_some(), "--transport goes", Via::Thrift)?;
        foreign(args.protocol.is_some(), "--protocol goes", Via::Thrift)?;
        foreign(args.form.is_some(), "--form goes", Via::Line)?;
        let way = match args.via {
            Via::Http => Way::Http(Box::new(http::tls().map_err(Failure::Failed)?)),
            Via::Thrift => Way::Rpc(Speech::Thrift(
                args.transport.map_or(Transport::Framed, Transport::from),
                args.protocol.map_or(Protocol::Binary, Protocol::from),
            )),
            Via::Onc => Way::Rpc(Speech::Onc),
            Via::Line => Way::Rpc(Speech::Line(args.form.map_or(Form::Framed, Form::from))),
        };
        let address = args.server.clone().unwrap_or_else(|| args.via.address().to_string());
        Ok(Self { via: args.via, address, way, patience: args.timeout })
    }

    /// A door for one thread; it connects when it is asked.
    fn open(&self) -> Result<Box<dyn Door>, Failure> {
        Ok(match &self.way {
            Way::Http(tls) => {
                let door = Http::new(&self.address, ClientConfig::clone(tls), self.patience);
                let failed = |error| Failure::Failed(format!("cannot ask {}: {error}", self.address));
                Box::new(door.map_err(failed)?)
            }
            Way::Rpc(speech) => Box::new(Rpc::new(&self.address, *speech, self.patience)),
        })
    }

    fn call(&self, call: &Call) -> Result<Answer, Failure> {
        let failed = |why: String| Failure::Failed(format!("{}: {why}", self.address));
        match door::ask(&mut *self.open()?, call) {
            Ok(Answer::Failure(failure)) => Err(failed(failure.why)),
            Ok(answer) => Ok(answer),
            Err(problem) => Err(failed(problem.to_string())),
        }
    }
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
                let (_, numbers) = stats::numbers(&Listener::at(admin))?;
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
    let times = args.repeat.map_or(1, usize::from);
    let Some(path) = &args.workload else {
        let order = (0..args.urls.len() as u32).collect();
        return Ok(List { urls: args.urls.clone(), order, times });
    };
    let trace = workload::read(path, &trace::Options::default())?;
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
