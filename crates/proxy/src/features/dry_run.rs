//! Applies a config to a request and to an origin's answer, without sockets and with nothing stored: for tests that
//! users write for their rules. Each step is the function that serves requests.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use larder_evict::{By, Capacity, Spec};
use larder_semantics::status::Why;
use larder_semantics::storable::{self, Times};
use larder_store::Memory;

use crate::base::clock;
use crate::base::outcome::{Kind, Outcome};
use crate::base::settings::{Origin, Role, Settings};
use crate::counts::accounts::Accounts;
use crate::exchange::arrival::Requester;
use crate::exchange::edited::edited;
use crate::exchange::gateway_files::GatewayFiles;
use crate::exchange::gateways::Gateways;
use crate::exchange::outgoing::is_trace;
use crate::exchange::plan::Plan;
use crate::exchange::reply::{Reply, Source};
use crate::exchange::request::Request;
use crate::exchange::request_destination;
use crate::features::why_query::WhyQuery;
use crate::features::{dispatch, etag_gateway};
use crate::flow::context::refused;
use crate::flow::decide::{Decision, Terms, decide};
use crate::flow::finish::{self, Destination};
use crate::flow::{coded_stream, storage_terms};
use crate::http::head::{self, Framing, RequestHead};
use crate::origin::Turn;

/// A dry run of a config.
pub struct DryRun {
    plan: Plan,
    /// Hashes keys, and holds no entries.
    memory: Memory,
}

/// A request, and the answer of the origin if the origin is case.
#[derive(Clone, Debug)]
pub struct Case {
    /// The URL, in the form that clients send.
    pub url: String,
    /// The method.
    pub method: Method,
    /// The request's fields.
    pub fields: HeaderMap,
    /// The client's address.
    pub client: Option<IpAddr>,
    /// The status and fields of the origin's answer.
    pub answer: Option<(StatusCode, HeaderMap)>,
    /// The role of the client's listener; `None`: reverse if there are sites, else forward.
    pub role: Option<Role>,
}

/// The decisions on a request.
#[derive(Clone, Debug)]
pub struct Forecast {
    /// The names of the rules that apply.
    pub rules: Vec<String>,
    /// The URL for which a response is stored.
    pub url: String,
    /// The URL at each origin that may get the request; empty if none does.
    pub asks: Vec<String>,
    /// `stored`, `not-stored`, `passed`, `answered` or `refused`; `asked` if no answer of the origin is given.
    pub outcome: &'static str,
    /// The reason, as `Cache-Status` says it; `None` if the response is stored.
    pub reason: Option<&'static str>,
    /// The status of the reply, if it is known.
    pub status: Option<u16>,
    /// How long the response is fresh, in seconds, if it is stored.
    pub lifetime: Option<u32>,
    /// The fields of the request as the origin would see them, except those of the connection.
    pub sent: HeaderMap,
    /// The fields of the reply, except those of the connection.
    pub replied: HeaderMap,
}

impl DryRun {
    /// Returns a dry run of `settings`.
    pub fn new(settings: Settings) -> Self {
        let gateways = Gateways::new(GatewayFiles::default());
        let plan = Plan::new(settings, &Accounts::new(1), &gateways);
        let capacity = Capacity { by: By::Entries, amount: 1 };
        Self { plan, memory: Memory::new(capacity, &Spec::default(), 1) }
    }

    /// Returns the decisions on `case`.
    ///
    /// # Errors
    /// The reason why the request is not served, in one line.
    pub fn of(&self, case: &Case) -> Result<Forecast, String> {
        let plan = &self.plan;
        let fields = case.fields.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let (url, method) = (case.url.clone(), case.method.clone());
        let without_sites = if plan.settings.sites.is_empty() { Role::Forward } else { Role::Reverse };
        let role = case.role.unwrap_or(without_sites);
        let (target, fields) = WhyQuery { url, method, fields, role: Some(role) }.message()?;
        let lines = head::lines(&fields);
        let refused = |refusal: head::Refusal| refusal.reason.to_owned();
        let head =
            RequestHead::compose(&case.method, &target, &lines, &plan.settings.limits).map_err(refused)?;
        let client = SocketAddr::new(case.client.unwrap_or(Ipv4Addr::LOCALHOST.into()), 0);
        let asker = Requester { role, address: client, identity: None, id: None, by_peer: false };
        let request = Request::take(&head, &self.memory, plan, &asker).map_err(refused)?;
        Ok(self.decide(&request, head.framing != Framing::Length(0), case.answer.as_ref()))
    }

