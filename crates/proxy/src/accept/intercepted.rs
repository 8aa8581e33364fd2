//! The near ends of intercepted tunnels: TLS with the client, and then HTTP as on other connections of clients.

use std::sync::Arc;

use larder_semantics::status::Why;
use rustls::AlertDescription;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, timeout_at};

use super::admit::ConnectionContext;
use crate::base::networks::host_of;
use crate::base::settings::Role;
use crate::exchange::arrival::Arrival;
use crate::exchange::plan::Plan;
use crate::exchange::reply::Tunnel;
use crate::exchange::tunnel::{Abort, carry_for};
use crate::features::arrive::{Client, Entrance};
use crate::flow::decide::port_of;
use crate::flow::drain::ConnectionPermit;
use crate::flow::interceptor::InterceptedTunnel;
use crate::flow::worker::Worker;
use crate::net::io::secured_halves;
use crate::net::tls::accept::{HandshakeError, accept_after, first_bytes};

/// The type of the first record of a handshake (RFC 8446 section 5.1).
const HANDSHAKE: u8 = 22;

/// Accepts the near ends of the tunnels that a worker intercepts, for as long as it runs.
pub(super) async fn accept(listening: ConnectionContext, mut arrivals: UnboundedReceiver<InterceptedTunnel>) {
    while let Some(arrived) = arrivals.recv().await {
        tokio::spawn(serve(listening.clone(), arrived));
    }
}

/// Makes the handshake, and serves HTTP. A client that does not begin with TLS gets a tunnel.
async fn serve(listening: ConnectionContext, arrived: InterceptedTunnel) {
    let ConnectionContext { worker, idle, .. } = &listening;
    let (permit, plan) = (ConnectionPermit::take(worker), worker.plan());
    let Some(interceptor) = worker.shared.interceptor.get() else { return };
    let timeouts = &plan.settings.timeouts;
    let end = Instant::now() + timeouts.head;
    let first = tokio::select! {
        first = timeout_at(end, first_bytes(&arrived.stream)) => first,
        // The client has not sent a request yet, so it can retry safely.
        () = worker.shared.last_wait_is_over() => return,
    };
    let Ok(Ok(first)) = first else { return };
    match first.first() {
        None => return,
        Some(&HANDSHAKE) => {}
        Some(_) => return pass_through(worker, &plan, first, arrived).await,
    }
    let InterceptedTunnel { stream, client, site, tls, .. } = arrived;
    let limits = (timeouts.head, end);
    match accept_after(first, stream, client.ip(), tls, &interceptor.handshakes, limits).await {
        Ok(secured) => {
            let entrance = Entrance::Clients(Arrival { role: Role::Forward, tls: true });
            let client = Client { entrance, address: client, identity: None, tunnel: Some(site) };
            idle.serve(worker, client, secured_halves(secured, timeouts), permit);
        }
        Err(HandshakeError::Tls(rustls::Error::AlertReceived(alert))) if is_distrust(alert) => {
            interceptor.distrusted(&site, client.ip(), &format!("{alert:?}"));
        }
        Err(error) => tracing::debug!(%client, "no TLS in the tunnel to {site}: {error}"),
    }
}

/// Whether a client ends a handshake with this alert if it does not trust the authority (RFC 8446 section 6.2).
fn is_distrust(alert: AlertDescription) -> bool {
    use AlertDescription as Alert;
    matches!(
        alert,
        Alert::BadCertificate
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::UnsupportedCertificate
    )
}

/// Carries bytes of another protocol than TLS, of which the `first` have been read, to and from the host.
async fn pass_through(worker: &Arc<Worker>, plan: &Plan, first: Vec<u8>, arrived: InterceptedTunnel) {
    let InterceptedTunnel { stream, client, site, via, is_offline, uninterceptable, .. } = arrived;
    // It is told once.
    let _ = uninterceptable.set(Why::TunnelNotTls);
    if is_offline {
        return;
    }
    tracing::info!("the tunnel of {} to {site} is not intercepted: it does not begin with TLS", client.ip());
    // The connection to the host is one more file than the two ends of this tunnel, which are counted.
    let Some(_permit) = worker.permit_of_end(plan) else { return };
    let port = port_of(&site).parse().unwrap_or(443);
    let connector = worker.clients(plan).tunnel.clone();
    let connected = connector.tunnel(host_of(&site), port, (Some(client.ip()), &via)).await;
    match connected {
        Ok(mut origin) => {
            if origin.write_all(&first).await.is_ok() {
                let idle = plan.settings.timeouts.tunnel;
                let _ = carry_for(stream, Tunnel::Tcp(origin), idle, Abort::Close).await;
            }
        }
        Err(error) => tracing::warn!("CONNECT {site}: {error}"),
    }
}
