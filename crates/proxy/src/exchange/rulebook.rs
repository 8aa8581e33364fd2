//! The rules of a site or of the forward proxy.
//!
//! Few combinations of rules occur. Each is combined once, when it occurs first, and kept. A hit finds the rules that
//! apply and then looks up their combination.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, header};
use larder_rules::{Conditions, Fields, Numbers, Rule, RuleSet, has_readings, is_ambiguous, readings};
use larder_semantics::storable::Rules;

use crate::base::settings::{Edits, Effects, Limit, Query, SiteRule, Sticky, Template};
use crate::exchange::combinations::Combinations;
use crate::exchange::placeholders::{Parts, fill_lines};
use crate::exchange::rule_counts::{RuleCounts, RuleReport};
use crate::exchange::ruling::{Limiters, Ruling, RulingRef, SiteRules};
use crate::exchange::vary::vary;
use crate::net::limiter::Limiter;

/// The compiled rules of a site or of the forward proxy.
#[derive(Debug)]
pub struct Rulebook {
    set: RuleSet,
    rules: Vec<SiteRule>,
    /// The rules that store responses in partitions.
    apart: PartitionRules,
    /// Whether some of them have conditions on paths or change paths.
    looks_at_paths: bool,
    /// The limits of each rule.
    limiters: Vec<Limiters>,
    counts: RuleCounts,
    /// Whether some of them have conditions on the claims of tokens.
    looks_at_claims: bool,
    site: SiteRules,
    /// The settings for requests to which no rule applies.
    base: Arc<Ruling>,
    /// The settings for each rule alone, by its number.
    single: Vec<Arc<Ruling>>,
    /// The settings for combinations of rules.
    several: Combinations<Ruling>,
}

/// Rules that store responses in partitions by fields and cookies of requests. All that apply add up, and `stop` is ignored:
/// the partitions of one URL must always be selected by the same fields.
#[derive(Debug)]
struct PartitionRules {
    set: RuleSet,
    /// The numbers of the rules among all rules of the site.
    numbers: Vec<u16>,
    /// Whether one of them is behind a rule with `stop`.
    is_behind_stop: bool,
}

impl Rulebook {
    /// Returns the limits of all rules, with names that they also have in another process with the same rules.
    pub(crate) fn limits(&self) -> impl Iterator<Item = (String, &Arc<Limiter>)> {
        let named = self.rules.iter().zip(&self.limiters);
        named.flat_map(|(rule, limiters)| {
            let limiters = limiters.iter().flat_map(|limiters| limiters.iter());
            limiters.map(|limiter| (format!("{:?} {:?}", rule.name, limiter.limit), limiter))
        })
    }

    /// Compiles the rules of a site with this caching for this number of workers; `caches`: whether it caches at all;
    /// `sticky`: whether a cookie keeps clients at origins. Limits that `old` has, too, keep their counts.
    pub(crate) fn new(
        rules: &[SiteRule],
        (caching, caches): (&Rules, bool),
        sticky: Option<&Sticky>,
        workers: usize,
        old: Option<&Self>,
    ) -> Self {
        let site = SiteRules {
            caching: caching.clone(),
            caches,
            compresses_by_response: rules
                .iter()
                .any(|rule| rule.effects.compress.is_some() && rule.rule.conditions.need_response()),
            owns_credential: writes_credential_by_url(rules),
            own_cookies: sticky.map(Sticky::names).unwrap_or_default(),
            workers,
        };
        let base = Ruling::new((Numbers::new(), rules), Effects::default(), &None, &site);
        let mut kept = Vec::new();
        let limiters: Vec<_> = rules.iter().map(|rule| limiters(rule, old, &mut kept)).collect();
        let one = |(number, rule): (usize, &SiteRule)| {
            let numbers = Numbers::from_slice(&[number as u16]);
            let mut effects = rule.effects.clone();
            effects.reply.vary = vary(&effects, &numbers, rules);
            Arc::new(Ruling::new((numbers, rules), effects, &limiters[number], &site))
        };
        Self {
            set: RuleSet::new(rules.iter().map(|rule| rule.rule.clone()).collect()),
            apart: PartitionRules::new(rules),
            looks_at_paths: rules
                .iter()
                .any(|rule| rule.rule.conditions.look_at_path() || rule.effects.changes_paths()),
            looks_at_claims: rules.iter().any(|rule| rule.rule.conditions.look_at_claims()),
            base: Arc::new(base),
            single: rules.iter().enumerate().map(one).collect(),
            limiters,
            counts: RuleCounts::new(rules, workers, old.map(|old| (&old.rules[..], &old.counts))),
            several: Combinations::default(),
            rules: rules.to_vec(),
            site,
        }
    }

    /// Whether there are no rules.
    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// Whether other rules may apply to a GET than to a HEAD for the same URL.
    pub(crate) fn looks_at_methods(&self) -> bool {
        self.rules.iter().any(|rule| rule.rule.conditions.look_at_method())
    }

