//! A dry run of a request over the current contents of the cache: the decision on it, and the reasons. It sends no
//! request to an origin, counts no use, and changes no state.
//!
//! The request passes the checks of all requests, and the functions that decide on all requests decide on it. This
//! module only puts their results into words. It may wait for a disk, and a short time for a cluster's engine.

mod origins;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use larder_semantics::explain;
use larder_semantics::status::Why;
use larder_semantics::storable::{Rules, Times};
use larder_store::Entry;
use tokio::runtime::Handle;
use tokio::time::Instant;

use crate::base::clock;
use crate::base::explanation::{
    self, Answer, AppliedRule, Explanation, Reason, RequestEnd, SecondTier, StoredView,
};
use crate::base::outcome::{Kind, Outcome};
use crate::base::settings::{Listener, Role, SiteRule};
use crate::cluster::{peers, tier};
use crate::counts::versions;
use crate::exchange::arrival::Requester;
use crate::exchange::plan::Plan;
use crate::exchange::request::Request;
use crate::exchange::route::Route;
use crate::exchange::ruling::Ruling;
use crate::features::why_query::WhyQuery;
use crate::features::{dispatch, etag_gateway, hints, stored};
use crate::flow::decide::{self, Decision, Terms, patience_with};
use crate::flow::intercept;
use crate::flow::serve;
use crate::flow::sliced::NeededSlices;
use crate::flow::storage_terms;
use crate::flow::stored::{Mode, StoredVariants};
use crate::flow::worker::ProcessState;
use crate::http::head::{self, Framing, Refusal, RequestHead, Target};
use crate::http::names::PURGE;
use crate::observe::verdicts::{self, Verdict};

/// Reasons not to store an answer that do not follow from its fields.
const UNFORESEEABLE: [Why; 5] =
    [Why::TooLarge, Why::NotAdmitted, Why::FillBudget, Why::NotWritten, Why::OwnedElsewhere];
/// The number of recent requests that are listed.
const LAST: usize = 5;
/// How long a cluster's engine may take to return its entry.
const PATIENCE: Duration = Duration::from_secs(1);

const NO_TLS: Refusal = Refusal::misdirected(
    "no listener of a site serves https: set reverse.listen_tls and a [[tls]], or ask about http://",
);
const ONLY_TLS: Refusal = Refusal::misdirected(
    "no listener of a site serves http, only https: ask about https://, or set reverse.listen",
);

