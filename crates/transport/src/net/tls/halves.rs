//! The two directions of a connection's records after its handshake, and the buffer of received ones.

use rustls::server::UnbufferedServerConnection;

use super::fault::Fault;
pub use super::record::Sealer;
use super::record::{self, HEADER, MOST_SEALED, OpenResult};
use crate::net::input::{borrow_buffer, give_buffer};

/// Spare capacity below which the receive buffer grows.
const LEAST_ROOM: usize = 4 << 10;

/// Returns the two directions of `connection`, whose handshake is done. `arrived` are the bytes behind its end. Fails
/// when the keys cannot be exported.
pub(super) fn halves(
    connection: UnbufferedServerConnection,
    arrived: Vec<u8>,
) -> Result<(Opener, Sealer), rustls::Error> {
    let (secrets, kernel) = connection.dangerous_into_kernel_connection()?;
    let halves = record::halves(secrets, kernel);
    let (opening, sealer) = halves.map_err(|fault| rustls::Error::General(fault.to_string()))?;
    let arrived = if arrived.is_empty() { Vec::new() } else { arrived };
    Ok((Opener { opening, arrived, is_over: false, failed: None }, sealer))
}

/// Opens received records.
#[derive(Debug)]
pub struct Opener {
    opening: record::Opener,
    /// Received bytes that are not opened yet.
    arrived: Vec<u8>,
    /// Whether the client has sent `close_notify`.
    is_over: bool,
    /// The error of a record; no record behind it is opened.
    failed: Option<Fault>,
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
    #[inline]
    pub fn release_buffers(&mut self) {
        if self.arrived.is_empty() && self.arrived.capacity() > 0 {
            give_buffer(std::mem::take(&mut self.arrived));
        }
    }

    /// Drops the expanded key until the next record.
    #[inline]
    pub fn shrink(&mut self) {
        self.opening.shrink();
    }

    /// Whether the client has sent `close_notify`.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether whole or partial records wait to be opened. Always true after a record could not be opened.
    pub(crate) fn holds_bytes(&self) -> bool {
        !self.arrived.is_empty() || self.failed.is_some()
    }

    /// Opens all records that have arrived completely, and appends their content to `out`. Errors: the error of a
    /// record. Every later call returns it, too.
    pub fn open(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        if let Some(fault) = self.failed {
            return Err(fault);
        }
        if !self.is_over {
            let opened = self.opening.open(&mut self.arrived, out);
            let OpenResult { consumed, is_over } = opened.inspect_err(|fault| self.failed = Some(*fault))?;
            self.arrived.drain(..consumed);
            self.is_over = is_over;
        }
        if self.is_over {
            self.arrived.clear();
        }
        Ok(())
    }
}
