//! Signed URLs: links that only the owner of a key can make, and that expire.
//!
//! The last parameter of the query is the signature: the HMAC-SHA256, in hexadecimal digits, of all that is before it in path
//! and query, as sent. So nothing of a URL is unsigned. An earlier parameter is the UNIX time at which the URL expires.
//! Instead, time and signature may be the last two segments of a path without query: `/film/9000000000/5f1c..`; or they stand behind a folder,
//! and sign all that is below it: `/film/9000000000/5f1c../1.ts`. Then the signature is that of all before it, with the slash, and relative
//! references in a playlist lead to signed URLs.

use std::borrow::Cow;
use std::net::IpAddr;

use aws_lc_rs::hmac;
use larder_rules::is_ambiguous;
use larder_words::debug_as;

use super::users::{BadLine, Print, print};

/// The keys and the parameters of signed URLs.
#[derive(Clone)]
pub struct SignedUrls {
    source: Box<str>,
    /// Each may sign, so that keys can be exchanged.
    keys: Vec<hmac::Key>,
    /// A hash that identifies the keys.
    print: Print,
    /// The parameter with the time.
    pub expires: Box<str>,
    /// The parameter with the signature.
    pub signature: Box<str>,
    /// Where time and signature are.
    pub place: SignaturePlace,
    /// Whether a space and the client's address are behind the signed text: nobody else may use the URL.
    pub by_client: bool,
    /// How long URLs stay valid behind their time, in seconds: clocks differ.
    pub skew: u32,
}

/// Where time and signature are in a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignaturePlace {
    /// In its query.
    Query,
    /// At the end of its path.
    Path,
    /// Behind a folder in its path, for all that is below it.
    Folder,
}

/// A signed beginning of a URL, its signature, and what is not signed.
struct Parts<'u> {
    signed: &'u str,
    signature: [u8; 32],
    rest: &'u str,
}

/// The reason why a URL is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureFault {
    /// It has no signature by one of the keys, or no time.
    Forged,
    /// Its time is over.
    Expired,
}

/// The shortest key, in bytes.
const SHORTEST: usize = 16;

/// The most keys: each takes a computation for a forged URL.
const MOST: usize = 8;

impl SignedUrls {
    /// Parses the lines of a file called `source`: a key each, or a name and a key. `#` begins a comment.
    ///
    /// # Errors
    /// The first line without a key of at least 16 bytes, or the line behind the last, without any.
    pub fn parse(source: &str, text: &str) -> Result<Self, BadLine> {
        let keys = parse_keys(text)?;
        let (expires, signature) = ("expires".into(), "signature".into());
        Ok(Self {
            source: source.into(),
            keys,
            print: print(&[text.as_bytes()]),
            expires,
            signature,
            place: SignaturePlace::Query,
            by_client: false,
            skew: 0,
        })
    }

    /// Returns the name of the file.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Checks `uri`, path and query as sent by `client`, at `now` in UNIX seconds. Comparisons of signatures take the same time for
    /// all of them.
    ///
    /// # Errors
    /// The reason why the URL is refused.
    pub fn verify(&self, uri: &str, client: IpAddr, now: u64) -> Result<(), SignatureFault> {
        let Parts { signed, signature, rest } = self.split(uri).ok_or(SignatureFault::Forged)?;
        let text = match self.by_client {
            true => format!("{signed} {}", client.to_canonical()).into(),
            false => Cow::Borrowed(signed),
        };
        let is_by = |key: &hmac::Key| hmac::verify(key, text.as_bytes(), &signature).is_ok();
        if may_leave(rest) {
            return Err(SignatureFault::Forged);
        }
        if !self.keys.iter().any(is_by) {
            return Err(SignatureFault::Forged);
        }
        let time: u64 = self.time(signed).and_then(|time| time.parse().ok()).ok_or(SignatureFault::Forged)?;
        if now > time.saturating_add(self.skew.into()) { Err(SignatureFault::Expired) } else { Ok(()) }
    }

