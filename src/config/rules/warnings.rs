//! Rules that are valid, but most likely a mistake.

use std::collections::BTreeSet;
use std::iter;
use std::time::{SystemTime, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, header};
use larder_proxy::Settings;
use larder_proxy::settings::{
    Answer, Conditions, Effects, IgnoredDirectives, Limit, LimitBy, Names, Pattern, Placeholder, Query, Role,
    Rule, RuleSet, Site, SiteRule,
};
use larder_semantics::directives::ResponseDirectives;

use super::settle::{patterns, templates, urls};
use super::values::template;

/// Returns warnings about rules that never hold, and about those that break assumptions of origins, one line each.
pub(crate) fn warnings(settings: &Settings) -> Vec<String> {
    let of_site = |site: &Site| {
        let own =
            site.site_rules.iter().filter_map(|rule| Some((rule, elsewhere(site, &rule.rule.conditions)?)));
        let is_elsewhere = |(rule, _): &(&SiteRule, _)| !is_for_another(settings, rule);
        let own = own.filter(is_elsewhere).map(|(rule, why)| never(&rule.place, &why));
        own.chain(of_rules(&site.site_rules, site.rules.stores_posts)).collect::<Vec<_>>()
    };
    let all = settings.sites.iter().flat_map(|site| &site.site_rules).chain(&settings.forward.site_rules);
    let has_id = |rule: &&SiteRule| {
        templates(&rule.effects).any(|own| own.placeholders().any(|own| *own == Placeholder::Id))
    };
    let nameless = all.filter(|_| settings.request_id.is_none()).filter(has_id);
    let nameless = nameless.map(|rule| {
        format!("{}: {{id}} is empty without request_id, such as request_id = \"X-Request-Id\"", rule.place)
    });
    let sites = settings.sites.iter().flat_map(of_site).chain(nameless);
    let forward = of_rules(&settings.forward.site_rules, settings.forward.rules.stores_posts);
    let mut warnings: Vec<_> = sites.chain(forward).chain(without_certificates(settings)).collect();
    // A [[rule]] is one of each site.
    let mut seen = BTreeSet::new();
    warnings.retain(|line| seen.insert(line.clone()));
    warnings
}

/// Whether another site that has `rule`, too, gets requests that match it.
fn is_for_another(settings: &Settings, rule: &SiteRule) -> bool {
    let is_for = |site: &Site| elsewhere(site, &rule.rule.conditions).is_none();
    let has = |site: &Site| site.site_rules.iter().any(|own| own.place == rule.place);
    settings.sites.iter().any(|site| is_for(site) && has(site))
}

/// Returns the warnings about conditions on certificates that listeners do not request.
fn without_certificates(settings: &Settings) -> Vec<String> {
    let of_sites = settings.sites.iter().flat_map(|site| &site.site_rules).map(|rule| (rule, Role::Reverse));
    let of_forward = settings.forward.site_rules.iter().map(|rule| (rule, Role::Forward));
    let is_about = |conditions: &Conditions| conditions.client_cert.is_some();
    let lacks = |(rule, role): &(&SiteRule, Role)| {
        let conditions = &rule.rule.conditions;
        (is_about(conditions) || conditions.not.iter().any(is_about))
            && settings.client_auth.of(*role).is_none()
    };
    let warning = |(rule, role): (&SiteRule, Role)| {
        let table = if role == Role::Reverse { "reverse" } else { "forward" };
        format!(
            "{}: match.client_cert: no client shows a certificate without client_ca in [{table}], with client_auth = \"request\" if only some need one",
            rule.place
        )
    };
    let mut warnings: Vec<_> = of_sites.chain(of_forward).filter(lacks).map(warning).collect();
    warnings.dedup();
    warnings
}

fn never(place: &str, why: &str) -> String {
    format!("{place}: the rule never holds: {why}")
}

