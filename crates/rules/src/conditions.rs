//! The conditions of one rule, and the requests and responses that they are compared with.

use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

pub use larder_semantics::fields::Fields;
use larder_semantics::readings;

use crate::bucket::Bucket;
use crate::domains::Domains;
use crate::map::{MapBy, UrlMap};
use crate::moments::Moments;
use crate::networks::Networks;
use crate::path::extension;
use crate::pattern::Pattern;

/// Conditions, all of which have to hold; an empty list is no condition. One entry of a list has to match.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// The path in its [normal form](crate::normal_path), without its query.
    pub path: Vec<Pattern>,
    /// The map that must have the path or the host.
    pub map: Option<Arc<UrlMap>>,
    /// The extension of the path's last segment, without its dot, in any case.
    pub extension: Vec<Box<str>>,
    /// The host without its port, lower case.
    pub host: Vec<Pattern>,
    /// Lists of domains, one of which must contain the host.
    pub domains: Vec<Arc<Domains>>,
    /// The method. Methods are case-sensitive (RFC 9110 section 9.1), but some origins accept them in any
    /// case, so rules ignore case.
    pub method: Vec<Box<str>>,
    /// `http` or `https`.
    pub scheme: Vec<Box<str>>,
    /// The client's address.
    pub client: Networks,
    /// The certificate that the client has shown, or that it has shown none.
    pub client_cert: Option<CertificateCondition>,
    /// The time.
    pub moments: Moments,
    /// The parameters of the query, in any [reading](larder_semantics::readings).
    pub query: Names<Pattern>,
    /// The fields of the request.
    pub field: Names<Box<str>>,
    /// The cookies of the request, in any [reading](larder_semantics::readings).
    pub cookie: Names<Pattern>,
    /// The claims of the client's token.
    pub claim: Names<Box<str>>,
    /// The bucket of the client.
    pub bucket: Option<Bucket>,
    /// The status of the response.
    pub status: Vec<RangeInclusive<u16>>,
    /// The response's media type without parameters, lower case.
    pub content_type: Vec<Pattern>,
    /// The response's length in bytes. A response of unknown length does not match.
    pub length: Option<RangeInclusive<u64>>,
    /// The fields of the response.
    pub response_field: Names<Box<str>>,
    /// Conditions none of which may hold.
    pub not: Vec<Conditions>,
}

/// Names and the patterns of their values. Names of fields are text in lower case; those of parameters and
/// cookies are patterns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names<N> {
    /// The names.
    pub each: Vec<NamedPatterns<N>>,
    /// Whether all names have to match; otherwise one.
    pub all: bool,
}

/// A name, and the patterns one of which its value has to match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPatterns<N> {
    /// The name.
    pub name: N,
    /// The patterns; if empty, any value matches.
    pub values: Vec<Pattern>,
}

/// A condition on the certificate of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateCondition {
    /// The client has shown one, or none.
    Shown(bool),
    /// One of its names matches one of these patterns.
    Named(Vec<Pattern>),
}

/// The names in a certificate that a listener has verified: its subject, and its DNS names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateNames(pub Vec<Box<str>>);

/// The texts of the claims in a token that is verified, by their names; those of lists have several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimTexts(pub Vec<(Box<str>, Box<str>)>);

/// The data of a request that rules use.
#[derive(Clone, Copy, Debug)]
pub struct Request<'r, F> {
    /// The method.
    pub method: &'r str,
    /// `http` or `https`.
    pub scheme: &'r str,
    /// The host without its port.
    pub host: &'r str,
    /// The path in its [normal form](crate::normal_path), without its query.
    pub path: &'r [u8],
    /// The query without its question mark.
    pub query: Option<&'r str>,
    /// The client's address.
    pub client: IpAddr,
    /// The names in the certificate that the client has shown.
    pub certificate: Option<&'r CertificateNames>,
    /// The claims of its token, once that is verified.
    pub claims: Option<&'r ClaimTexts>,
    /// Returns the time, in UNIX seconds.
    pub now: fn() -> u32,
    /// The field lines.
    pub fields: &'r F,
}

