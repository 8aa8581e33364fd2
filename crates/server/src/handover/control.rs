//! The socket on which `larder upgrade` asks a process for an upgrade.
//!
//! It is a Unix socket with an abstract name, so that there is no file to protect and to remove; the name is that of the
//! admin listener, by which users tell processes apart. The kernel tells both ends which user the other one is. The path
//! of a program never comes over the network.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener as StdUnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_peercred;
use rustix::process::{Uid, geteuid};
use serde::{Deserialize, Serialize};
use tokio::net::UnixListener;

use super::frame::{Reader, Writer};
use super::parent::{Handover, Order};
use super::sockets::{SocketReader, SocketWriter};
use super::{content, say};
use crate::base::error::cause;

/// How long a command may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(5);

/// The names of the parts.
const UPGRADE: &str = "upgrade";
const UPGRADED: &str = "upgraded";
const REFUSED: &str = "refused";

/// An order to upgrade.
#[derive(Serialize, Deserialize)]
struct Wish {
    /// The program; `None` for the file of the running one.
    binary: Option<PathBuf>,
    timeout_ms: u64,
}

/// Binds the socket of the process whose admin listener is at `admin`. Errors: another process has it.
pub(crate) fn bind(admin: SocketAddr) -> io::Result<StdUnixListener> {
    StdUnixListener::bind_addr(&name(admin)?)
}

fn name(admin: SocketAddr) -> io::Result<UnixAddress> {
    UnixAddress::from_abstract_name(format!("larder/{admin}"))
}

/// Takes orders until the task is aborted.
pub(crate) async fn serve(listener: StdUnixListener, handover: Arc<Handover>) {
    let listening = listener.set_nonblocking(true).and_then(|()| UnixListener::from_std(listener));
    let listener = match listening {
        Ok(listener) => listener,
        Err(error) => return tracing::warn!("larder upgrade cannot ask this process: {}", cause(&error)),
    };
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream.into_std(),
            Err(error) => Err(error),
        };
        let handover = Arc::clone(&handover);
        let converse = move || stream.and_then(|stream| take_order(stream, &handover));
        // The order is taken on a thread, as the command may be slow.
        let taken = tokio::task::spawn_blocking(converse).await;
        let taken = taken.unwrap_or_else(|error| Err(io::Error::other(error)));
        if let Err(error) = taken {
            tracing::debug!("no order to upgrade: {error}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Reads the order of a command, and begins the upgrade.
fn take_order(stream: UnixStream, handover: &Arc<Handover>) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    let mut outgoing = SocketWriter::new(stream.try_clone()?);
    outgoing.within(PATIENCE)?;
    let mut answers = Writer::new(outgoing)?;
    if !is_allowed(&stream)? {
        return say(&mut answers, REFUSED, &"only root and the user of this process may upgrade it");
    }
    let mut incoming = SocketReader::new(stream);
    incoming.until(Some(Instant::now() + PATIENCE));
    let part = Reader::new(incoming)?.next()?.ok_or(ErrorKind::UnexpectedEof)?;
    let Wish { binary, timeout_ms } = content(&part)?;
    let answer = move |result: &Result<String, String>| {
        let (name, line) = match result {
            Ok(line) => (UPGRADED, line),
            Err(line) => (REFUSED, line),
        };
        // The command may not wait any more.
        let _ = say(&mut answers, name, line);
    };
    let timeout = Duration::from_millis(timeout_ms);
    handover.begin(Order { binary, timeout, answer: Box::new(answer) });
    Ok(())
}

/// Whether the process at the other end belongs to root or to the user of this process.
pub(super) fn is_allowed(stream: impl AsFd) -> io::Result<bool> {
    let other = socket_peercred(stream)?.uid;
    Ok(other == Uid::ROOT || other == geteuid())
}

/// Asks the process with the admin listener `admin` for an upgrade, to the program `binary` or the one in its own file.
/// Waits for the end of the upgrade. Returns a line about what serves now.
///
/// # Errors
/// A line with the reason why nothing has changed.
pub fn upgrade(admin: &str, binary: Option<&Path>, timeout: Duration) -> Result<String, String> {
    let stream = connect(admin)?;
    let broken = |error: io::Error| match error.kind() {
        ErrorKind::UnexpectedEof => "the process has ended without an answer".to_owned(),
        ErrorKind::TimedOut => "the process does not answer".to_owned(),
        _ => format!("the process cannot be asked: {}", cause(&error)),
    };
    ask(stream, binary, timeout).map_err(broken)?
}

/// Sends the order, and returns the answer.
fn ask(stream: UnixStream, binary: Option<&Path>, timeout: Duration) -> io::Result<Result<String, String>> {
    let wish = Wish { binary: binary.map(Path::to_owned), timeout_ms: timeout.as_millis() as u64 };
    let orders = Writer::new(SocketWriter::new(stream.try_clone()?));
    // A process that refuses the user does not read the order, but it says why.
    let sent = orders.and_then(|mut orders| say(&mut orders, UPGRADE, &wish));
    let mut incoming = SocketReader::new(stream);
    // The process ends the upgrade in time itself.
    incoming.until(Some(Instant::now() + timeout + 2 * PATIENCE));
    let answer = Reader::new(incoming).and_then(|mut answers| answers.next());
    let part = answer.or_else(|error| sent.and(Err(error)))?.ok_or(ErrorKind::UnexpectedEof)?;
    let line = content(&part)?;
    Ok(if part.name == UPGRADED { Ok(line) } else { Err(line) })
}

fn connect(admin: &str) -> Result<UnixStream, String> {
    let addresses = admin.to_socket_addrs().map_err(|error| format!("{admin}: {}", cause(&error)))?;
    // A listener on all addresses is reached at each.
    let all = |address: SocketAddr| {
        let port = address.port();
        [address.ip(), Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()]
            .map(|ip: IpAddr| SocketAddr::new(ip, port))
    };
    for address in addresses.flat_map(all) {
        match name(address).and_then(|name| UnixStream::connect_addr(&name)) {
            Ok(stream) if is_allowed(&stream).unwrap_or_default() || geteuid() == Uid::ROOT => {
                return Ok(stream);
            }
            Ok(_) => return Err(format!("the process with the admin listener {admin} is another user's")),
            Err(_) => {}
        }
    }
    Err(format!(
        "no larder with the admin listener {admin} runs on this machine; one without an admin listener is upgraded by SIGUSR2"
    ))
}
