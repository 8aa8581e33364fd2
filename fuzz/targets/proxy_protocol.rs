//! Any bytes as a PROXY header: no panic, more bytes do not change a decision, and a header ends with its last byte.

#![no_main]

use larder_proxy::net::proxy_protocol::{MOST, ParseResult, parse};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|wire: &[u8]| {
    let decided = (0..=wire.len().min(MOST)).find_map(|end| match parse(&wire[..end]) {
        Ok(ParseResult::Partial) => None,
        decided => Some((end, decided)),
    });
    assert_eq!(decided.is_none(), wire.len() < MOST && parse(wire) == Ok(ParseResult::Partial));
    let Some((end, decided)) = decided else { return };
    assert_eq!(parse(wire), decided);
    if let Ok(ParseResult::Whole { used, .. }) = decided {
        assert_eq!(used, end);
    }
});
