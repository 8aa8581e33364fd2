//! Hints of `why`: settings of an origin, or of the table of its site, that the user may want to change.

use larder_semantics::fields::Fields;
use larder_store::Entry;

use crate::exchange::route::Route;

/// Shorter content gains little by compression.
const WORTH_IT: u64 = 1 << 10;

/// Returns the hints for a request with this route and its stored response, one sentence each.
pub(super) fn of(route: &Route, stored: Option<&Entry>) -> Vec<String> {
    let Route::Site(site) = route else { return Vec::new() };
    let self_named = site.self_named.get().map(|field| {
        format!("the origin names itself in '{field}', and clients may not reach it: set rewrite_urls = true in the site's table")
    });
    let plain =
        stored.filter(|entry| entry.body().len() >= WORTH_IT && is_plain_text_of_nginx(&entry.fields()));
    let plain = plain.map(|_| {
        "the origin is NGINX, which does not compress responses to requests with Via unless its configuration has: \
         gzip_proxied any;"
            .to_owned()
    });
    self_named.into_iter().chain(plain).collect()
}

/// Whether NGINX sent a response without compression that compression would shorten.
fn is_plain_text_of_nginx(fields: &impl Fields) -> bool {
    const TEXTS: [&[u8]; 5] =
        [b"text/", b"application/json", b"application/javascript", b"application/xml", b"image/svg+xml"];
    let starts = |name: &str, start: &[u8]| {
        let begins =
            |value: &[u8]| value.get(..start.len()).is_some_and(|value| value.eq_ignore_ascii_case(start));
        fields.first(name).is_some_and(begins)
    };
    starts("server", b"nginx")
        && !fields.contains("content-encoding")
        && TEXTS.iter().any(|text| starts("content-type", text))
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    #[test]
    fn text_of_nginx_without_a_coding_is_distinguished_from_the_rest() {
        let fields = |lines: &[(&'static str, &'static str)]| -> HeaderMap {
            lines.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
        };
        let (nginx, html) = (("server", "nginx/1.24.0"), ("content-type", "text/html; charset=utf-8"));
        assert!(is_plain_text_of_nginx(&fields(&[nginx, html])));
        for other in [
            &[nginx, html, ("content-encoding", "gzip")][..],
            &[nginx, ("content-type", "image/png")],
            &[("server", "Apache"), html],
            &[html],
        ] {
            assert!(!is_plain_text_of_nginx(&fields(other)), "{other:?}");
        }
    }
}
