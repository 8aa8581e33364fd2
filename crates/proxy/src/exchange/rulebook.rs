//! The rules of a site or of the forward proxy, and the combined settings of the rules that apply to a request.
//!
//! Few combinations of rules occur. Each is combined once, when it occurs first, and kept. A hit finds the rules that
//! apply and then looks up their combination.

use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};
use larder_rules::{
    Conditions, Fields, Numbers, Pattern, Rule, RuleSet, has_readings, is_ambiguous, readings,
};
use larder_semantics::storable::Rules;

use crate::base::settings::{
    CountedRequests, Edits, Effects, Limit, LimitBy, Pages, Query, SiteRule, Sticky, Tokens, Unsigned, Users,
};
use crate::exchange::combinations::Combinations;
use crate::exchange::placeholders::{Parts, fill_lines};
use crate::exchange::rule_counts::{RuleCounts, RuleReport};
use crate::exchange::vary::vary;
use crate::net::limiter::Limiter;

/// The compiled rules of a site or of the forward proxy.
#[derive(Debug)]
pub(crate) struct Rulebook {
    set: RuleSet,
    rules: Vec<SiteRule>,
    /// The rules that store responses as separate variants.
    apart: VariantRules,
    /// Whether some of them have conditions on paths or change paths.
    looks_at_paths: bool,
    /// The limits of each rule.
    limiters: Vec<Limiters>,
    counts: RuleCounts,
    /// Whether some of them have conditions on the claims of tokens.
    looks_at_claims: bool,
    /// Whether rules with conditions on responses decide about compression.
    compresses_by_response: bool,
    /// Whether the credential that rules write into requests is this proxy's own.
    owns_credential: bool,
    /// The cookies of this proxy.
    own_cookies: Vec<Pattern>,
    /// The settings for requests to which no rule applies.
    base: Arc<Ruling>,
    /// The settings for each rule alone, by its number.
    single: Vec<Arc<Ruling>>,
    /// The settings for combinations of rules.
    several: Combinations<Ruling>,
    /// The workers that serve requests.
    workers: usize,
}

/// Rules that store separate variants of responses by fields and cookies of requests. All that apply add up, and `stop`
/// is ignored: the variants under one cache key must always be selected by the same fields.
#[derive(Debug)]
struct VariantRules {
    set: RuleSet,
    /// The numbers of the rules among all rules of the site.
    numbers: Vec<u16>,
    names: Vec<Vec<String>>,
    /// Whether one of them is behind a rule with `stop`.
    is_behind_stop: bool,
}

/// The limits of a rule; `None` if it sets none.
type Limiters = Option<Arc<[Arc<Limiter>]>>;

/// The settings of a site for requests to which certain rules apply: the effects of these rules, to which it
/// dereferences, and what follows from them.
#[derive(Clone, Debug)]
pub(crate) struct Ruling {
    /// The numbers of the rules that apply.
    pub(crate) numbers: Numbers,
    effects: Effects,
    /// The rules of caching, as the site and its rules set them.
    pub(crate) caching: Rules,
    /// Whether responses are cached.
    pub(crate) caches: bool,
    /// Whether the cache may answer without waiting, to clients that are [served](Self::serves).
    pub(crate) at_once: bool,
    /// Whether an origin may read the path as another one, for which rules hold that protect it: the request is refused.
    pub(crate) is_evaded: bool,
    /// The credential with which this proxy authenticates itself to origins, written by rules. It is not among the
    /// fields of requests, since it says nothing about their clients.
    pub(crate) credential: Option<HeaderValue>,
    /// Edits of replies, a copy for each worker; empty without any.
    reply_edits: Box<[Arc<ReplyEdits>]>,
    /// The credentials that a request must have.
    pub(crate) wanted: Option<RequiredCredentials>,
    pub(crate) limits: Arc<[Arc<Limiter>]>,
    /// Pages for errors; `None` without any.
    pub(crate) pages: Option<Arc<Pages>>,
}

/// Edits of replies. Replies of different workers must not count their references on the same cache line.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct ReplyEdits(pub(crate) Edits);

/// Passwords and tokens, one of which a request must have.
#[derive(Clone, Debug)]
pub(crate) struct RequiredCredentials {
    pub(crate) users: Option<Arc<Users>>,
    pub(crate) tokens: Option<Arc<Tokens>>,
    /// The realm in challenges to clients.
    pub(crate) realm: Option<Arc<str>>,
}

/// The settings of a site itself.
struct SiteRules<'s> {
    caching: &'s Rules,
    caches: bool,
    /// Whether no answer may be given at once.
    waits: bool,
    /// Whether the credential that rules write is this proxy's own.
    owns_credential: bool,
    /// The cookies of this proxy, which origins do not see.
    own_cookies: &'s [Pattern],
    workers: usize,
}

