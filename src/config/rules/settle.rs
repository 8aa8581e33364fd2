//! Turns the rules of a site as written into those in force: checks combinations of keys, reads files, and finds rules
//! that never hold.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue, StatusCode, header};
use larder_proxy::settings::{
    Answer, CertificateCondition, Conditions, Edits, Effects, KeySource, Networks, Page, Pages, Pattern,
    Placeholder, Rule, SiteRule, Template,
};

use super::values::{field, template};
use super::{auth, claims, classes, cors, files, origins, split};
use crate::config::draft::rule::{Content, ErrorPage, Respond, RuleDraft};

/// The owner of the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Site,
    Forward,
}

/// Returns the rules for `drafts`, or their errors, one line each.
pub(crate) fn settle(drafts: &[RuleDraft], owner: Owner) -> Result<Vec<SiteRule>, Vec<String>> {
    let drafts = &*split::with_buckets(drafts);
    let (mut rules, mut problems) = (Vec::new(), Vec::new());
    for (at, draft) in drafts.iter().enumerate().filter(|(_, draft)| !draft.is_unread) {
        match settle_one(drafts, at, owner) {
            Ok(found) => rules.extend(found),
            Err(problem) => problems.push(format!("{}: {problem}", draft.place)),
        }
    }
    let most = larder_proxy::settings::MOST_RULES;
    if rules.len() > most {
        let (table, place) = (if owner == Owner::Site { "site" } else { "forward" }, &drafts[0].place);
        problems.push(format!("{place}: {} rules are more than a {table} may have: {most}", rules.len()));
    }
    if problems.is_empty() { Ok(rules) } else { Err(problems) }
}

/// Checks the effects of a rule with conditions on the response.
fn check_moment(effects: &Effects) -> Result<(), String> {
    let Some(key) = effects.before_response() else { return Ok(()) };
    let way = match key {
        "reply" => "; response = { set = { .. } } changes the fields of such responses",
        "respond" | "redirect" => "; error_page replaces the content of errors",
        _ => "",
    };
    Err(format!(
        "'{key}' takes effect before there is a response: match only the request, or write it in another rule{way}"
    ))
}

/// Returns the rule, before it one for each lifetime by status, and after it those for `classes` and `cors`.
fn settle_one(drafts: &[RuleDraft], at: usize, owner: Owner) -> Result<Vec<SiteRule>, String> {
    let (draft, number) = (&drafts[at], at + 1);
    let mut effects = effects(draft)?;
    auth::add_taken(draft, &mut effects)?;
    let stands_for_more = draft.cors.is_some()
        || draft.split.is_some()
        || !draft.classes.is_empty()
        || !draft.ttl_by_status.is_empty();
    if effects == Effects::default() && !stands_for_more && !draft.stop {
        return Err("the rule has no effect: add one, such as ttl = \"1h\", or stop = true".to_owned());
    }
    if draft.conditions.need_response() {
        check_moment(&effects)?;
    }
    if !effects.apart.is_empty() && !draft.conditions.are_about_resource() {
        return Err("key_fields and key_cookies hold for all requests of a path: match only path, extension, host and scheme".to_owned());
    }
    let is_for_site = effects.auth_request.is_some() || effects.jwt.is_some() || effects.user_field.is_some();
    if owner == Owner::Forward && is_for_site {
        return Err("auth_request, jwt and user_field are for rules of a [[site]]".to_owned());
    }
    let removes_via = |edits: &Edits| edits.remove.contains(&header::VIA);
    if removes_via(&effects.request) || removes_via(&effects.response) {
        return Err("'via' names the proxies on the way; only reply.remove can remove it".to_owned());
    }
    let sets_flags = |edits: &Edits| edits.cookies.as_ref().is_some_and(|own| !own.flags.is_empty());
    if sets_flags(&effects.request) || sets_flags(&effects.response) {
        return Err(
            "the flags of cookies are for reply, as in reply = { cookies = { flags = [\"Secure\"] } }"
                .to_owned(),
        );
    }
    if owner == Owner::Forward && removes_via(&effects.reply) {
        return Err(
            "'via' names the proxies on the way; only a [[site]] may remove it from replies".to_owned()
        );
    }
    claims::check(draft, &effects, drafts)?;
    origins::check(draft, &effects, drafts, owner == Owner::Site)?;
    check_placeholders(draft, &effects)?;
    let rule = |conditions, effects, stop| SiteRule {
        name: draft.name.clone().unwrap_or_else(|| number.to_string()),
        place: draft.place.clone(),
        rule: Rule { conditions, stop },
        effects,
        files: files(draft),
    };
    let mut rules = Vec::new();
    for (status, seconds) in &draft.ttl_by_status {
        if !draft.conditions.status.is_empty() {
            return Err("match.status and a ttl by status: write one of them".to_owned());
        }
        let mut conditions = draft.conditions.clone();
        conditions.status = vec![status.clone()];
        rules.push(rule(conditions, Effects { ttl: Some(*seconds), ..Effects::default() }, false));
    }
    if effects != Effects::default() {
        let each = origins::spread(&draft.conditions, effects)?;
        rules.extend(each.into_iter().map(|(conditions, effects)| rule(conditions, effects, false)));
    }
    rules.extend(following(draft)?.into_iter().map(|(conditions, effects)| rule(conditions, effects, false)));
    match rules.last_mut() {
        Some(last) if draft.stop && last.rule.conditions == draft.conditions => last.rule.stop = true,
        _ if draft.stop => rules.push(rule(draft.conditions.clone(), Effects::default(), true)),
        _ => {}
    }
    Ok(rules)
}

