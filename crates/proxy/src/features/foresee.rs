//! What a config makes of a request and of an origin's answer to it, without sockets and with nothing stored: for tests that
//! users write for their rules. Each step is the function that serves requests.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use http::{HeaderMap, Method, StatusCode};
use larder_evict::{By, Capacity, Spec};
use larder_semantics::fields::HeadLines;
use larder_semantics::status::Why;
use larder_semantics::storable::Times;
use larder_store::Memory;
use larder_store::lines::write_line;

use crate::base::clock;
use crate::base::settings::{Origin, Role, Settings};
use crate::counts::accounts::Accounts;
use crate::exchange::arrival::Asker;
use crate::exchange::chosen;
use crate::exchange::gateways::Gateways;
use crate::exchange::pages;
use crate::exchange::plan::Plan;
use crate::exchange::reply::Reply;
use crate::exchange::request::Request;
use crate::exchange::settled::Settled;
use crate::features::question::Question;
use crate::features::rules;
use crate::flow::{fetch, serve};
use crate::http::head::{self, Framing, Parsed};
use crate::origin::Turn;

/// A config that is asked what it would do.
pub struct Foresight {
    plan: Plan,
    /// Makes keys into hashes, and holds nothing.
    memory: Memory,
}

/// A request, and the answer of the origin if it is asked.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The URL, as clients write it.
    pub url: String,
    /// The method.
    pub method: Method,
    /// The request's fields.
    pub fields: HeaderMap,
    /// The client's address.
    pub client: Option<IpAddr>,
    /// The status and fields of the origin's answer.
    pub answer: Option<(StatusCode, HeaderMap)>,
}

/// What would be done.
#[derive(Clone, Debug)]
pub struct Foreseen {
    /// The rules that hold, by their names.
    pub rules: Vec<String>,
    /// The URL that a response is stored for.
    pub url: String,
    /// The URLs that one of the origins is asked for: one for each origin; none where none is asked.
    pub asks: Vec<String>,
    /// `stored`, `not-stored`, `passed`, `answered` or `refused`; `asked` if no answer of the origin is given.
    pub outcome: &'static str,
    /// Why, as `Cache-Status` says it; none if it is stored.
    pub reason: Option<&'static str>,
    /// The status of the reply, if it is known.
    pub status: Option<u16>,
    /// How long the response is fresh, in seconds, if it is stored.
    pub lifetime: Option<u32>,
    /// The fields of the request as the origin would see them, but for those of the connection.
    pub sent: HeaderMap,
    /// The fields of the reply, but for those of the connection.
    pub replied: HeaderMap,
}

impl Foresight {
    /// What `settings` would do.
    pub fn new(settings: Settings) -> Self {
        let gateways = Gateways::new(Settled::default());
        let plan = Plan::new(settings, &Accounts::new(1), &gateways);
        let capacity = Capacity { by: By::Entries, amount: 1 };
        Self { plan, memory: Memory::new(capacity, &Spec::default(), 1) }
    }

    /// What would become of `asked`.
    ///
    /// # Errors
    /// Why it is no request that is served, in one line.
    pub fn of(&self, asked: &Asked) -> Result<Foreseen, String> {
        let plan = &self.plan;
        let fields = asked.fields.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
        let (url, method) = (asked.url.clone(), asked.method.clone());
        let text = Question { url, method, fields, role: None }.text()?;
        let mut lines = head::room();
        let refused = |refusal: head::Refusal| refusal.reason.to_owned();
        let parsed = head::parse(text.as_bytes(), &mut lines, &plan.settings.limits).map_err(refused)?;
        let Parsed::Whole(head, _) = parsed else { return Err("this is no whole request".to_owned()) };
        let role = if plan.settings.sites.is_empty() { Role::Forward } else { Role::Reverse };
        let client = SocketAddr::new(asked.client.unwrap_or(Ipv4Addr::LOCALHOST.into()), 0);
        let asker = Asker { role, address: client, identity: None, by_peer: false };
        let request = Request::take(&head, &self.memory, plan, &asker).map_err(refused)?;
        Ok(self.decide(&request, head.framing != Framing::Length(0), asked.answer.as_ref()))
    }

