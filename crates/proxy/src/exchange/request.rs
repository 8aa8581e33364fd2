//! A request in the form that the flow uses for all protocols: with its target resolved, its hop-by-hop fields removed
//! and its cache key written.

mod rules;

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use http::{HeaderMap, HeaderValue, Method, Version};
use larder_packages::Keep;
use larder_rules::{CertificateNames, ClaimTexts};
use larder_semantics::coding::AcceptedCodings;
use larder_semantics::directives::RequestDirectives;
use larder_semantics::fields::{Fields, members};
use larder_semantics::freshness::Freshness;
use larder_semantics::{key, partition, purpose, revalidate};
use larder_store::{Entry, Memory};

use super::position::RequiredPosition;
use crate::base::settings::{Edits, Query, QueryStrings, Role, SignatureFault};
use crate::base::{clock, in_place};
use crate::counts::span::Trace;
use crate::exchange::arrival::Requester;
use crate::exchange::limit_entries::LimitEntries;
use crate::exchange::link::{Link, Stopwatch};
use crate::exchange::outgoing::{OriginalRequest, change, collect, credentials, edit, own_field};
use crate::exchange::placeholders::Parts;
use crate::exchange::plan::Plan;
use crate::exchange::route::Route;
use crate::exchange::rulebook::Rulebook;
use crate::exchange::ruling::{Ruling, RulingRef};
use crate::exchange::target::{
    AMBIGUOUS, Address, EVADED, HashedKey, RuledClient, asked, from_root, host_in, rule, unruled, url_parts,
    write_key,
};
use crate::http::body::Upload;
use crate::http::head::{Refusal, RequestHead};
use crate::http::names;
use crate::net::tls::client_certificates::ClientIdentity;
use crate::origin::Session;

/// A request that memory could not answer at once.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// The version of HTTP that the client uses.
    pub(crate) version: Version,
    /// `http` or `https`.
    pub(crate) scheme: &'static str,
    /// The host of the target, and the port if one was written.
    pub(crate) authority: String,
    /// Path and query; `*` for the server as a whole.
    pub(crate) path: String,
    /// The field lines to forward.
    pub(crate) fields: HeaderMap,
    /// The directives in the fields for caches.
    pub(crate) asked: RequestDirectives,
    /// The cache key (RFC 9111 section 2).
    pub(crate) key: Vec<u8>,
    /// The hash of the key in the memory tier.
    pub(crate) hash: u64,
    pub(crate) route: Route,
    /// The settings of its site and the rules that apply to it.
    pub(crate) ruling: Arc<Ruling>,
    /// The codings that its client accepts, before rules change the request; `None` for a client that gets content as
    /// the origin sent it.
    pub(crate) accepted: Option<AcceptedCodings>,
    /// The credentials that its rules require. They are not forwarded.
    pub(crate) credentials: Option<HeaderValue>,
    /// The fields that the auth service of its rules gets, as its client sent them.
    pub(crate) inquiry: Option<Box<HeaderMap>>,
    /// The JSON Web Token that its rules require; empty without one.
    pub(crate) token: Option<String>,
    /// The reason why the signature of its URL is refused, if its rules require one.
    pub(crate) unsigned: Option<SignatureFault>,
    /// The name of the user with these credentials, after they have been checked.
    pub(crate) user: Option<Arc<str>>,
    /// The request as the client sent it, if rules have changed it and the original is needed.
    pub(crate) unchanged: Option<Box<OriginalRequest>>,
    pub(crate) client: SocketAddr,
    /// Its id, if requests have ids.
    pub(crate) id: Option<Arc<str>>,
    /// The values of `Upgrade`.
    pub(crate) upgrade: Option<HeaderValue>,
    pub(crate) content: Upload,
    /// The link to its connection; `None` if no client waits.
    pub(crate) link: Option<Link>,
    /// The time that origins take for it.
    pub(crate) origin: Stopwatch,
    /// Whether another node of the cluster forwards it.
    pub(crate) by_peer: bool,
    /// The position in the stream of purges that this node has to reach before stored responses may answer.
    pub(crate) awaited: Option<RequiredPosition>,
    /// Whether other nodes may answer in place of the origin.
    pub(crate) asks_peers: bool,
    /// How logs write its query string.
    pub(crate) query: QueryStrings,
    /// Its span, while requests are traced.
    pub(crate) trace: Option<Arc<Trace>>,
    /// Counts the bytes of its response that were not stored, if that is one in slices, for the access log.
    pub(crate) fetched: Option<Arc<AtomicU64>>,
    /// Whether heuristic lifetimes are forbidden for it.
    pub(crate) forbids_guess: bool,
    /// Whether it is a prefetch of the client: no user has asked for the response yet.
    pub(crate) is_prefetch: bool,
    /// Whether its client was asked for a certificate.
    pub(crate) asked_for_certificate: bool,
    /// The names in the certificate that its client has shown.
    pub(crate) certificate: Option<Arc<CertificateNames>>,
    /// The claims of its token, once that is verified, if rules have conditions on them.
    pub(crate) claims: Option<Arc<ClaimTexts>>,
    /// Whether a try that got no answer may have reached an origin.
    pub(crate) lost_try: AtomicBool,
    /// The origins that its client stays with, if its site keeps clients at origins.
    pub(crate) session: Option<Box<Session>>,
    /// Its entries in limits on requests in progress.
    pub(crate) entered: LimitEntries,
    /// Whether it is a prefetch of this proxy, without a client. If it is also by a node, that offers a response, and no origin is
    /// asked.
    pub(crate) is_own_prefetch: bool,
}