/// Returns the reason why requests that match these conditions go to other sites, as far as it can be found easily.
fn elsewhere(site: &Site, conditions: &Conditions) -> Option<String> {
    let may_be_host = |host: &Pattern| match host.literal() {
        (name, true) => site.is_for(name),
        _ => true,
    };
    if let Some(host) = conditions.host.first().filter(|_| !conditions.host.iter().any(may_be_host)) {
        return Some(format!("its site is not for the host '{host}'"));
    }
    let prefix = site.path.to_string();
    let may_be_path = |path: &Pattern| match path.literal() {
        (text, true) => site.path.rest(text).is_some(),
        (text, false) => site.path.is_root() || text.starts_with(&prefix) || prefix.starts_with(text),
    };
    let path = conditions.path.first().filter(|_| !conditions.path.iter().any(may_be_path))?;
    Some(format!("its site is for paths below {prefix}, and not for '{path}'"))
}

fn of_rules(rules: &[SiteRule], stores_posts: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    let set = RuleSet::new(rules.iter().map(|rule| rule.rule.clone()).collect());
    for (later, earlier) in set.unreachable() {
        let (place, other) = (&rules[later].place, &rules[earlier].place);
        warnings.push(never(place, &format!("the one at {other} takes its requests, with stop = true")));
    }
    for SiteRule { place, rule, effects, .. } in rules {
        if let Some(why) = rule.conditions.contradiction() {
            warnings.push(never(place, &why));
        }
        if rule.conditions.moments.are_over(now()) {
            warnings.push(never(place, "match.until is over"));
        }
        warnings
            .extend(doubts(rule, effects, stores_posts).into_iter().map(|doubt| format!("{place}: {doubt}")));
        warnings.extend(shared_tags(effects, rules).map(|doubt| format!("{place}: {doubt}")));
        warnings.extend(class_in_match(rule, effects, rules).map(|doubt| format!("{place}: {doubt}")));
        warnings.extend(shared_client(effects, rules).map(|doubt| format!("{place}: {doubt}")));
        warnings.extend(no_user(effects, rules).map(|doubt| format!("{place}: {doubt}")));
        let harms = IGNORED.iter().filter(|(is_set, _)| effects.ignore.as_ref().is_some_and(is_set));
        warnings.extend(harms.map(|(_, harm)| format!("{place}: ignore = {harm}")));
    }
    // One rule of the config may become several rules.
    warnings.dedup();
    warnings
}

/// Returns the time in UNIX seconds.
fn now() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs().try_into().unwrap_or(u32::MAX)
}

/// Returns the doubts about tags by a field or cookie for which no separate responses are stored.
fn shared_tags<'e>(effects: &'e Effects, rules: &'e [SiteRule]) -> impl Iterator<Item = String> + 'e {
    let is_apart = |name: &str| rules.iter().any(|rule| rule.effects.apart.iter().any(|own| own == name));
    let tags = effects.response.add.iter().filter_map(|(_, value)| template(value));
    let names = tags.flat_map(|tag| tag.placeholders().cloned().collect::<Vec<_>>());
    names.filter_map(move |own| match own {
        Placeholder::Field(name) if !is_apart(name.as_str()) => Some(format!(
            "tags: {{field:{name}}} names only the request that fetched the response: key_fields = \"{name}\" stores one for each value"
        )),
        Placeholder::Cookie(name) if !is_apart(&format!("cookie:{name}")) => Some(format!(
            "tags: {{cookie:{name}}} names only the request that fetched the response: key_cookies = \"{name}\" stores one for each value"
        )),
        _ => None,
    })
}

/// Returns the doubt about a condition on a field that `classes` write: rules see the one that clients send.
fn class_in_match(rule: &Rule, effects: &Effects, rules: &[SiteRule]) -> Option<String> {
    let is_class = |name: &str, own: &Effects| {
        let is_written =
            own.request.set.iter().any(|(own, _)| own == name) || own.request.removes(name.as_bytes());
        is_written && own.apart.iter().any(|own| own == name)
    };
    let is_written = |name: &str| rules.iter().any(|rule| is_class(name, &rule.effects));
    let each =
        iter::once(&rule.conditions).chain(&rule.conditions.not).filter(|_| !effects.redirect_to_origins());
    let named = each.flat_map(|own| &own.field.each).find(|named| is_written(&named.name))?;
    Some(format!(
        "match.field = \"{}\" is about what clients send, and not about their class, which only rules with origin, rewrite and host see: \
         write the condition of the class",
        named.name
    ))
}