    fn decide(
        &self,
        request: &Request,
        has_content: bool,
        answer: Option<&(StatusCode, HeaderMap)>,
    ) -> Foreseen {
        if let Some(reply) = rules::foresee_refusal(request) {
            return self.own(request, "refused", &reply);
        }
        if let Some(reply) = rules::answer(&self.plan, request) {
            return self.own(request, "answered", &reply);
        }
        let passed = match request.ruling.caching() {
            None => Some(Why::Bypass),
            Some(_) => serve::passes(request, has_content),
        };
        let Some((status, fields)) = answer else {
            let outcome = if passed.is_some() { "passed" } else { "asked" };
            return Foreseen { outcome, reason: passed.map(Why::token), ..self.nothing(request) };
        };
        let ruling = request.rule_response(&self.plan, (*status, None, fields));
        let fields = ruling.response.applied(*status, fields);
        let now = clock::now();
        let times = Times { requested: now, received: now, by_age: false };
        let judged =
            passed.map_or_else(|| fetch::judge(&ruling.caching, request, *status, &fields, times), Err);
        let (outcome, reason, lifetime) = match (passed, &judged) {
            (Some(why), _) => ("passed", Some(why.token()), None),
            (None, Ok(keeping)) => ("stored", None, Some(keeping.lifetime())),
            (None, Err(why)) => ("not-stored", Some(why.token()), None),
        };
        let replied = replied(request, *status, fields);
        let rules = self.names(&ruling.numbers, request);
        let status = Some(status.as_u16());
        Foreseen { rules, outcome, reason, status, lifetime, replied, ..self.nothing(request) }
    }

    /// A reply of our own.
    fn own(&self, request: &Request, outcome: &'static str, reply: &Reply) -> Foreseen {
        let replied = match pages::applies(request, reply) {
            true => replied(request, reply.status, pages::fields(reply)),
            false => edited(request, reply.status, pages::fields(reply)),
        };
        let (reason, status) = (Some(reply.outcome.why.token()), Some(reply.status.as_u16()));
        Foreseen { asks: Vec::new(), outcome, reason, status, replied, ..self.nothing(request) }
    }

    fn nothing(&self, request: &Request) -> Foreseen {
        Foreseen {
            rules: self.names(&request.ruling.numbers, request),
            url: request.url(),
            asks: asks(request),
            outcome: "asked",
            reason: None,
            status: None,
            lifetime: None,
            sent: request.fields.clone(),
            replied: HeaderMap::new(),
        }
    }

    fn names(&self, numbers: &[u16], request: &Request) -> Vec<String> {
        let rulebook = request.route.rulebook(&self.plan.forward);
        rulebook.written(numbers).into_iter().map(|(rule, _)| rule.name.clone()).collect()
    }
}

fn asks(request: &Request) -> Vec<String> {
    let Some(chosen) = chosen::of_request(request) else { return vec![request.url()] };
    let url = |turn: Turn<'_>| {
        let (path, server) =
            (chosen.path_at(turn.origin(), request), Origin { path: None, ..turn.origin().clone() });
        format!("{server}{path}")
    };
    chosen.pool.all().map(url).collect()
}

/// The fields of an answer of this status, as a client gets them.
fn replied(request: &Request, status: StatusCode, mut fields: HeaderMap) -> HeaderMap {
    if let Some(page) = request.ruling.pages.as_ref().and_then(|pages| pages.of(status)) {
        page.describe(&mut fields);
    }
    edited(request, status, fields)
}

fn edited(request: &Request, status: StatusCode, fields: HeaderMap) -> HeaderMap {
    match &request.ruling.reply {
        Some(edits) => edits.applied(status, &fields),
        None => fields,
    }
}

impl crate::base::settings::Edits {
    /// The fields of a response of this status after these changes.
    fn applied(&self, status: StatusCode, fields: &HeaderMap) -> HeaderMap {
        let mut lines = Vec::new();
        for (name, value) in fields {
            write_line(&mut lines, name.as_str().as_bytes(), value.as_bytes());
        }
        self.apply_behind(status, &mut lines, 0);
        HeadLines(&lines).to_map()
    }
}
