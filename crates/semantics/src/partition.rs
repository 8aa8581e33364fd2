//! Partitions: the responses of a URL that rules store apart by fields and cookies of requests, each under a key of its
//! own.
//!
//! A partition is the end of a key: behind the [key of the URL](crate::key::of_url) and a NUL, the names and values as in a
//! [signature](crate::vary), and a mark. So partitions are found, evicted and counted like URLs, however many there are, and
//! the URL's key, with which all of them begin, still tells to what they belong.

use crate::fields::Fields;
use crate::{key, vary};

/// The last byte of the key of a partition, where that of a URL has the kind of its clients.
const MARK: u8 = b'P';

/// Extends the key of a URL to that of the partition for a request with these fields: by fields (lower case), and by
/// cookies as `cookie:NAME`. Without names, nothing is appended.
#[inline]
pub fn write(names: &[String], request: &impl Fields, key: &mut Vec<u8>) {
    if names.is_empty() {
        return;
    }
    key.push(0);
    names.iter().for_each(|name| vary::write_field(request, name, name == "accept-language", key));
    key.push(MARK);
}

/// Returns the key of a partition of the URL under `key` that no fields select.
pub fn named(key: &[u8], name: &[u8]) -> Vec<u8> {
    [key::of_url(key), b"\0", name, &[MARK]].concat()
}

/// Whether `key` is that of a partition.
pub fn is_key(key: &[u8]) -> bool {
    key.last() == Some(&MARK)
}

/// Iterates over the fields and cookies in the key of a partition: their names, and their normalised values if the request
/// had them. None for other keys.
pub fn fields(key: &[u8]) -> impl Iterator<Item = (&str, Option<&[u8]>)> {
    let partition = key.get(key::of_url(key).len() + 1..).unwrap_or_default();
    vary::fields(partition.strip_suffix(&[MARK]).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fields::HeadLines;

    fn of_url(path: &str) -> Vec<u8> {
        let mut url = Vec::new();
        key::write(&mut url, "http", b"a", path.as_bytes());
        url.push(b'R');
        url
    }

    proptest! {
        #[test]
        fn requests_share_a_partition_if_their_url_and_values_are_equal(
            one in ("/[ab?]{0,2}", "[ab]{0,2}", "[ab]{0,2}"),
            other in ("/[ab?]{0,2}", "[ab]{0,2}", "[ab]{0,2}"),
        ) {
            let names = ["cookie:c".to_owned(), "x-tenant".to_owned()];
            let keys = [&one, &other].map(|(path, tenant, cookie)| {
                let mut key = of_url(path);
                let lines = format!("X-Tenant: {tenant}\r\nCookie: c={cookie}\r\n");
                write(&names, &HeadLines(lines.as_bytes()), &mut key);
                key
            });
            prop_assert_eq!(keys[0] == keys[1], one == other);
            prop_assert!(is_key(&keys[0]) && key::of_url(&keys[0]) == of_url(&one.0));
            let read: Vec<_> = fields(&keys[0]).collect();
            let cookie = ("cookie:c", Some(one.2.as_bytes()));
            prop_assert_eq!(read, [cookie, ("x-tenant", Some(one.1.as_bytes()))]);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(key: Vec<u8>, name: Vec<u8>) {
            let _ = (fields(&key).count(), fields(&named(&key, &name)).count());
        }
    }

    #[test]
    fn a_cookie_selects_a_partition_whatever_others_are_sent() {
        let key = |cookies: &str| {
            let (names, mut key) = (["cookie:lang".to_owned()], of_url("/"));
            write(&names, &HeadLines(cookies.as_bytes()), &mut key);
            key
        };
        let german = key("Cookie: a=1; lang=de\r\n");
        assert_eq!(key("Cookie: lang=de; b=2\r\n"), german);
        for other in ["lang =de", "lang=en", "xlang=de", "a=1", "lang=de\r\nCookie: lang=en"] {
            assert_ne!(key(&format!("Cookie: {other}\r\n")), german, "{other}");
        }
    }

    #[test]
    fn a_url_without_names_has_no_partition() {
        let mut key = of_url("/");
        write(&[], &HeadLines(b""), &mut key);
        assert!(key == of_url("/") && !is_key(&key) && fields(&key).count() == 0);
        assert_eq!(key::of_url(&named(&key, b"n")), key);
    }
}
