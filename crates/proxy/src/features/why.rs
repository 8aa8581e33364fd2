//! A dry run of a request over the current contents of the cache: the decision on it, and the reasons. It sends no
//! request to an origin, counts no use, and changes no state.
//!
//! The request is written as text and read by the parser of all requests, and the functions that decide on all
//! requests decide on it. This module only puts their results into words. It may wait for a disk, and a short time
//! for a cluster's engine.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use larder_semantics::explain;
use larder_semantics::freshness::Flags;
use larder_semantics::reuse::{Failure, stale_on_error};
use larder_semantics::status::Why;
use larder_semantics::storable::{Rules, Times};
use larder_store::Entry;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::base::clock;
use crate::base::explanation::{
    Answer, AppliedRule, Decision, Ended, Explanation, Reason, SecondTier, Stored,
};
use crate::base::networks::host_of;
use crate::base::outcome::Kind;
use crate::base::settings::{Listener, Role, SiteRule};
use crate::cluster::{peers, tier};
use crate::counts::versions;
use crate::exchange::arrival::Asker;
use crate::exchange::chosen;
use crate::exchange::plan::Plan;
use crate::exchange::request::Request;
use crate::exchange::route::Route;
use crate::exchange::rulebook::Ruling;
use crate::features::question::Question;
use crate::features::{dispatch, etag_gateway, hints, stored};
use crate::flow::context::passes;
use crate::flow::serve;
use crate::flow::stored::{Found, Held, find};
use crate::flow::worker::Shared;
use crate::flow::{cached_only, equivalent, keeping, pass};
use crate::http::head::{self, Framing, Head, Parsed, Refusal, Target};
use crate::http::names::PURGE;
use crate::net::guard;
use crate::observe::verdicts::{self, Verdict};
use crate::origin::Turn;

/// Reasons not to store an answer that do not follow from its fields.
const UNTOLD: [Why; 4] = [Why::TooLarge, Why::FillBudget, Why::NotWritten, Why::OwnedElsewhere];
/// The number of recent requests that are listed.
const LAST: usize = 5;
/// How long a cluster's engine may take to return its entry.
const PATIENCE: Duration = Duration::from_secs(1);

const NO_TLS: Refusal = Refusal {
    status: StatusCode::MISDIRECTED_REQUEST,
    reason: "no listener of a site serves https: set reverse.listen_tls and a [[tls]], or ask about http://",
};
const ONLY_TLS: Refusal = Refusal {
    status: StatusCode::MISDIRECTED_REQUEST,
    reason: "no listener of a site serves http, only https: ask about https://, or set reverse.listen",
};

/// Explains the decision on the request in `question`. The caller is a thread of a runtime that may block.
///
/// # Errors
/// The reason why it is not a request, in one line.
pub(crate) fn explain(shared: &Shared, question: &Question) -> Result<Explanation, String> {
    let (plan, text) = (shared.plan(), question.text()?);
    let roles = question.role.map_or_else(|| roles(&plan), |role| vec![role]);
    let until = Instant::now() + PATIENCE;
    let run = |role| run(shared, &plan, question, &text, role, until);
    let mut all: Vec<_> = roles.into_iter().map(run).collect();
    let tells = |what: fn(&Explanation) -> bool| all.iter().position(what);
    let best = tells(|said| said.stored.is_some())
        .or_else(|| tells(|said| said.second_tier.as_ref().is_some_and(|tier| tier.kept.is_some())))
        .or_else(|| tells(|said| said.answer.is_some()))
        .or_else(|| tells(|said| said.site.is_some()));
    Ok(all.swap_remove(best.unwrap_or(0)))
}

/// Returns the roles of all listeners, at least one.
fn roles(plan: &Plan) -> Vec<Role> {
    let has_forward = !plan.settings.doors.listen.is_empty();
    let listens = |role| plan.settings.listen.iter().any(|listener| listener.role == role);
    let has_reverse = !plan.settings.sockets.paths.is_empty() || listens(Role::Reverse);
    let roles = [(Role::Reverse, has_reverse), (Role::Forward, has_forward || listens(Role::Forward))];
    roles.into_iter().filter(|(_, is_there)| *is_there).map(|(role, _)| role).collect()
}

