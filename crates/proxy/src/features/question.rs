//! A request to be explained, and its head as a client would send it.

use http::{HeaderName, HeaderValue, Method};

use crate::base::settings::Role;
use crate::features::inventory;

/// A request to be explained.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) url: String,
    pub(crate) method: Method,
    pub(crate) fields: Vec<(HeaderName, HeaderValue)>,
    /// The role of the client's listener; `None`: the role for which there is most to explain.
    pub(crate) role: Option<Role>,
}

impl Question {
    /// Returns the request's head, as a client would send it.
    pub(super) fn text(&self) -> Result<String, String> {
        if self.url.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            let shown = self.url.escape_debug();
            return Err(format!("'{shown}': spaces and control characters have to be percent-encoded"));
        }
        let (mut host, mut lines) = (None, String::new());
        for (name, value) in &self.fields {
            let value =
                value.to_str().map_err(|_| format!("{name}: only visible ASCII is understood here"))?;
            match name == http::header::HOST {
                // As with curl: the URL says where to connect, and this field which host to request.
                true => host = Some(value),
                false => lines += &format!("{name}: {value}\r\n"),
            }
        }
        if self.method == Method::CONNECT {
            let target = &self.url;
            let host = host.unwrap_or(target);
            return Ok(format!("CONNECT {target} HTTP/1.1\r\nHost: {host}\r\n{lines}\r\n"));
        }
        let address = inventory::address(&self.url)?;
        let authority = host.unwrap_or(address.authority);
        let slash = if address.path.starts_with('/') { "" } else { "/" };
        let target = format!("{}://{authority}{slash}{}", address.scheme, address.path);
        Ok(format!("{} {target} HTTP/1.1\r\nHost: {authority}\r\n{lines}\r\n", self.method))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(url: &str, fields: &[(&str, &str)]) -> Question {
        let fields = fields.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        Question { url: url.to_owned(), method: Method::GET, fields: fields.collect(), role: None }
    }

    #[test]
    fn a_question_is_the_request_that_a_client_would_send() {
        const HOST: Fields = &[("host", "docs.example"), ("accept", "a/b")];
        type Fields = &'static [(&'static str, &'static str)];
        let table: &[(&str, Fields, &str)] = &[
            ("http://a", &[], "GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n"),
            ("HTTP://a:81?b#c", &[], "GET http://a:81/?b HTTP/1.1\r\nHost: a:81\r\n\r\n"),
            (
                "http://a/b",
                HOST,
                "GET http://docs.example/b HTTP/1.1\r\nHost: docs.example\r\naccept: a/b\r\n\r\n",
            ),
        ];
        for (url, fields, expected) in table {
            assert_eq!(question(url, fields).text().as_deref(), Ok(*expected), "{url}");
        }
        let tunnel = Question { method: Method::CONNECT, ..question("a.test:443", &[("x-a", "b")]) };
        let expected = "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\nx-a: b\r\n\r\n";
        assert_eq!(tunnel.text().as_deref(), Ok(expected));
        for url in ["http://a/ HTTP/1.1\r\nX: y", "http://a/\t", "http://a b/", "a.test"] {
            assert!(question(url, &[]).text().is_err(), "{url:?}");
        }
    }
}
