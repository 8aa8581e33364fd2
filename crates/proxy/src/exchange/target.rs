//! The target of a request, its cache key, and the rules of its site that apply.

use std::borrow::Cow;
use std::net::{IpAddr, Ipv4Addr};

use http::{HeaderMap, Method, StatusCode};
use larder_rules::{CertificateNames, normal_path};
use larder_semantics::directives::RequestDirectives;
use larder_semantics::fields::Fields;
use larder_semantics::storable::Rules;
use larder_semantics::{key, partition};
use larder_store::Memory;

use crate::base::clock;
use crate::base::networks::host_of;
use crate::base::settings::{Query, Role};
use crate::exchange::arrival::Requester;
use crate::exchange::plan::Plan;
use crate::exchange::route::SiteNumber;
use crate::exchange::rulebook::Rulebook;
use crate::exchange::ruling::{Ruling, RulingRef};
use crate::http::head::{Refusal, Target};
use crate::net::tls::client_certificates::ClientIdentity;

/// A request's target in parts, borrowed from its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address<'b> {
    pub(crate) scheme: &'static str,
    pub(crate) authority: &'b str,
    /// As sent: may be empty, or begin with `?`.
    pub(crate) path: &'b str,
}

impl<'b> Address<'b> {
    /// Returns the address of `target`, for a client of a listener with this role. Errors: the refusal of a form that
    /// has no meaning there.
    pub(crate) fn of(target: Target<'b>, role: Role) -> Result<Self, Refusal> {
        match (target, role) {
            (Target::Origin { host, path }, Role::Reverse) => {
                Ok(Self { scheme: "http", authority: host, path })
            }
            (Target::Absolute { scheme, authority, path }, _) => {
                let scheme = if scheme == "https" { "https" } else { "http" };
                Ok(Self { scheme, authority, path })
            }
            (Target::Asterisk { host }, _) => Ok(Self { scheme: "http", authority: host, path: "*" }),
            (Target::Authority(authority), Role::Forward) => {
                Ok(Self { scheme: "https", authority, path: "" })
            }
            (Target::Origin { .. }, Role::Forward) => Err(NOT_A_SERVER),
            (Target::Authority(_), Role::Reverse) => Err(NO_TUNNELS),
        }
    }
}

/// A cache key, and its hash in the memory tier.
#[derive(Debug, Default)]
pub(crate) struct HashedKey {
    pub(crate) bytes: Vec<u8>,
    pub(crate) hash: u64,
}

impl HashedKey {
    /// Writes the key of a request with these fields in place of this one: that of its target, and its partition. Returns it
    /// with its hash.
    #[inline]
    pub(crate) fn write(
        &mut self,
        memory: &Memory,
        (role, address): (Role, &Address<'_>),
        ruling: &Ruling,
        fields: &impl Fields,
    ) -> (&[u8], u64) {
        self.bytes.clear();
        write_key(&mut self.bytes, role, address, ruling.query.as_ref());
        partition::write(&ruling.apart, fields, &mut self.bytes);
        self.hash = memory.hash(&self.bytes);
        (&self.bytes, self.hash)
    }
}

const NOT_A_SERVER: Refusal = Refusal::bad(
    "this is a forward proxy, not a web server: set it as your client's proxy \
     (for example curl -x http://THIS-ADDRESS http://example.com/) instead of opening it",
);
const NO_TUNNELS: Refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "CONNECT is for forward proxies");
/// Writes the cache key of a target. Responses of forward and reverse listeners are stored separately, since their
/// clients may reach different origins by the same name: the last byte of the key is the role. Of the query, only the
/// part that counts by `query` is written.
pub(crate) fn write_key(key: &mut Vec<u8>, role: Role, address: &Address<'_>, query: Option<&Query>) {
    match query.and_then(|rule| Some((rule, address.path.split_once('?')?))) {
        Some((rule, (path, query))) => {
            key::write(key, address.scheme, address.authority.as_bytes(), path.as_bytes());
            rule.write(query, key);
        }
        None => key::write(key, address.scheme, address.authority.as_bytes(), address.path.as_bytes()),
    }
    key.push(role_in_keys(role));
}

