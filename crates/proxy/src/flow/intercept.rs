//! Interception: this process answers the requests in a client's tunnel itself, over TLS with a certificate that its own
//! authority signs.
//!
//! The far end of such a tunnel is a socket of this process. `server` accepts the near end as one more connection of the
//! client, so that all protocols and rules hold in it. A host keeps its tunnels as they are if a client does not trust
//! the authority, if its origin asks for certificates of clients, or if it does not use TLS. What is wrong with the
//! certificate of an origin is told to the requests in the tunnel.

use std::io;
use std::sync::Arc;

use larder_semantics::key;
use larder_semantics::status::Why;
use tokio::net::{TcpStream, UnixStream};

use crate::base::clock;
use crate::base::error::cause;
use crate::base::networks::host_of;
use crate::exchange::passes;
use crate::exchange::plan::Plan;
use crate::exchange::reply::{Tunnel, Uninterceptable};
use crate::exchange::request::Request;
use crate::flow::interceptor::{InterceptedTunnel, Interceptor};
use crate::flow::worker::Worker;
use crate::net::stream::of_socket;

/// Returns the far end of a tunnel whose requests this process answers. Errors: the reason for a tunnel to the host
/// itself.
pub(super) async fn open(
    interceptor: &Interceptor,
    worker: &Worker,
    plan: &Plan,
    request: &Request,
) -> Result<Tunnel, Why> {
    let site = site_of(request).filter(|site| is_wanted(plan, site)).ok_or(Why::Method)?;
    let host = host_of(site);
    let asks_client = request.inquiry.is_some() || request.token.is_some();
    if request.ruling.wanted.is_some() || asks_client || request.asked_for_certificate {
        return Err(Why::TunnelCredentials);
    }
    let (http2, is_offline) = (plan.settings.limits.streams > 0, request.asked.only_if_cached);
    let signed = || interceptor.authority.config_for(host, http2, clock::now().into());
    let tls = match interceptor.is_known(site, request.client.ip())? || is_offline {
        true => signed(),
        false => {
            let client = Some(request.client.ip());
            let probe = worker.clients(plan).forward.clone();
            // The certificate is signed while the origin makes its part of the handshake.
            let (probed, tls) =
                tokio::join!(probe.warm(site, client, plan.settings.forward.http2), async { signed() });
            interceptor.judge(site, probed)?;
            tls
        }
    };
    let failed = |why: String| {
        worker.shared.observers.repeats.warn(&why, || format!("CONNECT {site} is not intercepted: {why}"));
        Why::Method
    };
    let tls = tls.map_err(failed)?;
    let (far, stream) = pair().map_err(|error| failed(cause(&error)))?;
    let uninterceptable = Uninterceptable::default();
    let tunnel = Tunnel::Intercepted(far, Arc::clone(&uninterceptable));
    let (client, via) = (request.client, passes::via_line(plan, request));
    let near = InterceptedTunnel { stream, client, site: site.into(), via, tls, is_offline, uninterceptable };
    worker.intercepted.send(near).map_err(|_| Why::Method)?;
    Ok(tunnel)
}

/// Returns the reason why requests to the host of `request` over https pass in tunnels that are not read; `None` if this
/// process answers them, as far as it is known.
pub(crate) fn passes_unseen(
    interceptor: Option<&Interceptor>,
    plan: &Plan,
    request: &Request,
) -> Option<Why> {
    let site = site_of(request)?;
    match interceptor.filter(|_| is_wanted(plan, site)) {
        Some(interceptor) => interceptor.finding(site),
        None => Some(Why::Method),
    }
}

fn is_wanted(plan: &Plan, site: &str) -> bool {
    plan.settings.intercept.as_ref().is_some_and(|intercept| intercept.wants(host_of(site)))
}

/// Returns the host of a tunnel, in lower case, and the port if it is not 443.
fn site_of(request: &Request) -> Option<&str> {
    let (_, site, _) = key::parse(request.target())?;
    str::from_utf8(site).ok()
}

/// Returns the two ends of a connection within this process.
fn pair() -> io::Result<(TcpStream, TcpStream)> {
    let (far, near) = UnixStream::pair()?;
    Ok((of_socket(far)?, of_socket(near)?))
}
