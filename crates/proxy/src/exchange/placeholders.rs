//! The values of rules' placeholders in a request.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use larder_rules::{CertificateNames, Conditions, Pattern, normal_path, sent_captures};
use larder_semantics::fields::Fields;
use larder_semantics::key;
use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::base::clock;
use crate::base::networks::host_of;
use crate::base::outcome::Outcome;
use crate::base::path_prefix::IN_PATH;
use crate::base::settings::{Edits, Placeholder, Template};

/// The fields of a request that placeholders stand for.
pub(crate) trait FieldValues {
    /// Returns the first value of a field; empty without one.
    fn value<'a>(&'a self, name: &'a str) -> &'a [u8];

    /// Returns the value of the first cookie of this name; empty without one.
    fn cookie<'a>(&'a self, name: &'a str) -> &'a [u8];
}

impl<F: Fields> FieldValues for F {
    fn value<'a>(&'a self, name: &'a str) -> &'a [u8] {
        self.first(name).unwrap_or_default()
    }

    fn cookie<'a>(&'a self, name: &'a str) -> &'a [u8] {
        let mut parts = self.lines("cookie").flat_map(|line| line.split(|byte| *byte == b';'));
        let value = |part: &'a [u8]| part.trim_ascii().strip_prefix(name.as_bytes())?.strip_prefix(b"=");
        parts.find_map(value).unwrap_or_default()
    }
}

/// The parts of a request that placeholders stand for.
#[derive(Clone, Copy)]
pub(crate) struct Parts<'r> {
    scheme: &'r str,
    host: &'r str,
    path: &'r str,
    /// With its question mark.
    query: &'r str,
    client: IpAddr,
    /// The subject of its certificate.
    subject: &'r str,
    id: &'r str,
    outcome: &'static str,
    /// The origin that has answered.
    origin: &'r str,
    origin_time: Duration,
    fields: &'r dyn FieldValues,
    /// Whether they become members of a list, in which they have no commas.
    are_members: bool,
}

impl<'r> Parts<'r> {
    /// Returns the parts of the request of `client` for the target with this cache key.
    pub(crate) fn new(
        key: &'r [u8],
        client: IpAddr,
        id: Option<&'r str>,
        fields: &'r dyn FieldValues,
    ) -> Self {
        let target = key::of_url(key).split_last().and_then(|(_, target)| key::parse(target));
        let (scheme, host, uri) = target.unwrap_or(("", b"", b""));
        let (host, uri) = (str::from_utf8(host).unwrap_or_default(), str::from_utf8(uri).unwrap_or_default());
        let (path, query) = uri.split_at(uri.find('?').unwrap_or(uri.len()));
        Self {
            scheme,
            host,
            path,
            query,
            client,
            subject: "",
            id: id.unwrap_or_default(),
            outcome: "",
            origin: "",
            origin_time: Duration::ZERO,
            fields,
            are_members: false,
        }
    }

    /// Returns the parts of a request whose client has shown this certificate.
    pub(crate) fn with_certificate(self, shown: Option<&'r Arc<CertificateNames>>) -> Self {
        let subject = shown.and_then(|shown| shown.0.first());
        Self { subject: subject.map_or("", |subject| subject), ..self }
    }

    /// Returns the parts of a request that has ended in this way, after an answer of `origin`.
    pub(crate) fn with_outcome(self, outcome: &Outcome, origin: Option<&'r str>) -> Self {
        let origin_time = outcome.origin_time.unwrap_or_default();
        Self { outcome: outcome.kind.word(), origin: origin.unwrap_or_default(), origin_time, ..self }
    }

    /// Returns the parts for a field whose value is a list: each of them stays one member.
    pub(crate) fn as_members(self) -> Self {
        Self { are_members: true, ..self }
    }