/// Returns the last byte of the keys for listeners of this role.
pub(crate) fn role_in_keys(role: Role) -> u8 {
    match role {
        Role::Forward => FORWARD,
        Role::Reverse => REVERSE,
    }
}

const FORWARD: u8 = b'F';
const REVERSE: u8 = b'R';

/// Returns the role of the listeners to which the key of a request belongs; `None` for other keys, as those of slices.
pub fn key_role(key: &[u8]) -> Option<Role> {
    let of_request = if partition::is_key(key) { key::of_url(key) } else { key };
    match *of_request.last()? {
        FORWARD => Some(Role::Forward),
        REVERSE => Some(Role::Reverse),
        _ => None,
    }
}

/// Returns scheme, authority and path with the query of the URL of a cache key; `None` if the key is malformed.
pub fn url_parts(key: &[u8]) -> Option<(&str, &[u8], &[u8])> {
    key::parse(key::of_url(key).split_last()?.1)
}

/// Returns the URL of a cache key; `None` if the key is malformed.
pub(crate) fn url(key: &[u8]) -> Option<String> {
    let (scheme, authority, path) = url_parts(key)?;
    Some(format!("{scheme}://{}{}", String::from_utf8_lossy(authority), String::from_utf8_lossy(path)))
}

/// Returns the site of a request for `address` and the settings for the request, if the cache may answer it at once.
pub(crate) fn cached_site<'p>(
    plan: &'p Plan,
    role: Role,
    address: &Address<'_>,
    (method, client, fields): (&Method, RuledClient<'_>, &impl Fields),
) -> Option<(SiteNumber, &'p Rulebook, RulingRef<'p>)> {
    let (number, rulebook) = match role {
        Role::Forward => (SiteNumber::FORWARD, &plan.forward),
        Role::Reverse => {
            let site = plan.sites.find(address.authority, address.path)?;
            if site.settings.only_https && address.scheme != "https" {
                return None;
            }
            (site.number, &site.rulebook)
        }
    };
    if rulebook.is_empty() {
        return rulebook.base().at_once.then(|| (number, rulebook, RulingRef::Kept(rulebook.base())));
    }
    let sent = path_of(address);
    let path = normal_path(sent);
    if matches!(path, Cow::Owned(_)) && rulebook.is_evaded_by(sent) {
        return None;
    }
    let ruled = rulebook.on_request(&seen(address, &path, (method, client, fields)));
    let is_served = ruled.at_once
        && ruled.serves(client.address)
        && ruled.verify(address.path, client.address, clock::now).is_ok();
    is_served.then_some((number, rulebook, ruled))
}

/// What the settings say about a URL.
struct UrlRules<'p> {
    role: Role,
    address: Address<'p>,
    rulebook: &'p Rulebook,
}

impl<'p> UrlRules<'p> {
    /// Returns what `plan` says about the URL of `key`; `None` if no site has it.
    fn of(plan: &'p Plan, key: &'p [u8]) -> Option<Self> {
        let (role, (scheme, authority, path)) = (key_role(key)?, url_parts(key)?);
        let scheme = if scheme == "https" { "https" } else { "http" };
        let (authority, path) = (str::from_utf8(authority).ok()?, str::from_utf8(path).ok()?);
        let rulebook = match role {
            Role::Forward => &plan.forward,
            Role::Reverse => &plan.sites.find(authority, path)?.rulebook,
        };
        Some(Self { role, address: Address { scheme, authority, path }, rulebook })
    }
}

/// Whether rules store the responses of the URL of `key` in partitions.
pub(crate) fn has_partitions(plan: &Plan, key: &[u8]) -> bool {
    UrlRules::of(plan, key).is_some_and(|UrlRules { address, rulebook, .. }| {
        let nobody = RuledClient { address: Ipv4Addr::UNSPECIFIED.into(), certificate: None };
        let (path, fields) = (normal_path(path_of(&address)), HeaderMap::new());
        rulebook.has_partitions(&seen(&address, &path, (&Method::GET, nobody, &fields)))
    })
}