    pub(crate) fn rule(&self, number: u16) -> Option<&SiteRule> {
        self.rules.get(usize::from(number))
    }

    /// Returns the conditions of the last of these rules that `does` something: its placeholders stand for what they match.
    pub(crate) fn last_that(&self, numbers: &[u16], does: impl Fn(&Effects) -> bool) -> Option<&Conditions> {
        let mut rules = numbers.iter().rev().filter_map(|number| self.rule(*number));
        rules.find(|rule| does(&rule.effects)).map(|rule| &rule.rule.conditions)
    }

    /// Returns `edits`, those of requests or replies that `of` returns, with `parts` in the places of placeholders.
    pub(crate) fn fill(
        &self,
        numbers: &[u16],
        edits: &Edits,
        parts: &Parts<'_>,
        of: fn(&Effects) -> &Edits,
    ) -> Edits {
        fill_lines(edits, parts, |line| {
            self.last_that(numbers, |effects| of(effects).written_lines().any(|own| own == line))
        })
    }

    /// Returns the rules of these numbers as they were written, with the keys that they set. A rule that was written
    /// with keys that expand to several rules is listed once.
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

    /// Returns the settings of rules about queries.
    pub(crate) fn queries(&self) -> impl Iterator<Item = &Query> {
        self.rules.iter().filter_map(|rule| rule.effects.query.as_ref())
    }

    /// Returns the settings for requests to which no rule applies.
    pub(crate) fn base(&self) -> &Arc<Ruling> {
        &self.base
    }

    /// Returns the settings for a request.
    #[inline]
    pub(crate) fn on_request<F: Fields>(&self, request: &larder_rules::Request<'_, F>) -> RulingRef<'_> {
        match self.is_empty() {
            true => RulingRef::Kept(&self.base),
            false => self.ruled(request, |request| self.numbers(request)),
        }
    }

    /// Returns the rules that apply to a request, and behind one that stops those that store responses apart.
    #[inline]
    fn numbers<F: Fields>(&self, request: &larder_rules::Request<'_, F>) -> Numbers {
        let mut numbers = self.set.on_request(request);
        if self.apart.is_behind_stop
            && let Some(last) = numbers.last().copied()
            && self.rule(last).is_some_and(|rule| rule.rule.stop)
        {
            let apart = self.apart.set.on_request(request);
            let apart = apart.iter().filter_map(|at| self.apart.numbers.get(usize::from(*at)));
            numbers.extend(apart.filter(|number| **number > last).copied());
        }
        numbers
    }

    /// Returns the settings for a request and its response, if rules may depend on the response.
    pub(crate) fn on_response<Q: Fields, F: Fields>(
        &self,
        request: &larder_rules::Request<'_, Q>,
        response: &larder_rules::Response<'_, F>,
    ) -> RulingRef<'_> {
        self.ruled(request, |request| self.set.on_response(request, response))
    }

    /// Returns the settings for a request to which the rules of these `numbers` apply.
    #[inline]
    fn ruled<F: Fields>(
        &self,
        request: &larder_rules::Request<'_, F>,
        numbers: impl Fn(&larder_rules::Request<'_, F>) -> Numbers,
    ) -> RulingRef<'_> {
        let own = numbers(request);
        match self.looks_at_paths && has_readings(request.path) {
            true => self.ruled_in_doubt(request, own, numbers),
            false => self.together(own),
        }
    }

    /// Returns what the rules say about a path that origins may read as another one. If other rules hold for that one, the response is
    /// neither stored nor taken from the cache.
    #[cold]
    fn ruled_in_doubt<F: Fields>(
        &self,
        request: &larder_rules::Request<'_, F>,
        own: Numbers,
        numbers: impl Fn(&larder_rules::Request<'_, F>) -> Numbers,
    ) -> RulingRef<'_> {
        let others: Vec<_> = readings(request.path)
            .iter()
            .map(|path| numbers(&larder_rules::Request { path, ..*request }))
            .collect();
        let is_meant = |rule: &SiteRule| rule.rule.conditions.spell_out(request.path);
        let missing = others.iter().flat_map(|other| own.iter().filter(|number| !other.contains(number)));
        let further = others.iter().flatten().filter(|number| !own.contains(number));
        let differing = missing.chain(further).filter_map(|number| self.rule(*number));
        let differing: Vec<_> = differing.filter(|rule| !is_meant(rule)).collect();
        let ruled = self.together(own);
        if differing.is_empty() {
            return ruled;
        }
        let mut ruling = Ruling::clone(&ruled);
        (ruling.caches, ruling.at_once, ruling.caching.stores_nothing) = (false, false, true);
        ruling.is_evaded = differing.iter().any(|rule| rule.effects.protect());
        RulingRef::Shared(Arc::new(ruling))
    }

    /// Whether the responses of the URL of `request` are in partitions.
    pub(crate) fn has_partitions<F: Fields>(&self, request: &larder_rules::Request<'_, F>) -> bool {
        !self.apart.set.is_empty() && !self.apart.set.on_request(request).is_empty()
    }

