//! Selects the site of a request.

use std::borrow::Cow;
use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock};

use http::StatusCode;
use larder_tags::Pools;

use super::gateways::Gateways;
use super::rulebook::Rulebook;
use super::upstreams::Upstreams;
use crate::base::networks::host_of;
use crate::base::path_prefix::{IN_PATH, has_dot_segments};
use crate::base::settings::{Origin, Role, Settings, Site};
use crate::counts::accounts::{Account, Accounts};
use crate::http::head::Refusal;
use crate::origin::{Parents, Pool};

const NO_SITE: Refusal = Refusal::misdirected("no site is configured for this host");
const NO_PATH: Refusal =
    Refusal::new(StatusCode::NOT_FOUND, "no site is configured for this path of the host");
const ODD_ADDRESS: Refusal =
    Refusal::bad("a host that ends in a number has to be an IPv4 address, in decimal and with three dots");
const DOT_SEGMENTS: Refusal =
    Refusal::bad("the path has segments '.' or '..', which sites by path do not take: resolve them first");

const OTHER_SITE: Refusal =
    Refusal::bad("an origin could read this path as one of another site: send it without special characters");

/// The name in place of a site's for requests to any origin.
pub const FORWARD: &str = "forward";

/// A configured site and the state of its origins.
#[derive(Debug)]
pub struct SiteState {
    /// The settings of the site.
    pub settings: Site,
    pub(crate) pool: Pool,
    /// Other origins and paths to which rules send requests.
    pub(crate) upstreams: Upstreams,
    /// Its own parent proxies, if it has some.
    pub(crate) parents: Option<Arc<Parents>>,
    pub(crate) number: SiteNumber,
    /// The rules.
    pub rulebook: Rulebook,
    /// The tag pools, if the site is a gateway.
    pub(crate) tags: Option<Arc<Pools>>,
    /// The first field in which an origin named itself, for a site that does not rewrite URLs.
    pub(crate) self_named: OnceLock<String>,
}

/// The configured sites, in order.
#[derive(Debug)]
pub struct Sites {
    all: Vec<Arc<SiteState>>,
    /// Their accounts, by their numbers.
    accounts: Vec<Arc<Account>>,
    /// Whether a path selects a site, or is rewritten for an origin.
    by_path: bool,
}

/// The number of a site in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SiteNumber(usize);

impl SiteNumber {
    /// No site.
    pub const NONE: Self = Self(0);
    /// The forward proxy: any origin.
    pub const FORWARD: Self = Self(1);

    /// Returns the number as an index from 0.
    pub(crate) fn index(self) -> usize {
        self.0
    }
}

/// The destination of a request.
#[derive(Clone, Debug)]
pub(crate) enum Route {
    /// To one of a site's origins.
    Site(Arc<SiteState>),
    /// To the origin that the request names.
    Anywhere,
}

impl Sites {
    /// Creates the sites. Their counters continue those of sites with the same names, and their limits those in `old`.
    pub(crate) fn new(
        settings: &Settings,
        accounts: &Accounts,
        gateways: &Gateways,
        old: Option<&Self>,
    ) -> Self {
        let Settings { sites, parent, .. } = settings;
        gateways.retain(sites);
        let mut opened = vec![accounts.open(""), accounts.open(FORWARD)];
        let state = |site: &Site| {
            let number = SiteNumber(opened.len());
            opened.push(accounts.open(&site.name));
            let before = old.and_then(|old| old.all.iter().find(|other| other.settings.name == site.name));
            let before = before.map(|before| &before.rulebook);
            let (caching, sticky) = ((&site.rules, site.cache), site.sticky.as_ref());
            let workers = accounts.workers();
            let rulebook = Rulebook::new(&site.site_rules, caching, sticky, workers, before);
            let tags = gateways.open(site);
            let (settings, pool, self_named) =
                (site.clone(), Pool::new(&site.origins, site, 0, workers), OnceLock::new());
            let upstreams = Upstreams::new(site, workers);
            let parents = site.parents.as_ref().map(|own| Parents::new(&parent.with(own)));
            Arc::new(SiteState { settings, pool, upstreams, parents, number, rulebook, tags, self_named })
        };
        let all = sites.iter().map(state).collect();
        gateways.forget_last_process();
        let is_below = |origin: &Origin| origin.path.as_ref().is_some_and(|path| !path.is_root());
        let by_path = sites.iter().any(|site| !site.path.is_root() || site.all_origins().any(is_below));
        Self { all, accounts: opened, by_path }
    }

    /// Returns the site of `path` (with or without query) at `authority` (`host` or `host:port`, any case): among the
    /// sites of that host, the one with the longest path, and among equals the first.
    pub(crate) fn find(&self, authority: &str, path: &str) -> Option<&Arc<SiteState>> {
        let mut of_host = self.all.iter().filter(|site| site.speaks_for(authority));
        if !self.by_path {
            return of_host.next();
        }
        let mut best: Option<&Arc<SiteState>> = None;
        for site in of_host.filter(|site| site.settings.path.rest(path).is_some()) {
            if best.is_none_or(|best| best.settings.path.specificity() < site.settings.path.specificity()) {
                best = Some(site);
            }
        }
        best
    }

