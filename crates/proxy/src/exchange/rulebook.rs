//! The rules of a site or of the forward proxy, and what all that hold for a request mean together.
//!
//! Few combinations of rules occur. Each is put together once, when it occurs first, and kept; so a hit looks up which rules
//! hold, and finds the rest ready.

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::{Arc, PoisonError, RwLock};

use hashbrown::HashMap;
use larder_rules::{Fields, Numbers, Rule, RuleSet, has_dot_segments};
use larder_semantics::coding::Compression;
use larder_semantics::storable::Rules;

use crate::base::settings::Networks;
use crate::base::settings::{
    Answer, Counted, Edits, Effects, Limit, LimitBy, Pages, Query, SiteRule, Tokens, Tries, Users,
};
use crate::exchange::rule_counts::{RuleCounts, RuleReport};
use crate::net::limiter::Limiter;

/// Rules, compiled.
#[derive(Debug)]
pub(crate) struct Rulebook {
    set: RuleSet,
    rules: Vec<SiteRule>,
    /// Those that store responses apart.
    apart: Apart,
    /// Some of them are about paths.
    looks_at_paths: bool,
    /// The limits of each rule.
    limiters: Vec<Limiters>,
    counts: RuleCounts,
    /// Rules say by the response whether it is compressed.
    compresses_by_response: bool,
    /// Where no rule holds.
    base: Arc<Ruling>,
    /// Where one does, by its number.
    single: Vec<Arc<Ruling>>,
    /// Where several do.
    several: RwLock<HashMap<Numbers, Arc<Ruling>, foldhash::fast::FixedState>>,
}

/// Rules that store responses apart by fields and cookies of requests. All that hold add up, and `stop` ends nothing: what
/// is stored under one key has to be stored apart in one way.
#[derive(Debug)]
struct Apart {
    set: RuleSet,
    names: Vec<Vec<String>>,
}

/// The limits of a rule; none: it sets none.
type Limiters = Option<Arc<[Arc<Limiter>]>>;

/// Combinations that are kept; further ones are put together each time.
const KEPT: usize = 4_096;

/// The settings of a site for requests for which certain rules hold.
#[derive(Clone, Debug)]
pub(crate) struct Ruling {
    /// The rules.
    pub(crate) numbers: Numbers,
    /// Caching as far as the site and the rules set it.
    pub(crate) caching: Rules,
    /// Whether anything is cached.
    pub(crate) caches: bool,
    /// An answer may be given without waiting, to clients that are [served](Self::serves).
    pub(crate) at_once: bool,
    pub(crate) query: Option<Query>,
    pub(crate) request: Edits,
    pub(crate) response: Edits,
    /// `None` without any.
    pub(crate) reply: Option<Arc<Edits>>,
    pub(crate) answer: Option<Arc<Answer>>,
    pub(crate) allow: Option<Networks>,
    pub(crate) deny: Option<Networks>,
    /// What a request has to show.
    pub(crate) wanted: Option<Wanted>,
    pub(crate) limits: Arc<[Arc<Limiter>]>,
    /// `None` without any.
    pub(crate) pages: Option<Arc<Pages>>,
    /// How often and how long origins are asked.
    pub(crate) tries: Tries,
}

/// Passwords and tokens, one of which a request has to show.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) users: Option<Arc<Users>>,
    pub(crate) tokens: Option<Arc<Tokens>>,
    /// The realm that clients are told.
    pub(crate) realm: Option<Arc<str>>,
}

/// What a site says itself.
struct SiteRules<'s> {
    caching: &'s Rules,
    caches: bool,
    /// No answer may be given without waiting.
    waits: bool,
}

/// A ruling for as long as it is looked at.
pub(crate) enum Ruled<'b> {
    Kept(&'b Arc<Ruling>),
    Shared(Arc<Ruling>),
}