    fn decide(
        &self,
        request: &Request,
        has_content: bool,
        answer: Option<&(StatusCode, HeaderMap)>,
    ) -> Forecast {
        if let Some(reply) = dispatch::dry_run(&self.plan, self.https_port(), request) {
            return self.own(request, reply);
        }
        let decision = match request.route.tags() {
            Some(pools) => etag_gateway::decide(pools, request, has_content),
            None => decide(&Terms::of(request, has_content), Err(Why::Absent), clock::now()),
        };
        let passed = match decision {
            Decision::Refuse(why) => return self.own(request, refused(why)),
            Decision::Fetch(Why::Absent) => None,
            decision => Some(decision.why()),
        };
        let Some((status, fields)) = answer else {
            let outcome = if passed.is_some() { "passed" } else { "asked" };
            return Forecast { outcome, reason: passed.map(Why::token), ..self.nothing(request) };
        };
        let length = fields.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        let by_answer = request.rule_response(&self.plan, (*status, length, fields));
        let ruling = by_answer.as_ref().unwrap_or(&request.ruling);
        let fields = edited(&request.response_edits(&self.plan, ruling), *status, fields);
        let now = clock::now();
        let times = Times { requested: now, received: now, ..Times::default() };
        let judged = || storage_terms::judge(&ruling.caching, request, *status, &fields, times);
        let (outcome, reason, lifetime) = match passed {
            Some(why) => ("passed", Some(why), None),
            // A HEAD has no content to store.
            None if request.method == Method::HEAD => ("not-stored", None, None),
            None => match judged() {
                Ok(keeping) => ("stored", None, Some(keeping.lifetime())),
                Err(why) => ("not-stored", Some(why), None),
            },
        };
        let done = Outcome { stored: lifetime.is_some(), ..Outcome::forwarded(Kind::Miss, Why::Absent) };
        let mut ends = fields.clone();
        storable::remove_hop_by_hop(&mut ends);
        let mut reply = Reply { length, ..Reply::new(*status, Source::Fields(ends.into()), done) };
        if ruling.caching.compression.is_on() {
            let streams = self.plan.settings.limits.compressions > 0;
            reply.negotiated =
                coded_stream::arriving(&ruling.caching.compression, streams, &reply).negotiated;
        }
        Forecast {
            rules: self.names(&ruling.numbers, request),
            outcome,
            reason: reason.map(Why::token),
            status: Some(status.as_u16()),
            lifetime,
            replied: self.replied(request, reply),
            ..self.nothing(request)
        }
    }

    /// Returns the decisions for a reply of this proxy itself.
    fn own(&self, request: &Request, reply: Reply) -> Forecast {
        let Reply { outcome: Outcome { kind, why, .. }, status, .. } = reply;
        let outcome = if matches!(kind, Kind::Refused | Kind::Failed) { "refused" } else { "answered" };
        let (reason, status) = (Some(why.token()), Some(status.as_u16()));
        let replied = self.replied(request, reply);
        Forecast { asks: Vec::new(), outcome, reason, status, replied, ..self.nothing(request) }
    }

    /// Returns the port of the first listener where clients of sites get TLS.
    fn https_port(&self) -> Option<u16> {
        let mut listen = self.plan.settings.listen.iter();
        listen.find(|one| one.role == Role::Reverse && one.tls).map(|one| one.address.port())
    }

    fn nothing(&self, request: &Request) -> Forecast {
        Forecast {
            rules: self.names(&request.ruling.numbers, request),
            url: request.url(),
            asks: asks(request),
            outcome: "asked",
            reason: None,
            status: None,
            lifetime: None,
            sent: sent(request),
            replied: HeaderMap::new(),
        }
    }

    /// Returns the fields of `reply` as the client of `request` gets them.
    fn replied(&self, request: &Request, mut reply: Reply) -> HeaderMap {
        finish::finish(&Destination::of(0, &self.plan, request), &mut reply);
        let mut fields = HeaderMap::new();
        reply.write_edited(&mut fields);
        if let Some(length) = reply.length.filter(|_| !reply.is_bodiless()) {
            fields.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
        }
        fields
    }

    fn names(&self, numbers: &[u16], request: &Request) -> Vec<String> {
        let rulebook = request.route.rulebook(&self.plan.forward);
        rulebook.written(numbers).into_iter().map(|(rule, _)| rule.name.clone()).collect()
    }
}

fn asks(request: &Request) -> Vec<String> {
    let Some(chosen) = request_destination::of_request(request) else { return vec![request.url()] };
    let url = |turn: Turn<'_>| {
        let (path, server) =
            (chosen.path_at(turn.origin(), request), Origin { path: None, ..turn.origin().clone() });
        format!("{server}{path}")
    };
    chosen.pool.all().map(url).collect()
}

/// Returns the fields of `request` as the first of its origins sees them.
fn sent(request: &Request) -> HeaderMap {
    let mut fields = request.fields.clone();
    if let Some(credential) = request.ruling.credential.clone().filter(|_| !is_trace(&request.method)) {
        fields.insert(header::AUTHORIZATION, credential);
    }
    let own = || request.authority.clone();
    let host = request_destination::of_request(request).and_then(|chosen| {
        let turn = chosen.pool.all().next()?;
        Some(chosen.host_at(turn.origin(), request).to_owned())
    });
    if let Ok(host) = HeaderValue::try_from(host.unwrap_or_else(own)) {
        fields.insert(header::HOST, host);
    }
    fields
}
