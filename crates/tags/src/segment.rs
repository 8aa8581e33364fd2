//! The first segment of a path, which names a pool.

/// The longest name of a group that every cache must support (RFC 9875 section 2).
const GROUP: usize = 32;

/// The segment that a target belongs to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Segment {
    /// The pool of this name: ASCII, in lower case.
    Named(Box<str>),
    /// Unknown: backends differ in the interpretation of `..`, of `//` and of an encoded slash.
    Anywhere,
}

impl Segment {
    /// Returns the first segment of `target`: a path, perhaps with a query.
    ///
    /// Spellings that a backend may treat as the same segment have one name here: letter case, encoded
    /// letters and parameters behind a semicolon do not count.
    pub fn of(target: &[u8]) -> Self {
        let path = target.split(|byte| b"?#".contains(byte)).next().unwrap_or_default();
        let Some(path) = path.strip_prefix(b"/") else { return Self::Anywhere };
        let mut segments = path.split(|&byte| byte == b'/').map(normal).peekable();
        let Some(first) = segments.next() else { return Self::Anywhere };
        let is_more = segments.peek().is_some();
        let climbs = |name: &str| matches!(name, "." | "..") || name.contains('\\');
        let hides = first.contains("%2f") || first.contains("%5c");
        if hides || climbs(&first) || (first.is_empty() && is_more) || segments.any(|name| climbs(&name)) {
            return Self::Anywhere;
        }
        Self::Named(first.into())
    }

    /// Returns the pool that an operator calls `name`: a segment, with or without slashes around it. `None`
    /// if it is more than one segment, or an ambiguous one.
    pub fn named(name: &str) -> Option<Box<str>> {
        let name = name.strip_prefix('/').unwrap_or(name);
        let name = name.strip_suffix('/').unwrap_or(name);
        if name.contains(['/', '?', '#', ';']) {
            return None;
        }
        match Self::of(format!("/{name}").as_bytes()) {
            Self::Named(name) => Some(name),
            Self::Anywhere => None,
        }
    }
}

/// Returns the name of a pool as a group of RFC 9875: its name, or a hash in place of a long or unusual one.
pub(crate) fn group(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~%".contains(&byte);
    match name.len() <= GROUP && name.bytes().all(is_plain) {
        true => name.to_owned(),
        false => blake3::hash(name.as_bytes()).to_hex()[..GROUP].to_owned(),
    }
}

/// Returns a segment up to its parameters, in lower case. Characters that need no encoding are decoded
/// (RFC 3986 section 2.3), those that need it are encoded.
fn normal(segment: &[u8]) -> String {
    let segment = segment.split(|&byte| byte == b';').next().unwrap_or_default();
    let mut name = String::with_capacity(segment.len());
    let mut rest = segment;
    while let [byte, after @ ..] = rest {
        let decoded = after.get(..2).filter(|_| *byte == b'%').and_then(hexadecimal);
        let (byte, is_coded) = decoded.map_or((*byte, false), |byte| (byte, true));
        rest = if is_coded { &after[2..] } else { after };
        let is_unreserved = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
        // An asterisk stands for all pools in lists of pools.
        if is_unreserved || (!is_coded && byte.is_ascii_graphic() && byte != b'*') {
            name.push(char::from(byte.to_ascii_lowercase()));
        } else {
            name.push_str(&format!("%{byte:02x}"));
        }
    }
    name
}

fn hexadecimal(digits: &[u8]) -> Option<u8> {
    let is_one = digits.iter().all(u8::is_ascii_hexdigit);
    u8::from_str_radix(std::str::from_utf8(digits).ok().filter(|_| is_one)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spellings_that_a_backend_may_take_for_one_have_one_name() {
        let cases = [
            ("/users", "users"),
            ("/users/", "users"),
            ("/users/1/friends?a=/../x", "users"),
            ("/users?x", "users"),
            ("/USERS/1", "users"),
            ("/%75s%65rs/1", "users"),
            ("/users;v=1/1", "users"),
            ("/a%20b", "a%20b"),
            ("/a%2Bb", "a%2bb"),
            ("/%zz%4", "%zz%4"),
            ("/*", "%2a"),
            ("/\u{e9}", "%c3%a9"),
            ("/", ""),
            ("/?q", ""),
        ];
        for (target, name) in cases {
            assert_eq!(Segment::of(target.as_bytes()), Segment::Named(name.into()), "{target}");
        }
    }

    #[test]
    fn a_target_that_backends_resolve_differently_may_be_in_any_segment() {
        for target in [
            "//users",
            "/./users",
            "/x/../users",
            "/x/%2e%2E/users",
            "/x%2fusers",
            "/x%5Cusers",
            "/x\\..\\users",
            "*",
            "",
            "users/1",
        ] {
            assert_eq!(Segment::of(target.as_bytes()), Segment::Anywhere, "{target}");
        }
    }

    #[test]
    fn operators_name_one_segment() {
        let cases = [
            ("users", Some("users")),
            ("/USERS/", Some("users")),
            ("a/b", None),
            ("..", None),
            ("a?b", None),
        ];
        for (name, pool) in cases {
            assert_eq!(Segment::named(name).as_deref(), pool, "{name}");
        }
    }

    #[test]
    fn every_group_has_a_name_that_fits() {
        assert_eq!(group("users"), "users");
        let (long, other) = (group(&"x".repeat(33)), group(&"y".repeat(33)));
        assert!(long.len() == GROUP && other.len() == GROUP && long != other);
        assert_ne!(group("a\"b"), "a\"b");
    }

    proptest! {
        #[test]
        fn any_target_has_a_place(target: Vec<u8>) {
            if let Segment::Named(name) = Segment::of(&target) {
                prop_assert!(name.is_ascii());
                prop_assert!(group(&name).len() <= GROUP);
                let again = format!("/{name}");
                prop_assert_eq!(Segment::of(again.as_bytes()), Segment::Named(name), "a name is its own pool's");
            }
        }
    }
}