    fn value(&self, placeholder: &Placeholder) -> Cow<'r, str> {
        match placeholder {
            Placeholder::Uri => [self.path, self.query].concat().into(),
            Placeholder::EncodedUri => {
                utf8_percent_encode(&[self.path, self.query].concat(), IN_VALUE).to_string().into()
            }
            Placeholder::Path => self.path.into(),
            Placeholder::LowerPath => lower(self.path).into(),
            Placeholder::Query => self.query.into(),
            Placeholder::Host => self.host.into(),
            Placeholder::Scheme => self.scheme.into(),
            Placeholder::Client => self.client.to_string().into(),
            Placeholder::Certificate => self.subject.into(),
            Placeholder::Id => self.id.into(),
            Placeholder::Time => time().into(),
            Placeholder::Outcome => self.outcome.into(),
            Placeholder::Origin => self.origin.into(),
            Placeholder::OriginTime => format!("{:.3}", self.origin_time.as_secs_f64() * 1e3).into(),
            Placeholder::Field(name) => text(self.fields.value(name.as_str())),
            Placeholder::Cookie(name) => text(self.fields.cookie(name)),
            Placeholder::Parameter(name) => encoded(self.parameter(name)).into(),
            // These depend on a rule.
            Placeholder::Map | Placeholder::Star(_) => Cow::default(),
        }
    }

    /// Returns the value of the first parameter of this name as it was sent; empty without one.
    fn parameter(&self, name: &str) -> &'r str {
        let mut pairs = self.query.trim_start_matches('?').split('&');
        pairs.find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).unwrap_or_default()
    }

    fn fill(&self, template: &Template, rule: Option<&Conditions>) -> String {
        let stars = rule.filter(|_| template.has_stars()).map_or_else(Vec::new, |rule| self.stars(rule));
        template.fill(|placeholder| match self.part(placeholder, &stars, rule) {
            part if self.are_members && part.contains(',') => part.replace(',', "%2C").into(),
            part => part,
        })
    }

    /// Returns the text in the place of a placeholder of the rule with these conditions, whose stars match `stars`.
    fn part<'v>(
        &'v self,
        placeholder: &Placeholder,
        stars: &'v [String],
        rule: Option<&'v Conditions>,
    ) -> Cow<'v, str> {
        match placeholder {
            Placeholder::Map => self.mapped(rule).into(),
            Placeholder::Star(number) => stars.get(*number - 1).map_or("", String::as_str).into(),
            other => self.value(other),
        }
    }

    /// Returns the text that the map of a rule has for the path.
    fn mapped<'m>(&self, rule: Option<&'m Conditions>) -> &'m str {
        let map = rule.and_then(|rule| rule.map.as_deref());
        map.and_then(|map| map.get(&normal_path(self.path), host_of(self.host))).unwrap_or_default()
    }

    /// Returns the parts of the path that the stars of the first matching pattern of a rule match, as the client sent
    /// them; those of the host if the rule has no patterns for paths.
    fn stars(&self, rule: &Conditions) -> Vec<String> {
        let host = host_of(self.host).trim_end_matches('.');
        let of_host = |pattern: &Pattern| {
            let found = pattern.captures(host.as_bytes())?;
            found.into_iter().map(|range| host.get(range)).collect()
        };
        let found = match rule.path.is_empty() {
            true => rule.host.iter().find_map(of_host),
            false => rule.path.iter().find_map(|pattern| sent_captures(self.path, pattern)),
        };
        found.into_iter().flatten().map(encoded).collect()
    }
}

/// Returns the UNIX time in seconds, with milliseconds.
fn time() -> String {
    let now = clock::unix_millis();
    format!("{}.{:03}", now / 1_000, now % 1_000)
}

/// Returns the value of a field or a cookie as text.
fn text<'v>(value: &[u8]) -> Cow<'v, str> {
    String::from_utf8_lossy(value).into_owned().into()
}

/// Returns a part of a URL as it may stand in a path.
fn encoded(part: &str) -> String {
    utf8_percent_encode(part, UNSENT).to_string()
}

/// The bytes that a client may send, but that a URL must not contain.
const UNSENT: &AsciiSet = &IN_PATH.remove(b'%');

/// The bytes that mean nothing in the value of a parameter are kept: the others might end it.
const IN_VALUE: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// The bytes that no URL may contain, whether from a client or from the file of a map.
const NOT_IN_URL: &AsciiSet = &CONTROLS.add(b' ');