/// Returns the doubt about a request field with the client's address, for whose values no separate responses are stored.
fn shared_client(effects: &Effects, rules: &[SiteRule]) -> Option<String> {
    let is_apart = |name: &HeaderName| {
        rules.iter().any(|rule| rule.effects.apart.iter().any(|own| own == name.as_str()))
    };
    let has_client =
        |value| template(value).is_some_and(|own| own.placeholders().any(|own| *own == Placeholder::Client));
    let mut lines = effects.request.written_lines().filter(|_| effects.cache != Some(false));
    let (name, _) = lines.find(|(name, value)| has_client(value) && !is_apart(name))?;
    Some(format!(
        "request: {{client}} in '{name}' is for logs: all clients get the response that is stored for one; if it depends on the field, \
         key_fields = \"{name}\" stores one for each"
    ))
}

/// Returns the doubt about `user_field` where users have no names.
fn no_user(effects: &Effects, rules: &[SiteRule]) -> Option<&'static str> {
    effects.user_field.as_ref()?;
    let (mut has_credentials, mut lacks_names) = (false, false);
    for own in rules.iter().map(|rule| &rule.effects) {
        let tokens = own.tokens.iter().flatten().next();
        has_credentials |= tokens.is_some() || own.users.as_ref().is_some_and(Option::is_some);
        lacks_names |= tokens.is_some_and(|tokens| tokens.lack_names());
    }
    match has_credentials {
        false => Some(
            "user_field has no effect: no rule of the site has users or tokens, from which the name comes",
        ),
        true => lacks_names.then_some(
            "user_field is empty for tokens without a name: write NAME TOKEN in the file of tokens",
        ),
    }
}

/// Returns what most likely differs from what the author of a rule meant.
fn doubts(rule: &Rule, effects: &Effects, stores_posts: bool) -> Vec<String> {
    let conditions = &rule.conditions;
    let mut doubts: Vec<String> =
        conditions.path.iter().filter_map(|path| one_url(path, conditions)).collect();
    let each = || iter::once(conditions).chain(&conditions.not);
    let in_paths = each().flat_map(|own| &own.path).filter_map(|path| expression(path, sign_in_path));
    doubts.extend(in_paths);
    doubts.extend(each().flat_map(|own| &own.path).filter_map(double_slash));
    doubts.extend(taken_parameter(conditions, effects));
    let others = each().flat_map(|own| own.host.iter().chain(patterns(own)));
    doubts.extend(others.filter_map(|pattern| expression(pattern, sign)));
    let stored = if stores_posts { &["GET", "HEAD", "POST"][..] } else { &["GET", "HEAD"] };
    let is_stored = |method: &str| stored.iter().any(|own| method.eq_ignore_ascii_case(own));
    let is_for_others =
        !conditions.method.is_empty() && !conditions.method.iter().any(|method| is_stored(method));
    if effects.ttl.is_some() && is_for_others {
        doubts.push("ttl has no effect: no response to these methods answers a later request".to_owned());
    }
    let closes = |answer: &Answer| matches!(answer, Answer::Content { status, .. } if status.as_u16() == 444);
    if effects.answer.as_deref().is_some_and(closes) {
        doubts.push(
            "respond = 444 is an answer with this status here, and closes no connection: write 403"
                .to_owned(),
        );
    }
    doubts.extend(kept_out(effects));
    let lifetimes = [effects.ttl, effects.ttl_default, effects.ttl_min, effects.ttl_max];
    if effects.cache == Some(false) && lifetimes.iter().any(Option::is_some) {
        doubts.push("its lifetime has no effect: cache = false stores nothing".to_owned());
    }
    if effects.stale_if_slow.is_some() && effects.stale_if_error == Some(0) {
        doubts
            .push("stale_if_slow has no effect: stale_if_error = \"0s\" allows no stale response".to_owned());
    }
    if effects.stale_if_slow.is_some() && effects.cache == Some(false) {
        doubts.push("stale_if_slow has no effect: cache = false stores nothing".to_owned());
    }
    doubts.extend(templates(effects).filter_map(|own| {
        let word = own.unknown_word()?;
        Some(format!("{{{word}}} stays as it is: it is no placeholder; known: {}", Placeholder::all()))
    }));
    doubts.extend(urls(effects).filter_map(|own| {
        let word = own.foreign_word()?;
        Some(format!("'{word}' stays as it is: parts of requests are written as {{1}} and {{uri}}"))
    }));
    doubts.extend(effects.query.iter().flat_map(of_query));
    let cookies = [&effects.request, &effects.response, &effects.reply].map(|edits| edits.cookies.as_ref());
    let negated =
        cookies.into_iter().flatten().flat_map(|filter| &filter.names).filter(|name| is_negated(name));
    doubts.extend(negated.map(|name| {
        let meant = name.to_string().split_off(1);
        format!(
            "'{name}' is a cookie whose name begins with '!': for all but one, write keep = [\"{meant}\"]"
        )
    }));
    if effects.auth_request.as_ref().is_some_and(Option::is_some)
        && effects.users.as_ref().is_some_and(Option::is_some)
    {
        doubts.push(
            "users and auth_request: users takes the Authorization that the service would get".to_owned(),
        );
    }
    doubts
        .extend(effects.limit.iter().flatten().filter_map(|limit| shared_limit(limit, conditions, effects)));
    doubts
}

