//! A request to be explained, with its target and fields as a client would send them.

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};

use crate::base::settings::Role;
use crate::features::inventory;

/// A request to be explained.
#[derive(Clone, Debug)]
pub struct WhyQuery {
    /// The URL.
    pub url: String,
    /// The method.
    pub method: Method,
    /// The fields.
    pub fields: Vec<(HeaderName, HeaderValue)>,
    /// The role of the client's listener; `None`: the role for which there is most to explain.
    pub role: Option<Role>,
}

impl WhyQuery {
    /// Returns the request's target and fields, as a client would send them. The error is the reason why the URL or a
    /// field cannot be sent, in one line.
    pub(super) fn message(&self) -> Result<(String, HeaderMap), String> {
        if self.url.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            let shown = self.url.escape_debug();
            return Err(format!("'{shown}': spaces and control characters have to be percent-encoded"));
        }
        let mut fields = HeaderMap::new();
        let mut host = None;
        for (name, value) in &self.fields {
            let text =
                value.to_str().map_err(|_| format!("{name}: only visible ASCII is understood here"))?;
            match name == header::HOST {
                // As with curl: the URL says where to connect, and this field which host to request.
                true => host = Some(text),
                false => drop(fields.append(name, value.clone())),
            }
        }
        let (target, host) = match self.method == Method::CONNECT {
            true => (self.url.clone(), host.unwrap_or(&self.url)),
            false => {
                let address = inventory::address(&self.url)?;
                let authority = host.unwrap_or(address.authority);
                let slash = if address.path.starts_with('/') { "" } else { "/" };
                (format!("{}://{authority}{slash}{}", address.scheme, address.path), authority)
            }
        };
        let host = HeaderValue::from_bytes(host.as_bytes()).map_err(|error| error.to_string())?;
        fields.insert(header::HOST, host);
        Ok((target, fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(url: &str, fields: &[(&str, &str)]) -> WhyQuery {
        let fields = fields.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        WhyQuery { url: url.to_owned(), method: Method::GET, fields: fields.collect(), role: None }
    }

    #[test]
    fn a_question_is_the_request_that_a_client_would_send() {
        const HOST: Fields = &[("host", "docs.example"), ("accept", "a/b")];
        type Fields = &'static [(&'static str, &'static str)];
        let message = |question: &WhyQuery| {
            let (target, fields) = question.message().unwrap();
            let line =
                |(name, value): (&HeaderName, &HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
            let mut lines: Vec<_> = fields.iter().map(line).collect();
            lines.sort();
            format!("{target} {}", lines.join(", "))
        };
        let table: &[(&str, Fields, &str)] = &[
            ("http://a", &[], "http://a/ host: a"),
            ("HTTP://a:81?b#c", &[], "http://a:81/?b host: a:81"),
            ("http://a/b", HOST, "http://docs.example/b accept: a/b, host: docs.example"),
        ];
        for (url, fields, expected) in table {
            assert_eq!(message(&question(url, fields)), *expected, "{url}");
        }
        let tunnel = WhyQuery { method: Method::CONNECT, ..question("a.test:443", &[("x-a", "b")]) };
        assert_eq!(message(&tunnel), "a.test:443 host: a.test:443, x-a: b");
        for url in ["http://a/ HTTP/1.1\r\nX: y", "http://a/\t", "http://a b/", "a.test"] {
            assert!(question(url, &[]).message().is_err(), "{url:?}");
        }
    }
}
