//! Checks that an origin switches only to the protocol that the client requested.
//!
//! After a 101, the client's bytes are sent to the origin unchanged. A 101 that completes no handshake would bypass all
//! checks of requests.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::StatusCode;
use larder_semantics::fields::{Fields, members};
use larder_semantics::status::Why;

use crate::exchange::request::Request;
use crate::http::response::Head;
use crate::origin::OriginError;

/// The string that the handshake appends to the client's key (RFC 6455 section 1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// Accepts an answer, except a switch to another protocol than `request` names. Errors: the origin's fault: a client
/// that requested no other protocol would take the following bytes for the answer to its next request (RFC 9110 section
/// 15.2.2).
pub(crate) fn check(request: &Request, head: &Head) -> Result<(), OriginError> {
    if head.status != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(());
    }
    let refused = |detail: &str| OriginError::new(StatusCode::BAD_GATEWAY, Why::OriginMalformed, detail);
    if request.upgrade.is_none() {
        return Err(refused("the origin changed to a protocol that the client did not request"));
    }
    match completes(&request.fields, &*head.fields) {
        true => Ok(()),
        false => Err(refused("the origin's 101 does not complete the websocket handshake of the request")),
    }
}

/// Whether `answer` completes the handshake that `asked` began (RFC 6455 section 4.1).
fn completes(asked: &impl Fields, answer: &impl Fields) -> bool {
    let only = |fields: Vec<&[u8]>| if let [one] = fields[..] { Some(one.to_vec()) } else { None };
    let key = only(asked.lines("sec-websocket-key").collect());
    let accept = only(answer.lines("sec-websocket-accept").collect());
    let (Some(key), Some(accept)) = (key, accept) else { return false };
    let upgrades = members(answer, "connection").any(|option| option.eq_ignore_ascii_case(b"upgrade"));
    let protocols: Vec<_> = members(answer, "upgrade").collect();
    let expected = digest(&SHA1_FOR_LEGACY_USE_ONLY, &[key.trim_ascii(), GUID].concat());
    upgrades
        && matches!(protocols[..], [protocol] if protocol.eq_ignore_ascii_case(b"websocket"))
        && accept.trim_ascii() == STANDARD.encode(expected).as_bytes()
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue};

    use super::*;

    fn fields(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in lines {
            map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        map
    }

    #[test]
    fn rfc_6455_section_4_1_only_the_matching_accept_completes_the_handshake() {
        const KEY: (&str, &str) = ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        const ACCEPT: (&str, &str) = ("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        const UPGRADE: (&str, &str) = ("upgrade", "WebSocket");
        const CONNECTION: (&str, &str) = ("connection", "keep-alive, Upgrade");
        let cases: [(&[_], &[_], bool); 8] = [
            (&[KEY], &[UPGRADE, CONNECTION, ACCEPT], true),
            (&[], &[UPGRADE, CONNECTION, ACCEPT], false),
            (&[KEY, KEY], &[UPGRADE, CONNECTION, ACCEPT], false),
            (&[KEY], &[UPGRADE, CONNECTION], false),
            (&[KEY], &[UPGRADE, ACCEPT], false),
            (&[KEY], &[CONNECTION, ACCEPT], false),
            (&[KEY], &[("upgrade", "websocket, h2c"), CONNECTION, ACCEPT], false),
            (&[KEY], &[UPGRADE, CONNECTION, ("sec-websocket-accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOp=")], false),
        ];
        for (asked, answer, expected) in cases {
            assert_eq!(completes(&fields(asked), &fields(answer)), expected, "{asked:?} {answer:?}");
        }
    }
}