impl Rulebook {
    /// The rules of a site with this caching; `caches`: at all. Limits that are in `old`, too, go on counting.
    pub(crate) fn new(rules: &[SiteRule], caching: &Rules, caches: bool, old: Option<&Self>) -> Self {
        let compresses_by_response =
            rules.iter().any(|rule| rule.effects.compress.is_some() && rule.rule.conditions.need_response());
        let site = SiteRules { caching, caches, waits: compresses_by_response };
        let base = Ruling::new(Numbers::new(), &Effects::default(), &None, &site);
        let mut kept = Vec::new();
        let limiters: Vec<_> = rules.iter().map(|rule| limiters(rule, old, &mut kept)).collect();
        let one = |(number, rule): (usize, &SiteRule)| {
            let numbers = Numbers::from_slice(&[number as u16]);
            Arc::new(Ruling::new(numbers, &rule.effects, &limiters[number], &site))
        };
        Self {
            set: RuleSet::new(rules.iter().map(|rule| rule.rule.clone()).collect()),
            apart: Apart::new(rules),
            looks_at_paths: rules
                .iter()
                .any(|rule| rule.rule.conditions.look_at_path() || rule.effects.upstream.changes_paths()),
            compresses_by_response,
            base: Arc::new(base),
            single: rules.iter().enumerate().map(one).collect(),
            limiters,
            counts: RuleCounts::new(rules, old.map(|old| (&old.rules[..], &old.counts))),
            several: RwLock::default(),
            rules: rules.to_vec(),
        }
    }

    /// Whether there are no rules.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The rule of this number.
    pub(crate) fn rule(&self, number: u16) -> Option<&SiteRule> {
        self.rules.get(usize::from(number))
    }

    /// The rules of these numbers as they were written, and the keys that they set. One that was written with keys that stand for
    /// several is there once.
    pub(crate) fn written(&self, numbers: &[u16]) -> Vec<(&SiteRule, Vec<&'static str>)> {
        let mut all: Vec<(&SiteRule, Vec<&'static str>)> = Vec::new();
        for rule in numbers.iter().filter_map(|number| self.rule(*number)) {
            let mut keys = rule.effects.keys();
            match all.last_mut().filter(|(last, _)| last.place == rule.place) {
                Some((_, known)) => {
                    keys.retain(|key| !known.contains(key));
                    known.append(&mut keys);
                }
                None => all.push((rule, keys)),
            }
        }
        all
    }

    /// What rules say of queries.
    pub(crate) fn queries(&self) -> impl Iterator<Item = &Query> {
        self.rules.iter().filter_map(|rule| rule.effects.query.as_ref())
    }

    /// What holds where no rule does.
    pub(crate) fn base(&self) -> &Arc<Ruling> {
        &self.base
    }

    /// What holds for a request.
    #[inline]
    pub(crate) fn on_request<F: Fields>(&self, request: &larder_rules::Request<'_, F>) -> Ruled<'_> {
        match self.is_empty() {
            true => Ruled::Kept(&self.base),
            false => self.together(self.set.on_request(request)),
        }
    }

    /// What holds for a request and its response, if that may differ from what holds for the request.
    pub(crate) fn on_response<Q: Fields, F: Fields>(
        &self,
        request: &larder_rules::Request<'_, Q>,
        response: &larder_rules::Response<'_, F>,
    ) -> Ruled<'_> {
        self.together(self.set.on_response(request, response))
    }

    /// The fields and cookies of `request`, as `larder_semantics::vary` names them, by which its response is stored apart.
    pub(crate) fn apart<F: Fields>(&self, request: &larder_rules::Request<'_, F>) -> Vec<String> {
        if self.apart.set.is_empty() {
            return Vec::new();
        }
        let mut apart: Vec<String> = Vec::new();
        for number in self.apart.set.on_request(request) {
            for name in self.apart.names.get(usize::from(number)).into_iter().flatten() {
                if !apart.contains(name) {
                    apart.push(name.clone());
                }
            }
        }
        apart
    }

    /// The counts of requests by rules.
    #[inline]
    pub(crate) fn counts(&self) -> &RuleCounts {
        &self.counts
    }

    /// The rules and their counts.
    pub(crate) fn report(&self) -> Vec<RuleReport> {
        self.counts.report(&self.rules)
    }

    /// Whether responses may be compressed where `ruling` holds for the request.
    pub(crate) fn compresses(&self, ruling: &Ruling) -> bool {
        self.compresses_by_response || ruling.caching.compression.is_on()
    }

    /// Whether rules are about paths, and a path and query may be another one to an origin than to them.
    pub(crate) fn is_evaded_by(&self, path: &str) -> bool {
        self.looks_at_paths && has_dot_segments(path.split('?').next().unwrap_or_default())
    }

    /// Whether rules need the response.
    pub(crate) fn needs_responses(&self) -> bool {
        self.set.needs_responses()
    }

    /// Whether rules say by the response whether it is compressed.
    pub(crate) fn compresses_by_response(&self) -> bool {
        self.compresses_by_response
    }

    fn together(&self, numbers: Numbers) -> Ruled<'_> {
        match &numbers[..] {
            [] => Ruled::Kept(&self.base),
            [one] => Ruled::Kept(self.single.get(usize::from(*one)).unwrap_or(&self.base)),
            _ => Ruled::Shared(self.several(numbers)),
        }
    }

