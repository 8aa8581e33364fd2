//! The head of a request in HTTP/2.

use http::uri::{Authority, Parts, PathAndQuery, Scheme, Uri};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use larder_semantics::status::Why;

use crate::origin::OriginError;

/// Connection-specific fields, which HTTP/2 does not have (RFC 9113 section 8.2.2). `TE` is set separately.
const DROPPED: [HeaderName; 4] = [header::CONNECTION, header::TRANSFER_ENCODING, header::UPGRADE, header::TE];

/// Returns the head with these parts. Adds `TE: trailers`, which gRPC servers require. Errors: the error of a request
/// with a host or path that HTTP/2 does not have.
pub(in crate::origin) fn message(
    https: bool,
    method: &Method,
    host: &str,
    path: &str,
    mut fields: HeaderMap,
) -> Result<Request<()>, OriginError> {
    DROPPED.iter().for_each(|name| drop(fields.remove(name)));
    fields.insert(header::TE, HeaderValue::from_static("trailers"));
    let mut request = Request::new(());
    *request.method_mut() = method.clone();
    *request.uri_mut() = uri(https, host, path).map_err(unspeakable)?;
    *request.headers_mut() = fields;
    Ok(request)
}

fn uri(https: bool, host: &str, path: &str) -> Result<Uri, &'static str> {
    let mut parts = Parts::default();
    parts.scheme = Some(if https { Scheme::HTTPS } else { Scheme::HTTP });
    parts.authority = Some(Authority::try_from(host).map_err(|_| "its host is malformed")?);
    parts.path_and_query = Some(PathAndQuery::try_from(path).map_err(|_| "its target is malformed")?);
    Uri::from_parts(parts).map_err(|_| "its target is malformed")
}

/// Returns the error for a request that has no equivalent in HTTP/2.
fn unspeakable(why: &'static str) -> OriginError {
    let detail = format!("the request cannot be sent in HTTP/2: {why}");
    OriginError::unsent(StatusCode::BAD_GATEWAY, Why::OriginMalformed, detail)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(https: bool, host: &str, path: &str, fields: &[(&str, &str)]) -> Result<Request<()>, String> {
        let field = |(name, value): &(&str, &str)| {
            (HeaderName::from_bytes(name.as_bytes()).unwrap(), HeaderValue::from_str(value).unwrap())
        };
        let fields = fields.iter().map(field).collect();
        message(https, &Method::POST, host, path, fields).map_err(|error| error.detail)
    }

    #[test]
    fn rfc_9113_section_8_3_1_parts_become_pseudo_fields_and_fields() {
        let fields = [
            ("content-type", "application/grpc"),
            ("a", "1"),
            ("a", "2"),
            ("te", "gzip"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "b"),
            ("connection", "upgrade"),
            ("b", ""),
        ];
        let request = made(true, "x.example:81", "/a.B/C?d={|}&e=`\\", &fields).unwrap();
        assert_eq!(request.uri().to_string(), "https://x.example:81/a.B/C?d={|}&e=`\\");
        assert_eq!(request.method(), Method::POST);
        let fields: Vec<_> =
            request.headers().iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(
            fields,
            [("content-type", "application/grpc"), ("a", "1"), ("a", "2"), ("b", ""), ("te", "trailers")]
        );
        assert_eq!(made(false, "[::1]", "/", &[]).unwrap().uri().scheme_str(), Some("http"));
    }

    #[test]
    fn a_request_without_a_host_or_a_path_cannot_be_sent() {
        for (host, path, why) in [
            ("", "/", "its host is malformed"),
            ("a@b c", "/", "its host is malformed"),
            ("a", "b c", "its target is malformed"),
        ] {
            let expected = format!("the request cannot be sent in HTTP/2: {why}");
            assert_eq!(made(false, host, path, &[]).unwrap_err(), expected, "{host} {path}");
        }
    }
}