/// A ruling that is borrowed or shared.
pub(crate) enum RulingRef<'b> {
    Kept(&'b Arc<Ruling>),
    Shared(Arc<Ruling>),
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
        let own_cookies = sticky.map(Sticky::names).unwrap_or_default();
        let compresses_by_response =
            rules.iter().any(|rule| rule.effects.compress.is_some() && rule.rule.conditions.need_response());
        let owns_credential = writes_credential_by_url(rules);
        let site = SiteRules {
            caching,
            caches,
            waits: compresses_by_response,
            owns_credential,
            own_cookies: &own_cookies,
            workers,
        };
        let base = Ruling::new(Numbers::new(), Effects::default(), &None, &site);
        let mut kept = Vec::new();
        let limiters: Vec<_> = rules.iter().map(|rule| limiters(rule, old, &mut kept)).collect();
        let one = |(number, rule): (usize, &SiteRule)| {
            let numbers = Numbers::from_slice(&[number as u16]);
            let mut effects = rule.effects.clone();
            effects.reply.vary = vary(&effects, &numbers, rules);
            Arc::new(Ruling::new(numbers, effects, &limiters[number], &site))
        };
        Self {
            set: RuleSet::new(rules.iter().map(|rule| rule.rule.clone()).collect()),
            apart: VariantRules::new(rules),
            looks_at_paths: rules
                .iter()
                .any(|rule| rule.rule.conditions.look_at_path() || rule.effects.changes_paths()),
            looks_at_claims: rules.iter().any(|rule| rule.rule.conditions.look_at_claims()),
            compresses_by_response,
            owns_credential,
            base: Arc::new(base),
            single: rules.iter().enumerate().map(one).collect(),
            limiters,
            counts: RuleCounts::new(rules, workers, old.map(|old| (&old.rules[..], &old.counts))),
            several: Combinations::default(),
            workers,
            rules: rules.to_vec(),
            own_cookies: own_cookies.clone(),
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

    /// Returns the rule of this number.
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

    /// Returns the fields and cookies of `request`, in the names of `larder_semantics::vary`, that select separate
    /// variants of its response.
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

    /// Returns the counts of requests by rules.
    #[inline]
    pub(crate) fn counts(&self) -> &RuleCounts {
        &self.counts
    }

    /// Returns the rules and their counts.
    pub(crate) fn report(&self) -> Vec<RuleReport> {
        self.counts.report(&self.rules)
    }

    /// Whether responses may be compressed if `ruling` applies to the request.
    pub(crate) fn compresses(&self, ruling: &Ruling) -> bool {
        self.compresses_by_response || ruling.caching.compression.is_on()
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
        self.compresses_by_response
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
        let site = SiteRules {
            caching: &self.base.caching,
            caches: self.base.caches,
            waits: self.compresses_by_response,
            owns_credential: self.owns_credential,
            own_cookies: &self.own_cookies,
            workers: self.workers,
        };
        Arc::new(Ruling::new(Numbers::from_slice(holding), effects, &limits, &site))
    }
}

impl VariantRules {
    fn new(rules: &[SiteRule]) -> Self {
        let apart = || rules.iter().enumerate().filter(|(_, rule)| !rule.effects.apart.is_empty());
        let rule = |rule: &SiteRule| Rule { conditions: rule.rule.conditions.clone(), stop: false };
        Self {
            set: RuleSet::new(apart().map(|(_, own)| rule(own)).collect()),
            numbers: apart().map(|(number, _)| number as u16).collect(),
            names: apart().map(|(_, rule)| rule.effects.apart.clone()).collect(),
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
    deciding.all(|rule| rule.rule.conditions.are_about_resource())
}

/// Takes the `Authorization` that replaces that of clients out of `edits`, which remove that of clients from now on.
fn take_credential(edits: &mut Edits) -> Option<HeaderValue> {
    if edits.add.iter().any(|(name, _)| *name == header::AUTHORIZATION) {
        return None;
    }
    let at = edits.set.iter().position(|(name, _)| *name == header::AUTHORIZATION)?;
    edits.remove.push(header::AUTHORIZATION);
    Some(edits.set.remove(at).1)
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

/// Whether a service or a token decides about requests.
fn is_guarded(effects: &Effects) -> bool {
    effects.auth_request.as_ref().is_some_and(Option::is_some)
        || effects.jwt.as_ref().is_some_and(Option::is_some)
}

impl RequiredCredentials {
    fn of(effects: &Effects) -> Option<Self> {
        let (users, tokens) = (effects.users.clone().flatten(), effects.tokens.clone().flatten());
        let is_wanted = users.is_some() || tokens.is_some();
        is_wanted.then(|| Self { users, tokens, realm: effects.realm.clone() })
    }
}

impl Ruling {
    fn new(numbers: Numbers, mut effects: Effects, limits: &Limiters, site: &SiteRules<'_>) -> Self {
        if let Some(signed) = effects.signed.as_ref().and_then(Option::as_ref).filter(|own| !own.in_path) {
            let query = effects.query.get_or_insert_default();
            query.drop.extend(
                [&signed.expires, &signed.signature].into_iter().flat_map(|name| Pattern::parse(name)),
            );
        }
        let credential = site.owns_credential.then(|| take_credential(&mut effects.request)).flatten();
        effects.request.drop_cookies(site.own_cookies);
        let of_rules = effects.own_cookies.iter().flat_map(|name| Pattern::parse(name));
        effects.request.drop_cookies(&of_rules.collect::<Vec<_>>());
        let caching = effects.on(site.caching);
        let caches = site.caches && effects.cache != Some(false);
        let limits = limits.clone().unwrap_or_default();
        let wanted = RequiredCredentials::of(&effects);
        // A hit at once has the time limits of its connection.
        let is_free = effects.answer.is_none()
            && effects.stall.is_none()
            && effects.min_rate.is_none()
            && wanted.is_none()
            && !is_guarded(&effects)
            && limits.iter().all(|limiter| limiter.limit.counted == CountedRequests::Misses);
        Self {
            numbers,
            is_evaded: false,
            at_once: caches && !caching.validated && is_free && !site.waits,
            caching,
            caches,
            credential,
            reply_edits: (0..if effects.reply.is_empty() { 0 } else { site.workers })
                .map(|_| Arc::new(ReplyEdits(effects.reply.clone())))
                .collect(),
            wanted,
            limits,
            pages: (!effects.error_page.is_empty()).then(|| Arc::new(effects.error_page.clone())),
            effects,
        }
    }

    /// Returns the edits of replies of this worker; `None` without any.
    #[inline]
    pub(crate) fn reply_edits(&self, worker: usize) -> Option<&Arc<ReplyEdits>> {
        self.reply_edits.get(worker)
    }

    /// Whether a response for `client` may be prefetched: no rule answers, refuses, limits or identifies the client.
    pub(crate) fn may_prefetch(&self, client: IpAddr) -> bool {
        self.answer.is_none()
            && self.wanted.is_none()
            && !is_guarded(self)
            && self.signed.as_ref().is_none_or(Option::is_none)
            && self.limits.is_empty()
            && self.serves(client)
    }

    /// Whether clients at this address are served.
    #[inline]
    pub(crate) fn serves(&self, client: IpAddr) -> bool {
        self.allow.as_ref().is_none_or(|networks| networks.contains(client))
            && !self.deny.as_ref().is_some_and(|networks| networks.contains(client))
    }

    /// Checks the signature of `uri`, path and query as sent, at the time that `now` returns (UNIX seconds), if a signature is required.
    ///
    /// # Errors
    /// The reason why the URL is refused.
    #[inline]
    pub(crate) fn verify(&self, uri: &str, now: impl FnOnce() -> u32) -> Result<(), Unsigned> {
        match self.signed.as_ref().and_then(Option::as_ref) {
            None => Ok(()),
            Some(signed) => signed.verify(uri, now().into()),
        }
    }

    /// Returns `uri`, whose signature is [valid](Self::verify), without a signature in its path.
    #[inline]
    pub(crate) fn resource<'u>(&self, uri: &'u str) -> &'u str {
        match self.signed.as_ref().and_then(Option::as_ref) {
            None => uri,
            Some(signed) => signed.resource(uri),
        }
    }

    /// Returns the fields of a request that its auth service gets, if it has one.
    pub(crate) fn inquiry(&self, fields: &HeaderMap) -> Option<Box<HeaderMap>> {
        self.auth_request.as_ref()?.as_ref().map(|auth| Box::new(auth.fields_of(fields)))
    }

    /// Returns the token of a request, if one is required; empty without one.
    pub(crate) fn token(&self, fields: &HeaderMap) -> Option<String> {
        self.jwt.as_ref()?.as_ref().map(|jwt| jwt.token_of(fields))
    }

    /// Whether a limit counts by a field of requests.
    pub(crate) fn limits_by_field(&self) -> bool {
        self.limits.iter().any(|limiter| matches!(limiter.limit.by, LimitBy::Field(_)))
    }

    /// Returns the rules of caching; `None` if responses are not cached.
    pub(crate) fn caching(&self) -> Option<&Rules> {
        self.caches.then_some(&self.caching)
    }
}

impl Deref for Ruling {
    type Target = Effects;

    #[inline]
    fn deref(&self) -> &Effects {
        &self.effects
    }
}

impl RulingRef<'_> {
    /// Returns a shared reference to the ruling.
    pub(crate) fn share(self) -> Arc<Ruling> {
        match self {
            Self::Kept(ruling) => Arc::clone(ruling),
            Self::Shared(ruling) => ruling,
        }
    }
}

impl Deref for RulingRef<'_> {
    type Target = Ruling;

    fn deref(&self) -> &Ruling {
        match self {
            Self::Kept(ruling) => ruling,
            Self::Shared(ruling) => ruling,
        }
    }
}
