//! Registers the ONC door with rpcbind, and unregisters it. Without rpcbind, clients must be given the port number.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::BytesMut;
use larder_rpc::onc::rpcbind::{Answer, Client, Request, Transport};
use larder_rpc::onc::{PROGRAM, VERSION};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;

use crate::base::error::cause;

/// Timeout of rpcbind for a series of requests.
const PATIENCE: Duration = Duration::from_secs(2);

/// A registration with rpcbind.
pub struct Registration {
    socket: PathBuf,
}

impl Registration {
    /// Registers the program at `addresses`, over TCP, and over UDP where the boolean is set. Replaces existing
    /// registrations. `None` if there is no address or no rpcbind, or the registration failed; the log has the reason.
    pub async fn make(socket: Option<&Path>, addresses: &[(SocketAddr, bool)]) -> Option<Self> {
        let socket = socket.filter(|_| !addresses.is_empty())?;
        if !socket.exists() {
            tracing::info!(
                "no rpcbind at {}: ONC RPC clients must be given the port number",
                socket.display()
            );
            return None;
        }
        let transports = |&(address, has_udp): &(SocketAddr, bool)| {
            let transports = std::iter::once(Transport::Tcp).chain(has_udp.then_some(Transport::Udp));
            transports.map(move |transport| Request::Set { transport, address })
        };
        // A registration that another process has left would prevent the new one.
        let requests: Vec<_> =
            std::iter::once(Request::Unset).chain(addresses.iter().flat_map(transports)).collect();
        match ask(socket, &requests).await {
            Ok(()) => {
                tracing::info!("registered with rpcbind at {}", socket.display());
                Some(Self { socket: socket.to_owned() })
            }
            Err(error) => {
                tracing::warn!("not registered with rpcbind at {}: {}", socket.display(), cause(&error));
                None
            }
        }
    }

    /// Removes the registration.
    pub async fn withdraw(self) {
        if let Err(error) = ask(&self.socket, &[Request::Unset]).await {
            tracing::warn!("still registered with rpcbind at {}: {}", self.socket.display(), cause(&error));
        }
    }
}

async fn ask(socket: &Path, requests: &[Request]) -> io::Result<()> {
    match tokio::time::timeout(PATIENCE, ask_in_turn(socket, requests)).await {
        Ok(asked) => asked,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer")),
    }
}

async fn ask_in_turn(socket: &Path, requests: &[Request]) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket).await?;
    let mut client = Client::new(PROGRAM, VERSION, 0);
    let mut buffer = BytesMut::new();
    for request in requests {
        stream.write_all(&client.encode(*request)).await?;
        let answer = loop {
            if let Some(answer) = client.decode(&mut buffer).map_err(io::Error::other)? {
                break answer;
            }
            if stream.read_buf(&mut buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        match answer {
            Answer::Done | Answer::Address(_) => {}
            Answer::Refused if *request == Request::Unset => {}
            Answer::Refused => return Err(io::Error::other("the program is registered elsewhere")),
            Answer::Failure(why) => return Err(io::Error::other(why)),
        }
    }
    Ok(())
}