    /// Returns the route of a request for `path` at `authority`. Errors: the refusal of a host or path without a site,
    /// or of a path that a site and its origin could interpret differently.
    pub(crate) fn route(&self, role: Role, authority: &str, path: &str) -> Result<Route, Refusal> {
        if role == Role::Forward {
            return if is_odd_address(host_of(authority)) { Err(ODD_ADDRESS) } else { Ok(Route::Anywhere) };
        }
        if self.by_path && has_dot_segments(path) {
            return Err(DOT_SEGMENTS);
        }
        let found = self.find(authority, path);
        if self.by_path && self.is_of_other_site(authority, path, found) {
            return Err(OTHER_SITE);
        }
        match found {
            Some(site) => Ok(Route::Site(Arc::clone(site))),
            None if self.all.iter().any(|site| site.speaks_for(authority)) => Err(NO_PATH),
            None => Err(NO_SITE),
        }
    }

    /// Whether an origin may read `path` as one of another site than `found`.
    fn is_of_other_site(&self, authority: &str, path: &str, found: Option<&Arc<SiteState>>) -> bool {
        if self.all.iter().filter(|site| site.speaks_for(authority)).count() < 2 {
            return false;
        }
        let path = path.split('?').next().unwrap_or_default();
        let normal = larder_rules::normal_path(path);
        let is_other = |reading: &[u8]| {
            let reading = percent_encoding::percent_encode(reading, IN_PATH).to_string();
            self.find(authority, &reading).map(|site| site.number) != found.map(|site| site.number)
        };
        match normal {
            Cow::Borrowed(normal) if !larder_rules::has_readings(normal) => false,
            normal => {
                larder_rules::is_ambiguous(path)
                    || is_other(&normal)
                    || larder_rules::readings(&normal).iter().any(|reading| is_other(reading))
            }
        }
    }

    /// Returns the name of the site of a request for `path` at `authority`, for statistics.
    pub fn name(&self, role: Role, authority: &str, path: &str) -> Option<Arc<str>> {
        match role {
            Role::Forward => Some(Arc::clone(self.account(SiteNumber::FORWARD).site())),
            Role::Reverse => {
                self.find(authority, path).map(|site| Arc::clone(self.account(site.number).site()))
            }
        }
    }

    /// Returns the account that counts the requests for a site of this plan.
    pub(crate) fn account(&self, number: SiteNumber) -> &Arc<Account> {
        &self.accounts[number.0]
    }

    /// Iterates over all sites.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<SiteState>> {
        self.all.iter()
    }
}

impl SiteState {
    fn speaks_for(&self, authority: &str) -> bool {
        self.settings.hosts.is_empty() || self.settings.is_for(host_of(authority))
    }

    /// Returns all pools of origins, first that of the site itself.
    pub fn pools(&self) -> impl Iterator<Item = &Pool> {
        std::iter::once(&self.pool).chain(self.upstreams.pools())
    }

    /// Returns the path of the request to `origin` for a client's `path`.
    pub(crate) fn path_at<'p>(&self, origin: &Origin, path: &'p str) -> Cow<'p, str> {
        let replacing = origin.path.as_ref().filter(|other| **other != self.settings.path);
        match replacing.and_then(|other| Some((other, self.settings.path.rest(path)?))) {
            Some((other, rest)) if path != "*" => Cow::Owned(other.join(rest)),
            _ => Cow::Borrowed(path),
        }
    }
}

impl Route {
    pub(crate) fn number(&self) -> SiteNumber {
        match self {
            Self::Site(site) => site.number,
            Self::Anywhere => SiteNumber::FORWARD,
        }
    }

    /// Returns the tag pools of the site, if it is a gateway.
    pub(crate) fn tags(&self) -> Option<&Arc<Pools>> {
        match self {
            Self::Site(site) => site.tags.as_ref(),
            Self::Anywhere => None,
        }
    }

    /// Whether each use of a stored response has to be validated.
    pub(crate) fn is_validated(&self) -> bool {
        matches!(self, Self::Site(site) if site.settings.rules.validated)
    }

    /// Returns the rules of its site, or `forward`.
    pub(crate) fn rulebook<'r>(&'r self, forward: &'r Rulebook) -> &'r Rulebook {
        match self {
            Self::Site(site) => &site.rulebook,
            Self::Anywhere => forward,
        }
    }
}

/// Whether resolvers may take `host` for an IPv4 address in another notation, such as `127.1` or `0x7f000001` (URL
/// standard, "ends in a number").
fn is_odd_address(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let last = host.rsplit('.').next().unwrap_or_default();
    let hex = last.strip_prefix("0x").or_else(|| last.strip_prefix("0X"));
    let is_number = match hex {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit()),
    };
    is_number && host.parse::<Ipv4Addr>().is_err()
}

/// Returns the first segment of a path, without its slashes.
pub(crate) fn first_segment(path: &str) -> &str {
    path.strip_prefix('/').and_then(|path| path.split(['/', '?', '#']).next()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_one_spelling() {
        for host in [
            "127.1",
            "2130706433",
            "0x7f000001",
            "127.0.0.0x1",
            "0177.0.0.1",
            "1.2.3.4.5",
            "1.2.3.4.0x",
            "127.1.",
        ] {
            assert!(is_odd_address(host), "{host}");
        }
        for host in
            ["127.0.0.1", "127.0.0.1.", "a.example", "1.example", "0x7f.example", "a1", "[::1]", "", "x0x1"]
        {
            assert!(!is_odd_address(host), "{host}");
        }
    }
}
