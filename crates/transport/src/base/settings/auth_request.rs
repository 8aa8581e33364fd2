//! A request to a service that decides whether a client is served (`auth_request`).

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use larder_rules::Pattern;

use super::Origin;
use super::users::{Print, print};

/// A service that decides about requests, and what it gets to see of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthRequest {
    /// The service, with the path of requests to it.
    pub service: Origin,
    /// The fields of a request that the service gets.
    pub send: Vec<HeaderName>,
    /// The fields of its answer that replace those of the request.
    pub take: Vec<HeaderName>,
    /// How long its permission holds; zero: for one request.
    pub cache: Duration,
    /// What a permission holds for. The service sees nothing else of a request, so that it cannot decide by anything else.
    pub by: Vec<PermissionBy>,
    /// Whether requests are served if the service gives no answer.
    pub fails_open: bool,
}

/// A part of requests for which a permission holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PermissionBy {
    /// The value of a field.
    Field(HeaderName),
    /// The cookies with this name in any reading.
    Cookie(Pattern),
    /// Path and query.
    Uri,
    /// The client's address.
    Client,
}

impl AuthRequest {
    /// Returns the fields of a request that the service gets.
    pub fn fields_of(&self, fields: &HeaderMap) -> HeaderMap {
        let mut sent = HeaderMap::new();
        let by_field = self.by.iter().filter_map(|by| match by {
            PermissionBy::Field(name) => Some(name),
            _ => None,
        });
        for name in self.send.iter().chain(by_field).filter(|name| fields.contains_key(*name)) {
            sent.remove(name);
            fields.get_all(name).iter().for_each(|value| _ = sent.append(name, value.clone()));
        }
        let cookies: Vec<_> = self
            .by
            .iter()
            .filter_map(|by| match by {
                PermissionBy::Cookie(name) => Some(name),
                _ => None,
            })
            .collect();
        let is_named = |part: &&[u8]| {
            let mut names = larder_semantics::readings::cookies(part).map(|(name, _)| name);
            names.any(|name| cookies.iter().any(|own| own.matches_name(name)))
        };
        let parts = fields
            .get_all(header::COOKIE)
            .iter()
            .flat_map(|line| line.as_bytes().split(|byte| *byte == b';'));
        let parts: Vec<_> = parts.map(<[u8]>::trim_ascii).filter(is_named).collect();
        if let Some(value) =
            HeaderValue::from_bytes(&parts.join(&b"; "[..])).ok().filter(|_| !parts.is_empty())
        {
            sent.insert(header::COOKIE, value);
        }
        sent
    }

    /// Returns the names of the fields of a client's request that the service may decide by.
    pub fn seen_fields(&self) -> impl Iterator<Item = &str> {
        let by = self.by.iter().filter_map(|by| match by {
            PermissionBy::Field(name) => Some(name.as_str()),
            PermissionBy::Cookie(_) => Some(header::COOKIE.as_str()),
            PermissionBy::Uri | PermissionBy::Client => None,
        });
        self.send.iter().map(HeaderName::as_str).chain(by)
    }

    /// Whether permissions depend on this part of requests; without a memory of permissions, on all of them.
    pub fn is_by(&self, part: &PermissionBy) -> bool {
        self.cache.is_zero() || self.by.contains(part)
    }

    /// Returns the key of a permission for a request in which the service sees these fields, and no others; `None` if the
    /// permission is not to be remembered.
    pub fn print(&self, sent: &HeaderMap) -> Option<Print> {
        if self.cache.is_zero() {
            return None;
        }
        let settings = format!("{self:?}");
        let lines = sent.iter().flat_map(|(name, value)| [name.as_str().as_bytes(), value.as_bytes()]);
        let parts: Vec<_> = std::iter::once(settings.as_bytes()).chain(lines).collect();
        Some(print(&parts))
    }
}