    /// Returns the path of the resource, for a URL that is valid.
    pub fn resource<'u>(&self, uri: &'u str) -> Cow<'u, str> {
        let Some(Parts { signed, rest, .. }) = self.split(uri) else { return uri.into() };
        match (self.place, signed.trim_end_matches('/').rsplit_once('/')) {
            (SignaturePlace::Folder, Some((folder, _))) => [folder, rest].concat().into(),
            (SignaturePlace::Path, Some((path, _))) => path.into(),
            _ => uri.into(),
        }
    }

    /// Returns the parts of a URL, if it has a signature.
    fn split<'u>(&self, uri: &'u str) -> Option<Parts<'u>> {
        let (signed, signature) = match self.place {
            SignaturePlace::Folder => return folder(uri),
            SignaturePlace::Path => uri.rsplit_once('/').filter(|_| !uri.contains('?'))?,
            SignaturePlace::Query => {
                let (signed, last) = uri.rsplit_once('&')?;
                (signed, self.value(last, &self.signature)?)
            }
        };
        Some(Parts { signed, signature: bytes_of(signature)?, rest: "" })
    }

    /// Returns the time in the signed beginning of a URL, as text.
    fn time<'u>(&self, signed: &'u str) -> Option<&'u str> {
        if self.place != SignaturePlace::Query {
            return signed.trim_end_matches('/').rsplit_once('/').map(|(_, time)| time);
        }
        let (_, query) = signed.split_once('?')?;
        query.split('&').find_map(|pair| self.value(pair, &self.expires))
    }

    /// Returns the value of a parameter if it is the one called `name`.
    fn value<'p>(&self, pair: &'p str, name: &str) -> Option<&'p str> {
        pair.strip_prefix(name)?.strip_prefix('=')
    }
}

/// Returns the parts of a URL with a time and a signature behind a folder: the first two segments that look like them.
fn folder(uri: &str) -> Option<Parts<'_>> {
    let path = uri.split('?').next()?;
    path.match_indices('/').find_map(|(at, _)| {
        let (time, behind) = path[at + 1..].split_once('/')?;
        let signature = behind.split('/').next().filter(|own| own.len() < behind.len())?;
        let is_time = !time.is_empty() && time.bytes().all(|digit| digit.is_ascii_digit());
        let (signed, rest) = uri.split_at(at + time.len() + 2);
        let signature = bytes_of(signature).filter(|_| is_time)?;
        Some(Parts { signed, signature, rest: &rest[2 * signature.len()..] })
    })
}

/// Whether an origin may read an unsigned path as one outside of its folder.
fn may_leave(rest: &str) -> bool {
    let path = rest.split('?').next().unwrap_or_default().to_ascii_lowercase();
    ["..", "//", "\\", "%2e", "%2f", "%5c"].iter().any(|part| path.contains(part)) || is_ambiguous(&path)
}

/// Parses the lines of a file of keys.
pub(super) fn parse_keys(text: &str) -> Result<Vec<hmac::Key>, BadLine> {
    let mut keys = Vec::new();
    let bad = |line, why: &str| BadLine { line, why: why.to_owned() };
    for (line, number) in text.lines().zip(1..) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let key = line.split_ascii_whitespace().last().unwrap_or_default();
        if key.len() < SHORTEST || line.split_ascii_whitespace().count() > 2 {
            return Err(bad(number, "expected a key of at least 16 characters, or a name and such a key"));
        }
        if keys.len() == MOST {
            return Err(bad(number, "more than 8 keys"));
        }
        keys.push(hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()));
    }
    if keys.is_empty() { Err(bad(text.lines().count() + 1, "no key in this file")) } else { Ok(keys) }
}

/// Returns the bytes that these hexadecimal digits stand for.
pub(super) fn bytes_of<const LENGTH: usize>(digits: &str) -> Option<[u8; LENGTH]> {
    let mut bytes = [0; LENGTH];
    let is_whole = digits.len() == 2 * LENGTH && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)).filter(|_| is_whole) {
        *byte = u8::from_str_radix(digits.get(at..at + 2)?, 16).ok()?;
    }
    is_whole.then_some(bytes)
}