/// Returns a path in lower case. Encoded letters are decoded, so that none of them stays in upper case.
fn lower(path: &str) -> String {
    let mut parts = path.split('%');
    let mut text = parts.next().unwrap_or_default().to_ascii_lowercase();
    for part in parts {
        let code = part.get(..2).and_then(|digits| Some((digits, u8::from_str_radix(digits, 16).ok()?)));
        match code {
            Some((_, letter)) if letter.is_ascii_alphabetic() => {
                text.push(letter.to_ascii_lowercase().into())
            }
            Some((digits, _)) => text.extend(["%", digits]),
            None => text.push('%'),
        }
        let rest = code.map_or(part, |(digits, _)| &part[digits.len()..]);
        text.push_str(&rest.to_ascii_lowercase());
    }
    text
}

/// Returns a URL: `template` filled with `parts`. Text from the client cannot change its host, and no text ends the URL.
pub(crate) fn fill_url(template: &Template, parts: &Parts<'_>, rule: Option<&Conditions>) -> String {
    let filled = parts.fill(template, rule);
    let filled = utf8_percent_encode(&filled, NOT_IN_URL).to_string();
    match template.begins_with_star() || filled.starts_with(['/', '\\']) {
        // Browsers take two slashes at the beginning, or a backslash, for the start of another host.
        true => format!("/{}", filled.trim_start_matches(['/', '\\'])),
        false => filled,
    }
}

/// Returns `edits` with `parts` in the places of placeholders. `rule` returns the conditions of the rule that writes a line.
/// A line whose value no field may have becomes empty: a part of a request never begins another line.
pub(crate) fn fill_lines<'r>(
    edits: &Edits,
    parts: &Parts<'_>,
    rule: impl Fn(&(HeaderName, HeaderValue)) -> Option<&'r Conditions>,
) -> Edits {
    let fill = |line: &(HeaderName, HeaderValue)| {
        let (name, value) = line;
        // Values from files are taken as they are.
        let text = str::from_utf8(value.as_bytes()).ok().filter(|_| !value.is_sensitive());
        let text = text.filter(|text| text.contains('{'));
        let template = text.map(Template::of_value);
        let filled = template.map(|template| parts.fill(&template, rule(line)));
        let value = filled.map_or_else(|| value.clone(), |text| field_value(&text));
        (name.clone(), value)
    };
    let all = |lines: &[(HeaderName, HeaderValue)]| lines.iter().map(fill).collect();
    Edits { set: all(&edits.set), default: all(&edits.default), add: all(&edits.add), ..edits.clone() }
}

