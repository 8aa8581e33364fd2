//! The settings in force, in the form that requests use. A reload replaces them as a whole.

use std::hash::RandomState;
use std::sync::Arc;

use super::gateways::Gateways;
use super::packages::Packages;
use super::reply::{Banner, Reply};
use super::route::{SiteState, Sites};
use super::rulebook::Rulebook;
use crate::base::settings::{AccessLog, Settings};
use crate::counts::accounts::Accounts;
use crate::net::concurrency::ConcurrencyLimit;
use crate::net::limiter::Limiter;
use crate::origin::Parents;

/// The settings in the form that requests use.
#[derive(Debug)]
pub struct Plan {
    /// The settings.
    pub settings: Settings,
    /// The sites.
    pub sites: Sites,
    /// The rules of the forward proxy.
    pub forward: Rulebook,
    /// The parent proxies of requests to origins of sites that have none of their own.
    pub(crate) parents: Arc<Parents>,
    /// The parent proxies of requests of the forward proxy.
    pub(crate) forward_parents: Arc<Parents>,
    pub(crate) banner: Banner,
    /// The banners of replies over https, by the numbers of the sites that have `hsts`; empty if none has.
    secure: Vec<Option<Banner>>,
    /// The limit of requests to origins.
    pub concurrency: Arc<ConcurrencyLimit>,
    /// Permits for replies that are compressed while they are sent.
    pub(crate) compressions: Arc<ConcurrencyLimit>,
    /// What is known about packages; kept for the life of the process.
    pub packages: Arc<Packages>,
    /// Whether each request is logged or traced.
    pub(crate) tells: bool,
    /// The hasher for the numbers of URLs in `Via`; kept for the life of the process.
    pub(crate) passes: RandomState,
    pub(crate) version: u64,
}

impl Plan {
    pub(crate) fn new(settings: Settings, accounts: &Accounts, gateways: &Gateways) -> Self {
        Self::after(None, settings, accounts, gateways)
    }

    fn after(old: Option<&Self>, settings: Settings, accounts: &Accounts, gateways: &Gateways) -> Self {
        let sites = Sites::new(&settings, accounts, gateways, old.map(|old| &old.sites));
        let (rules, caching) = (&settings.forward.site_rules, &settings.forward.rules);
        let before = old.map(|old| &old.forward);
        let forward = Rulebook::new(rules, (caching, true), None, accounts.workers(), before);
        let parents = Parents::new(&settings.parent);
        let own = settings.forward.parents.as_ref();
        let own = own.map(|own| Parents::new(&settings.parent.with(own)));
        let forward_parents = own.unwrap_or_else(|| Arc::clone(&parents));
        let banner = Banner::new(&settings.name, settings.x_cache);
        let secure = secure_banners(&sites, &banner);
        let concurrency =
            Arc::new(ConcurrencyLimit::lent_out(settings.limits.in_flight, settings.limits.queue));
        let compressions = Arc::new(ConcurrencyLimit::new(settings.limits.compressions, 0));
        let tells = settings.access_log != AccessLog::Off || settings.trace.endpoint.is_some();
        let passes = RandomState::new();
        let packages =
            old.map_or_else(|| Arc::new(Packages::new(&settings)), |old| Arc::clone(&old.packages));
        Self {
            settings,
            sites,
            forward,
            parents,
            forward_parents,
            banner,
            secure,
            concurrency,
            compressions,
            packages,
            tells,
            passes,
            version: 0,
        }
    }

    /// Returns the plan of new settings. If the limits on requests are unchanged, requests in flight keep their
    /// permits.
    pub(crate) fn next(&self, settings: Settings, accounts: &Accounts, gateways: &Gateways) -> Self {
        let (old, new) = (&self.settings.limits, &settings.limits);
        let same_gate = (old.in_flight, old.queue) == (new.in_flight, new.queue);
        let same_compressions = old.compressions == new.compressions;
        let (version, passes) = (self.version + 1, self.passes.clone());
        let mut next = Self { version, passes, ..Self::after(Some(self), settings, accounts, gateways) };
        if same_gate {
            next.concurrency = Arc::clone(&self.concurrency);
        }
        if same_compressions {
            next.compressions = Arc::clone(&self.compressions);
        }
        next
    }

    /// Returns the parent proxies of requests to the origins of `site`.
    pub fn parents_of<'p>(&'p self, site: &'p SiteState) -> &'p Arc<Parents> {
        site.parents.as_ref().unwrap_or(&self.parents)
    }

    /// Returns the limits of all rules, with names that they also have in another process with the same rules.
    pub fn limits(&self) -> impl Iterator<Item = (String, &Arc<Limiter>)> {
        let of_site = |site: &'_ Arc<SiteState>| format!("site {:?}", site.settings.name);
        let sites = self.sites.iter().map(move |site| (of_site(site), &site.rulebook));
        let books = sites.chain([("forward".to_owned(), &self.forward)]);
        books.flat_map(|(of, rules)| {
            rules.limits().map(move |(name, limiter)| (format!("{of} {name}"), limiter))
        })
    }

    /// Returns the banner of `reply`; `is_secure`: its client has used https. A `Strict-Transport-Security` of the
    /// origin is kept.
    #[inline]
    pub(crate) fn banner_of(&self, reply: &Reply, is_secure: impl FnOnce() -> bool) -> &Banner {
        match self.secure.get(reply.site.index()) {
            Some(Some(banner)) if is_secure() && !reply.has("strict-transport-security") => banner,
            _ => &self.banner,
        }
    }

    pub(crate) fn logs(&self) -> bool {
        self.settings.access_log != AccessLog::Off
    }
}

fn secure_banners(sites: &Sites, banner: &Banner) -> Vec<Option<Banner>> {
    let mut secure = Vec::new();
    for site in sites.iter() {
        if let Some(hsts) = site.settings.hsts {
            let at = site.number.index();
            secure.resize(secure.len().max(at + 1), None);
            secure[at] = Some(banner.with_hsts(hsts));
        }
    }
    secure
}