fn run(
    shared: &Shared,
    plan: &Plan,
    question: &Question,
    text: &str,
    role: Role,
    until: Instant,
) -> Explanation {
    let client = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut lines = head::room();
    let memory = &shared.cache.store.memory;
    let read = match head::parse(text.as_bytes(), &mut lines, &plan.settings.limits) {
        Ok(Parsed::Whole(head, _)) if is_unserved(plan, &head, role, true) => Err(NO_TLS),
        Ok(Parsed::Whole(head, _)) if is_unserved(plan, &head, role, false) => Err(ONLY_TLS),
        Ok(Parsed::Whole(head, _)) => {
            let has_content = head.framing != Framing::Length(0);
            let asker = Asker { role, address: client, identity: None, by_peer: false };
            let unruled = || Request::take_without_rules(&head, memory, plan, &asker).ok();
            Request::take(&head, memory, plan, &asker).map(|request| {
                let without = if request.ruling.numbers.is_empty() { None } else { unruled() };
                (request, without, has_content)
            })
        }
        Ok(Parsed::Partial) => Err(Refusal::bad("this is not a complete request")),
        Err(refusal) => Err(refusal),
    };
    let nothing = Explanation {
        url: question.url.clone(),
        method: question.method.to_string(),
        role: role.name().to_owned(),
        key: None,
        site: None,
        origins: Vec::new(),
        failing: Vec::new(),
        rules: Vec::new(),
        without_rules: None,
        hints: Vec::new(),
        decision: Decision::of(Kind::Refused, Why::Refused),
        stored: None,
        variants: 0,
        owner: None,
        second_tier: None,
        answer: None,
        last: Vec::new(),
    };
    match read {
        Ok((request, without, has_content)) => {
            let without = without.map(|request| Run { shared, plan, request, has_content, until });
            let without_rules = without.map(|run| run.decide(&run.look()));
            let explained = Run { shared, plan, request, has_content, until }.explain(nothing);
            Explanation { without_rules, ..explained }
        }
        Err(refusal) => {
            let mut decision = nothing.decision.clone();
            decision.reason.explanation = refusal.reason.to_owned();
            if refusal.status == StatusCode::MISDIRECTED_REQUEST {
                // The general help text is about limits.
                decision.reason.help.clear();
            }
            Explanation { decision, ..nothing }
        }
    }
}

/// Whether the request is for https, if `tls`, or else for http, and no listener for sites accepts such requests of
/// clients.
fn is_unserved(plan: &Plan, head: &Head<'_>, role: Role, tls: bool) -> bool {
    let Target::Absolute { scheme, .. } = head.target else { return false };
    let takes = |listener: &Listener| listener.role == Role::Reverse && listener.tls == tls;
    role == Role::Reverse
        && (scheme == "https") == tls
        && head.method.as_str() != PURGE
        // A trusted proxy may ask for either scheme.
        && plan.settings.trust.is_empty()
        && !plan.settings.listen.iter().any(takes)
        && (tls || plan.settings.sockets.paths.is_empty())
}

impl Decision {
    fn of(kind: Kind, why: Why) -> Self {
        let asks_origin = matches!(kind, Kind::Miss | Kind::Pass);
        let reason = Reason::of(why);
        Self { outcome: kind.word().to_owned(), reason, asks_origin, validates: false, refreshes: false }
    }
}

/// A dry run of one request.
struct Run<'r> {
    shared: &'r Shared,
    plan: &'r Plan,
    request: Box<Request>,
    has_content: bool,
    /// The end of the wait for the engine.
    until: Instant,
}

