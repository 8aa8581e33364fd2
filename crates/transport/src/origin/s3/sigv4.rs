//! Signature Version 4 of Amazon Web Services: a pure function of the request, the credentials and the time.

use std::fmt::Write;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac;
use larder_words::hex;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, PercentEncode, percent_encode};

use super::credentials::Credentials;

/// The SHA-256 of no content.
pub(super) const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const ALGORITHM: &str = "AWS4-HMAC-SHA256";

/// The bytes that are encoded in paths.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');
/// The bytes that are encoded in names and values of queries.
const IN_QUERY: &AsciiSet = &IN_PATH.add(b'/');

/// The parts of a request that are signed.
#[derive(Debug)]
pub(super) struct Parts<'r> {
    pub(super) method: &'r str,
    /// The path, encoded by [`path`].
    pub(super) path: &'r str,
    /// The query, encoded by [`query`], sorted by name; empty without one.
    pub(super) query: &'r str,
    /// The signed fields, with names in lower case, sorted by name.
    pub(super) fields: &'r [(&'r str, &'r str)],
    /// The SHA-256 of the content in hexadecimal digits.
    pub(super) content: &'r str,
}

/// Encodes the bytes of a path in the only form whose signature all servers compute alike.
pub(super) fn path(decoded: &[u8]) -> PercentEncode<'_> {
    percent_encode(decoded, IN_PATH)
}

/// Encodes a name or a value of a query.
pub(super) fn query(decoded: &[u8]) -> PercentEncode<'_> {
    percent_encode(decoded, IN_QUERY)
}

/// Returns the value of `Authorization` for a request at `moment`, a time in the form `20130524T000000Z`, to this service
/// in this region.
pub(super) fn authorization(
    parts: &Parts<'_>,
    credentials: &Credentials,
    moment: &str,
    (region, service): (&str, &str),
) -> String {
    let names: Vec<_> = parts.fields.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let day = moment.get(..8).unwrap_or_default();
    let scope = format!("{day}/{region}/{service}/aws4_request");
    let canonical = hex(digest(&SHA256, canonical(parts, &names).as_bytes()).as_ref());
    let text = format!("{ALGORITHM}\n{moment}\n{scope}\n{canonical}");
    let secret = format!("AWS4{}", credentials.secret);
    let key = [day, region, service, "aws4_request"]
        .iter()
        .fold(secret.into_bytes(), |key, part| tag(&key, part).as_ref().to_vec());
    let signature = hex(tag(&key, &text).as_ref());
    format!("{ALGORITHM} Credential={}/{scope}, SignedHeaders={names}, Signature={signature}", credentials.id)
}

/// Returns the canonical form of a request.
fn canonical(parts: &Parts<'_>, names: &str) -> String {
    let mut text = format!("{}\n{}\n{}\n", parts.method, parts.path, parts.query);
    for (name, value) in parts.fields {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name}:{value}");
    }
    let _ = write!(text, "\n{names}\n{}", parts.content);
    text
}

fn tag(key: &[u8], text: &str) -> hmac::Tag {
    hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first four are the examples of Amazon's "Signature Calculations for the Authorization Header" for S3; the others
    /// were computed separately, with botocore 1.43 for Python.
    #[test]
    fn signatures_equal_those_of_the_published_examples() {
        let credentials = Credentials::of("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY");
        let (host, moment) = (("host", "examplebucket.s3.amazonaws.com"), "20130524T000000Z");
        let (content, date) = (("x-amz-content-sha256", EMPTY), ("x-amz-date", moment));
        let plain = [host, content, date];
        let ranged = [host, ("range", "bytes=0-9"), content, date];
        let put = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
        let written = [
            ("date", "Fri, 24 May 2013 00:00:00 GMT"),
            host,
            ("x-amz-content-sha256", put),
            date,
            ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ];
        type Row<'r> = (&'r str, &'r str, &'r str, &'r [(&'r str, &'r str)], &'r str);
        let list = "delimiter=%2F&list-type=2&prefix=site%2F%26x%2F";
        let rows: [Row<'_>; 6] = [
            (
                "GET",
                "/test.txt",
                "",
                &ranged,
                "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
            ),
            (
                "PUT",
                "/test%24file.text",
                "",
                &written,
                "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
            ),
            (
                "GET",
                "/",
                "lifecycle=",
                &plain,
                "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
            ),
            (
                "GET",
                "/",
                "max-keys=2&prefix=J",
                &plain,
                "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
            ),
            (
                "GET",
                "/site/a%20b%2B%281%29%21.txt",
                "",
                &plain,
                "b39640d8d6b4a1650d93a2f5628ff8ff8ebe4ebb80d5ebe53c65de3d8a7eb3b4",
            ),
            ("HEAD", "/", list, &plain, "461cdcde7b82ffd6598b1600aae7a1aa8cab6ca5b07752174d726ccc452a0e8e"),
        ];
        for (method, path, query, fields, signature) in rows {
            let content = if method == "PUT" { put } else { EMPTY };
            let parts = Parts { method, path, query, fields, content };
            let value = authorization(&parts, &credentials, moment, ("us-east-1", "s3"));
            let begin = "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, SignedHeaders=";
            assert!(value.starts_with(begin), "{value}");
            assert_eq!(value.rsplit('=').next(), Some(signature), "{method} {path}?{query}");
        }
    }

    /// `get-vanilla-query-unreserved` and `get-vanilla` of Amazon's test suite for Signature Version 4.
    #[test]
    fn signatures_equal_those_of_the_published_test_suite() {
        let credentials = Credentials::of("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY");
        let fields = [("host", "example.amazonaws.com"), ("x-amz-date", "20150830T123600Z")];
        let unreserved = "-._~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let query = format!("{unreserved}={unreserved}");
        for (query, signature) in [
            ("", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
            (&query, "9c3e54bfcdf0b19771a7f523ee5669cdf59bc7cc0884027167c21bb143a40197"),
        ] {
            let parts = Parts { method: "GET", path: "/", query, fields: &fields, content: EMPTY };
            let value = authorization(&parts, &credentials, "20150830T123600Z", ("us-east-1", "service"));
            assert_eq!(value.rsplit('=').next(), Some(signature));
        }
        assert_eq!(self::query(unreserved.as_bytes()).to_string(), unreserved);
    }
}
