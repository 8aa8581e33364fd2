//! The server of the pages, and its protocol.

use std::sync::Arc;
use std::time::Duration;

use larder_load::{Dialect, ForeignClient, ForeignFactory};
use larder_rpc::{Answer, Call};
use rustls::ClientConfig;

use super::args::{Fetch, Via};
use super::client::{self, PageClient};
use super::http::{self, HttpClient, Tunnels};
use super::rpc::{RpcClient, RpcProtocol};
use crate::cli::Failure;

/// The server of the pages, and its protocol.
pub(super) struct Server {
    pub(super) via: Via,
    pub(super) address: String,
    way: Way,
    /// The longest time until an answer.
    pub(super) patience: Duration,
}

enum Way {
    Http { tls: Box<ClientConfig>, http2: bool },
    Rpc(RpcProtocol),
}

impl Server {
    /// Returns the server that the arguments name. Errors: the arguments contradict each other.
    pub(super) fn new(args: &Fetch) -> Result<Self, Failure> {
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
        foreign(args.http2, "--http2 goes", Via::Http)?;
        let way = match args.via {
            Via::Http => {
                let tls = http::tls(args.http2).map_err(Failure::Failed)?;
                Way::Http { tls: Box::new(tls), http2: args.http2 }
            }
            Via::Thrift => Way::Rpc(RpcProtocol::Thrift(
                args.transport.unwrap_or_default(),
                args.protocol.unwrap_or_default(),
            )),
            Via::Onc => Way::Rpc(RpcProtocol::Onc),
            Via::Line => Way::Rpc(RpcProtocol::Line(args.form.unwrap_or_default())),
        };
        let address = args.server.clone().unwrap_or_else(|| args.via.address().to_string());
        Ok(Self { via: args.via, address, way, patience: args.timeout })
    }

    /// Creates a client for one thread; it connects at the first call.
    pub(super) fn client(&self) -> Result<Box<dyn PageClient>, Failure> {
        Ok(match &self.way {
            Way::Http { tls, http2 } => {
                let client =
                    HttpClient::new(&self.address, (ClientConfig::clone(tls), *http2), self.patience);
                let failed = |error| Failure::Failed(format!("cannot ask {}: {error}", self.address));
                Box::new(client.map_err(failed)?)
            }
            Way::Rpc(protocol) => Box::new(RpcClient::new(&self.address, *protocol, self.patience)),
        })
    }

    /// Returns the protocol of the load driver for this server, and its form.
    pub(super) fn dialect(&self) -> (larder_load::Via, Dialect) {
        let usual = Dialect::default();
        match self.way {
            Way::Http { .. } => (larder_load::Via::Http, usual),
            Way::Rpc(RpcProtocol::Thrift(transport, protocol)) => {
                (larder_load::Via::Thrift, Dialect { transport, protocol, ..usual })
            }
            Way::Rpc(RpcProtocol::Onc) => (larder_load::Via::Onc, usual),
            Way::Rpc(RpcProtocol::Line(form)) => (larder_load::Via::Line, Dialect { form, ..usual }),
        }
    }

    /// Whether requests to it use HTTP/2.
    pub(super) fn speaks_http2(&self) -> bool {
        matches!(self.way, Way::Http { http2: true, .. })
    }

    /// Returns a maker of clients for the load driver: for `https` URLs through tunnels of a proxy, or for all URLs in
    /// HTTP/2. `None` if the server fetches such pages itself.
    pub(super) fn tunnels(&self) -> Option<ForeignFactory> {
        let Way::Http { tls, http2 } = &self.way else { return None };
        let (tls, http2) = (tls.clone(), *http2);
        let (server, patience) = (self.address.clone(), self.patience);
        Some(Arc::new(move || {
            let client = Tunnels::new(&server, (ClientConfig::clone(&tls), http2), patience);
            let client = client.map_err(|error| format!("cannot ask {server}: {error}"))?;
            Ok(Box::new(client) as Box<dyn ForeignClient>)
        }))
    }

    /// Returns the answer to `call`, on a separate connection.
    pub(super) fn call(&self, call: &Call) -> Result<Answer, Failure> {
        let failed = |why: String| Failure::Failed(format!("{}: {why}", self.address));
        match client::ask(&mut *self.client()?, call) {
            Ok(Answer::Failure(failure)) => Err(failed(failure.why)),
            Ok(answer) => Ok(answer),
            Err(problem) => Err(failed(problem.to_string())),
        }
    }
}
