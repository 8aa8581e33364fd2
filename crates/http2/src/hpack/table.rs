//! The static table (RFC 7541 appendix A).

/// Names and values; the first has index 1.
pub(super) const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

/// The fields of the table, each value behind its name, and where they begin.
pub(super) static CONTIGUOUS: ([u8; LENGTH], [u16; STATIC.len() + 1]) = {
    let (mut bytes, mut starts, mut at, mut place) = ([0; LENGTH], [0; STATIC.len() + 1], 0, 0);
    while place < STATIC.len() {
        let field = [STATIC[place].0.as_bytes(), STATIC[place].1.as_bytes()];
        let mut parts = field.as_slice();
        while let [first, rest @ ..] = parts {
            bytes.split_at_mut(at).1.split_at_mut(first.len()).0.copy_from_slice(first);
            (at, parts) = (at + first.len(), rest);
        }
        place += 1;
        starts[place] = at as u16;
    }
    (bytes, starts)
};

/// The bytes of all names and values.
const LENGTH: usize = {
    let (mut length, mut place) = (0, 0);
    while place < STATIC.len() {
        length += STATIC[place].0.len() + STATIC[place].1.len();
        place += 1;
    }
    length
};