    fn several(&self, numbers: Numbers) -> Arc<Ruling> {
        let kept = self.several.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(ruling) = kept.get(&numbers) {
            return Arc::clone(ruling);
        }
        drop(kept);
        let mut effects = Effects::default();
        for rule in numbers.iter().filter_map(|number| self.rule(*number)) {
            effects.extend(&rule.effects);
        }
        let limits = numbers.iter().rev().find_map(|number| self.limiters.get(usize::from(*number))?.clone());
        let (caching, caches) = (&self.base.caching, self.base.caches);
        let site = SiteRules { caching, caches, waits: self.compresses_by_response };
        let ruling = Arc::new(Ruling::new(numbers.clone(), &effects, &limits, &site));
        let mut kept = self.several.write().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < KEPT {
            kept.insert(numbers, Arc::clone(&ruling));
        }
        ruling
    }
}

impl Apart {
    fn new(rules: &[SiteRule]) -> Self {
        let apart = || rules.iter().filter(|rule| !rule.effects.apart.is_empty());
        let rule = |rule: &SiteRule| Rule { conditions: rule.rule.conditions.clone(), stop: false };
        Self {
            set: RuleSet::new(apart().map(rule).collect()),
            names: apart().map(|rule| rule.effects.apart.clone()).collect(),
        }
    }
}

/// The limits of `rule`: those that a rule of its name has in `old`, as far as they are the same. `kept` are the
/// numbers of the old rules whose limits another rule has already.
fn limiters(rule: &SiteRule, old: Option<&Rulebook>, kept: &mut Vec<usize>) -> Limiters {
    let limits = rule.effects.limits.as_ref()?;
    let old = old.and_then(|old| {
        let mut numbered = old.rules.iter().zip(&old.limiters).enumerate();
        let (at, (_, limiters)) = numbered.find(|(at, (other, limiters))| {
            other.name == rule.name && limiters.is_some() && !kept.contains(at)
        })?;
        kept.push(at);
        limiters.clone()
    });
    let limiter = |(at, limit): (usize, &Limit)| {
        let same = old.as_ref().and_then(|old| old.get(at)).filter(|old| old.limit == *limit);
        same.map_or_else(|| Arc::new(Limiter::new(limit.clone())), Arc::clone)
    };
    Some(limits.iter().enumerate().map(limiter).collect())
}

fn compression(effects: &Effects, site: &Rules) -> Compression {
    let codings = effects.compress.as_ref().unwrap_or(&site.compression.codings);
    Compression { codings: codings.clone(), ..site.compression.clone() }
}