/// The head of a request, with its route and the rules that apply to it.
struct HeadRules<'h> {
    head: &'h RequestHead<'h>,
    /// Its key, if that has been written.
    key: Option<&'h HashedKey>,
    address: Address<'h>,
    route: Route,
    ruling: Arc<Ruling>,
}

impl Request {
    /// Returns the parts that placeholders of rules stand for.
    pub(crate) fn parts(&self) -> Parts<'_> {
        let parts = Parts::new(&self.key, self.client.ip(), self.id.as_deref(), &self.fields);
        parts.with_certificate(self.certificate.as_ref())
    }

    /// Returns its fields as its client sent them, if its replies depend on them.
    pub(crate) fn sent_fields(&self) -> &HeaderMap {
        self.unchanged.as_deref().map_or(&self.fields, |unchanged| &unchanged.fields)
    }

    /// Returns its path and query as its client sent them, if its replies depend on them.
    pub(crate) fn sent_path(&self) -> &str {
        self.unchanged.as_deref().map_or(&self.path, |unchanged| &unchanged.path)
    }

    /// Converts a borrowed head to a request that outlives the buffer, in a box, since it is large and often moved.
    /// Errors: the refusal of a target or a field that cannot be forwarded.
    pub(crate) fn take(
        head: &RequestHead<'_>,
        memory: &Memory,
        plan: &Plan,
        asker: &Requester<'_>,
    ) -> Result<Box<Self>, Refusal> {
        Self::take_with(&HashedKey::default(), head, memory, plan, asker)
    }

    /// [`take`](Self::take) a request whose `key` has been written, unless that is empty.
    pub(crate) fn take_with(
        key: &HashedKey,
        head: &RequestHead<'_>,
        memory: &Memory,
        plan: &Plan,
        asker: &Requester<'_>,
    ) -> Result<Box<Self>, Refusal> {
        Self::take_under((head, key), memory, plan, asker, rule)
    }

    /// [`take`](Self::take) without rules.
    pub(crate) fn take_without_rules(
        head: &RequestHead<'_>,
        memory: &Memory,
        plan: &Plan,
        asker: &Requester<'_>,
    ) -> Result<Box<Self>, Refusal> {
        let key = &HashedKey::default();
        Self::take_under((head, key), memory, plan, asker, |rulebook, _, _| unruled(rulebook))
    }

    fn take_under(
        (head, key): (&RequestHead<'_>, &HashedKey),
        memory: &Memory,
        plan: &Plan,
        asker: &Requester<'_>,
        rule: impl for<'p> FnOnce(
            &'p Rulebook,
            &Address<'_>,
            (&Method, RuledClient<'_>, &HeaderMap),
        ) -> RulingRef<'p>,
    ) -> Result<Box<Self>, Refusal> {
        let address = Address::of(head.target, asker.role)?;
        let route = plan.sites.route(asker.role, address.authority, address.path)?;
        let fields = collect(head, own_field(&route, &head.method), (plan, asker.id))?;
        let rulebook = route.rulebook(&plan.forward);
        if rulebook.is_evaded_by(address.path) {
            return Err(AMBIGUOUS);
        }
        let ruling = rule(rulebook, &address, (&head.method, RuledClient::of(asker), &fields)).share();
        if ruling.is_evaded {
            return Err(EVADED);
        }
        // Without rules there is one form of the key.
        let key = (rulebook.is_empty() && !key.bytes.is_empty()).then_some(key);
        let ruled = HeadRules { head, key, address, route, ruling };
        let mut request = Self::under(ruled, fields, memory, plan, asker);
        request.accept_fixed(plan);
        Ok(request)
    }

    /// Returns the request with these `fields` for which rules have been found.
    fn under(
        HeadRules { head, key: written, address, route, ruling }: HeadRules<'_>,
        mut fields: HeaderMap,
        memory: &Memory,
        plan: &Plan,
        &Requester { role, address: client, identity, id, by_peer }: &Requester<'_>,
    ) -> Box<Self> {
        // A node that forwards a request has checked it.
        let is_asked = !by_peer && !is_purge(&head.method, &route);
        let credentials = is_asked.then(|| credentials(head, &route, &ruling, &mut fields)).flatten();
        // Such a request is redirected to the URL as it was sent.
        let is_redirected = is_asked && lacks_tls(&route, address.scheme);
        let (unsigned, path) = opened(&ruling, address.path, client, is_asked && !is_redirected);
        let address = Address { path: &path, ..address };
        let taken = credentials.as_ref().filter(|_| matches!(route, Route::Site(_)));
        let (key, hash) = key_of(written, (role, &address), ruling.query.as_ref());
        let inquiry = is_asked.then(|| ruling.inquiry(&fields)).flatten();
        let token = is_asked.then(|| ruling.token(&fields)).flatten();
        let certificate = identity.and_then(ClientIdentity::names);
        let parts = || Parts::new(&key, client.ip(), id.map(AsRef::as_ref), &fields);
        let rulebook = route.rulebook(&plan.forward);
        let filled = filled(rulebook, &ruling, || parts().with_certificate(certificate));
        let edits = (&mut fields, taken, (!by_peer).then(|| edit(&head.method)));
        let (path, unchanged) = change(rulebook, &ruling, from_root(address.path), filled.as_ref(), edits);
        let path = if is_redirected { from_root(address.path) } else { path };
        let mut request = in_place::boxed(|| Self {
            method: head.method.clone(),
            version: head.version,
            scheme: address.scheme,
            authority: host_in(&key, &head.method, address.authority),
            path: target_of(head, &route, address.path, path),
            forbids_guess: ruling.caching().is_some_and(|caching| caching.forbids_guess(&fields)),
            asked: directives(&ruling, &fields),
            accepted: Some(AcceptedCodings::of(&fields)),
            fields,
            hash: hash.unwrap_or_default(),
            key,
            route,
            ruling,
            credentials,
            inquiry,
            token,
            unsigned,
            user: None,
            unchanged,
            client,
            id: id.cloned(),
            upgrade: upgrade(head),
            content: Upload::Empty,
            link: None,
            origin: Stopwatch::default(),
            by_peer,
            awaited: None,
            asks_peers: false,
            query: plan.settings.statistics.query,
            trace: None,
            fetched: None,
            is_prefetch: head.is_prefetch,
            asked_for_certificate: false,
            certificate: certificate.cloned(),
            claims: None,
            lost_try: AtomicBool::new(false),
            session: None,
            entered: LimitEntries::default(),
            is_own_prefetch: false,
        });
        request.add_client(role, identity, &head.fields);
        hash.is_none().then(|| request.complete_key(memory));
        request
    }

    /// Adds the partition that its fields select to its key, and hashes it. To be called again when the fields or the
    /// target change.
    pub(crate) fn settle_key(&mut self, memory: &Memory) {
        self.key.truncate(self.url_key().len());
        self.complete_key(memory);
    }

    /// The same for a key without a partition.
    fn complete_key(&mut self, memory: &Memory) {
        partition::write(&self.ruling.apart, &self.fields, &mut self.key);
        self.hash = memory.hash(&self.key);
    }

    /// Accepts a stored response that its protocol never changes: Maven demands a newer one with each request (`no-cache`). An
    /// age, as `max-age=0`, remains a demand.
    fn accept_fixed(&mut self, plan: &Plan) {
        if self.asked.no_cache
            && let Some(resource) = self.package(&self.ruling)
        {
            let is_known = !plan.packages.digests(&self.key, &resource).is_empty();
            self.asked.no_cache = resource.keep(is_known) != Keep::Forever;
        }
    }

    /// Adds what the connection and the `fields` of its client tell about that client.
    fn add_client(&mut self, role: Role, identity: Option<&ClientIdentity>, fields: &impl Fields) {
        self.add_certificate(role, identity);
        // The node that forwards a request keeps its client at an origin.
        if let Route::Site(site) = &self.route
            && let Some(sticky) = site.settings.sticky.as_ref().filter(|_| !self.by_peer)
        {
            self.session = Some(Box::new(Session::read(sticky, fields, self.scheme == "https")));
        }
    }

    /// Whether it requires a newer response than the stored one.
    pub(crate) fn is_reload(&self) -> bool {
        self.asked.no_cache || self.asked.max_age.is_some() || self.asked.min_fresh.is_some()
    }

    /// Whether the client itself used https. A `PURGE` may name https without TLS, and does not count.
    pub(crate) fn is_secure(&self) -> bool {
        self.scheme == "https" && !self.by_peer && self.method.as_str() != names::PURGE
    }

    /// Returns its key without the partition.
    pub(crate) fn url_key(&self) -> &[u8] {
        key::of_url(&self.key)
    }

    /// Returns the key of the target alone, as `larder_semantics::key` reads it.
    pub(crate) fn target(&self) -> &[u8] {
        self.url_key().split_last().map_or(&[], |(_, target)| target)
    }

    /// Returns the key of a URL, for listeners of the same role, to which its answer refers by this target.
    pub(crate) fn key_of(&self, target: &[u8]) -> Vec<u8> {
        [target, self.url_key().last().map_or(&[][..], std::slice::from_ref)].concat()
    }

    /// Whether it is a `PURGE` of a site.
    pub(crate) fn is_purge(&self) -> bool {
        is_purge(&self.method, &self.route)
    }

    /// Returns the target as an absolute URI.
    pub(crate) fn url(&self) -> String {
        format!("{}://{}{}", self.scheme, self.authority, self.path)
    }

    /// Returns the target as an absolute URI in the form for logs.
    pub(crate) fn logged_url(&self) -> String {
        self.query.kept(&self.url()).to_owned()
    }

    /// Returns the freshness of a stored response for this request.
    pub(crate) fn freshness(&self, entry: &Entry) -> Freshness {
        match self.route.is_validated() {
            true => entry.freshness().unproven(),
            false => self.without_guess(entry.freshness()),
        }
    }

    /// Removes a heuristic lifetime from `freshness` if this request forbids one.
    pub(crate) fn without_guess(&self, freshness: Freshness) -> Freshness {
        if self.forbids_guess { freshness.without_guess() } else { freshness }
    }

    /// [`in_background`](Self::in_background) for the stored response under `key` of this `hash`, with the path of
    /// `key`.
    pub(crate) fn in_background_for(&self, key: &[u8], hash: u64) -> Self {
        match url_parts(key).and_then(|(_, _, path)| str::from_utf8(path).ok()) {
            Some(path) => Self { path: path.to_owned(), key: key.to_vec(), hash, ..self.in_background() },
            None => self.in_background(),
        }
    }

    /// Returns a GET for the same target without a client, its content, its conditions and its directives for caches.
    pub(crate) fn in_background(&self) -> Self {
        let mut fields = self.fields.clone();
        revalidate::remove_conditions(&mut fields);
        purpose::FIELDS.iter().chain(&["cache-control", "pragma"]).for_each(|name| _ = fields.remove(*name));
        Self {
            method: Method::GET,
            version: self.version,
            scheme: self.scheme,
            authority: self.authority.clone(),
            path: self.path.clone(),
            fields,
            asked: RequestDirectives::default(),
            key: self.key.clone(),
            hash: self.hash,
            route: self.route.clone(),
            ruling: Arc::clone(&self.ruling),
            accepted: self.accepted,
            credentials: None,
            inquiry: None,
            token: None,
            unsigned: None,
            user: None,
            unchanged: self.unchanged.clone(),
            client: self.client,
            id: self.id.clone(),
            upgrade: None,
            content: Upload::Empty,
            link: None,
            origin: Stopwatch::default(),
            by_peer: self.by_peer,
            awaited: None,
            asks_peers: self.asks_peers,
            query: self.query,
            trace: None,
            fetched: self.fetched.clone(),
            forbids_guess: self.forbids_guess,
            is_prefetch: false,
            asked_for_certificate: self.asked_for_certificate,
            certificate: self.certificate.clone(),
            claims: self.claims.clone(),
            lost_try: AtomicBool::new(false),
            session: None,
            entered: LimitEntries::default(),
            is_own_prefetch: self.is_own_prefetch,
        }
    }
}

