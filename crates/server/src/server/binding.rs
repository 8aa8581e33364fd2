//! The listeners of a process: those of its predecessor or of the service manager that its config asks for, and new ones.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener as StdListener, UdpSocket as StdUdpSocket};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::Path;

use super::bind::{self, SocketFile, datagram_socket, explain, socket};
use super::given::GivenSockets;
use crate::accept::front::{Front, Sockets};
use crate::base::error::{Error, cause};
use crate::base::settings::{Listener, Role, Settings};
use crate::exchange::arrival::Arrival;
use crate::handover::control;
use crate::handover::listeners::{Kind, Listeners};

/// The listeners of a process.
pub(super) struct Binding {
    /// One set of sockets for each worker.
    pub(super) workers: Vec<Sockets>,
    pub(super) addresses: Vec<(Front, SocketAddr)>,
    pub(super) files: Vec<SocketFile>,
    pub(super) admin: Option<StdListener>,
    /// The socket for `larder upgrade`, if there is an admin listener to name it.
    pub(super) control: Option<StdUnixListener>,
    /// Copies of all sockets, for a successor.
    pub(super) copies: Listeners,
    /// The sockets of the predecessor that are not in use yet.
    inherited: Listeners,
    /// The sockets of the service manager that are not in use yet.
    given: GivenSockets,
    /// The ports of listeners for all addresses of IPv4.
    v4_ports: Vec<u16>,
}

impl Binding {
    /// Binds the listeners of `settings`. A socket in `inherited` or `given` is used in place of a new one. Errors: the
    /// address that is unavailable, and the reason.
    pub(super) fn new(settings: &Settings, inherited: Listeners, given: GivenSockets) -> Result<Self, Error> {
        let is_all_v4 = |address: &SocketAddr| address.ip() == Ipv4Addr::UNSPECIFIED && address.port() != 0;
        let addresses = settings.listen.iter().map(|listener| listener.address);
        let mut binding = Self {
            v4_ports: addresses.filter(is_all_v4).map(|address| address.port()).collect(),
            workers: (0..settings.threads.max(1)).map(|_| Sockets::default()).collect(),
            addresses: Vec::new(),
            files: Vec::new(),
            admin: None,
            control: None,
            copies: Listeners::default(),
            inherited,
            given,
        };
        let arrival = |listener: &Listener| Arrival { role: listener.role, tls: listener.tls };
        let http = settings.listen.iter().map(|listener| (Front::Http(arrival(listener)), listener.address));
        let rpc = settings.doors.listen.iter().map(|(door, address)| {
            (Front::Door { door: *door, tls: settings.doors.speaks_tls(*door) }, *address)
        });
        let peers = settings
            .cluster
            .iter()
            .map(|cluster| (Front::Peer { tls: cluster.tls.is_some() }, cluster.listen));
        for (front, address) in http.chain(rpc).chain(peers) {
            let busy = |error| Error::new(format!("cannot listen on {address}"), explain(error));
            let found = binding.bind(front, address).map_err(busy)?;
            if front.is_onc() && settings.doors.takes_datagrams(address.ip()) {
                binding.bind_datagrams(address, found).map_err(busy)?;
            }
            binding.addresses.push((front, found));
        }
        for path in &settings.sockets.paths {
            let failed = |why| Error::new(format!("cannot listen on unix:{}", path.display()), why);
            binding.bind_file(path, settings.sockets.mode).map_err(failed)?;
        }
        if let Some(address) = settings.admin {
            let busy = |error| Error::new(format!("cannot listen on {address} (--admin)"), explain(error));
            binding.bind_admin(address).map_err(busy)?;
        }
        binding.given.warn_of_rest();
        Ok(binding)
    }

