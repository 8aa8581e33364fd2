//! Access to single cookies of requests, for responses that are stored separately by cookie.

use crate::fields::Fields;
use crate::readings;

/// The prefix of a cookie's name in a signature. No field name contains a colon.
pub(crate) const COOKIE: &str = "cookie:";

/// The fields of a request, in which each cookie has a name as well.
pub(crate) struct CookieFields<'r, F>(pub(crate) &'r F);

impl<F: Fields> Fields for CookieFields<'_, F> {
    fn lines<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        let cookie = name.strip_prefix(COOKIE);
        self.0.lines(cookie.map_or(name, |_| "cookie")).flat_map(move |line| {
            let pairs = cookie.into_iter().flat_map(move |cookie| {
                line.split(|byte| *byte == b';').filter_map(move |pair| cookie_value(pair, cookie))
            });
            cookie.is_none().then_some(line).into_iter().chain(pairs)
        })
    }
}

/// Returns the value of the cookie called `name`, if `pair` is that cookie. Some origins also read it in other spellings
/// ([`readings`]): such a pair is returned whole, so that it equals neither a value nor an absent cookie.
fn cookie_value<'p>(pair: &'p [u8], name: &str) -> Option<&'p [u8]> {
    let pair = pair.trim_ascii();
    if let Some(value) = pair.strip_prefix(name.as_bytes()).and_then(|rest| rest.strip_prefix(b"=")) {
        return Some(value);
    }
    let is_it = |read: &[u8]| readings::is_same_name(read, name.as_bytes());
    readings::cookies(pair).any(|(written, _)| readings::any_name(written, is_it)).then_some(pair)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use crate::fields::HeadLines;
    use crate::partition;

    fn signature(cookie: &str) -> Vec<u8> {
        let (lines, names) = (format!("Cookie: {cookie}\r\n"), ["cookie:lang".to_owned()]);
        let mut signature = Vec::new();
        let request = HeadLines(lines.as_bytes());
        partition::write(&names, &request, &mut signature);
        signature
    }

    #[test]
    fn a_cookie_that_origins_read_differently_has_a_signature_of_its_own() {
        let none = signature("a=b");
        assert_eq!(signature("language=de; xlang=de"), none);
        let all =
            ["lang=", "lang=de", "lang= de", "lang =de", "lang\t=de", "lang =", "lang", "lang=de; lang=en"];
        let all = all.into_iter().chain(["a=b lang=de", "a=b,lang=de", "%6cang=de", "lang[=de", "LANG=de"]);
        let all: Vec<_> = all.collect();
        let signatures = all.iter().map(|cookie| signature(cookie)).collect::<HashSet<_>>();
        assert_eq!(signatures.len(), all.len());
        assert!(!signatures.contains(&none));
    }
}
