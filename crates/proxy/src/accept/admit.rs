//! Accepts connections on a worker and admits clients: reads the PROXY header, checks whether the client may use the
//! listener, makes the TLS handshake, and starts the listener's protocol.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ipnet::IpNet;
use tokio::net::{TcpListener, TcpStream, UdpSocket, UnixListener};
use tokio::sync::mpsc::UnboundedReceiver;

use super::front::{Front, Sockets};
use super::seats::{Newcomer, Seats};
use crate::base::error::cause;
use crate::base::networks;
use crate::base::settings::{Role, Settings};
use crate::exchange::arrival::Arrival;
use crate::features::arrive::{Client, Entrance};
use crate::flow::drain::{Acceptor, ConnectionPermit, Drain};
use crate::flow::worker::Worker;
use crate::http1;
use crate::http1::idle::IdleConnections;
use crate::net::farewell::close;
use crate::net::io::{ReadHalf, WriteHalf, halves, secured_halves};
use crate::net::own;
use crate::net::proxy_protocol::{self, NoHeader};
use crate::net::stream::of_socket;
use crate::net::tls::accept::{HandshakeError, TlsConnection};
use crate::net::tls::client_certificates::ClientIdentity;
use crate::rpc;

/// The address that clients of Unix sockets count as: they are on this machine.
const AT_SOCKET: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A worker, with the state that its connections need.
#[derive(Clone)]
pub(super) struct ConnectionContext {
    pub(super) worker: Arc<Worker>,
    pub(super) idle: Arc<IdleConnections>,
    pub(super) rpc: Arc<rpc::State>,
    pub(super) seats: Arc<Seats>,
}

/// A socket that accepts connections.
enum ListenSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl ListenSocket {
    async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        match self {
            Self::Tcp(listener) => listener.accept().await,
            Self::Unix(listener) => Ok((of_socket(listener.accept().await?.0)?, AT_SOCKET)),
        }
    }
}

/// Runs a worker with these sockets, and with the connections that others hand to it.
pub(super) async fn work(
    listening: ConnectionContext,
    sockets: Sockets,
    newcomers: UnboundedReceiver<Newcomer>,
) {
    let cannot = |error| tracing::error!("a worker cannot listen: {error}");
    tokio::spawn(seat(listening.clone(), newcomers));
    for (front, socket) in sockets.streams {
        match TcpListener::from_std(socket) {
            Ok(listener) => drop(tokio::spawn(accept(listening.clone(), front, ListenSocket::Tcp(listener)))),
            Err(error) => cannot(error),
        }
    }
    for (front, socket) in sockets.unix {
        match UnixListener::from_std(socket) {
            Ok(listener) => {
                drop(tokio::spawn(accept(listening.clone(), front, ListenSocket::Unix(listener))))
            }
            Err(error) => cannot(error),
        }
    }
    for socket in sockets.datagrams {
        match UdpSocket::from_std(socket) {
            Ok(socket) => drop(tokio::spawn(rpc::serve_datagrams(
                Arc::clone(&listening.worker),
                Arc::clone(&listening.rpc),
                socket,
            ))),
            Err(error) => cannot(error),
        }
    }
    while let Err(error) =
        tokio::spawn(http1::idle::run(Arc::clone(&listening.worker), Arc::clone(&listening.idle))).await
    {
        tracing::error!("a worker lost its idle connections: {error}");
    }
}

