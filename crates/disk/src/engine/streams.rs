//! Turns the content from the writers into records, in the writing thread.
//!
//! For an object in one piece, the filter decides first, then it is written at once. A longer object is
//! written as it arrives, its head last: until then a scan cannot take it for a record.

use super::Engine;
use crate::index::{Location, ObjectLocation, PutResult};
use crate::log::{Class, OpenSegment};
use crate::record::{self, RecordKind, RecordPrefix, Sums};
use crate::ticket::Ticket;

/// The most long objects in progress at once; each occupies a segment meanwhile.
const MOST_STREAMS: usize = 256;

/// A long object in progress.
pub(crate) struct Stream {
    open: OpenSegment,
    serial: u64,
    body: u64,
    sums: Sums,
}

impl Stream {
    /// Returns its segment, and the end of the published bytes there.
    pub(crate) fn published(&self) -> (u32, u64) {
        (self.open.segment.number, self.open.at)
    }
}

impl Engine {
    pub(crate) fn take_piece(&mut self, ticket: &Ticket, bytes: &[u8], is_last: bool) {
        let is_taken = match self.streams.remove(&ticket.id) {
            None if ticket.is_given_up() || self.is_paused() => false,
            None if is_last => self.store(ticket, bytes),
            None => self.begin(ticket).is_some_and(|stream| self.go_on(ticket, stream, bytes, false)),
            Some(stream) => self.go_on(ticket, stream, bytes, is_last),
        };
        if !is_taken && ticket.give_up() {
            self.shared.counts.dropped.add(1);
            if self.shared.supersede(ticket.hash, ticket.id) {
                self.owe_removal(ticket.hash);
            }
        }
    }

    pub(crate) fn abort(&mut self, id: u64) {
        if let Some(stream) = self.streams.remove(&id) {
            self.give_back(stream.open);
        }
    }

    /// Stores a complete object. Returns false if it could not be written.
    fn store(&mut self, ticket: &Ticket, body: &[u8]) -> bool {
        let serial = self.serial();
        let mut sums = Sums::new(serial);
        sums.add(body);
        let (fixed, table) = fixed(ticket, serial, body.len() as u64, sums);
        if !self.make_room(fixed.len()) {
            return false;
        }
        let Some(mut open) = self.open(Class::New) else { return false };
        let place = place(&open, &fixed, ticket);
        let Some((place, location)) = place else {
            self.give_back(open);
            return false;
        };
        let put = self.shared.index.put(fixed.hash, place.pending(), || !ticket.is_given_up());
        let PutResult::In { instead } = put else {
            self.refused(ticket, put);
            self.give_back(open);
            return true;
        };
        let mut bytes = Vec::with_capacity(fixed.len() as usize);
        bytes.extend(fixed.encode(&self.shared.secret));
        for part in [&ticket.key, ticket.meta(), body, &table] {
            bytes.extend_from_slice(part);
        }
        bytes.resize(fixed.len() as usize, 0);
        open.segment.holds(serial);
        let written = self.log.write(&open, &bytes, open.at);
        if written.is_err() {
            self.shared.index.remove_at(fixed.hash, location);
            if instead {
                self.owe_removal(fixed.hash);
            }
        }
        if !self.wrote(&open, &written) {
            return false;
        }
        self.shared.index.confirm(fixed.hash, location);
        open.at += fixed.len();
        self.published(&fixed);
        self.give_back(open);
        true
    }

    fn begin(&mut self, ticket: &Ticket) -> Option<Stream> {
        let first = ticket.head_len() as u64 + ticket.expected.unwrap_or(0);
        if self.streams.len() >= MOST_STREAMS || !self.make_room(first) {
            return None;
        }
        let serial = self.serial();
        let open = self.open(Class::New)?;
        open.segment.holds(serial);
        Some(Stream { open, serial, body: 0, sums: Sums::new(serial) })
    }

    /// Writes the next piece. Returns false if the object has been given up.
    fn go_on(&mut self, ticket: &Ticket, mut stream: Stream, bytes: &[u8], is_last: bool) -> bool {
        if ticket.is_given_up() || self.is_paused() || !self.make_room(bytes.len() as u64) {
            self.give_back(stream.open);
            return false;
        }
        stream.sums.add(bytes);
        let at = stream.open.at + ticket.head_len() as u64 + stream.body;
        let written = self.log.write(&stream.open, bytes, at);
        if !self.wrote(&stream.open, &written) {
            return false;
        }
        stream.body += bytes.len() as u64;
        if is_last {
            return self.end(ticket, stream);
        }
        self.streams.insert(ticket.id, stream);
        true
    }

    fn end(&mut self, ticket: &Ticket, stream: Stream) -> bool {
        let Stream { mut open, serial, body, sums } = stream;
        let (fixed, table) = fixed(ticket, serial, body, sums);
        let Some((place, _)) = place(&open, &fixed, ticket) else {
            self.give_back(open);
            return false;
        };
        let mut head = fixed.encode(&self.shared.secret).to_vec();
        head.extend_from_slice(&ticket.key);
        head.extend_from_slice(ticket.meta());
        let (start, behind) = (open.at, fixed.head() + body);
        let mut tail = table;
        tail.resize((fixed.len() - behind) as usize, 0);
        let written =
            self.log.write(&open, &tail, start + behind).and_then(|()| self.log.write(&open, &head, start));
        if !self.wrote(&open, &written) {
            return false;
        }
        // Done even if no index entry will point to it: a record in the file must not seem to come after a snapshot.
        open.at += fixed.len();
        match self.shared.index.put(fixed.hash, place, || !ticket.is_given_up()) {
            PutResult::In { .. } => self.published(&fixed),
            put => self.refused(ticket, put),
        }
        self.give_back(open);
        true
    }

    /// Gives up an object that the policy refused, or that was removed meanwhile.
    fn refused(&mut self, ticket: &Ticket, put: PutResult) {
        if ticket.give_up() {
            self.shared.counts.refused.add(1);
        }
        if put == (PutResult::Refused { instead: true }) {
            self.owe_removal(ticket.hash);
        }
    }

    fn published(&mut self, fixed: &RecordPrefix) {
        self.has_space();
        self.shared.counts.stored.add(1);
        self.shared.counts.accepted_bytes.add(fixed.len());
    }

    pub(crate) fn open(&mut self, class: Class) -> Option<OpenSegment> {
        match self.log.take(class) {
            Ok(open) => Some(open),
            Err(error) => {
                self.note("new segment", &Err(error));
                None
            }
        }
    }
}

fn place(open: &OpenSegment, fixed: &RecordPrefix, ticket: &Ticket) -> Option<(ObjectLocation, Location)> {
    let location = Location::new(open.segment.number, open.at)?;
    Some((ObjectLocation::new(location, fixed.len(), ticket.cost, ticket.stored)?, location))
}

/// Returns the fixed part of a record, and its table of sums.
fn fixed(ticket: &Ticket, serial: u64, body: u64, sums: Sums) -> (RecordPrefix, Vec<u8>) {
    let table = sums.finish();
    let names = [&*ticket.key, ticket.meta()].concat();
    let fixed = RecordPrefix {
        kind: RecordKind::Object,
        serial,
        hash: ticket.hash,
        // Both were checked in `put`.
        key: ticket.key.len() as u16,
        meta: ticket.meta().len() as u32,
        body,
        sums: record::sum(&table, serial),
        names: record::sum(&names, serial),
        stored: ticket.stored,
        cost: ticket.cost,
    };
    (fixed, table)
}
