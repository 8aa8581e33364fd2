//! Any bytes as chunked content: no panic, and the same content however the bytes are split.

#![no_main]

use larder_proxy::http::chunked::{Chunked, ChunkedStep};
use libfuzzer_sys::fuzz_target;

/// The content, the number of trailer fields and the number of bytes left over. `None` if the content does not end, or
/// is refused: a reader that gets small pieces parses an incomplete trailer section less often, and refuses it later.
type Decoded = Option<(Vec<u8>, usize, usize)>;

/// Decodes `wire` as it arrives, `piece` bytes at a time.
fn decode(wire: &[u8], piece: usize) -> Decoded {
    let (mut chunked, mut content) = (Chunked::default(), Vec::new());
    let (mut at, mut there) = (0, 0);
    loop {
        match chunked.step(&wire[at..there]).ok()? {
            ChunkedStep::Data { skip, len } => {
                assert!(len > 0);
                content.extend_from_slice(&wire[at + skip..at + skip + len]);
                at += skip + len;
            }
            ChunkedStep::End { skip, trailers } => {
                return Some((content, trailers.len(), wire.len() - at - skip));
            }
            ChunkedStep::More { .. } if there == wire.len() => return None,
            ChunkedStep::More { skip } => {
                at += skip;
                there = wire.len().min(there + piece);
            }
        }
    }
}

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, wire) = input;
    assert_eq!(decode(wire, usize::from(piece) + 1), decode(wire, wire.len().max(1)));
});