async fn accept(listening: ConnectionContext, front: Front, listener: ListenSocket) {
    let _acceptor = Acceptor::new(&listening.worker);
    let mut drain = Drain::new(&listening.worker);
    loop {
        let accepted = tokio::select! {
            biased;
            accepted = listener.accept() => accepted,
            () = drain.begun() => match listening.worker.shared.phases.accepts().await {
                true => continue,
                false => break,
            },
        };
        match accepted {
            Ok((stream, client)) => match listening.seats.hand_on(&listening.worker, front, stream, client) {
                Ok(None) => {}
                Ok(Some((stream, permit))) => welcome(&listening, front, stream, client, permit),
                Err(error) => tracing::debug!(%client, "a connection was lost: {error}"),
            },
            Err(error) => {
                // Usually, no file descriptors are left: a pause lets existing clients leave.
                let text = format!("cannot accept a connection: {}", cause(&error));
                listening.worker.shared.observers.repeats.warn(&text, || text.clone());
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Welcomes the connections that other workers hand to this one.
async fn seat(listening: ConnectionContext, mut newcomers: UnboundedReceiver<Newcomer>) {
    while let Some(Newcomer { front, stream, peer, permit }) = newcomers.recv().await {
        match TcpStream::from_std(stream) {
            Ok(stream) => welcome(&listening, front, stream, peer, permit),
            Err(error) => tracing::debug!(client = %peer, "a connection was lost: {error}"),
        }
    }
}

fn welcome(
    listening: &ConnectionContext,
    front: Front,
    stream: TcpStream,
    peer: SocketAddr,
    permit: ConnectionPermit,
) {
    // A socket of IPv6 accepts clients of IPv4, too. Origins and logs get the address that these have.
    let peer = own::canonical(peer);
    let worker = &listening.worker;
    let plan = worker.plan();
    if permit.number > plan.settings.limits.connections {
        worker.shared.closed_on_arrival.fetch_add(1, Ordering::Relaxed);
        let text = "connections are closed on arrival: there are too many (limits.connections)";
        worker.shared.observers.repeats.warn(text, || format!("{text}: {}", peer.ip()));
        return;
    }
    match networks::have(proxies_before(&plan.settings, front), peer.ip()) {
        true => drop(tokio::spawn(introduce(listening.clone(), front, stream, peer, permit))),
        false => receive(listening, front, stream, peer, permit),
    }
}

/// Returns the networks of proxies that begin each connection with a PROXY header.
fn proxies_before(settings: &Settings, front: Front) -> &[IpNet] {
    match front {
        Front::Http(Arrival { role: Role::Reverse, .. }) => &settings.proxy_protocol.reverse,
        Front::Http(Arrival { role: Role::Forward, .. }) => &settings.proxy_protocol.forward,
        Front::Door { .. } | Front::Peer { .. } => &[],
    }
}

/// Reads the PROXY header of `peer`, and continues with the client in it.
async fn introduce(
    listening: ConnectionContext,
    front: Front,
    mut stream: TcpStream,
    peer: SocketAddr,
    permit: ConnectionPermit,
) {
    let limit = listening.worker.plan().settings.timeouts.head;
    let header = tokio::select! {
        header = tokio::time::timeout(limit, proxy_protocol::read(&mut stream)) => header,
        // The client has not sent a request yet, so it can retry safely.
        () = listening.worker.shared.last_wait_is_over() => return,
    };
    match header {
        Ok(Ok(client)) => receive(&listening, front, stream, client.unwrap_or(peer), permit),
        Ok(Err(NoHeader::Malformed(why))) => {
            let hint = "the connection was closed; its network is in proxy_protocol of the config";
            tracing::warn!("{} sent no PROXY header: {why}; {hint}", peer.ip());
        }
        Ok(Err(NoHeader::Io(error))) => tracing::debug!(%peer, "no PROXY header: {error}"),
        Err(_) => tracing::debug!(%peer, "no PROXY header within {limit:?}"),
    }
}

/// Checks the connection of a client and continues with the handshake or the protocol.
fn receive(
    listening: &ConnectionContext,
    front: Front,
    stream: TcpStream,
    client: SocketAddr,
    permit: ConnectionPermit,
) {
    let plan = listening.worker.plan();
    if !may_use(&plan.settings, front, client.ip()) {
        tracing::debug!(%client, "refused: not among the clients of this listener");
        if let Front::Http(Arrival { tls: false, .. }) = front {
            tokio::spawn(turn_away(stream, client.ip(), permit));
        }
        return;
    }
    match front.speaks_tls() {
        true => drop(tokio::spawn(secure(listening.clone(), front, stream, client, permit))),
        false => admit(listening, front, halves(stream, &plan.settings.timeouts), (client, None), permit),
    }
}

/// Makes the handshake with a client, and admits it.
async fn secure(
    listening: ConnectionContext,
    front: Front,
    stream: TcpStream,
    client: SocketAddr,
    permit: ConnectionPermit,
) {
    let accepted = tokio::select! {
        accepted = handshake(&listening.worker, front, stream, client) => accepted,
        // The client has not sent a request yet, so it can retry safely.
        () = listening.worker.shared.last_wait_is_over() => return,
    };
    match accepted {
        // An authority that has verified a name sends no request.
        Ok((secured, _)) if secured.session.is_challenge => {
            secured_halves(secured, &listening.worker.plan().settings.timeouts).1.close();
        }
        Ok((secured, identity)) => {
            let ends = secured_halves(secured, &listening.worker.plan().settings.timeouts);
            admit(&listening, front, ends, (client, identity), permit);
        }
        Err(error) => tracing::debug!(%client, "no TLS: {error}"),
    }
}

/// Makes the TLS handshake for this kind of listener.
async fn handshake(
    worker: &Worker,
    front: Front,
    stream: TcpStream,
    client: SocketAddr,
) -> Result<(TlsConnection, Option<Arc<ClientIdentity>>), HandshakeError> {
    let (plan, shared) = (worker.plan(), &worker.shared);
    let limit = plan.settings.timeouts.head;
    if let (Front::Peer { .. }, Some(cluster)) = (front, &shared.cluster) {
        return cluster.secure(stream, client, limit).await.map(|secured| (secured, None));
    }
    let Some(tls) = &shared.listener_tls else { return Err(HandshakeError::Left) };
    let role = if let Front::Http(arrival) = front { Some(arrival.role) } else { None };
    let http2 = role.is_some() && plan.settings.limits.streams > 0;
    tls.accept(stream, client, limit, role, http2).await
}

/// Starts the listener's protocol on the two halves of a client's connection.
fn admit(
    ConnectionContext { worker, idle, rpc, .. }: &ConnectionContext,
    front: Front,
    ends: (ReadHalf, WriteHalf),
    (address, identity): (SocketAddr, Option<Arc<ClientIdentity>>),
    permit: ConnectionPermit,
) {
    let entrance = match front {
        Front::Http(arrival) => Entrance::Clients(arrival),
        Front::Peer { .. } => Entrance::Nodes,
        Front::Door { door, .. } => return rpc::welcome((worker, rpc), door, ends, address, permit),
    };
    idle.serve(worker, Client { entrance, address, identity, tunnel: None }, ends, permit);
}

/// Whether a client at `ip` may use this kind of listener.
fn may_use(settings: &Settings, front: Front, ip: IpAddr) -> bool {
    match front {
        Front::Http(Arrival { role: Role::Forward, .. }) => networks::have(&settings.forward.clients, ip),
        Front::Door { .. } => networks::have(&settings.doors.clients, ip),
        Front::Http(Arrival { role: Role::Reverse, .. }) | Front::Peer { .. } => true,
    }
}

/// Tells a client that it may not use the forward proxy, without reading its request.
async fn turn_away(mut stream: TcpStream, ip: IpAddr, _permit: ConnectionPermit) {
    let text = format!("403: {ip} may not use this proxy: it is not in forward.clients of the config\n");
    let head = format!(
        "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        text.len()
    );
    close(&mut stream, (head + &text).as_bytes()).await;
}
