//! Reads a request with Larder's parser.

use http::HeaderMap;
use larder_proxy::http::chunked::{Chunked, ChunkedStep};
use larder_proxy::http::head::{Framing, ParseResult, RequestHead, Target, parse, room};
use larder_proxy::settings::Limits;

use super::ReadRequest;

/// Returns the first request of `wire`; `None` if its head is refused or incomplete.
pub(crate) fn read(wire: &[u8]) -> Option<ReadRequest> {
    let mut lines = room();
    match parse(wire, &mut lines, &Limits::default()) {
        Ok(ParseResult::Whole(head, used)) => Some(seen(&head, &wire[used..])),
        Ok(ParseResult::Partial) | Err(_) => None,
    }
}

fn seen(head: &RequestHead<'_>, rest: &[u8]) -> ReadRequest {
    let (scheme, authority, path) = match head.target {
        Target::Origin { path, .. } => ("", "", path),
        Target::Absolute { scheme, authority, path } => (scheme, authority, path),
        Target::Authority(authority) => ("", authority, ""),
        Target::Asterisk { .. } => ("", "", "*"),
    };
    let path =
        if path.starts_with(['/', '*']) || scheme.is_empty() { path.to_owned() } else { format!("/{path}") };
    let mut fields: Vec<_> =
        head.fields.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.to_vec())).collect();
    fields.sort_by(|one, other| one.0.cmp(&other.0));
    ReadRequest {
        method: head.method.to_string(),
        scheme: scheme.to_owned(),
        authority: authority.to_owned(),
        path,
        fields,
        content: content(head.framing, rest),
    }
}

fn content(framing: Framing, rest: &[u8]) -> Option<(Vec<u8>, usize)> {
    match framing {
        Framing::Length(length) => Some((rest.get(..usize::try_from(length).ok()?)?.to_vec(), 0)),
        Framing::Chunked => chunks(rest).map(|(content, trailers)| (content, trailers.len())),
    }
}

fn chunks(mut rest: &[u8]) -> Option<(Vec<u8>, HeaderMap)> {
    let (mut chunked, mut content) = (Chunked::default(), Vec::new());
    loop {
        match chunked.step(rest).ok()? {
            ChunkedStep::Data { skip, len } => {
                content.extend_from_slice(&rest[skip..skip + len]);
                rest = &rest[skip + len..];
            }
            ChunkedStep::End { trailers, .. } => return Some((content, trailers)),
            ChunkedStep::More { .. } => return None,
        }
    }
}
