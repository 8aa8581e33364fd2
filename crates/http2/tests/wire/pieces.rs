//! Arbitrary bytes, in pieces of arbitrary length.

use larder_http2::{Limits, PREFACE};
use proptest::prelude::*;

use crate::client::*;

fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..30),
        Just(get("/")),
        Just(post(&[("content-length", "3"), ("cookie", "a"), ("cookie", "b")])),
        Just(block(&[("x", "1")])),
        Just(b"abc".to_vec()),
        any::<u32>().prop_map(|number| number.to_be_bytes().to_vec()),
        (0..9_u16, any::<u32>())
            .prop_map(|(name, value)| [&name.to_be_bytes()[..], &value.to_be_bytes()].concat()),
    ]
}

/// Frames that are often valid.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop_oneof![4 => Just(HEADERS), 3 => Just(DATA), 4 => 0..18_u8];
    let flags = prop_oneof![
        Just(0),
        Just(END_STREAM),
        Just(END_HEADERS),
        Just(END_HEADERS | END_STREAM),
        any::<u8>()
    ];
    let one = (kind, flags, 0..12_u32, payload());
    let one = one.prop_map(|(kind, flags, stream, payload)| frame(kind, flags, stream, &payload));
    prop::collection::vec(one, 0..30).prop_map(|frames| frames.concat())
}

/// Returns the events and output of a connection whose client sends `wire` in pieces, and whose server answers each
/// request immediately.
fn events(wire: &[u8], pieces: &[usize]) -> (Vec<Heard>, Vec<u8>) {
    let mut client = Client::silent(Limits { streams: 3, ..Limits::default() });
    let (mut buffer, mut all, mut rest) = (Vec::new(), Vec::new(), wire);
    for number in 0.. {
        let length =
            pieces.get(number % pieces.len().max(1)).map_or(rest.len(), |piece| (*piece).min(rest.len()));
        let (piece, behind) = rest.split_at(length);
        buffer.extend_from_slice(piece);
        rest = behind;
        loop {
            let (events, left) = client.one(&buffer);
            let used = buffer.len() - left;
            buffer.drain(..used);
            let Some(event) = events else {
                if used == 0 {
                    break;
                }
                continue;
            };
            if let Heard::Head { stream, end: true, .. } = &event {
                client.answer(*stream, &[1; 20_000]);
            }
            if let Heard::Data(stream, data, _) = &event {
                client.connection.release(&mut client.out, *stream, data.len());
            }
            let failed = matches!(event, Heard::Failed(..));
            all.push(event);
            if failed {
                return (all, client.out);
            }
        }
        if rest.is_empty() {
            break;
        }
    }
    (all, client.out)
}

proptest! {
    #[test]
    fn pieces_make_no_difference(wire in frames(), pieces in prop::collection::vec(1..40_usize, 1..9)) {
        let wire = [&PREFACE[..], &frame(SETTINGS, 0, 0, &[]), &wire].concat();
        prop_assert_eq!(events(&wire, &pieces), events(&wire, &[]));
    }

    #[test]
    fn any_bytes_are_frames_or_refused(wire in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut client = Client::new();
        client.take(&wire);
        let mut client = Client::silent(Limits::default());
        client.take(&wire);
    }
}
