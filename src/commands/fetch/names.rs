//! File names for URLs: two URLs never share a name, and no name leads out of its folder.

use std::fmt::Write as _;
use std::path::PathBuf;

/// The most characters of a name's part, which file systems accept.
const LONGEST: usize = 200;

/// Returns the path in a folder where the page at `url` is kept. It is readable and reversible: `://` becomes `+` and
/// `/` becomes `_`, and all other characters except letters, digits, dots and hyphens are percent-encoded. A long name
/// is split into folders, and tildes mark the cuts: no part is `..`, and no file has the name of a folder.
pub(super) fn file(url: &str) -> PathBuf {
    let name = match url.split_once("://") {
        Some((scheme, rest)) => format!("{}+{}", encoded(scheme), encoded(rest)),
        None => format!("~{}", encoded(url)),
    };
    let mut path = String::new();
    let mut rest = name.as_str();
    while rest.len() > LONGEST {
        let (part, more) = rest.split_at(LONGEST);
        path += &format!("{part}~/~");
        rest = more;
    }
    (path + rest).into()
}

/// Encodes `text` in ASCII, so that it can be cut anywhere.
fn encoded(text: &str) -> String {
    let mut name = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'/' => name.push('_'),
            b'.' | b'-' => name.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => name.push(char::from(byte)),
            // Writing to a string does not fail.
            _ => drop(write!(name, "%{byte:02X}")),
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use std::path::Component;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_can_be_read() {
        let table = [
            ("http://a.test/", "http+a.test_"),
            ("https://a.test:8443/x_y/z.html?q=1", "https+a.test%3A8443_x%5Fy_z.html%3Fq%3D1"),
            ("http://a/../../etc", "http+a_.._.._etc"),
            ("..", "~.."),
        ];
        for (url, name) in table {
            assert_eq!(file(url), PathBuf::from(name), "{url}");
        }
        let long = "b".repeat(LONGEST - "http+a_".len());
        let cut = PathBuf::from(format!("http+a_{long}~/~.."));
        assert_eq!(file(&format!("http://a/{long}..")), cut);
    }

    proptest! {
        #[test]
        fn every_name_is_a_short_one_of_its_own(
            one in "(http://)?([a./_~%+]{0,12}|[a.]{190,420})",
            other in "(http://)?([a./_~%+]{0,12}|[a.]{190,420})",
        ) {
            let (first, second) = (file(&one), file(&other));
            prop_assert_eq!(first == second, one == other);
            // A file never has the path of another file's folder.
            prop_assert!(one == other || !second.starts_with(&first));
            for part in first.components() {
                prop_assert!(matches!(part, Component::Normal(name) if name.len() <= 255), "{:?}", first);
            }
        }
    }
}