impl Wanted {
    fn of(effects: &Effects) -> Option<Self> {
        let (users, tokens) = (effects.users.clone().flatten(), effects.tokens.clone().flatten());
        let is_wanted = users.is_some() || tokens.is_some();
        is_wanted.then(|| Self { users, tokens, realm: effects.realm.clone() })
    }
}

impl Ruling {
    fn new(numbers: Numbers, effects: &Effects, limits: &Limiters, site: &SiteRules<'_>) -> Self {
        let SiteRules { caching: site, caches, waits } = *site;
        let caching = Rules {
            lifetimes: effects.lifetimes,
            ignored: effects.ignored.unwrap_or(site.ignored),
            stores_nothing: effects.cache == Some(false),
            stale_while_revalidate: effects.stale_while_revalidate.unwrap_or(site.stale_while_revalidate),
            refresh_ahead: effects.refresh_ahead.unwrap_or(site.refresh_ahead),
            prefetch: effects.prefetch.as_ref().unwrap_or(&site.prefetch).clone(),
            prefetch_traffic: effects.prefetch_traffic.unwrap_or(site.prefetch_traffic),
            refresh_ahead_hits: effects.refresh_ahead_hits.unwrap_or(site.refresh_ahead_hits),
            early_hints: effects.early_hints.unwrap_or(site.early_hints),
            declines_prefetches: effects.declines_prefetches.unwrap_or(site.declines_prefetches),
            stale_if_error: effects.stale_if_error.unwrap_or(site.stale_if_error),
            compression: compression(effects, site),
            ..site.clone()
        };
        let caches = caches && effects.cache != Some(false);
        let limits = limits.clone().unwrap_or_default();
        let wanted = Wanted::of(effects);
        let is_free = effects.answer.is_none()
            && wanted.is_none()
            && limits.iter().all(|limiter| limiter.limit.counted == Counted::Misses);
        Self {
            numbers,
            at_once: caches && !caching.validated && is_free && !waits,
            caching,
            caches,
            query: effects.query.clone(),
            request: effects.request.clone(),
            response: effects.response.clone(),
            reply: (!effects.reply.is_empty()).then(|| Arc::new(effects.reply.clone())),
            answer: effects.answer.clone(),
            allow: effects.allow.clone(),
            deny: effects.deny.clone(),
            wanted,
            limits,
            pages: (!effects.pages.is_empty()).then(|| Arc::new(effects.pages.clone())),
            tries: effects.tries,
        }
    }

    /// Whether what `client` asks for may be fetched without being asked for: no rule answers, refuses, limits or identifies it.
    pub(crate) fn may_prefetch(&self, client: IpAddr) -> bool {
        self.answer.is_none() && self.wanted.is_none() && self.limits.is_empty() && self.serves(client)
    }

    /// Whether a client at this address is served.
    #[inline]
    pub(crate) fn serves(&self, client: IpAddr) -> bool {
        self.allow.as_ref().is_none_or(|networks| networks.contains(client))
            && !self.deny.as_ref().is_some_and(|networks| networks.contains(client))
    }

    /// Whether requests are limited by their fields.
    pub(crate) fn limits_by_field(&self) -> bool {
        self.limits.iter().any(|limiter| matches!(limiter.limit.by, LimitBy::Field(_)))
    }

    /// The caching, or `None` where nothing is cached.
    pub(crate) fn caching(&self) -> Option<&Rules> {
        self.caches.then_some(&self.caching)
    }
}

impl Ruled<'_> {
    /// The ruling for longer.
    pub(crate) fn share(self) -> Arc<Ruling> {
        match self {
            Self::Kept(ruling) => Arc::clone(ruling),
            Self::Shared(ruling) => ruling,
        }
    }
}

impl Deref for Ruled<'_> {
    type Target = Ruling;

    fn deref(&self) -> &Ruling {
        match self {
            Self::Kept(ruling) => ruling,
            Self::Shared(ruling) => ruling,
        }
    }
}
