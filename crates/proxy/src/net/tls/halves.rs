//! The two directions of a connection's records after its handshake. Either this crate's record layer seals and opens
//! them ([`record`]), or rustls does ([`kept`]).

use std::io;
use std::sync::{Arc, Mutex};

use rustls::server::UnbufferedServerConnection;

use super::fault::Fault;
use super::kept::{Kept, lock};
use super::record::{self, HEADER, MOST, MOST_SEALED, Opened};
use super::records::Records;
use crate::net::input::{borrow_buffer, give_buffer};

/// Spare capacity below which the receive buffer grows.
const LEAST_ROOM: usize = 4 << 10;

/// Returns the two directions of `connection`, whose handshake is done. `arrived` are the bytes behind its end. With
/// `own_records`, its keys are exported to this crate's record layer.
///
/// # Errors
/// When the keys cannot be exported.
pub(super) fn halves(
    connection: UnbufferedServerConnection,
    arrived: Vec<u8>,
    own_records: bool,
) -> Result<(Opener, Sealer), rustls::Error> {
    let (opening, sealer) = if own_records {
        let (secrets, kernel) = connection.dangerous_into_kernel_connection()?;
        let halves = record::halves(secrets, kernel);
        let (opener, sealer) = halves.map_err(|fault| rustls::Error::General(fault.to_string()))?;
        (Opening::Own(opener), Sealer::Own(sealer))
    } else {
        let kept = Arc::new(Mutex::new(Kept::new(connection)));
        (Opening::Rustls(Arc::clone(&kept)), Sealer::Rustls(kept))
    };
    let arrived = if arrived.is_empty() { Vec::new() } else { arrived };
    Ok((Opener { opening, arrived, is_over: false, failed: None }, sealer))
}

/// Seals sent content.
#[derive(Debug)]
pub(crate) enum Sealer {
    Own(record::Sealer),
    Rustls(Arc<Mutex<Kept>>),
}

impl Sealer {
    /// Appends `content` to `out` in records with at most `most` content bytes each.
    ///
    /// # Errors
    /// When no further record may be sealed with the key.
    pub(crate) fn seal(&mut self, out: &mut Records, content: &[u8], most: usize) -> Result<(), Fault> {
        match self {
            Self::Own(own) => own.seal(out, content, most),
            Self::Rustls(kept) => {
                let mut kept = lock(kept);
                content.chunks(most.clamp(1, MOST)).try_for_each(|piece| kept.seal(out, piece))
            }
        }
    }

    /// Appends one record. `fill` writes its `length` content bytes, at most [`MOST`].
    ///
    /// # Errors
    /// The error of `fill`, or a [`Fault`] when no further record may be sealed with the key.
    pub(crate) fn seal_with(
        &mut self,
        out: &mut Records,
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        match self {
            Self::Own(own) => own.seal_with(out, length, fill),
            Self::Rustls(kept) => {
                let mut content = vec![0; length];
                fill(&mut content)?;
                Ok(lock(kept).seal(out, &content)?)
            }
        }
    }

    /// Appends `content` and a short `tail` in one record; both together have at most [`MOST`] bytes.
    ///
    /// # Errors
    /// When no further record may be sealed with the key.
    pub(crate) fn seal_with_tail(
        &mut self,
        out: &mut Records,
        content: &[u8],
        tail: &[u8],
    ) -> Result<(), Fault> {
        match self {
            Self::Own(own) => own.seal_with_tail(out, content, tail),
            Self::Rustls(kept) => lock(kept).seal(out, &[content, tail].concat()),
        }
    }

    /// Drops the expanded key until the next record. rustls keeps its own.
    pub(crate) fn doze(&mut self) {
        if let Self::Own(own) = self {
            own.doze();
        }
    }

    /// Appends the `close_notify` alert.
    pub(crate) fn close(&mut self, out: &mut Records) {
        match self {
            Self::Own(own) => own.close(out),
            Self::Rustls(kept) => lock(kept).close(out),
        }
    }

    /// Appends the alert for `fault`.
    pub(crate) fn fail(&mut self, out: &mut Records, fault: Fault) {
        match self {
            Self::Own(own) => own.fail(out, fault),
            Self::Rustls(kept) => lock(kept).fail(out),
        }
    }
}

/// Opens received records.
#[derive(Debug)]
pub(crate) struct Opener {
    opening: Opening,
    /// Received bytes that are not opened yet.
    arrived: Vec<u8>,
    /// Whether the client has sent `close_notify`.
    is_over: bool,
    /// The error of a record; no record behind it is opened.
    failed: Option<Fault>,
}

#[derive(Debug)]
enum Opening {
    Own(record::Opener),
    Rustls(Arc<Mutex<Kept>>),
}

impl Opener {
    /// Returns the buffer to receive into, with spare capacity.
    pub(crate) fn make_room(&mut self) -> &mut Vec<u8> {
        if self.arrived.capacity() == 0 {
            self.arrived = borrow_buffer();
        }
        if self.arrived.capacity() - self.arrived.len() < LEAST_ROOM {
            self.arrived.reserve(HEADER + MOST_SEALED);
        }
        &mut self.arrived
    }

    /// Returns the buffer to the pool if it is empty.
    pub(crate) fn rest(&mut self) {
        if self.arrived.is_empty() && self.arrived.capacity() > 0 {
            give_buffer(std::mem::take(&mut self.arrived));
        }
    }

    /// Drops the expanded key until the next record. rustls keeps its own.
    pub(crate) fn doze(&mut self) {
        if let Opening::Own(own) = &mut self.opening {
            own.doze();
        }
    }

    /// Whether the client has sent `close_notify`.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether whole or partial records wait to be opened. Always true after a record could not be opened.
    pub(crate) fn holds_bytes(&self) -> bool {
        !self.arrived.is_empty() || self.failed.is_some()
    }

    /// Opens all records that have arrived completely, and appends their content to `out`.
    ///
    /// # Errors
    /// The error of a record. Every later call returns it, too.
    pub(crate) fn open(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        if let Some(fault) = self.failed {
            return Err(fault);
        }
        if !self.is_over {
            let opened = match &mut self.opening {
                Opening::Own(own) => own.open(&mut self.arrived, out),
                Opening::Rustls(kept) => lock(kept).open(&mut self.arrived, out),
            };
            let Opened { consumed, is_over } = opened.inspect_err(|fault| self.failed = Some(*fault))?;
            self.arrived.drain(..consumed);
            self.is_over = is_over;
        }
        if self.is_over {
            self.arrived.clear();
        }
        Ok(())
    }
}
