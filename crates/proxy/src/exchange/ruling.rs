//! The combined settings of the rules that apply to a request.

use std::borrow::Cow;
use std::net::IpAddr;
use std::ops::Deref;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue, header};
use larder_rules::{Numbers, Pattern};
use larder_semantics::storable::Rules;

use crate::base::settings::{
    CountedRequests, Edits, Effects, LimitBy, Pages, SignatureFault, SignaturePlace, SiteRule, Tokens, Users,
};
use crate::net::limiter::Limiter;

/// The limits of a rule; `None` if it sets none.
pub(super) type Limiters = Option<Arc<[Arc<Limiter>]>>;

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
#[derive(Debug)]
pub(super) struct SiteRules {
    pub(super) caching: Rules,
    pub(super) caches: bool,
    /// Whether rules with conditions on responses decide about compression. No answer is given at once then.
    pub(super) compresses_by_response: bool,
    /// Whether the credential that rules write into requests is this proxy's own.
    pub(super) owns_credential: bool,
    /// The cookies of this proxy, which origins do not see.
    pub(super) own_cookies: Vec<Pattern>,
    /// The workers that serve requests.
    pub(super) workers: usize,
}

/// A ruling that is borrowed or shared.
pub(crate) enum RulingRef<'b> {
    Kept(&'b Arc<Ruling>),
    Shared(Arc<Ruling>),
}

impl Ruling {
    /// Creates the settings by the rules of these numbers among `rules`.
    pub(super) fn new(
        (numbers, rules): (Numbers, &[SiteRule]),
        mut effects: Effects,
        limits: &Limiters,
        site: &SiteRules,
    ) -> Self {
        if let Some(signed) =
            effects.signed.as_ref().and_then(Option::as_ref).filter(|own| own.place == SignaturePlace::Query)
        {
            let query = effects.query.get_or_insert_default();
            query.drop.extend(
                [&signed.expires, &signed.signature].into_iter().flat_map(|name| Pattern::parse(name)),
            );
        }
        effects.apart.sort_unstable();
        effects.apart.dedup();
        let credential = site.owns_credential.then(|| take_credential(&mut effects.request)).flatten();
        effects.request.drop_cookies(&site.own_cookies);
        let of_rules = effects.own_cookies.iter().flat_map(|name| Pattern::parse(name));
        effects.request.drop_cookies(&of_rules.collect::<Vec<_>>());
        let mut caching = effects.on(&site.caching);
        let mut rules = numbers.iter().rev().filter_map(|number| rules.get(usize::from(*number)));
        let with_ttl = rules.find(|rule| rule.effects.ttl.is_some());
        caching.lifetimes.replaces_errors =
            with_ttl.is_some_and(|rule| !rule.rule.conditions.status.is_empty());
        // Nobody gets the response to another credential, which selects it (RFC 9111 section 3.5).
        caching.shares_authorized |= effects.apart.iter().any(|name| name == header::AUTHORIZATION.as_str());
        let caches = site.caches && effects.cache != Some(false);
        let limits = limits.clone().unwrap_or_default();
        let wanted = RequiredCredentials::of(&effects);
        // A hit at once has the time limits of its connection.
        let is_free = effects.answer.is_none()
            && effects.stall.is_none()
            && effects.min_rate.is_none()
            && wanted.is_none()
            && !is_guarded(&effects)
            && effects.min_age.is_none()
            && limits.iter().all(|limiter| limiter.limit.counted == CountedRequests::Misses);
        Self {
            numbers,
            is_evaded: false,
            at_once: caches && !caching.validated && is_free && !site.compresses_by_response,
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

    /// Returns the same settings with other rules of caching.
    pub(crate) fn with_caching(&self, caching: Rules) -> Self {
        Self { caching, ..self.clone() }
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

    /// Checks the signature of `uri`, path and query as sent by `client`, at the time that `now` returns (UNIX seconds), if a
    /// signature is required. The error is the reason why the URL is refused.
    #[inline]
    pub(crate) fn verify(
        &self,
        uri: &str,
        client: IpAddr,
        now: impl FnOnce() -> u32,
    ) -> Result<(), SignatureFault> {
        match self.signed.as_ref().and_then(Option::as_ref) {
            None => Ok(()),
            Some(signed) => signed.verify(uri, client, now().into()),
        }
    }

    /// Returns `uri`, whose signature is [valid](Self::verify), without a signature in its path.
    #[inline]
    pub(crate) fn resource<'u>(&self, uri: &'u str) -> Cow<'u, str> {
        match self.signed.as_ref().and_then(Option::as_ref) {
            None => uri.into(),
            Some(signed) => signed.resource(uri),
        }
    }

    /// Returns the [resource](Self::resource) of `uri`, or the reason why its signature is not [valid](Self::verify), and `uri` itself.
    pub(crate) fn opened<'u>(
        &self,
        uri: &'u str,
        client: IpAddr,
        now: impl FnOnce() -> u32,
    ) -> (Option<SignatureFault>, Cow<'u, str>) {
        match self.verify(uri, client, now) {
            Ok(()) => (None, self.resource(uri)),
            Err(why) => (Some(why), uri.into()),
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

    /// Whether a limit counts by a field, a cookie or a parameter of requests.
    pub(crate) fn limits_by_content(&self) -> bool {
        use LimitBy::{Cookie, Field, Parameter};
        self.limits.iter().any(|limiter| matches!(limiter.limit.by, Field(_) | Cookie(_) | Parameter(_)))
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

impl RequiredCredentials {
    fn of(effects: &Effects) -> Option<Self> {
        let (users, tokens) = (effects.users.clone().flatten(), effects.tokens.clone().flatten());
        let is_wanted = users.is_some() || tokens.is_some();
        is_wanted.then(|| Self { users, tokens, realm: effects.realm.clone() })
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

/// Takes the `Authorization` that replaces that of clients out of `edits`, which remove that of clients from now on.
fn take_credential(edits: &mut Edits) -> Option<HeaderValue> {
    if edits.add.iter().any(|(name, _)| *name == header::AUTHORIZATION) {
        return None;
    }
    let at = edits.set.iter().position(|(name, _)| *name == header::AUTHORIZATION)?;
    edits.remove.push(header::AUTHORIZATION);
    Some(edits.set.remove(at).1)
}

/// Whether a service or a token decides about requests.
fn is_guarded(effects: &Effects) -> bool {
    effects.auth_request.as_ref().is_some_and(Option::is_some)
        || effects.jwt.as_ref().is_some_and(Option::is_some)
}