/// Checks that the placeholders of a rule stand for something where they are.
fn check_placeholders(draft: &RuleDraft, effects: &Effects) -> Result<(), String> {
    let has_patterns = !draft.conditions.path.is_empty() || !draft.conditions.host.is_empty();
    if !has_patterns && templates(effects).any(|own| own.has_stars()) {
        return Err(
            "{1} to {9} stand for parts of match.path or match.host, which the rule does not have".to_owned()
        );
    }
    let is_of_host = !draft.conditions.host.is_empty() && draft.conditions.path.is_empty();
    if !is_of_host && draft.redirect.as_ref().is_some_and(|(location, _)| location.has_star_in_host()) {
        return Err("redirect: {1} to {9} in the host of a URL stand for parts of match.host: write a slash before them, or no match.path".to_owned());
    }
    for template in templates(effects) {
        for own in template.placeholders() {
            if let Placeholder::Field(name) = own {
                field(name.as_str())?;
            }
        }
    }
    check_map(draft, effects)?;
    if placeholders(&effects.request).any(|own| own.is_of_reply()) {
        return Err("request: {outcome}, {origin} and {origin_time} are known only in replies".to_owned());
    }
    if placeholders(&effects.reply).any(|own| own == Placeholder::Certificate) {
        return Err("reply: {client_cert} is known only in requests".to_owned());
    }
    if placeholders(&draft.effects.response).next().is_some() {
        return Err("response: placeholders are for request and reply, and for tags, since stored responses are for all requests of a URL".to_owned());
    }
    let is_of_tag = |own: &Placeholder| {
        own.is_of_resource() || matches!(own, Placeholder::Field(_) | Placeholder::Cookie(_))
    };
    if placeholders(&effects.response).any(|own| !is_of_tag(&own)) {
        return Err(
            "tags: {client}, {client_cert}, {id}, {outcome} and {time} differ among requests that share a stored response"
                .to_owned(),
        );
    }
    Ok(())
}

