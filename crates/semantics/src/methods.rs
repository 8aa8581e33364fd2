//! Properties of request methods: the registry of IANA (RFC 9110 section 16.1). Methods are case-sensitive.

use http::Method;

/// The safe methods. `QUERY` is of RFC 10008, `PROPFIND` of RFC 4918, `REPORT` of RFC 3253, `SEARCH` of RFC 5323.
const SAFE: [&str; 8] = ["GET", "HEAD", "OPTIONS", "TRACE", "QUERY", "PROPFIND", "REPORT", "SEARCH"];

/// Methods that are idempotent, but not safe. Others of the registry, such as `MOVE`, fail if they are repeated after
/// they have succeeded, and count as others.
const REPEATABLE: [&str; 2] = ["PUT", "DELETE"];

/// Methods whose requests usually have content.
const WITH_CONTENT: [&str; 4] = ["POST", "PUT", "PATCH", "QUERY"];

/// Whether requests with this method change nothing at the origin. Unknown methods count as unsafe (RFC 9110 section
/// 9.2.1).
pub fn is_safe(method: &Method) -> bool {
    SAFE.contains(&method.as_str())
}

/// Whether a request with this method may be sent again (RFC 9110 section 9.2.2).
pub fn is_idempotent(method: &Method) -> bool {
    is_safe(method) || REPEATABLE.contains(&method.as_str())
}

/// Whether a request with this method states the length of its content even if it is 0 (RFC 9110 section 8.6).
pub fn expects_content(method: &Method) -> bool {
    WITH_CONTENT.contains(&method.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_method_has_the_properties_of_the_registry() {
        for (methods, safe, idempotent) in [
            ("GET HEAD OPTIONS TRACE QUERY PROPFIND REPORT SEARCH", true, true),
            ("PUT DELETE", false, true),
            ("POST PATCH CONNECT LOCK M-SEARCH get query", false, false),
        ] {
            for method in methods.split(' ') {
                let method = Method::from_bytes(method.as_bytes()).unwrap();
                assert_eq!((is_safe(&method), is_idempotent(&method)), (safe, idempotent), "{method}");
            }
        }
    }
}