impl Run<'_> {
    fn explain(&self, nothing: Explanation) -> Explanation {
        let request = &self.request;
        let hash = request.hash;
        let held = self.look();
        let decision = self.decide(&held);
        let second_tier = self.second_tier(&held, &decision);
        let verdict = self.shared.observers.verdicts.of(hash);
        let ruling = self.ruling(&held, verdict.as_ref());
        let rules = ruling.caching();
        let owner =
            self.owner(rules, &decision).filter(|_| second_tier.as_ref().is_none_or(|tier| !tier.answers));
        let standard = Rules::default();
        let shown = rules.unwrap_or(&standard);
        let answer = match (&held.entry, verdict) {
            // A later refusal to store is about a newer answer of the origin.
            (Some(entry), verdict)
                if verdict.as_ref().is_none_or(|v| v.time <= entry.freshness().received) =>
            {
                Some(self.stored_answer(shown, entry))
            }
            (_, verdict) => verdict.map(|verdict| self.refused_answer(shown, &verdict)),
        };
        Explanation {
            key: Some(request.url()),
            site: Some(self.plan.sites.account(request.route.number()).site().to_string()),
            origins: self.origins(),
            failing: self.failing(),
            rules: self.applied(&ruling),
            hints: hints::of(&request.route, held.entry.as_ref()),
            decision: match decision {
                _ if second_tier.as_ref().is_some_and(|tier| tier.answers) => {
                    Decision::of(Kind::Hit, Why::Fresh)
                }
                decision if decision.asks_origin && self.is_forbidden() => {
                    Decision::of(Kind::Failed, Why::OriginForbidden)
                }
                decision if decision.asks_origin && self.may_fail_over(&held, shown) => {
                    let (asks_origin, validates) = (true, decision.validates);
                    let stands_in = Decision::of(Kind::StaleHit, Why::StaleIfError);
                    Decision { asks_origin, validates, ..stands_in }
                }
                decision => decision,
            },
            stored: held.entry.as_ref().map(|entry| {
                let freshness = entry.freshness();
                let told = stored::told(request, (shown, self.times(freshness.received)), entry, held.tier);
                let prefetched = self.shared.cache.prefetches.is_marked(request.hash, freshness.received);
                Stored { prefetched, ..told }
            }),
            variants: held.resident.as_ref().map_or(0, |resident| resident.variants().len() as u64),
            owner,
            second_tier,
            answer,
            last: self.last(&nothing.url),
            ..nothing
        }
    }

    /// Returns the ruling on the request and on the response that is stored, or the last one that was not stored.
    fn ruling(&self, held: &Held, verdict: Option<&Verdict>) -> Arc<Ruling> {
        let request = &self.request;
        let by_answer = match (&held.entry, verdict) {
            (Some(entry), _) => {
                let answer = (entry.status(), Some(entry.body().len()), &entry.fields());
                request.rule_response(self.plan, answer)
            }
            (None, Some(Verdict { status: Some(status), fields, .. })) => {
                request.rule_response(self.plan, (*status, None, fields))
            }
            _ => None,
        };
        by_answer.unwrap_or_else(|| Arc::clone(&request.ruling))
    }

    fn applied(&self, ruling: &Ruling) -> Vec<AppliedRule> {
        let rulebook = self.request.route.rulebook(&self.plan.forward);
        let applied = |(rule, keys): (&SiteRule, Vec<&str>)| AppliedRule {
            name: rule.name.clone(),
            place: rule.place.clone(),
            sets: keys.into_iter().map(str::to_owned).collect(),
        };
        rulebook.written(&ruling.numbers).into_iter().map(applied).collect()
    }

    /// Returns the entry that the flow would find, without counting a use.
    fn look(&self) -> Held {
        let (cache, request) = (&self.shared.cache, &self.request);
        let held = Held::explain(cache, &request.key, request);
        match held.entry {
            Some(_) => held,
            None => equivalent::look_only(cache, request).unwrap_or(held),
        }
    }

    /// Returns the node of the cluster that is asked before an origin.
    fn owner(&self, rules: Option<&Rules>, decision: &Decision) -> Option<String> {
        let (cluster, request) = (self.shared.cluster.as_deref(), &self.request);
        let is_marked = self.shared.cache.hit_for_miss.marked(request.hash, clock::now());
        let is_asked = decision.outcome == Kind::Miss.word()
            && !is_marked
            && rules.is_some_and(|rules| serve::asks_peers(cluster, rules, request));
        cluster.filter(|_| is_asked).and_then(|cluster| peers::owner(cluster, &request.key))
    }

    /// Describes the entry of the cluster's engine, which answers if nothing is stored on this node.
    fn second_tier(&self, held: &Held, decision: &Decision) -> Option<SecondTier> {
        let (cluster, request) = (self.shared.cluster.as_deref()?, &self.request);
        let may_be_shared = request.method == Method::GET
            && decision.outcome == Kind::Miss.word()
            && !serve::goes_alone(&self.shared.cache, request);
        let passed_by = match &held.entry {
            Some(_) => Some("the response stored here is used first"),
            None if may_be_shared => None,
            None => Some("only misses that other clients may share are looked up there"),
        };
        Handle::current().block_on(tier::explain::look(cluster, request, passed_by, self.until))
    }

    fn decide(&self, held: &Held) -> Decision {
        let request = &self.request;
        if let Some(reply) = dispatch::foresee(self.plan, self.shared.https_port(), request) {
            let decision = Decision::of(reply.outcome.kind, reply.outcome.why);
            return Decision { asks_origin: false, ..decision };
        }
        if let Some(pools) = request.route.tags() {
            let (kind, why) = etag_gateway::foresee(pools, request, self.has_content);
            return if kind == Kind::Hit { Decision::of(kind, why) } else { self.asks(kind, why) };
        }
        if request.ruling.caching().is_none() {
            return self.asks(Kind::Pass, Why::Bypass);
        }
        if let Some(why) = passes(request, self.has_content) {
            return self.asks(Kind::Pass, why);
        }
        match find(request, held) {
            Found::Reply(reply) => Decision::of(reply.outcome.kind, reply.outcome.why),
            Found::ReplyAndRefresh(reply, _) => {
                let decision = Decision::of(reply.outcome.kind, reply.outcome.why);
                Decision { refreshes: serve::refreshes(self.plan, request), ..decision }
            }
            Found::Ask(..) if request.asked.only_if_cached => Decision::of(Kind::Failed, Why::OnlyIfCached),
            Found::Ask(why, _) if cached_only::declines(request) => self.asks(Kind::Miss, why),
            Found::Ask(why, stored) => {
                let may_be_validated = |entry: &Entry| {
                    entry.freshness().flags.contains(Flags::VALIDATOR)
                        && entry.status() != StatusCode::PARTIAL_CONTENT
                };
                let validates = request.method == Method::GET
                    && stored
                        .as_ref()
                        .filter(|entry| *entry.key() == *request.key)
                        .is_some_and(may_be_validated);
                Decision { validates, ..Decision::of(Kind::Miss, why) }
            }
        }
    }

    /// Returns the decision to ask an origin, or the refusal if no origin may be asked for a prefetch.
    fn asks(&self, kind: Kind, why: Why) -> Decision {
        match cached_only::declines(&self.request) {
            true => Decision::of(Kind::Refused, Why::PrefetchNotStored),
            false => Decision::of(kind, why),
        }
    }

    /// Returns the times of an answer that was received at `received`.
    fn times(&self, received: u32) -> Times {
        let history = self.shared.cache.histories.of(self.request.hash);
        Times { requested: received, received, history, ..Times::default() }
    }

    fn last(&self, url: &str) -> Vec<Ended> {
        let (key, mut last) = (self.request.logged_url(), Vec::new());
        let url = self.plan.settings.statistics.query.kept(url);
        self.shared.observers.watch.last(|seen| {
            let target = seen.memo.target();
            if target == url || target == key {
                let outcome = seen.ended.outcome;
                last.push(Ended {
                    ago: seen.memo.elapsed().as_secs(),
                    method: seen.memo.method().to_string(),
                    http_version: seen.memo.version.map(|version| versions::name(version).to_owned()),
                    status: seen.ended.status,
                    outcome: outcome.kind.word().to_owned(),
                    reason: outcome.why.token().to_owned(),
                });
            }
            last.len() < LAST
        });
        match &self.shared.observers.ledger {
            Some(ledger) if last.is_empty() => {
                ledger.latest([url, &key], LAST).into_iter().map(Ended::of).collect()
            }
            _ => last,
        }
    }

    /// Whether the URL names an address or a port that clients of the forward proxy must not reach. The address of a
    /// name is known only when the name is resolved.
    fn is_forbidden(&self) -> bool {
        if pass::refuse_port(self.plan, &self.request).is_some() {
            return true;
        }
        let host = host_of(&self.request.authority).trim_matches(['[', ']']);
        matches!(self.request.route, Route::Anywhere)
            && !self.plan.settings.forward.allow_private
            && host.parse::<IpAddr>().is_ok_and(|address| !guard::is_public(address))
    }

    fn origins(&self) -> Vec<String> {
        let all = chosen::of_request(&self.request)
            .map(|chosen| chosen.pool.all().map(|turn| turn.origin().to_string()).collect());
        all.unwrap_or_else(|| vec![format!("{}://{}", self.request.scheme, self.request.authority)])
    }

    /// Returns the origins of a site that did not answer when they were last asked.
    fn failing(&self) -> Vec<String> {
        let all = chosen::of_request(&self.request).into_iter().flat_map(|chosen| chosen.pool.all());
        all.filter(Turn::is_failing).map(|turn| turn.origin().to_string()).collect()
    }

    /// Whether no origin is likely to answer, and a stored response may be used then.
    fn may_fail_over(&self, held: &Held, rules: &Rules) -> bool {
        let Some(chosen) = chosen::of_request(&self.request) else { return false };
        let stands_in = |entry: &Entry| {
            let freshness = self.request.freshness(entry);
            stale_on_error(&freshness, &self.request.asked, rules, clock::now(), Failure::Unreachable)
        };
        matches!(self.request.method, Method::GET | Method::HEAD)
            && chosen.pool.all().all(|turn| turn.is_failing())
            && held.entry.as_ref().is_some_and(stands_in)
    }

    fn stored_answer(&self, rules: &Rules, entry: &Entry) -> Answer {
        let fields = verdicts::relevant(&entry.fields(), &rules.targeted);
        self.answer(rules, entry.freshness().received, Some(entry.status()), &fields, None)
    }

    fn refused_answer(&self, rules: &Rules, verdict: &Verdict) -> Answer {
        let Verdict { time, why, status, fields } = verdict;
        self.answer(rules, *time, *status, fields, Some(*why))
    }

    fn answer(
        &self,
        rules: &Rules,
        time: u32,
        status: Option<StatusCode>,
        fields: &HeaderMap,
        why: Option<Why>,
    ) -> Answer {
        let times = self.times(time);
        let judged = match status {
            Some(status) => keeping::judge(rules, &self.request, status, fields, times).err(),
            None => why,
        };
        // Its fields do not tell its size, for example.
        let why_not = judged.or(why.filter(|why| UNTOLD.contains(why)));
        let shown = |(name, value): (&HeaderName, &HeaderValue)| {
            (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let notes = explain::notes(rules, fields).into_iter();
        Answer {
            time,
            status: status.map(|status| status.as_u16()),
            fields: fields.iter().map(shown).collect(),
            storable: why_not.is_none(),
            why_not: why_not.map(Reason::of),
            notes: notes.map(|note| (note.about, note.text.to_owned())).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_words() {
        for why in Why::ALL {
            for kind in Kind::ALL {
                let Decision { outcome, reason, .. } = Decision::of(kind, *why);
                assert_eq!((outcome.as_str(), reason.reason.as_str()), (kind.word(), why.token()));
                assert!(!reason.section.is_empty() && !reason.explanation.is_empty(), "{why:?}");
            }
        }
    }
}