/// Returns the cache key of a target, and its hash if the key was `written` before.
fn key_of(
    written: Option<&HashedKey>,
    (role, address): (Role, &Address<'_>),
    query: Option<&Query>,
) -> (Vec<u8>, Option<u64>) {
    if let Some(HashedKey { bytes, hash }) = written {
        return (bytes.clone(), Some(*hash));
    }
    let mut key = Vec::with_capacity(address.authority.len() + address.path.len() + 16);
    write_key(&mut key, role, address, query);
    (key, None)
}

/// Returns the reason why the signature of `uri` is refused, if it is checked and required, and the URI that was signed.
fn opened<'u>(
    ruling: &Ruling,
    uri: &'u str,
    client: SocketAddr,
    is_checked: bool,
) -> (Option<SignatureFault>, Cow<'u, str>) {
    match is_checked {
        true => ruling.opened(uri, client.ip(), clock::now),
        false => (None, uri.into()),
    }
}

/// Whether a site is served over https only, and a request has another `scheme`.
pub(crate) fn lacks_tls(route: &Route, scheme: &str) -> bool {
    matches!(route, Route::Site(site) if site.settings.only_https && scheme != "https")
}

/// Returns what `ruling` changes in a request, with its `parts` in the places of placeholders; `None` if it has none.
fn filled<'r>(rulebook: &Rulebook, ruling: &Ruling, parts: impl FnOnce() -> Parts<'r>) -> Option<Edits> {
    let fill = || rulebook.fill(&ruling.numbers, &ruling.request, &parts(), |effects| &effects.request);
    ruling.request.has_placeholders.then(fill)
}

