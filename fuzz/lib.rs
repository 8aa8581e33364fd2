//! The properties of every codec: the meaning of the bytes does not depend on how they are split, and the codec buffers
//! few of them.

use bytes::BytesMut;
use larder_rpc::{Call, ClientProtocol, Limits, ServerProtocol};

/// Small limits, so that the fuzzer reaches them.
pub const LIMITS: Limits = Limits { message: 256, page: 4096 };

/// Returns the calls and rejections that `server` decodes from `wire` in pieces of `piece` bytes.
fn heard<S: ServerProtocol>(mut server: S, wire: &[u8], piece: usize) -> Vec<Result<Call, (Vec<u8>, bool)>> {
    let (mut buffer, mut found) = (BytesMut::new(), Vec::new());
    for part in wire.chunks(piece) {
        buffer.extend_from_slice(part);
        loop {
            match server.decode(&mut buffer) {
                Ok(None) => break,
                Ok(Some(asked)) => found.push(Ok(asked.call)),
                Err(rejected) => {
                    found.push(Err((rejected.reply.to_vec(), rejected.close)));
                    if rejected.close {
                        return found;
                    }
                }
            }
        }
        assert!(buffer.len() <= LIMITS.message + 4 + piece);
    }
    found
}

/// Returns the answer that `client` decodes from `wire` in pieces of `piece` bytes; as text, because a NaN is not equal
/// to itself.
fn answered<C: ClientProtocol>(mut client: C, call: &Call, wire: &[u8], piece: usize) -> String {
    if client.encode(call).is_err() {
        return String::new();
    }
    let mut buffer = BytesMut::new();
    for part in wire.chunks(piece) {
        buffer.extend_from_slice(part);
        match client.decode(&mut buffer) {
            Ok(None) => {}
            Ok(Some(answer)) => return format!("{answer:?}"),
            Err(_) => return "malformed".to_owned(),
        }
        assert!(buffer.len() <= LIMITS.message + LIMITS.page + 4 + piece);
    }
    String::new()
}

/// Checks a server.
pub fn server<S: ServerProtocol>(make: impl Fn() -> S, wire: &[u8], piece: u8) {
    assert_eq!(heard(make(), wire, usize::from(piece) + 1), heard(make(), wire, wire.len().max(1)));
}

/// Checks a client, for the answer to each kind of call.
pub fn client<C: ClientProtocol>(make: impl Fn() -> C, wire: &[u8], piece: u8) {
    for call in [Call::Fetch { url: "a".to_owned() }, Call::Statistics, Call::Reset, Call::Ping] {
        let whole = answered(make(), &call, wire, wire.len().max(1));
        assert_eq!(answered(make(), &call, wire, usize::from(piece) + 1), whole);
    }
}