/// Checks that there is a map for `{map}`, and that its texts are URLs where that is the URL of a redirect.
fn check_map(draft: &RuleDraft, effects: &Effects) -> Result<(), String> {
    let Some(map) = &draft.conditions.map else {
        return match templates(effects).any(|own| own.has_map()) {
            true => Err("{map} stands for a text of match.map, which the rule does not have".to_owned()),
            false => Ok(()),
        };
    };
    if templates(effects).any(|own| own.has_map()) && map.texts().any(str::is_empty) {
        return Err(format!("{}: a line has no text, for which {{map}} stands", map.source()));
    }
    let is_redirect = draft.redirect.as_ref().is_some_and(|(location, _)| location.has_map());
    let begins = draft.redirect.as_ref().is_some_and(|(location, _)| location.begins_with_map());
    let is_begin = |text: &str| ["/", "http://", "https://"].iter().any(|start| text.starts_with(start));
    let is_url = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic()) && (!begins || is_begin(text));
    match map.texts().find(|text| is_redirect && !is_url(text)) {
        Some(text) => Err(format!("{}: '{}' is not a URL of a redirect", map.source(), text.escape_debug())),
        None => Ok(()),
    }
}

/// Returns the texts with placeholders of a rule.
pub(super) fn templates(effects: &Effects) -> impl Iterator<Item = Template> {
    let written = [&effects.request, &effects.response, &effects.reply].into_iter().flat_map(values);
    urls(effects).chain(written)
}

/// Returns the URL of a redirect, and the path of requests to origins.
pub(super) fn urls(effects: &Effects) -> impl Iterator<Item = Template> {
    let redirect = effects.answer.iter().filter_map(|answer| match &**answer {
        Answer::Redirect { location, .. } => Some(location.clone()),
        Answer::Content { .. } => None,
    });
    redirect.chain(effects.rewrite.clone())
}

/// Returns the values of fields that are written, as text with placeholders.
fn values(edits: &Edits) -> impl Iterator<Item = Template> {
    edits.written_lines().filter_map(|(_, value)| template(value))
}

fn placeholders(edits: &Edits) -> impl Iterator<Item = Placeholder> {
    values(edits).flat_map(|value| value.placeholders().cloned().collect::<Vec<_>>())
}

/// Returns the rules that follow the rule itself, for keys that stand for rules.
fn following(draft: &RuleDraft) -> Result<Vec<(Conditions, Effects)>, String> {
    let mut rules = Vec::new();
    for class in &draft.classes {
        rules.extend(classes::rules(class, &draft.conditions)?);
    }
    if let Some(division) = &draft.split {
        rules.extend(split::rules(division, &draft.conditions)?);
    }
    if let Some(cors) = &draft.cors {
        rules.extend(cors::rules(cors, &draft.conditions)?);
    }
    Ok(rules)
}

/// Returns the files that a rule names.
fn files(draft: &RuleDraft) -> Vec<PathBuf> {
    let conditions = || std::iter::once(&draft.conditions).chain(&draft.conditions.not);
    let domains = conditions().flat_map(|own| &own.domains).map(|domains| PathBuf::from(domains.source()));
    let patterns = conditions().flat_map(patterns).chain(classes::patterns_of(&draft.classes));
    let patterns = patterns.filter_map(Pattern::source).map(PathBuf::from);
    let edits = [&draft.effects.request, &draft.effects.response, &draft.effects.reply];
    let values = edits.into_iter().flat_map(|edits| &edits.files).map(|file| PathBuf::from(&**file));
    let maps = conditions().filter_map(|own| own.map.as_ref()).map(|map| PathBuf::from(map.source()));
    let access = draft.effects.allow.iter().chain(&draft.effects.deny);
    let networks = conditions().map(|own| &own.client).chain(access).flat_map(Networks::files);
    let networks = networks.chain(classes::files(&draft.classes)).map(PathBuf::from);
    let content = draft.respond.iter().filter_map(|respond| match &respond.content {
        Content::File(path) => Some(path.clone()),
        Content::Text(_) | Content::Status => None,
    });
    let pages = draft.error_pages.iter().filter_map(|page| page.file.clone());
    let users = draft.effects.users.iter().flatten().map(|users| PathBuf::from(users.source()));
    let tokens = draft.effects.tokens.iter().flatten().map(|tokens| PathBuf::from(tokens.source()));
    let signed = draft.effects.signed.iter().flatten().map(|signed| PathBuf::from(signed.source()));
    let keys = draft.effects.jwt.iter().flatten().filter_map(|jwt| match &jwt.keys {
        KeySource::File(path, _) => Some(PathBuf::from(&**path)),
        KeySource::Url(_) => None,
    });
    let networks = networks.chain(signed).chain(keys).chain(patterns).chain(values);
    domains.chain(maps).chain(networks).chain(content).chain(users).chain(tokens).chain(pages).collect()
}