fn field_value(text: &str) -> HeaderValue {
    HeaderValue::from_bytes(text.as_bytes()).unwrap_or_else(|_| HeaderValue::from_static(""))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use http::HeaderMap;
    use larder_rules::{MapBy, UrlMap, is_ambiguous};
    use larder_semantics::groups;
    use larder_semantics::status::Why;
    use proptest::prelude::*;

    use super::*;
    use crate::base::outcome::Kind;
    use crate::base::settings::Role;
    use crate::exchange::target::{Address, write_key};
    use crate::http::head::{is_authority, is_target};

    /// Returns the authority in a key.
    fn host_in(key: &[u8]) -> String {
        let (_, authority, _) = key::parse(key::of_url(key)).expect("a key");
        String::from_utf8_lossy(authority).into_owned()
    }

    const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

    fn key(authority: &str, path: &str) -> Vec<u8> {
        let mut key = Vec::new();
        write_key(&mut key, Role::Reverse, &Address { scheme: "https", authority, path }, None);
        key
    }

    #[test]
    fn a_path_in_lower_case_has_no_encoded_capitals() {
        for (path, expected) in [
            ("/About/US", "/about/us"),
            ("/%41b%4a/%2F%C3%84", "/abj/%2F%C3%84"),
            ("/100%/%4", "/100%/%4"),
            ("/\u{c4}", "/\u{c4}"),
        ] {
            assert_eq!(lower(path), expected, "{path}");
        }
    }

    #[test]
    fn lines_get_the_parts_of_the_request() {
        let line = |value: &'static str| (HeaderName::from_static("x-a"), HeaderValue::from_static(value));
        let map = UrlMap::parse("map", "/u/x/y mapped text", MapBy::Path).unwrap();
        let (key, path) =
            (key("a.example:8443", "/u/x%2Fy?b=x%2Fy?&bc=1&b=2"), vec![Pattern::parse("/u/*").unwrap()]);
        let rule = Conditions { path, map: Some(Arc::new(map)), ..Conditions::default() };
        let cookies = HeaderValue::from_static("slang=en; lang=de; lang=fr");
        let fields = HeaderMap::from_iter([line("tenant one"), (http::header::COOKIE, cookies)]);
        let outcome = Outcome {
            origin_time: Some(Duration::from_micros(1_500)),
            ..Outcome::forwarded(Kind::Miss, Why::Absent)
        };
        let parts = Parts::new(&key, CLIENT, Some("7f"), &fields).with_outcome(&outcome, Some("a:80"));
        for (value, expected) in [
            ("{client} {id} {outcome}", "192.0.2.1 7f miss"),
            ("{origin} {origin_time}", "a:80 1.500"),
            ("{scheme}://{host}{uri}", "https://a.example:8443/u/x%2Fy?b=x%2Fy?&bc=1&b=2"),
            ("{uri:encoded}", "%2Fu%2Fx%252Fy%3Fb%3Dx%252Fy%3F%26bc%3D1%26b%3D2"),
            ("{1}{query}", "x%2Fy?b=x%2Fy?&bc=1&b=2"),
            ("{map}", "mapped text"),
            ("{field:X-A} {field:X-B}", "tenant one "),
            ("{query:b}/{query:c}/{query:d}", "x%2Fy%3F//"),
            ("{cookie:lang}-{cookie:ang}", "de-"),
            ("{\"a\": {other}}", "{\"a\": {other}}"),
        ] {
            let edits = Edits { set: vec![line(value)], ..Edits::default() };
            assert_eq!(fill_lines(&edits, &parts, |_| Some(&rule)).set[0].1, expected, "{value}");
        }
        let host = vec![Pattern::parse("~^(.+)[.]example$").unwrap()];
        let by_host = Conditions { host, ..Conditions::default() };
        let edits = Edits { set: vec![line("of {1}")], ..Edits::default() };
        assert_eq!(fill_lines(&edits, &parts, |_| Some(&by_host)).set[0].1, "of a");
    }

    #[test]
    fn text_of_a_map_stays_one_url() {
        let map = Arc::new(UrlMap::parse("map", "/a /two words\u{e4}", MapBy::Path).unwrap());
        let (key, fields) = (key("a.example", "/a"), HeaderMap::new());
        let rule = Conditions { map: Some(map), ..Conditions::default() };
        let template = Template::parse("{map}?{host}").unwrap();
        let parts = Parts::new(&key, CLIENT, None, &fields);
        assert_eq!(fill_url(&template, &parts, Some(&rule)), "/two%20words%C3%A4?a.example");
    }

    /// A field of any bytes.
    struct SentField(Vec<u8>);

    impl FieldValues for SentField {
        fn value<'a>(&'a self, _: &'a str) -> &'a [u8] {
            &self.0
        }

        fn cookie<'a>(&'a self, _: &'a str) -> &'a [u8] {
            &self.0
        }
    }

    proptest! {
        /// No part of a request adds a line, or changes the name of one.
        #[test]
        fn parts_of_requests_stay_in_their_value(
            authority in ".{0,20}", path in "/(.|\r|\n|\0|:|%0[aAdD]){0,20}", id in "(.|\r|\n|:){0,20}",
            field in prop::collection::vec(any::<u8>(), 0..20),
        ) {
            let key = key(&authority, &path);
            let fields = SentField(field);
            let parts = Parts::new(&key, CLIENT, Some(&id), &fields);
            let value = HeaderValue::from_static("{uri} {path:lower} {query} {host} {id} {client} {field:X-A} {query:a} {cookie:a} {1}");
            let line = (HeaderName::from_static("x-a"), value);
            let edits = Edits { add: vec![line], ..Edits::default() };
            let rule = Conditions { path: vec![Pattern::parse("*").unwrap()], ..Conditions::default() };
            let filled = fill_lines(&edits, &parts, |_| Some(&rule));
            prop_assert_eq!(filled.add.len(), 1);
            prop_assert!(!filled.add[0].1.as_bytes().iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)));
        }

        /// No part of a request leads a redirect to another host, or adds a line to it.
        #[test]
        fn redirects_stay_at_the_host_that_the_rule_names(
            path in "/(//|[.][.]/|[\\\\]|%0[aAdD]|%2[fF]|%5[cC]|[!-~]){0,16}", host in "[a-zA-Z0-9.!~$&'()*+;=_-]{1,12}",
        ) {
            prop_assume!(is_target(&path) && is_authority(&host));
            let (key, fields) = (key(&host, &path), HeaderMap::new());
            let parts = Parts::new(&key, CLIENT, None, &fields);
            let by_path = Conditions { path: vec![Pattern::parse("*").unwrap()], ..Conditions::default() };
            let by_group = Conditions { path: vec![Pattern::parse("~^/+(.*)$").unwrap()], ..Conditions::default() };
            let by_host = Conditions { host: vec![Pattern::parse("*").unwrap()], ..Conditions::default() };
            let host = host_in(&key);
            for (text, rule, at) in [
                ("{uri}", &by_path, None),
                ("{1}{query}", &by_path, None),
                ("{1}/{query:a}", &by_group, None),
                ("{path:lower}{query}", &by_path, None),
                ("/new/{1}?{query:a}", &by_group, None),
                ("https://own.test{uri}", &by_path, Some("https://own.test".to_owned())),
                ("https://own.test/{1}#{query:a}", &by_group, Some("https://own.test".to_owned())),
                ("{scheme}://{host}/{1}", &by_group, Some(format!("https://{host}"))),
                ("https://{1}.test{uri}", &by_host, Some(format!("https://{}.test", encoded(host.trim_end_matches('.'))))),
            ] {
                let url = fill_url(&Template::parse(text).unwrap(), &parts, Some(rule));
                prop_assert!(url.bytes().all(|byte| byte.is_ascii_graphic()), "{} gives {}", text, url);
                let rest = match &at {
                    Some(start) => url.strip_prefix(start.as_str()),
                    None => Some(&*url).filter(|url| !url[1..].starts_with(['/', '\\'])),
                };
                prop_assert!(rest.is_some_and(|rest| rest.starts_with('/')), "{} gives {}", text, url);
            }
        }

        /// A rewritten path stays below the one that the rule names, or is refused as one that leads out.
        #[test]
        fn captures_stay_below_the_path_that_a_rule_writes(
            path in "/(//|[.][.]/|[.]/|[.]|[\\\\]|%2[eEfF]|%5[cC]|%0[aAdD]|[!-~]){0,16}",
        ) {
            prop_assume!(is_target(&path));
            let (key, fields) = (key("a.test", &path), HeaderMap::new());
            let parts = Parts::new(&key, CLIENT, None, &fields);
            let rule = Conditions { path: vec![Pattern::parse("/*").unwrap()], ..Conditions::default() };
            let written = fill_url(&Template::parse("/app/{1}").unwrap(), &parts, Some(&rule));
            prop_assert!(written.bytes().all(|byte| byte.is_ascii_graphic()), "{}", written);
            let is_below = || normal_path(written.split('?').next().unwrap_or_default()).starts_with(b"/app/");
            prop_assert!(is_ambiguous(&written) || is_below(), "{}", written);
        }

        /// A part of a request adds no tag, and changes no other one of its line.
        #[test]
        fn a_template_of_tags_makes_as_many_tags_as_it_names(
            field in prop::collection::vec(any::<u8>(), 0..20), path in "/(,|\"|[!-~]){0,12}",
        ) {
            let (key, fields) = (key("a.test", &path), SentField(field));
            let parts = Parts::new(&key, CLIENT, None, &fields).as_members();
            let value = HeaderValue::from_static("all, t-{field:X-A}, p-{path}, c-{cookie:a}");
            let edits = Edits { add: vec![(HeaderName::from_static("cache-tag"), value)], ..Edits::default() };
            let filled = fill_lines(&edits, &parts, |_| None);
            let lines = HeaderMap::from_iter(filled.add);
            let tags: Vec<_> = groups::tags(&lines).collect();
            // A value that no field may have makes the line empty.
            let starts: Vec<_> = tags.iter().map(|tag| &tag[..tag.len().min(2)]).collect();
            prop_assert!(tags.is_empty() || starts == [b"al", b"t-", b"p-", b"c-"], "{:?}", tags);
        }
    }
}
