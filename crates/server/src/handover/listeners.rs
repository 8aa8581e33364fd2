//! The listening sockets of a process, by what its config asks for.

use std::fmt::Display;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::frame::{Part, Sink};
use super::{LISTENERS, content, say};

/// The kind of a listening socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// TCP, with one socket for each worker.
    Stream,
    /// UDP.
    Datagram,
    /// A Unix socket of the sites.
    Unix,
    /// The admin listener.
    Admin,
    /// The socket for `larder upgrade`.
    Control,
}

/// The listening sockets of a process.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Vec<Listener>);

#[derive(Debug)]
struct Listener {
    kind: Kind,
    /// The address in the config, whose port may be 0, or the path.
    asked: String,
    sockets: Vec<OwnedFd>,
    /// Whether the service manager has opened it.
    is_given: bool,
}

/// A listener as a successor receives it: with the numbers of its descriptors.
#[derive(Serialize, Deserialize)]
struct ListenerRecord {
    kind: Kind,
    asked: String,
    sockets: Vec<u32>,
    #[serde(default)]
    is_given: bool,
}

impl Listeners {
    /// Adds the sockets of an address.
    pub(crate) fn add(&mut self, kind: Kind, asked: impl Display, sockets: Vec<OwnedFd>) {
        self.0.push(Listener { kind, asked: asked.to_string(), sockets, is_given: false });
    }

    /// Adds the Unix socket at `path`, whose file the service manager may remove (`is_given`).
    pub(crate) fn add_unix(&mut self, path: &Path, socket: OwnedFd, is_given: bool) {
        let asked = path.display().to_string();
        self.0.push(Listener { kind: Kind::Unix, asked, sockets: vec![socket], is_given });
    }

    /// Takes the Unix socket at `path` out, and returns whether the service manager has opened it.
    pub(crate) fn take_unix(&mut self, path: &Path) -> Option<(OwnedFd, bool)> {
        let asked = path.display().to_string();
        let is_it = |listener: &Listener| listener.kind == Kind::Unix && listener.asked == asked;
        let mut found = self.0.remove(self.0.iter().position(is_it)?);
        Some((found.sockets.pop()?, found.is_given))
    }

    /// Takes the sockets out that a config asks for, in the order in which they were added.
    pub(crate) fn take(&mut self, kind: Kind, asked: impl Display) -> Option<Vec<OwnedFd>> {
        let asked = asked.to_string();
        let is_it = |listener: &Listener| listener.kind == kind && listener.asked == asked;
        let place = self.0.iter().position(is_it)?;
        Some(self.0.remove(place).sockets)
    }

    /// Sends copies of all sockets. Errors: there are too many open files, or the receiver has gone.
    pub(super) fn send(&self, sink: &mut impl Sink) -> io::Result<()> {
        let mut all = Vec::new();
        for Listener { kind, asked, sockets, is_given } in &self.0 {
            let sockets = sockets.iter().map(|socket| sink.descriptor(socket.try_clone()?));
            all.push(ListenerRecord {
                kind: *kind,
                asked: asked.clone(),
                sockets: sockets.collect::<Result<_, _>>()?,
                is_given: *is_given,
            });
        }
        say(sink, LISTENERS, &all)
    }

    /// Reads the part that [`send`](Self::send) sent; `take` returns a descriptor. Errors: the part cannot be
    /// understood, or a descriptor is missing.
    pub(super) fn receive(part: &Part, mut take: impl FnMut(u32) -> Option<OwnedFd>) -> io::Result<Self> {
        let missing = || io::Error::new(io::ErrorKind::InvalidData, "a listening socket is missing");
        let listener = |ListenerRecord { kind, asked, sockets, is_given }: ListenerRecord| {
            let sockets = sockets.into_iter().map(|number| take(number).ok_or_else(missing));
            Ok(Listener { kind, asked, sockets: sockets.collect::<io::Result<_>>()?, is_given })
        };
        content::<Vec<ListenerRecord>>(part)?.into_iter().map(listener).collect::<io::Result<_>>().map(Self)
    }
}