/// Explains the decision on the request in `question`. The caller is a thread of a runtime that may block. The error is
/// the reason why it is not a request, in one line.
pub fn explain(shared: &ProcessState, question: &WhyQuery) -> Result<Explanation, String> {
    let plan = shared.plan();
    let (target, fields) = question.message()?;
    let lines = head::lines(&fields);
    let head = RequestHead::compose(&question.method, &target, &lines, &plan.settings.limits);
    let roles = question.role.map_or_else(|| roles(&plan), |role| vec![role]);
    let until = Instant::now() + PATIENCE;
    let run = |role| run(shared, &plan, question, &head, role, until);
    let mut all: Vec<_> = roles.into_iter().map(run).collect();
    let tells = |what: fn(&Explanation) -> bool| all.iter().position(what);
    let best = tells(|said| said.stored.is_some())
        .or_else(|| tells(|said| said.second_tier.as_ref().is_some_and(|tier| tier.kept.is_some())))
        .or_else(|| tells(|said| said.answer.is_some()))
        .or_else(|| tells(|said| said.site.is_some()));
    let mut explained = all.swap_remove(best.unwrap_or(0));
    explained.name_table_of_rules();
    Ok(explained)
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
    shared: &ProcessState,
    plan: &Plan,
    question: &WhyQuery,
    head: &Result<RequestHead<'_>, Refusal>,
    role: Role,
    until: Instant,
) -> Explanation {
    let client = SocketAddr::from(([127, 0, 0, 1], 0));
    let memory = &shared.cache.store.memory;
    let read = match head {
        Ok(head) if is_unserved(plan, head, role, true) => Err(NO_TLS),
        Ok(head) if is_unserved(plan, head, role, false) => Err(ONLY_TLS),
        Ok(head) => {
            let has_content = head.framing != Framing::Length(0);
            let asker = Requester { role, address: client, identity: None, id: None, by_peer: false };
            Request::take(head, memory, plan, &asker).map(|request| {
                (request, Request::take_without_rules(head, memory, plan, &asker).ok(), has_content)
            })
        }
        Err(refusal) => Err(*refusal),
    };
    let nothing = Explanation {
        url: question.url.clone(),
        method: question.method.to_string(),
        role: role.name().to_owned(),
        decision: described(Decision::Refuse(Why::Refused)),
        ..Explanation::default()
    };
    match read {
        Ok((request, without, has_content)) => {
            let mut explained = Run { shared, plan, request, has_content, until }.explain(nothing);
            if let Some(request) = without.filter(|_| !explained.rules.is_empty()) {
                Run { shared, plan, request, has_content, until }.tell_without_rules(&mut explained);
            }
            explained
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
fn is_unserved(plan: &Plan, head: &RequestHead<'_>, role: Role, tls: bool) -> bool {
    let Target::Absolute { scheme, .. } = head.target else { return false };
    let takes = |listener: &Listener| listener.role == Role::Reverse && listener.tls == tls;
    role == Role::Reverse
        && (scheme == "https") == tls
        && head.method.as_str() != PURGE
        // A trusted proxy may ask for either scheme.
        && plan.settings.trust.proxies.is_empty()
        && !plan.settings.listen.iter().any(takes)
        && (tls || plan.settings.sockets.paths.is_empty())
}

/// Returns the parts of a decision by their names.
fn described(decision: Decision) -> explanation::Decision {
    explanation::Decision {
        outcome: decision.kind().word().to_owned(),
        reason: Reason::of(decision.why()),
        asks_origin: decision.asks_origin(),
        validates: matches!(decision, Decision::Revalidate(_)),
        refreshes: decision == Decision::StaleAndRefresh,
    }
}

/// A dry run of one request.
struct Run<'r> {
    shared: &'r ProcessState,
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
        let decision = self.decide(|now| held.selected(request, now));
        let slices = self.slices(&held, decision);
        let decision = match slices.as_ref().and_then(|slices| slices.why) {
            None => decision,
            Some(why @ Why::RangeAbsent) => Decision::Fetch(why),
            Some(why) => Decision::Refuse(why),
        };
        let second_tier = self.second_tier(&held, decision);
        let verdict = self.shared.observers.verdicts.of(hash);
        let ruling = self.ruling(&held, verdict.as_ref());
        let rules = ruling.caching();
        let owner =
            self.owner(rules, decision).filter(|_| second_tier.as_ref().is_none_or(|tier| !tier.answers));
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
            troubles: self.troubles(),
            rules: self.applied(&ruling),
            hints: self.hints(&held, slices, decision, shown),
            decision: match decision {
                _ if second_tier.as_ref().is_some_and(|tier| tier.answers) => {
                    self.describe(Decision::Hit(Why::Fresh))
                }
                asks if asks.asks_origin() && self.is_forbidden() => {
                    self.describe(Decision::Refuse(Why::OriginForbidden))
                }
                asks if asks.asks_origin() && self.may_fail_over(&held, shown) => {
                    let explanation::Decision { asks_origin, validates, .. } = self.describe(asks);
                    let stands_in = self.describe(Decision::Hit(Why::StaleIfError));
                    explanation::Decision { asks_origin, validates, ..stands_in }
                }
                decision => self.describe(decision),
            },
            stored: held.entry.as_ref().map(|entry| {
                let freshness = entry.freshness();
                let told =
                    stored::describe(request, (shown, self.times(freshness.received)), entry, held.tier);
                let prefetched = self.shared.cache.prefetches.is_marked(request.hash, freshness.received);
                StoredView { prefetched, ..told }
            }),
            variants: held.resident.as_ref().map_or(0, |resident| resident.variants().len() as u64),
            owner,
            second_tier,
            answer,
            last: self.last(&nothing.url),
            ..nothing
        }
    }

    /// Returns the slices that the reply needs, if a response stored by slices answers.
    fn slices(&self, held: &StoredVariants, decision: Decision) -> Option<NeededSlices> {
        let answers = matches!(decision, Decision::Hit(_) | Decision::StaleAndRefresh);
        let entry = held.entry.as_ref().filter(|_| answers)?;
        NeededSlices::look(&self.shared.cache, &self.request, entry)
    }

    fn hints(
        &self,
        held: &StoredVariants,
        slices: Option<NeededSlices>,
        decision: Decision,
        rules: &Rules,
    ) -> Vec<String> {
        let (request, entry) = (&self.request, held.entry.as_ref());
        let limit =
            entry.and_then(|entry| patience_with(rules, request, entry, decision.why(), clock::now()));
        let slow = limit.map(|limit| {
            format!("if the origin does not answer within {limit:?}, the stale response does (stale_if_slow)")
        });
        let missing = slices.filter(|slices| slices.stored < slices.all).map(|NeededSlices { stored, all, .. }| {
            format!("{stored} of the {all} slices that the reply needs are stored; the others come from the origin")
        });
        hints::of(&request.route, entry).into_iter().chain(slow).chain(missing).chain(self.unseen()).collect()
    }

    /// Tells why clients of the forward proxy reach the host in tunnels, if they do.
    fn unseen(&self) -> Option<String> {
        let (interceptor, request) = (self.shared.interceptor.get(), &self.request);
        let is_tunnelled = request.scheme == "https" && matches!(request.route, Route::Anywhere);
        let why = is_tunnelled.then(|| intercept::passes_unseen(interceptor, self.plan, request))??;
        let because = match why {
            Why::Method => "hosts of [intercept] do not include it, or never does",
            why => why.explanation(),
        };
        Some(format!("tunnels to this host are not read, so that nothing in them is cached: {because}"))
    }

    /// Returns the ruling on the request and on the response that is stored, or the last one that was not stored.
    fn ruling(&self, held: &StoredVariants, verdict: Option<&Verdict>) -> Arc<Ruling> {
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

    /// Returns what the flow would find, without counting a use.
    fn look(&self) -> StoredVariants {
        Handle::current().block_on(StoredVariants::look(&self.shared.cache, &self.request, Mode::DryRun))
    }

    /// Returns the node of the cluster that gets the request before an origin.
    fn owner(&self, rules: Option<&Rules>, decision: Decision) -> Option<String> {
        let (cluster, request) = (self.shared.cluster.as_deref(), &self.request);
        let is_marked = self.shared.cache.hit_for_miss.marked(request.hash, clock::now());
        let may_ask = decision.kind() == Kind::Miss || matches!(decision, Decision::Refuse(_));
        let is_asked = may_ask
            && !request.by_peer
            && !is_marked
            && rules.is_some_and(|rules| serve::asks_peers(cluster, rules, request));
        cluster.filter(|_| is_asked).and_then(|cluster| peers::owner(cluster, &request.key))
    }

    /// Describes the entry of the cluster's engine, which answers if nothing is stored on this node.
    fn second_tier(&self, held: &StoredVariants, decision: Decision) -> Option<SecondTier> {
        let (cluster, request) = (self.shared.cluster.as_deref()?, &self.request);
        let may_be_shared = request.method == Method::GET
            && decision.kind() == Kind::Miss
            && !serve::goes_alone(&self.shared.cache, request);
        let passed_by = match &held.entry {
            Some(_) => Some("the response stored here is used first"),
            None if may_be_shared => None,
            None => Some("only misses that other clients may share are looked up there"),
        };
        Handle::current().block_on(tier::explain::look(cluster, request, passed_by, self.until))
    }

    /// Adds the decision if there were no rules, for which this is the request: without them, some responses would not be
    /// stored, and others would have another lifetime.
    fn tell_without_rules(&self, explained: &mut Explanation) {
        let (held, request) = (self.look(), &self.request);
        let kept = held.entry.as_ref().map(|entry| {
            let times = self.times(entry.freshness().received);
            let rules = request.ruling.caching().ok_or(Why::Bypass)?;
            storage_terms::judge(rules, request, entry.status(), &entry.fields(), times)
        });
        if let (Some(stored), Some(Err(_))) = (&mut explained.stored, &kept) {
            stored.only_by_rules = true;
        }
        let selected = |now| {
            let stored = held.selected(request, now)?;
            kept.map_or(Ok(stored), |kept| Ok(stored.kept_as(&kept?)))
        };
        explained.without_rules = Some(self.describe(self.decide(selected)));
    }

    /// Returns the decision, given the response that the request selects at this moment (UNIX seconds).
    fn decide(&self, selected: impl FnOnce(u32) -> Result<decide::StoredResponse, Why>) -> Decision {
        let request = &self.request;
        if let Some(reply) = dispatch::dry_run(self.plan, self.shared.https_port(), request) {
            let Outcome { kind, why, .. } = reply.outcome;
            return if kind == Kind::Pass { Decision::Own(why) } else { Decision::Refuse(why) };
        }
        match request.route.tags() {
            Some(pools) => etag_gateway::decide(pools, request, self.has_content),
            None => {
                let now = clock::now();
                decide::decide(&Terms::of(request, self.has_content), selected(now), now)
            }
        }
    }

    fn describe(&self, decision: Decision) -> explanation::Decision {
        let described = described(decision);
        let refreshes = described.refreshes && serve::refreshes(self.plan, &self.request);
        explanation::Decision { refreshes, ..described }
    }

    /// Returns the times of an answer that was received at `received`.
    fn times(&self, received: u32) -> Times {
        let history = self.shared.cache.histories.of(self.request.hash);
        Times { requested: received, received, history, ..Times::default() }
    }

    fn last(&self, url: &str) -> Vec<RequestEnd> {
        let (key, mut last) = (self.request.logged_url(), Vec::new());
        let url = self.plan.settings.statistics.query.kept(url);
        self.shared.observers.watch.last(|seen| {
            let target = seen.memo.target();
            if target == url || target == key {
                let outcome = seen.ended.outcome;
                last.push(RequestEnd {
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
                ledger.latest([url, &key], LAST).into_iter().map(RequestEnd::of).collect()
            }
            _ => last,
        }
    }

    /// Returns the explanation of why a response is not stored.
    fn reason(&self, why: Why) -> Reason {
        let reason = Reason::of(why);
        match self.plan.settings.memory.policy.filter() {
            Some(filter) if why == Why::NotAdmitted => Reason {
                explanation: format!("the admission filter '{filter}' did not admit the response to memory"),
                ..reason
            },
            _ => reason,
        }
    }

    fn stored_answer(&self, rules: &Rules, entry: &Entry) -> Answer {
        let fields = verdicts::relevant(&entry.fields(), &rules.targeted);
        self.answer(rules, entry.freshness().received, Some(entry.status()), &fields, None)
    }

    fn refused_answer(&self, rules: &Rules, verdict: &Verdict) -> Answer {
        let Verdict { time, why, status, fields } = verdict;
        let fields = verdicts::relevant(fields, &rules.targeted);
        self.answer(rules, *time, *status, &fields, Some(*why))
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
            Some(status) => storage_terms::judge(rules, &self.request, status, fields, times).err(),
            None => why,
        };
        // Its fields do not tell its size, for example.
        let why_not = judged.or(why.filter(|why| UNFORESEEABLE.contains(why)));
        let shown = |(name, value): (&HeaderName, &HeaderValue)| {
            (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let notes = explain::notes(rules, fields).into_iter();
        Answer {
            time,
            status: status.map(|status| status.as_u16()),
            fields: fields.iter().map(shown).collect(),
            storable: why_not.is_none(),
            why_not: why_not.map(|why| self.reason(why)),
            notes: notes.map(|note| (note.about, note.text.to_owned())).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_words() {
        let decisions = [
            Decision::Refuse,
            Decision::Own,
            Decision::Hit,
            Decision::Revalidate,
            Decision::Fetch,
            Decision::Pass,
        ];
        for why in Why::ALL {
            for decision in decisions.map(|decision| decision(*why)) {
                let explanation::Decision { outcome, reason, .. } = described(decision);
                assert_eq!((&*outcome, &*reason.reason), (decision.kind().word(), why.token()));
                assert!(!reason.section.is_empty() && !reason.explanation.is_empty(), "{why:?}");
            }
        }
    }
}
