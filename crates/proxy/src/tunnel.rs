//! Connections that leave HTTP: `CONNECT` tunnels and accepted upgrades. Bytes go both ways until
//! one side is done; then what is under way in the other direction gets a little time.

use std::io;
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy_bidirectional};
use tokio::net::TcpStream;

use crate::reply::Tunnel;

/// How long a tunnel may live without ending by itself.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Carries bytes between `client` and the other end; `early` are bytes that the client sent already.
pub(crate) async fn run(mut client: TcpStream, early: &[u8], tunnel: Tunnel) {
    let carried = match tunnel {
        Tunnel::Tcp(mut origin) => carry(&mut client, early, &mut origin).await,
        Tunnel::Upgraded(upgraded) => carry(&mut client, early, &mut TokioIo::new(upgraded)).await,
    };
    if let Err(error) = carried {
        tracing::debug!("tunnel ended: {error}");
    }
}

async fn carry<O>(client: &mut TcpStream, early: &[u8], origin: &mut O) -> io::Result<()>
where
    O: AsyncRead + AsyncWrite + Unpin,
{
    origin.write_all(early).await?;
    match tokio::time::timeout(LONGEST, copy_bidirectional(client, origin)).await {
        Ok(carried) => carried.map(drop),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}