impl PartialEq for SignedUrls {
    fn eq(&self, other: &Self) -> bool {
        let own = |one: &Self| {
            let place = (one.place, one.by_client, one.skew);
            (one.source.clone(), one.print, one.expires.clone(), one.signature.clone(), place)
        };
        own(self) == own(other)
    }
}

debug_as!(SignedUrls, |urls| "SignedUrls({})", urls.source);

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
    const OLD: &str = "0123456789abcdef";
    const NEW: &str = "fedcba9876543210";

    fn urls() -> SignedUrls {
        SignedUrls { skew: 30, ..SignedUrls::parse("keys", &format!("# both\n{OLD}\nnew {NEW}\n")).unwrap() }
    }

    /// Returns the URL with the signature by `key`.
    fn sign(uri: &str, key: &str) -> String {
        format!("{uri}&signature={}", digits(uri, key))
    }

    /// Returns the same for a URL with its time and its signature in the path.
    fn sign_path(path: &str, time: u32, key: &str) -> String {
        let signed = format!("{path}/{time}");
        format!("{signed}/{}", digits(&signed, key))
    }

    fn digits(uri: &str, key: &str) -> String {
        let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes()), uri.as_bytes());
        larder_words::hex(tag.as_ref())
    }

    #[test]
    fn urls_are_valid_with_a_signature_until_their_time() {
        let at = |uri: &str, now| urls().verify(uri, CLIENT, now);
        for key in [OLD, NEW] {
            let url = sign("/a.zip?v=1&expires=1000", key);
            assert_eq!([1_000, 1_030].map(|now| at(&url, now)), [Ok(()), Ok(())]);
            assert_eq!(at(&url, 1_031), Err(SignatureFault::Expired));
        }
        let stranger = sign("/a.zip?expires=1000", "0123456789abcdeF");
        let timeless = sign("/a.zip?v=1", OLD);
        let negative = sign("/a.zip?expires=-1", OLD);
        let later = format!("{}&v=2", sign("/a.zip?expires=1000", OLD));
        for url in [
            &*stranger,
            &*timeless,
            &*negative,
            &*later,
            "/a.zip",
            "/a.zip?signature=",
            "/a?expires=1000&signature=00",
        ] {
            assert_eq!(at(url, 0), Err(SignatureFault::Forged), "{url}");
        }
        for text in ["", "short", "a b 0123456789abcdef"] {
            assert!(SignedUrls::parse("keys", text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_signature_is_what_openssl_prints() {
        // printf '/a?expires=9' | openssl dgst -sha256 -hmac 0123456789abcdef
        let signature = "310cd3491005a1b968b1110c8f6216b99e944df9686ac65b1693e83aedebb7e8";
        assert_eq!(urls().verify(&format!("/a?expires=9&signature={signature}"), CLIENT, 0), Ok(()));
        assert_eq!(
            urls().verify(&format!("/a?expires=9?signature={signature}"), CLIENT, 0),
            Err(SignatureFault::Forged)
        );
    }

    #[test]
    fn a_signature_in_the_path_is_no_part_of_the_resource() {
        let urls = SignedUrls { place: SignaturePlace::Path, ..urls() };
        let url = sign_path("/a/film.mp4", 1_000, NEW);
        assert_eq!((urls.verify(&url, CLIENT, 1_030), &*urls.resource(&url)), (Ok(()), "/a/film.mp4"));
        assert_eq!(urls.verify(&url, CLIENT, 1_031), Err(SignatureFault::Expired));
        for other in [
            &*format!("{url}?v=1"),
            &*url.replace("film", "book"),
            &*url.replace("1000", "2000"),
            &*sign("/a?expires=1000", NEW),
            "/a/film.mp4",
            "",
        ] {
            assert_eq!(urls.verify(other, CLIENT, 0), Err(SignatureFault::Forged), "{other}");
        }
    }

    #[test]
    fn a_signed_folder_serves_what_is_below_it() {
        let urls = SignedUrls { place: SignaturePlace::Folder, ..urls() };
        let signed = "/a/film/1000/";
        let folder = format!("{signed}{}", digits(signed, NEW));
        for (rest, resource) in
            [("/1.ts", "/a/film/1.ts"), ("/b/1.ts?c=/../", "/a/film/b/1.ts?c=/../"), ("/", "/a/film/")]
        {
            let url = format!("{folder}{rest}");
            assert_eq!((urls.verify(&url, CLIENT, 1_030), &*urls.resource(&url)), (Ok(()), resource));
            assert_eq!(urls.verify(&url, CLIENT, 1_031), Err(SignatureFault::Expired));
            assert_eq!(urls.verify(&url.replace("film", "book"), CLIENT, 0), Err(SignatureFault::Forged));
        }
        let of_file = sign_path("/a/film", 1_000, NEW);
        let plain = ["/../x", "/%2e%2E/x", "/a%2f..", "/a%5Cb", "/.", "/./x", "//x", "/a\\b", ""];
        let odd = ["/%252e%252E/x", "/%c0%ae%C0%AE/x", "/%uFF0E%uFF0E/x", "/.%09./x", "/a%00/x"];
        let outside = plain.iter().chain(&odd).map(|rest| format!("{folder}{rest}"));
        for other in outside.chain([format!("{of_file}/1.ts")]) {
            assert_eq!(urls.verify(&other, CLIENT, 0), Err(SignatureFault::Forged), "{other}");
        }
    }

    #[test]
    fn a_url_may_be_signed_for_one_client() {
        let urls = SignedUrls { by_client: true, ..urls() };
        let link = "/a?expires=1000";
        let url = format!("{link}&signature={}", digits(&format!("{link} {CLIENT}"), OLD));
        let other = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
        assert_eq!(
            [CLIENT, other].map(|client| urls.verify(&url, client, 0)),
            [Ok(()), Err(SignatureFault::Forged)]
        );
        assert_eq!(urls.verify(&sign(link, OLD), CLIENT, 0), Err(SignatureFault::Forged));
    }

    proptest! {
        #[test]
        fn no_change_of_a_signed_path_passes(
            path in "(/[a-z%]{0,4}){1,2}", time in 0..9_999_u32, at: prop::sample::Index, byte in "[ -~]",
        ) {
            let urls = SignedUrls { place: SignaturePlace::Path, ..urls() };
            let url = sign_path(&path, time, OLD);
            let mut changed = url.clone();
            let at = at.index(url.len());
            changed.replace_range(at..=at, &byte);
            prop_assume!(changed != url && !(at >= url.len() - 64 && changed.eq_ignore_ascii_case(&url)));
            prop_assert_eq!(urls.verify(&changed, CLIENT, 0), Err(SignatureFault::Forged));
            prop_assert_eq!((urls.verify(&url, CLIENT, 0), &*urls.resource(&url)), (Ok(()), &*path));
        }

        #[test]
        fn no_change_of_a_signed_url_passes(
            path in "/[a-z%/]{0,8}", time in 0..9_999_u32, at: prop::sample::Index, byte in "[ -~]",
        ) {
            let url = sign(&format!("{path}?expires={time}"), OLD);
            let mut changed = url.clone();
            let at = at.index(url.len());
            changed.replace_range(at..=at, &byte);
            // The digits of a signature may be in either case.
            prop_assume!(changed != url && !(at >= url.len() - 64 && changed.eq_ignore_ascii_case(&url)));
            prop_assert_eq!(urls().verify(&changed, CLIENT, 0), Err(SignatureFault::Forged));
            prop_assert_eq!(urls().verify(&url, CLIENT, 0), Ok(()));
            for end in 0..url.len() {
                prop_assert!(urls().verify(&url[..end], CLIENT, 0).is_err());
            }
        }

        #[test]
        fn any_text_is_checked_without_a_panic(uri in ".{0,90}", digits in "[0-9a-f]{64}") {
            let _ = urls().verify(&uri, CLIENT, 0);
            let forged = format!("{uri}?expires=9&signature={digits}");
            prop_assert_eq!(urls().verify(&forged, CLIENT, 0), Err(SignatureFault::Forged));
        }
    }
}
