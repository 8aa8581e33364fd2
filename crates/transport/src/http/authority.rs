//! The bytes that targets and authorities of requests may contain (RFC 3986).

/// Whether a request-target may contain these bytes: slightly more than RFC 3986 allows, as browsers send more (a
/// backtick, in queries only).
pub fn is_target(target: &str) -> bool {
    let path = target.bytes().position(|byte| !IN_PATH[usize::from(byte)]);
    let query = &target.as_bytes()[path.unwrap_or(target.len())..];
    matches!(query, [] | [b'?', ..])
        && query.iter().all(|byte| IN_PATH[usize::from(*byte)] || b"?`".contains(byte))
}

/// The bytes of a path.
const IN_PATH: [bool; 256] = {
    let (mut table, mut byte) = ([false; 256], 0);
    while byte < 128 {
        let text = byte as u8;
        table[byte] = text.is_ascii_graphic() && !matches!(text, b'#' | b'<' | b'>' | b'"' | b'?' | b'`');
        byte += 1;
    }
    table
};

/// The bytes of a registered name (RFC 3986 section 3.2.2), except the comma, which joins repeated fields, and
/// percent-encoding, which hides a name from comparisons.
const IN_HOST: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let mut others = b"-._~!$&'()*+;=".as_slice();
    while let [first, rest @ ..] = others {
        table[*first as usize] = true;
        others = rest;
    }
    table
};

/// Whether `authority` is `host` or `host:port`, without user information (RFC 9110 section 4.2.4). More than one dot
/// at the end of the host is refused, since parsers disagree about them.
pub fn is_authority(authority: &str) -> bool {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let Some((address, port)) = rest.split_once(']') else { return false };
            if address.parse::<std::net::Ipv6Addr>().is_err() {
                return false;
            }
            ("v6", port)
        }
        None => {
            let end = authority.bytes().position(|byte| !IN_HOST[usize::from(byte)]);
            authority.split_at(end.unwrap_or(authority.len()))
        }
    };
    let ends = port.is_empty() || port.strip_prefix(':').is_some_and(is_port);
    ends && !host.is_empty() && !host.ends_with("..")
}

/// Returns a written authority without the colon of an empty port (RFC 3986 section 3.2.3); `None` if it is malformed.
#[inline]
pub fn authority(written: &str) -> Option<&str> {
    let is_host = |text: &&str| text.ends_with(']') || !text.contains(':');
    let without_port = written.strip_suffix(':').filter(is_host);
    Some(without_port.unwrap_or(written)).filter(|authority| is_authority(authority))
}

/// Returns `scheme`, in any letter case, if it is one of HTTP.
#[inline]
pub fn known_scheme(scheme: &str) -> Option<&'static str> {
    match scheme {
        "http" => Some("http"),
        "https" => Some("https"),
        other => ["http", "https"].into_iter().find(|known| other.eq_ignore_ascii_case(known)),
    }
}

pub(super) fn is_port(port: &str) -> bool {
    let add = |port: u16, byte: u8| {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 { port.checked_mul(10)?.checked_add(digit.into()) } else { None }
    };
    !port.is_empty() && port.bytes().try_fold(0, add).is_some()
}
