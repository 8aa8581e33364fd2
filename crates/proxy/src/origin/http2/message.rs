//! The head of a request in HTTP/2.

use http::uri::{Authority, Parts, PathAndQuery, Scheme, Uri};
use http::{HeaderMap, HeaderName, HeaderValue, Request, header};

use crate::origin::Outgoing;

/// Connection-specific fields, which HTTP/2 does not have (RFC 9113 section 8.2.2). `TE` is set separately.
const DROPPED: [HeaderName; 4] = [header::CONNECTION, header::TRANSFER_ENCODING, header::UPGRADE, header::TE];

/// Converts the HTTP/1.1 head of `outgoing`. Adds `TE: trailers`, which gRPC servers require.
///
/// # Errors
/// The part that has no equivalent in HTTP/2.
pub(super) fn of(outgoing: &Outgoing<'_>) -> Result<Request<()>, &'static str> {
    let mut lines = outgoing.head.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    let first = lines.next().unwrap_or_default();
    let target = first.split(|byte| *byte == b' ').nth(1).ok_or("it has no target")?;
    let (mut fields, mut host) = (HeaderMap::new(), None);
    for line in lines.take_while(|line| !line.is_empty()) {
        let end = line.iter().position(|byte| *byte == b':').ok_or("a field has no value")?;
        let name = HeaderName::from_bytes(&line[..end]).map_err(|_| "a field's name is malformed")?;
        let value = line[end + 1..].trim_ascii();
        if name == header::HOST {
            host = Some(Authority::try_from(value).map_err(|_| "its host is malformed")?);
        } else if !DROPPED.contains(&name) {
            fields.append(name, HeaderValue::from_bytes(value).map_err(|_| "a field's value is malformed")?);
        }
    }
    fields.insert(header::TE, HeaderValue::from_static("trailers"));
    let mut uri = Parts::default();
    uri.scheme = Some(if outgoing.https { Scheme::HTTPS } else { Scheme::HTTP });
    uri.authority = Some(host.ok_or("it has no host")?);
    uri.path_and_query = Some(PathAndQuery::try_from(target).map_err(|_| "its target is malformed")?);
    let mut request = Request::new(());
    *request.method_mut() = outgoing.method.clone();
    *request.uri_mut() = Uri::from_parts(uri).map_err(|_| "its target is malformed")?;
    *request.headers_mut() = fields;
    Ok(request)
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;
    use crate::http::body::Upload;
    use crate::origin::Waits;

    fn made(https: bool, head: &str) -> Result<Request<()>, &'static str> {
        of(&Outgoing {
            https,
            http2: true,
            authority: "127.0.0.1:1",
            method: &Method::POST,
            head: head.as_bytes(),
            content: &mut Upload::Empty,
            on_interim: &mut drop,
            key: None,
            lost_try: None,
            client: None,
            waits: Waits::default(),
        })
    }

    #[test]
    fn rfc_9113_section_8_3_1_the_lines_of_http_1_1_become_pseudo_fields_and_fields() {
        let head = "POST /a.B/C?d={|}&e=`\\ HTTP/1.1\r\nHost: x.example:81\r\nContent-Type: application/grpc\r\nA: 1\r\na:  2 \r\n\
                    TE: gzip\r\nTransfer-Encoding: chunked\r\nUpgrade: b\r\nConnection: upgrade\r\nb:\r\n\r\n";
        let request = made(true, head).unwrap();
        assert_eq!(request.uri().to_string(), "https://x.example:81/a.B/C?d={|}&e=`\\");
        assert_eq!(request.method(), Method::POST);
        let fields: Vec<_> =
            request.headers().iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(
            fields,
            [("content-type", "application/grpc"), ("a", "1"), ("a", "2"), ("b", ""), ("te", "trailers")]
        );
        assert_eq!(
            made(false, "GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n").unwrap().uri().scheme_str(),
            Some("http")
        );
    }

    #[test]
    fn what_has_no_host_or_no_target_is_no_request() {
        assert_eq!(made(false, "GET / HTTP/1.1\r\n\r\n").unwrap_err(), "it has no host");
        assert_eq!(made(false, "GET").unwrap_err(), "it has no target");
        assert_eq!(
            made(false, "GET / HTTP/1.1\r\nHost: a@b c\r\n\r\n").unwrap_err(),
            "its host is malformed"
        );
    }
}