/// Returns the doubt about a lifetime for responses that the `Cache-Control` of the same rule keeps out of the cache.
fn kept_out(effects: &Effects) -> Option<String> {
    let lines: HeaderMap = effects.response.written_lines().cloned().collect();
    let own = ResponseDirectives::parse(&lines, &[]);
    let forbids = own.no_store || own.no_cache || own.private;
    (forbids && effects.ttl.is_some_and(|ttl| ttl > 0)).then(||
        "response: this Cache-Control keeps responses out of the cache in spite of ttl; for browsers alone, write \
         \"max-age=0, must-revalidate\", or a rule with reply"
            .to_owned()
    )
}

/// Returns the doubt about a path that is one URL although it looks like a folder.
fn one_url(path: &Pattern, conditions: &Conditions) -> Option<String> {
    let (text, true) = path.literal() else { return None };
    let below = format!("{text}x");
    let is_folder = text.len() > 1 && text.ends_with('/');
    let is_alone = !conditions.path.iter().any(|other| other.matches(below.as_bytes()));
    (is_folder && is_alone)
        .then(|| format!("match.path = \"{text}\" is one URL: write \"{text}*\" for all that are below it"))
}

/// Returns the doubt about a path with two slashes, which the normal form of paths does not have.
fn double_slash(path: &Pattern) -> Option<String> {
    let text = path.to_string();
    let mut behind = text.match_indices("//").map(|(at, _)| &text[at + 2..]);
    // In an expression, the second one may be optional.
    let is_certain = |behind: &str| !text.starts_with('~') || !behind.starts_with(['?', '*', '{']);
    behind.any(is_certain).then(|| {
        format!("match.path = \"{text}\" never matches: paths are compared in a form in which // is /")
    })
}

/// Returns the doubt about a parameter on which a choice of origins depends, although its rule takes it away before.
fn taken_parameter(conditions: &Conditions, effects: &Effects) -> Option<String> {
    let query = effects.query.as_ref().filter(|_| effects.redirect_to_origins())?;
    let is_in = |list: &[Pattern], name: &str| list.iter().any(|own| own.matches_name(name.as_bytes()));
    let mut names = conditions.query.each.iter().map(|named| named.name.to_string());
    let taken = names.find(|name| {
        is_in(&query.drop, name) || query.keep.as_ref().is_some_and(|kept| !is_in(kept, name))
    })?;
    Some(format!(
        "it sends nothing to other origins or paths: its query takes '{taken}' away before match.query sees it; a rewrite with a ? \
         at its end hides it from origins"
    ))
}

