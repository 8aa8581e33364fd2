//! Any bytes as a head: no panic, and an accepted head is one message that ends with its empty line.

#![no_main]

use larder_proxy::http::head::{Framing, ParseResult, Target, is_authority, parse, room};
use larder_proxy::settings::Limits;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|wire: &[u8]| {
    let limits = Limits::default();
    let mut lines = room();
    let Ok(ParseResult::Whole(head, used)) = parse(wire, &mut lines, &limits) else { return };
    assert!(wire[..used].ends_with(b"\r\n\r\n"));
    assert!(used <= limits.head_bytes && head.fields.count() <= limits.head_fields);
    for (name, value) in head.fields.iter() {
        assert!(!name.is_empty() && !name.contains([' ', '\t', ':']));
        assert!(!value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
    }
    let count =
        |wanted: &str| head.fields.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted)).count();
    let (lengths, codings) = (count("content-length"), count("transfer-encoding"));
    match head.framing {
        Framing::Chunked => assert_eq!((lengths, codings), (0, 1)),
        Framing::Length(0) => assert!(lengths <= 1 && codings == 0),
        Framing::Length(_) => assert_eq!((lengths, codings), (1, 0)),
    }
    match head.target {
        Target::Origin { host, path } => {
            assert!(path.starts_with('/') && (host.is_empty() || is_authority(host)))
        }
        Target::Absolute { authority, .. } | Target::Authority(authority) => assert!(is_authority(authority)),
        Target::Asterisk { host } => assert!(host.is_empty() || is_authority(host)),
    }
    // A head without its last byte is incomplete.
    let mut lines = room();
    assert!(matches!(parse(&wire[..used - 1], &mut lines, &limits), Ok(ParseResult::Partial)));
});