    /// Returns the counts of requests by rules.
    #[inline]
    pub(crate) fn counts(&self) -> &RuleCounts {
        &self.counts
    }

    /// Returns the rules and their counts.
    pub fn report(&self) -> Vec<RuleReport> {
        self.counts.report(&self.rules)
    }

    /// Whether responses may be compressed if `ruling` applies to the request.
    pub(crate) fn compresses(&self, ruling: &Ruling) -> bool {
        self.compresses_by_response() || ruling.caching.compression.is_on()
    }

    /// Whether rules have conditions on paths or change them, and an origin could interpret this path in another way.
    pub(crate) fn is_evaded_by(&self, path: &str) -> bool {
        self.looks_at_paths && is_ambiguous(path.split('?').next().unwrap_or_default())
    }

    /// Whether rules have conditions on the claims of tokens.
    pub(crate) fn looks_at_claims(&self) -> bool {
        self.looks_at_claims
    }

    /// Whether rules look at requests again, as clients sent them: after a token is verified, or with the response.
    pub(crate) fn needs_original(&self) -> bool {
        self.looks_at_claims || self.needs_responses()
    }

    /// Whether rules have conditions on responses.
    pub(crate) fn needs_responses(&self) -> bool {
        self.set.needs_responses()
    }

    /// Whether rules with conditions on responses decide about compression.
    pub(crate) fn compresses_by_response(&self) -> bool {
        self.site.compresses_by_response
    }

    fn together(&self, numbers: Numbers) -> RulingRef<'_> {
        match &numbers[..] {
            [] => RulingRef::Kept(&self.base),
            [one] => RulingRef::Kept(self.single.get(usize::from(*one)).unwrap_or(&self.base)),
            _ => {
                let kept = self.several.get(&numbers, || self.combine(&numbers));
                kept.map_or_else(RulingRef::Shared, RulingRef::Kept)
            }
        }
    }

    /// Returns the settings for several rules.
    fn combine(&self, numbers: &Numbers) -> Arc<Ruling> {
        let stops = |number: &u16| self.rule(*number).is_some_and(|rule| rule.rule.stop);
        let (holding, apart) =
            numbers.split_at(numbers.iter().position(stops).map_or(numbers.len(), |last| last + 1));
        let mut effects = Effects::default();
        for rule in holding.iter().filter_map(|number| self.rule(*number)) {
            effects.extend(&rule.effects);
        }
        for rule in apart.iter().filter_map(|number| self.rule(*number)) {
            effects.extend_apart(&rule.effects);
        }
        effects.reply.vary = vary(&effects, numbers, &self.rules);
        let limits = holding.iter().rev().find_map(|number| self.limiters.get(usize::from(*number))?.clone());
        Arc::new(Ruling::new((Numbers::from_slice(holding), &self.rules[..]), effects, &limits, &self.site))
    }
}

impl PartitionRules {
    fn new(rules: &[SiteRule]) -> Self {
        let apart = || rules.iter().enumerate().filter(|(_, rule)| !rule.effects.apart.is_empty());
        let rule = |rule: &SiteRule| Rule { conditions: rule.rule.conditions.clone(), stop: false };
        Self {
            set: RuleSet::new(apart().map(|(_, own)| rule(own)).collect()),
            numbers: apart().map(|(number, _)| number as u16).collect(),
            is_behind_stop: apart()
                .any(|(number, _)| rules[..number].iter().any(|earlier| earlier.rule.stop)),
        }
    }
}

/// Whether all requests for a URL get the same `Authorization` from rules, if they get one: it is the credential of this
/// proxy then, and responses to it may be stored as those to requests without one.
fn writes_credential_by_url(rules: &[SiteRule]) -> bool {
    let writes = |rule: &SiteRule| rule.effects.request.may_change(header::AUTHORIZATION.as_str());
    let end = rules.iter().rposition(writes).map_or(0, |last| last + 1);
    let mut deciding = rules[..end].iter().filter(|rule| rule.rule.stop || writes(rule));
    // A placeholder may stand for the credential of a client.
    let has_placeholder = |text: &str| Template::of_value(text).placeholders().next().is_some();
    let is_fixed = |(name, value): &(HeaderName, HeaderValue)| {
        *name != header::AUTHORIZATION || value.is_sensitive() || !value.to_str().is_ok_and(has_placeholder)
    };
    let mut lines = rules.iter().flat_map(|rule| rule.effects.request.written_lines());
    deciding.all(|rule| rule.rule.conditions.are_about_resource()) && lines.all(is_fixed)
}

/// Returns the limits of `rule`. Unchanged limits are taken from a rule of the same name in `old`. `kept` has the
/// numbers of the old rules whose limits are already taken.
fn limiters(rule: &SiteRule, old: Option<&Rulebook>, kept: &mut Vec<usize>) -> Limiters {
    let limits = rule.effects.limit.as_ref()?;
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
