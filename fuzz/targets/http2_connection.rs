//! Any frames of a client: no panic, consistent windows and streams, and a result that does not depend on how the bytes
//! are split.

#![no_main]

use larder_http2::{Connection, Event, Limits, PREFACE, Scratch};
use libfuzzer_sys::fuzz_target;

/// Runs a server that answers each request of a client that sends `wire` in pieces of `piece` bytes. Returns the events
/// at the server, and the bytes that it has written.
fn served(wire: &[u8], piece: usize) -> (Vec<String>, Vec<u8>) {
    let limits = Limits { streams: 4, ..Limits::default() };
    let (mut out, mut heard, mut buffer) = (Vec::new(), Vec::new(), Vec::new());
    let mut connection = Connection::new(limits, &mut out);
    let mut scratch = Scratch::default();
    for part in wire.chunks(piece.max(1)) {
        buffer.extend_from_slice(part);
        loop {
            let (used, event) = match connection.next(&buffer, &mut scratch, &mut out, 0) {
                Ok((_, Event::More)) => break,
                Ok(next) => next,
                Err(failure) => {
                    heard.push(failure.to_string());
                    return (heard, out);
                }
            };
            heard.push(format!("{event:?}"));
            match event {
                Event::Head { stream, end: true, .. } => {
                    connection.head(&mut out, stream, 200, false, |_| {});
                    connection.data(&mut out, stream, &[0; 9_000], stream % 4 == 1);
                }
                Event::TooLarge { stream } => drop(connection.head(&mut out, stream, 431, true, |_| {})),
                Event::Data { stream, data, .. } => connection.release(&mut out, stream, data.len()),
                Event::Trailers { stream, .. } => drop(connection.head(&mut out, stream, 204, true, |_| {})),
                Event::Windows => {
                    if let Some((stream, room)) = connection.next_to_send() {
                        connection.data(&mut out, stream, &vec![0; room.min(9_000)], true);
                    }
                }
                Event::Head { .. } | Event::More | Event::Nothing | Event::Reset { .. } => {}
            }
            buffer.drain(..used);
            assert_eq!(connection.validate(), Ok(()));
        }
    }
    (heard, out)
}

fuzz_target!(|input: &[u8]| {
    let Some((&piece, frames)) = input.split_first() else { return };
    let wire = [&PREFACE[..], frames].concat();
    assert_eq!(served(&wire, piece.into()), served(&wire, wire.len()));
});
