//! HTTP/1.1 for the origins of experiments: requests without content. The [load driver](larder_load) reads their answers.

use bytes::BytesMut;
use httparse::{EMPTY_HEADER, Request};
use larder_load::head::{LINES, field, whole};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The number of bytes in one read.
const PIECE: usize = 16 << 10;

/// Reads the bytes that have arrived.
pub(super) async fn more(from: &mut (impl AsyncRead + Unpin), into: &mut BytesMut) -> Result<(), String> {
    into.reserve(PIECE);
    match from.read_buf(into).await {
        Ok(0) => Err("the connection closed before the message was whole".to_owned()),
        Ok(_) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// The parts of a request that an origin uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OriginRequest {
    pub(super) path: String,
    /// Its `If-None-Match`.
    pub(super) known: Option<String>,
}

/// Returns the length of a request's head, and the request. Returns `None` while the head is incomplete. Fails if the
/// bytes are no request.
pub(super) fn asked(bytes: &[u8]) -> Result<Option<(usize, OriginRequest)>, String> {
    let mut lines = [EMPTY_HEADER; LINES];
    let mut request = Request::new(&mut lines);
    let Some(length) = whole(request.parse(bytes), bytes)? else { return Ok(None) };
    let path = path(request.path.unwrap_or_default()).to_owned();
    Ok(Some((
        length,
        OriginRequest { path, known: field(request.headers, "if-none-match").map(str::to_owned) },
    )))
}

/// Returns the path in a request's target, which may be absolute (RFC 9112, section 3.2.2).
fn path(target: &str) -> &str {
    let Some(rest) = target.strip_prefix("http://") else { return target };
    rest.find('/').map_or("/", |begin| &rest[begin..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_what_is_wanted() {
        let head = b"GET /page/7 HTTP/1.1\r\nHost: a\r\nIf-None-Match: \"7\"\r\n\r\n";
        let expected = OriginRequest { path: "/page/7".to_owned(), known: Some("\"7\"".to_owned()) };
        assert_eq!(asked(head), Ok(Some((head.len(), expected))));
        assert_eq!(asked(&head[..30]), Ok(None));
        for (target, expected) in [("http://a:80/page/7", "/page/7"), ("http://a", "/"), ("/", "/")] {
            assert_eq!(path(target), expected);
        }
        assert!(asked(b"\0").is_err());
    }
}