/// The data of a response that rules use.
#[derive(Clone, Copy, Debug)]
pub struct Response<'r, F> {
    /// The status code.
    pub status: u16,
    /// The length of its content, if it is known.
    pub length: Option<u64>,
    /// The field lines.
    pub fields: &'r F,
}

impl Conditions {
    /// Whether some of the conditions are about the response.
    pub fn need_response(&self) -> bool {
        !self.status.is_empty()
            || !self.content_type.is_empty()
            || self.length.is_some()
            || !self.response_field.each.is_empty()
            || self.not.iter().any(|not| not.need_response())
    }

    /// Whether all conditions are about scheme, host and path, so that all requests with one cache key meet
    /// them or none does.
    pub fn are_about_resource(&self) -> bool {
        !self.need_response()
            && self.method.is_empty()
            && self.client.is_empty()
            && self.client_cert.is_none()
            && self.moments.are_all()
            && [&self.query, &self.cookie].iter().all(|names| names.each.is_empty())
            && [&self.field, &self.claim].iter().all(|names| names.each.is_empty())
            && self.bucket.is_none()
            && self.not.iter().all(|not| not.are_about_resource())
    }

    /// Returns the names of the request fields that the conditions are about, in lower case.
    pub fn request_fields(&self) -> Vec<&str> {
        let keeps_bucket = self.bucket.as_ref().is_some_and(|bucket| bucket.split.cookie.is_some());
        let cookie = (!self.cookie.each.is_empty() || keeps_bucket).then_some("cookie");
        let not = self.not.iter().flat_map(|not| not.request_fields());
        self.field.each.iter().map(|named| &*named.name).chain(cookie).chain(not).collect()
    }

    /// Whether some of the conditions are about the path.
    pub fn look_at_path(&self) -> bool {
        !self.path.is_empty()
            || self.map.as_ref().is_some_and(|map| map.by() == MapBy::Path)
            || !self.extension.is_empty()
            || self.not.iter().any(|not| not.look_at_path())
    }

    /// Whether some of the conditions are about the claims of a token.
    pub fn look_at_claims(&self) -> bool {
        !self.claim.each.is_empty() || self.not.iter().any(|not| not.look_at_claims())
    }

    /// Whether some of the conditions are about the method.
    pub fn look_at_method(&self) -> bool {
        !self.method.is_empty() || self.not.iter().any(|not| not.look_at_method())
    }

    /// Whether a pattern of paths spells out this path in normal form, or parameters of segments.
    pub fn spell_out(&self, path: &[u8]) -> bool {
        let is_spelled_out = |pattern: &Pattern| {
            let (text, is_whole) = pattern.literal();
            (is_whole && text.as_bytes() == path) || pattern.to_string().contains(';')
        };
        self.path.iter().any(is_spelled_out)
    }

    /// Whether the conditions about the request hold. Conditions of `not` that need the response may still hold.
    pub fn hold_for<F: Fields>(&self, request: &Request<'_, F>) -> bool {
        let is_in = |list: &[Box<str>], text: &str| {
            list.is_empty() || list.iter().any(|entry| entry.eq_ignore_ascii_case(text))
        };
        is_in(&self.method, request.method)
            && is_in(&self.scheme, request.scheme)
            && one_matches(&self.path, request.path)
            && self.has_extension(request.path)
            && self.map.as_ref().is_none_or(|map| map.get(request.path, request.host).is_some())
            && one_matches(&self.host, request.host.as_bytes())
            && (self.domains.is_empty() || self.domains.iter().any(|domains| domains.contains(request.host)))
            && (self.client.is_empty() || self.client.contains(request.client))
            && self.client_cert.as_ref().is_none_or(|own| own.holds(request.certificate))
            && (self.moments.are_all() || self.moments.contain((request.now)()))
            && self.query.hold(|named| named.is_in_query(request.query))
            && self.field.hold(|named| named.is_in(request.fields))
            && self.cookie.hold(|named| named.is_cookie(request.fields))
            && self.claim.hold(|named| request.claims.is_some_and(|claims| named.is_claim(claims)))
            && self.bucket.as_ref().is_none_or(|bucket| bucket.has(request.client, request.fields))
            && self.not.iter().all(|not| not.need_response() || !not.hold_for(request))
    }