    /// Binds the sockets of all workers to `asked`. Returns the address with its port.
    fn bind(&mut self, front: Front, asked: SocketAddr) -> io::Result<SocketAddr> {
        let inherited = self.inherited.take(Kind::Stream, asked);
        let only_v6 = asked.ip() == Ipv6Addr::UNSPECIFIED && self.v4_ports.contains(&asked.port());
        let sockets: Vec<StdListener> = match inherited.filter(|sockets| !sockets.is_empty()) {
            Some(sockets) => {
                bind::check_inherited(&sockets[0], asked, only_v6)?;
                sockets.into_iter().map(Into::into).collect()
            }
            None => match self.given.stream(asked)? {
                Some(socket) => vec![socket],
                None => sockets(asked, self.workers.len(), only_v6)?,
            },
        };
        // The predecessor may have had more workers, so that some have several queues here, or fewer, so that some share
        // one: a closed queue would lose the connections in it.
        for number in 0..sockets.len().max(self.workers.len()) {
            let socket = sockets[number % sockets.len()].try_clone()?;
            let worker = number % self.workers.len();
            self.workers[worker].streams.push((front, socket));
        }
        let address = sockets[0].local_addr()?;
        self.copies.add(Kind::Stream, asked, sockets.into_iter().map(OwnedFd::from).collect());
        Ok(address)
    }

    /// Binds the socket for datagrams beside the one at `found`, which `asked` led to.
    fn bind_datagrams(&mut self, asked: SocketAddr, found: SocketAddr) -> io::Result<()> {
        let socket: StdUdpSocket = match self.take_one(Kind::Datagram, &asked.to_string()) {
            Some(socket) => socket.into(),
            None => self.given.datagrams(found)?.map_or_else(|| datagram_socket(found), Ok)?,
        };
        self.copies.add(Kind::Datagram, asked, vec![socket.try_clone()?.into()]);
        self.workers[0].datagrams.push(socket);
        Ok(())
    }

    /// Binds a Unix socket; all workers accept from it.
    fn bind_file(&mut self, path: &Path, mode: u32) -> Result<(), String> {
        let front = Front::Http(Arrival { role: Role::Reverse, tls: false });
        let failed = |error: io::Error| error.to_string();
        let inherited = self.inherited.take_unix(path).and_then(|(socket, is_given)| {
            let file = if is_given { SocketFile::of_another(path) } else { SocketFile::at(path)? };
            Some((StdUnixListener::from(socket), file))
        });
        let (listener, file) = match inherited {
            Some(inherited) => inherited,
            None => match self.given.unix(path).map_err(failed)? {
                Some(listener) => (listener, SocketFile::of_another(path)),
                None => bind::unix_socket(path, mode)?,
            },
        };
        for worker in &mut self.workers {
            worker.unix.push((front, listener.try_clone().map_err(failed)?));
        }
        self.copies.add_unix(path, listener.into(), file.is_of_another());
        self.files.push(file);
        Ok(())
    }

    fn bind_admin(&mut self, asked: SocketAddr) -> io::Result<()> {
        let listener: StdListener = match self.take_one(Kind::Admin, &asked.to_string()) {
            Some(socket) => socket.into(),
            None => self.given.stream(asked)?.map_or_else(|| socket(asked, false, false), Ok)?,
        };
        self.copies.add(Kind::Admin, asked, vec![listener.try_clone()?.into()]);
        match self.bind_control(listener.local_addr()?) {
            Ok(control) => self.control = Some(control),
            Err(error) => {
                tracing::warn!("larder upgrade cannot ask this process, only SIGUSR2 can: {}", cause(&error))
            }
        }
        self.admin = Some(listener);
        Ok(())
    }

    fn bind_control(&mut self, admin: SocketAddr) -> io::Result<StdUnixListener> {
        let control: StdUnixListener = match self.take_one(Kind::Control, &admin.to_string()) {
            Some(socket) => socket.into(),
            None => control::bind(admin)?,
        };
        self.copies.add(Kind::Control, admin, vec![control.try_clone()?.into()]);
        Ok(control)
    }

    fn take_one(&mut self, kind: Kind, asked: &str) -> Option<OwnedFd> {
        self.inherited.take(kind, asked)?.pop()
    }
}

/// Binds `count` sockets to one address.
fn sockets(asked: SocketAddr, count: usize, only_v6: bool) -> io::Result<Vec<StdListener>> {
    // With SO_REUSEPORT, a second process could share the address unnoticed, so the first socket tests the address without
    // it. A port that the kernel has chosen is free, and its socket stays open so that no other process gets the port.
    let is_chosen = asked.port() == 0;
    let first = socket(asked, is_chosen, only_v6)?;
    let address = first.local_addr()?;
    let mut all: Vec<_> = is_chosen.then_some(first).into_iter().collect();
    while all.len() < count {
        all.push(socket(address, true, only_v6)?);
    }
    Ok(all)
}