/// Returns the directives for caches in these fields of a request, as far as its rules obey them.
fn directives(ruling: &Ruling, fields: &HeaderMap) -> RequestDirectives {
    match ruling.caching() {
        Some(caching) => asked(fields, caching),
        None => RequestDirectives::parse(fields),
    }
}

/// Returns the one of the protocols in `Upgrade` to which a request may switch: that of a GET (RFC 6455 section 4.1). Others
/// (h2c) would carry requests past all checks of this proxy.
fn upgrade(head: &RequestHead<'_>) -> Option<HeaderValue> {
    let may_switch = head.upgrade && head.method == Method::GET;
    let mut protocols = members(&head.fields, "upgrade").filter(|_| may_switch);
    let protocol = protocols.find(|protocol| protocol.eq_ignore_ascii_case(b"websocket"))?;
    HeaderValue::from_bytes(protocol).ok()
}

/// Whether a request is a `PURGE` of a site. The site, not its rules, decides which clients may send it.
fn is_purge(method: &Method, route: &Route) -> bool {
    matches!(route, Route::Site(_)) && method.as_str() == names::PURGE
}

/// Returns the `target` that an origin is to see. One without a path that is about the whole server has none: an origin gets
/// "*" (RFC 9112 section 3.2.4).
fn target_of(head: &RequestHead<'_>, route: &Route, asked: &str, target: String) -> String {
    let is_for_server = head.method == Method::OPTIONS && matches!(route, Route::Anywhere);
    if is_for_server && asked.is_empty() && target == "/" { String::new() } else { target }
}