    /// Whether the conditions about the response hold, for a request for which [`hold_for`](Self::hold_for) does.
    pub fn hold_with<Q: Fields, F: Fields>(
        &self,
        request: &Request<'_, Q>,
        response: &Response<'_, F>,
    ) -> bool {
        let is_in_status =
            || self.status.is_empty() || self.status.iter().any(|range| range.contains(&response.status));
        let fits =
            |range: &RangeInclusive<u64>| response.length.is_some_and(|length| range.contains(&length));
        is_in_status()
            && (self.content_type.is_empty() || one_matches(&self.content_type, media_type(response.fields)))
            && self.length.as_ref().is_none_or(fits)
            && self.response_field.hold(|named| named.is_in(response.fields))
            && self.not.iter().all(|not| {
                !(not.need_response() && not.hold_for(request) && not.hold_with(request, response))
            })
    }

    fn has_extension(&self, path: &[u8]) -> bool {
        let is_one =
            |found: &[u8]| self.extension.iter().any(|own| own.as_bytes().eq_ignore_ascii_case(found));
        self.extension.is_empty() || extension(path).is_some_and(is_one)
    }
}

impl CertificateCondition {
    fn holds(&self, shown: Option<&CertificateNames>) -> bool {
        match (self, shown) {
            (Self::Shown(expected), shown) => shown.is_some() == *expected,
            (Self::Named(patterns), Some(CertificateNames(names))) => {
                names.iter().any(|name| one_matches(patterns, name.as_bytes()))
            }
            (Self::Named(_), None) => false,
        }
    }
}

impl<N> Default for Names<N> {
    fn default() -> Self {
        Self { each: Vec::new(), all: false }
    }
}

impl<N> Names<N> {
    /// Whether `holds` is true for all names, or for one, depending on `all`; true without names.
    fn hold(&self, holds: impl FnMut(&NamedPatterns<N>) -> bool) -> bool {
        match self.all {
            true => self.each.iter().all(holds),
            false => self.each.is_empty() || self.each.iter().any(holds),
        }
    }
}

impl<N> NamedPatterns<N> {
    fn takes(&self, value: &[u8]) -> bool {
        one_matches(&self.values, value)
    }
}

impl NamedPatterns<Box<str>> {
    fn is_in(&self, fields: &impl Fields) -> bool {
        fields.lines(&self.name).any(|value| self.takes(value))
    }

    fn is_claim(&self, ClaimTexts(claims): &ClaimTexts) -> bool {
        claims.iter().any(|(name, text)| *name == self.name && self.takes(text.as_bytes()))
    }
}

impl NamedPatterns<Pattern> {
    fn is_cookie(&self, fields: &impl Fields) -> bool {
        let parts = fields.lines("cookie").flat_map(|line| line.split(|byte| *byte == b';'));
        parts.flat_map(readings::cookies).any(|(name, value)| self.is(name, value))
    }

    fn is_in_query(&self, query: Option<&str>) -> bool {
        let mut pairs = query.into_iter().flat_map(readings::parameters);
        pairs.any(|(name, value)| self.is(name.as_bytes(), value.as_bytes()))
    }

    /// Whether it holds for one of the names and values that origins may read here.
    fn is(&self, name: &[u8], value: &[u8]) -> bool {
        self.name.matches_name(name)
            && (self.values.is_empty() || readings::any_value(value, |value| self.takes(value)))
    }
}

fn media_type(fields: &impl Fields) -> &[u8] {
    let value = fields.first("content-type").unwrap_or_default();
    value.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii()
}

fn one_matches(patterns: &[Pattern], text: &[u8]) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches(text))
}