/// Returns the doubt about a pattern in which `sign_in` finds a sign of a regular expression.
fn expression(pattern: &Pattern, sign_in: impl Fn(&str) -> Option<char>) -> Option<String> {
    let text = pattern.to_string();
    let sign = sign_in(&text).filter(|_| !text.starts_with(['~', '@']))?;
    Some(format!(
        "in '{text}', the {sign} stands for itself: '~' begins a regular expression, and alternatives are a list"
    ))
}

fn sign(text: &str) -> Option<char> {
    text.chars().find(|sign| ['|', '^'].contains(sign))
}

/// Returns the sign of a regular expression in a path. Paths have words in brackets and braces of their own, as in
/// `/pages/[slug].js`, but neither classes nor lists.
fn sign_in_path(text: &str) -> Option<char> {
    let has_class = ["[0-9", "[a-z", "[A-Z", "]+"].iter().any(|class| text.contains(class));
    let mut braces = text.split('{').skip(1).filter_map(|behind| behind.split_once('}'));
    let has_list = braces.any(|(inner, _)| inner.contains(','));
    sign(text).or(has_class.then_some('[')).or(has_list.then_some('{'))
}

fn of_query(query: &Query) -> Vec<String> {
    let mut doubts = Vec::new();
    let kept = query.keep.as_deref().unwrap_or_default();
    let is_dropped = |name: &&Pattern| {
        query.drop.iter().any(|drop| drop == *name || drop.matches(name.literal().0.as_bytes()))
    };
    if let Some(name) = kept.iter().find(is_dropped) {
        doubts.push(format!(
            "query: '{name}' is kept and dropped, and so dropped: take it from one of the lists"
        ));
    }
    if let Some(name) = kept.iter().find(|name| is_negated(name)) {
        doubts.push(format!("query: keep lists what stays: '{name}' is a name that begins with '!'"));
    }
    if let Some(name) = query.except.first().filter(|_| query.drop.is_empty()) {
        doubts.push(format!(
            "query: drop = [\"!{name}\"] drops nothing: for all but this one, write keep = [\"{name}\"]"
        ));
    }
    doubts
}

fn is_negated(name: &Pattern) -> bool {
    name.to_string().starts_with('!')
}

/// Returns the doubt about a limit for each value of a field, cookie or parameter that requests need not have.
fn shared_limit(limit: &Limit, conditions: &Conditions, effects: &Effects) -> Option<String> {
    let Conditions { field, cookie, query, .. } = conditions;
    // Requests without credentials do not get as far, and no rule sees those for the forward proxy.
    let is_required = |name: &HeaderName| {
        let is_wanted = effects.users.is_some() || effects.tokens.is_some() || effects.jwt.is_some();
        *name == header::PROXY_AUTHORIZATION || (*name == header::AUTHORIZATION && is_wanted)
    };
    let is_in = |names: &Names<Pattern>, name: &Pattern| names.each.iter().any(|named| named.name == *name);
    let (kind, name, is_there) = match &limit.by {
        LimitBy::Field(name) => {
            let is_matched = field.each.iter().any(|named| *named.name == *name.as_str());
            ("field", name.to_string(), is_matched || is_required(name))
        }
        LimitBy::Cookie(name) => ("cookie", name.to_string(), is_in(cookie, name)),
        LimitBy::Parameter(name) => ("query", name.to_string(), is_in(query, name)),
        LimitBy::Client | LimitBy::Network | LimitBy::Host | LimitBy::All => return None,
    };
    (!is_there).then(|| {
        format!("limit.by = \"{kind}:{name}\": all requests without it share one limit; match.{kind} = \"{name}\" leaves them out")
    })
}

/// A test whether a directive is ignored, and the consequence.
type Harm = (fn(&IgnoredDirectives) -> bool, &'static str);

const IGNORED: [Harm; 4] = [
    (|own| own.private, "\"private\" serves responses that the origin sent for one user to all users"),
    (|own| own.no_store, "\"no-store\" stores responses that the origin forbids to store"),
    (|own| own.no_cache, "\"no-cache\" serves responses without the validation that the origin requires"),
    (|own| own.must_revalidate, "\"must-revalidate\" serves stale responses where the origin forbids it"),
];