/// Returns the patterns of values in `conditions`.
pub(super) fn patterns(conditions: &Conditions) -> impl Iterator<Item = &Pattern> {
    let of_pattern = [&conditions.query, &conditions.cookie].into_iter().flat_map(|names| &names.each);
    let of_text = [&conditions.field, &conditions.claim, &conditions.response_field];
    let of_text = of_text.into_iter().flat_map(|names| &names.each).flat_map(|named| &named.values);
    let certificate = conditions.client_cert.iter().flat_map(|own| match own {
        CertificateCondition::Named(patterns) => &patterns[..],
        CertificateCondition::Shown(_) => &[],
    });
    of_pattern.flat_map(|named| &named.values).chain(of_text).chain(certificate)
}

fn effects(draft: &RuleDraft) -> Result<Effects, String> {
    let mut effects = draft.effects.clone();
    effects.answer = match (&draft.redirect, &draft.respond) {
        (Some(_), Some(_)) => return Err("redirect and respond: write one of them".to_owned()),
        (Some((location, status)), None) => {
            Some(Answer::Redirect { status: *status, location: location.clone() })
        }
        (None, Some(respond)) => Some(content(respond)?),
        (None, None) => None,
    }
    .map(Arc::new);
    let page = |ErrorPage { statuses, file, status }: &ErrorPage| {
        let content = file.as_deref().map(files::read).transpose()?;
        let content = content.map(|(content, content_type)| (content_type, content));
        Ok(Page { statuses: statuses.clone(), status: *status, content })
    };
    if draft.security_headers {
        let reply = &mut effects.reply;
        let missing = |name: &HeaderName| !reply.default.iter().any(|(own, _)| own == name);
        let fields: Vec<_> = cors::SECURITY.into_iter().filter(|(name, _)| missing(name)).collect();
        let field = |(name, value)| (name, HeaderValue::from_static(value));
        reply.default.extend(fields.into_iter().map(field));
    }
    let tags = draft.tags.iter().map(|tag| (HeaderName::from_static("cache-tag"), tag.clone()));
    effects.response.add.extend(tags);
    for edits in [&mut effects.request, &mut effects.response, &mut effects.reply] {
        let has_placeholders = placeholders(edits).next().is_some();
        edits.has_placeholders = has_placeholders;
    }
    effects.error_page = Pages::new(draft.error_pages.iter().map(page).collect::<Result<_, String>>()?);
    Ok(effects)
}

fn content(respond: &Respond) -> Result<Answer, String> {
    let (content, guess) = match &respond.content {
        Content::Status if respond.status == StatusCode::NO_CONTENT => (Bytes::new(), files::plain()),
        Content::Status => (format!("{}\n", respond.status).into(), files::plain()),
        Content::Text(text) => (Bytes::from(text.clone()), files::plain()),
        Content::File(path) => files::read(path)?,
    };
    let is_default = matches!(respond.content, Content::Status);
    let is_filled =
        matches!(&respond.content, Content::Text(text) if text.contains("{client}") || text.contains("{id}"));
    let content_type = respond.content_type.clone().unwrap_or(guess);
    Ok(Answer::Content { status: respond.status, content_type, content, is_default, is_filled })
}