/// Returns the other keys that the URL of `key` has under the rules of its site about queries.
pub(crate) fn ruled_keys(plan: &Plan, key: &[u8]) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = Vec::new();
    let Some(UrlRules { role, address, rulebook }) = UrlRules::of(plan, key) else { return keys };
    for query in rulebook.queries() {
        let mut ruled = Vec::with_capacity(key.len());
        write_key(&mut ruled, role, &address, Some(query));
        if ruled != key && !keys.contains(&ruled) {
            keys.push(ruled);
        }
    }
    keys
}

/// The client of a request, as far as rules have conditions on it.
#[derive(Clone, Copy)]
pub(crate) struct RuledClient<'r> {
    address: IpAddr,
    certificate: Option<&'r CertificateNames>,
}

impl<'r> RuledClient<'r> {
    /// Returns the client of a request.
    #[inline]
    pub(crate) fn of(asker: &Requester<'r>) -> Self {
        let certificate = asker.identity.and_then(ClientIdentity::names).map(|names| &**names);
        Self { address: asker.address.ip(), certificate }
    }
}

/// Returns the rules of a site that apply to a request for `address`.
pub(super) fn rule<'p>(
    rulebook: &'p Rulebook,
    address: &Address<'_>,
    (method, client, fields): (&Method, RuledClient<'_>, &HeaderMap),
) -> RulingRef<'p> {
    if rulebook.is_empty() {
        return unruled(rulebook);
    }
    let path = normal_path(path_of(address));
    rulebook.on_request(&seen(address, &path, (method, client, fields)))
}

/// Returns the settings of a site without its rules.
pub(super) fn unruled(rulebook: &Rulebook) -> RulingRef<'_> {
    RulingRef::Kept(rulebook.base())
}

/// Returns a request for `address` in the form for rules; `path` is its path in normal form.
fn seen<'r, F: Fields>(
    address: &'r Address<'_>,
    path: &'r [u8],
    (method, client, fields): (&'r Method, RuledClient<'r>, &'r F),
) -> larder_rules::Request<'r, F> {
    larder_rules::Request {
        method: method.as_str(),
        scheme: address.scheme,
        host: ruled_host(address.authority),
        path,
        query: address.path.split_once('?').map(|(_, query)| query),
        client: client.address,
        certificate: client.certificate,
        claims: None,
        now: clock::now,
        fields,
    }
}

fn path_of<'b>(address: &Address<'b>) -> &'b str {
    match address.path.split('?').next() {
        None | Some("") => "/",
        Some(path) => path,
    }
}

/// Returns the host of `authority` in the form for rules, without a dot at its end.
pub(super) fn ruled_host(authority: &str) -> &str {
    let host = host_of(authority);
    host.strip_suffix('.').unwrap_or(host)
}

/// Returns the directives for caches in these fields, as far as these rules obey them.
pub(crate) fn asked(fields: &impl Fields, rules: &Rules) -> RequestDirectives {
    let asked = RequestDirectives::parse(fields);
    if rules.ignores_reloads { asked.ignoring_reloads() } else { asked }
}

/// Returns the `sent` host as the key has it, so that origins receive one spelling and all spellings share one response. A tunnel
/// keeps the client's spelling.
pub(crate) fn host_in(key: &[u8], method: &Method, sent: &str) -> String {
    let other = key::parse(key).filter(|(_, host, _)| *method != Method::CONNECT && *host != sent.as_bytes());
    other.and_then(|(_, host, _)| str::from_utf8(host).ok()).unwrap_or(sent).to_owned()
}

/// Returns the path and query with the initial slash, which clients may omit.
pub(super) fn from_root(path: &str) -> String {
    match path.as_bytes().first() {
        None => "/".to_owned(),
        Some(b'?') => format!("/{path}"),
        Some(_) => path.to_owned(),
    }
}

pub(super) const AMBIGUOUS: Refusal = Refusal::bad(
    "this site has rules for paths: a path may have no segments '.' or '..', no control characters, and no letters \
     that are encoded twice",
);
pub(super) const EVADED: Refusal =
    Refusal::bad("an origin could read this path as another one, for which other rules hold");
