//! Rewrites URLs and cookies in which an origin names itself: `Location`, `Content-Location` and `Set-Cookie` of its
//! answers.
//!
//! An origin that receives another `Host`, or has the requested resource at another path, may send URLs that are valid
//! in its own network only. A site with `rewrite_urls` changes them before any other use of the answer, so that stored
//! responses and invalidation use the clients' URLs. For any other site, the first such field is logged as a warning.

use std::borrow::Cow;

use larder_semantics::fields::Fields;
use larder_semantics::key;

use crate::base::networks::host_of;
use crate::base::settings::Origin;
use crate::exchange::request::Request;
use crate::exchange::route::SiteState;
use crate::http::response::Lines;

/// The fields in which an origin may name itself. Most answers have none of them.
const NAMING: [&str; 3] = ["location", "content-location", "set-cookie"];

/// The origin of an answer, and the request that it answers.
pub(super) struct AnswerSource<'a> {
    pub(super) site: &'a SiteState,
    pub(super) origin: &'a Origin,
    /// The `Host` that the origin received.
    pub(super) host: &'a str,
    pub(super) request: &'a Request,
}

impl AnswerSource<'_> {
    /// Rewrites the fields of the answer that name the origin, or logs the first such field of the site.
    pub(super) fn rewrite(&self, fields: &mut Lines) {
        if self.site.settings.rewrite_urls {
            fields.change(|name, value| self.changed(name, value));
        } else if self.site.self_named.get().is_none()
            && NAMING.iter().any(|name| fields.contains(name))
            && let Some(field) = fields.iter().find_map(|(name, value)| self.told(name, value))
            && self.site.self_named.set(field.clone()).is_ok()
        {
            let name = &self.site.settings.name;
            tracing::warn!(
                "site '{name}': its origin names itself in '{field}', and clients may not reach it: set \
                rewrite_urls = true in the site's table"
            );
        }
    }

    /// Returns the field as text for the log, if it names the origin.
    fn told(&self, name: &[u8], value: &[u8]) -> Option<String> {
        self.changed(name, value)?;
        let value = match name.eq_ignore_ascii_case(b"set-cookie") {
            // The attributes after the first semicolon are no secret.
            true => value.splitn(2, |byte| *byte == b';').nth(1)?,
            false => value.split(|byte| *byte == b'?').next()?,
        };
        let (name, value) = (String::from_utf8_lossy(name), String::from_utf8_lossy(value.trim_ascii()));
        Some(format!("{name}: {value}").escape_debug().to_string())
    }

    /// Returns the rewritten value of a field; `None` for a field that needs no change.
    fn changed(&self, name: &[u8], value: &[u8]) -> Option<String> {
        let changes: fn(&Self, &str) -> Option<String> = match name.len() {
            8 if name.eq_ignore_ascii_case(b"location") => Self::url,
            16 if name.eq_ignore_ascii_case(b"content-location") => Self::url,
            10 if name.eq_ignore_ascii_case(b"set-cookie") => Self::cookie,
            _ => return None,
        };
        let value = std::str::from_utf8(value).ok()?;
        changes(self, value).filter(|changed| changed != value)
    }

    /// Rewrites a URL that names the origin to one that names the site.
    fn url(&self, reference: &str) -> Option<String> {
        if reference.starts_with('/') && !reference.starts_with("//") {
            let path = self.path(reference)?;
            return if is_path(&path) { Some(path.into_owned()) } else { self.absolute(&path) };
        }
        let (scheme, rest) = match reference.split_once("//")? {
            ("", rest) => (scheme_of(self.origin), rest),
            (before, rest) => {
                let scheme = before.strip_suffix(':')?;
                (["http", "https"].into_iter().find(|known| known.eq_ignore_ascii_case(scheme))?, rest)
            }
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let request = self.request;
        let own = [(request.scheme, request.authority.as_str()), (scheme_of(self.origin), self.host)];
        let all = self.site.settings.all_origins().map(|origin| (scheme_of(origin), origin.host()));
        let names_it = all.chain(own).any(|named| are_equal(named, (scheme, authority)));
        let path = self.path(path).filter(|_| names_it)?;
        match request.authority.is_empty() {
            true => is_path(&path).then(|| path.into_owned()),
            false => self.absolute(&path),
        }
    }

    /// Returns the URL of a path at the site, if the client has named its host.
    fn absolute(&self, path: &str) -> Option<String> {
        let Request { scheme, authority, .. } = self.request;
        (!authority.is_empty()).then(|| format!("{scheme}://{authority}{path}"))
    }

    /// Rewrites a path at the origin to the path at the site; `None` for paths that the site does not have.
    fn path<'p>(&self, path: &'p str) -> Option<Cow<'p, str>> {
        let (of_site, of_origin) = (&self.site.settings.path, self.origin.path.as_ref());
        match of_origin.filter(|of_origin| *of_origin != of_site) {
            None => Some(Cow::Borrowed(path)),
            // The origin already uses the path of the site.
            Some(of_origin) if of_origin.is_root() && of_site.rest(path).is_some() => {
                Some(Cow::Borrowed(path))
            }
            Some(of_origin) => of_origin.rest(path).map(|rest| Cow::Owned(of_site.join(rest))),
        }
    }

    /// Rewrites a cookie for the origin's host or path to one for the site's.
    fn cookie(&self, cookie: &str) -> Option<String> {
        let (pair, attributes) = cookie.split_once(';')?;
        let mut changed = pair.to_owned();
        for attribute in attributes.split(';') {
            let (name, value) = attribute.split_once('=').unwrap_or((attribute, ""));
            let (name, value) = (name.trim(), value.trim());
            let new = match name.len() {
                6 if name.eq_ignore_ascii_case("domain") => self.domain(value),
                // A `__Host-` cookie is valid with the path `/` only.
                4 if name.eq_ignore_ascii_case("path") && !pair.starts_with("__Host-") => {
                    self.path(value).filter(|path| path != value)
                }
                _ => None,
            };
            match new {
                Some(new) => changed.extend(["; ", name, "=", &new]),
                None => changed.extend([";", attribute]),
            }
        }
        Some(changed)
    }

    /// Returns the client's host in place of a domain that covers the origin and not the client's host.
    fn domain(&self, domain: &str) -> Option<Cow<'static, str>> {
        let domain = domain.strip_prefix('.').unwrap_or(domain);
        let covers = |authority: &str| {
            let host = host_of(authority);
            let start = host.len().checked_sub(domain.len()).filter(|_| !domain.is_empty());
            start.and_then(|start| host.split_at_checked(start)).is_some_and(|(before, end)| {
                end.eq_ignore_ascii_case(domain) && (before.is_empty() || before.ends_with('.'))
            })
        };
        let client = &self.request.authority;
        if client.is_empty() {
            return None;
        }
        let is_origins = covers(self.host) || covers(self.origin.host());
        (is_origins && !covers(client)).then(|| Cow::Owned(host_of(client).to_owned()))
    }
}

/// Whether browsers, too, take a reference as a path: one that begins with two slashes, or a slash and a backslash,
/// leads to another host.
fn is_path(reference: &str) -> bool {
    reference.starts_with('/') && !reference[1..].starts_with(['/', '\\'])
}

fn scheme_of(origin: &Origin) -> &'static str {
    if origin.https { "https" } else { "http" }
}

/// Whether two schemes with authorities mean the same server.
fn are_equal(one: (&str, &str), other: (&str, &str)) -> bool {
    let key = |(scheme, authority): (&str, &str)| {
        let mut key = Vec::new();
        key::write(&mut key, scheme, authority.as_bytes(), b"/");
        key
    };
    key(one) == key(other)
}
