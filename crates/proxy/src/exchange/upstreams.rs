//! Rules that send a part of a site's requests to other origins or paths.
//!
//! All rules that apply to the host and path of a request count, and `stop` is ignored: one cache key must have one
//! origin for all clients.

use larder_rules::{Conditions, Fields, Rule, RuleSet};

use crate::base::settings::{HostHeader, Site, SiteRule, Template};
use crate::origin::Pool;

/// The rules of a site that select origins or paths.
#[derive(Debug)]
pub(crate) struct Upstreams {
    set: RuleSet,
    all: Vec<Branch>,
}

/// The destination that one rule sets.
#[derive(Debug)]
pub(crate) struct Branch {
    /// The requests to which the rule applies.
    pub(crate) conditions: Conditions,
    /// The path of requests to the origins.
    pub(crate) rewrite: Option<Template>,
    /// The value of `Host` in requests to them.
    pub(crate) host: Option<HostHeader>,
    /// The origins that it names, if any.
    pub(crate) pool: Option<Pool>,
}

impl Upstreams {
    pub(crate) fn new(site: &Site, workers: usize) -> Self {
        let rules = || site.site_rules.iter().filter(|rule| rule.effects.redirect_to_origins());
        let condition = |rule: &SiteRule| Rule { conditions: rule.rule.conditions.clone(), stop: false };
        let branch = |(number, rule): (usize, &SiteRule)| Branch {
            conditions: rule.rule.conditions.clone(),
            rewrite: rule.effects.rewrite.clone(),
            host: rule.effects.host.clone(),
            pool: rule.effects.origin.as_ref().map(|origins| {
                let pool = Pool::new(origins, site, number + 1, workers);
                pool.balanced(rule.effects.balance.unwrap_or(site.balance))
            }),
        };
        Self {
            set: RuleSet::new(rules().map(condition).collect()),
            all: rules().enumerate().map(branch).collect(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the rules that apply to `request`, in their order.
    pub(crate) fn on<F: Fields>(
        &self,
        request: &larder_rules::Request<'_, F>,
    ) -> impl Iterator<Item = &Branch> {
        self.set.on_request(request).into_iter().filter_map(move |number| self.all.get(usize::from(number)))
    }

    pub(crate) fn pools(&self) -> impl Iterator<Item = &Pool> {
        self.all.iter().filter_map(|branch| branch.pool.as_ref())
    }
}
