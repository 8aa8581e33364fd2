//! Rules that send requests to other origins, or to other paths.

use std::slice;
use std::sync::Arc;

use larder_proxy::settings::{Conditions, Effects, Names, Origin, Template};
use toml::de::DeValue;

use crate::config::draft::rule::RuleDraft;
use crate::config::keys::ORIGIN;
use crate::config::kinds::{Kind, List};
use crate::config::lists::string;
use crate::config::places;

/// What stands for the URL in the file of `match.map`.
const MAPPED: &str = "{map}";

/// Parses a URL, a list of URLs, or `{map}`, which stays until [`spread`].
pub(super) fn origins(value: &DeValue<'_>) -> Result<Vec<Origin>, String> {
    if value.as_str() == Some(MAPPED) {
        return Ok(vec![Origin::new(false, MAPPED)]);
    }
    let origins: Vec<Origin> = List(ORIGIN).read(value)?;
    if origins.is_empty() {
        return Err("expected at least one URL".to_owned());
    }
    places::check_origins(&origins).map(|()| origins)
}

/// Returns a rule with these conditions and effects for each URL of an origin in its map, or this one rule.
pub(super) fn spread(
    conditions: &Conditions,
    effects: Effects,
) -> Result<Vec<(Conditions, Effects)>, String> {
    if !effects.origin.iter().flatten().any(|origin| origin.authority == MAPPED) {
        return Ok(vec![(conditions.clone(), effects)]);
    }
    let map = conditions.map.as_ref();
    let map = map.ok_or("origin: {map} stands for a text of match.map, which the rule does not have")?;
    let each = map.by_text().into_iter().map(|(text, part)| {
        let origin = places::origin(text).map_err(|why| format!("{}: {why}", map.source()))?;
        places::check_origins(slice::from_ref(&origin))?;
        let effects = Effects { origin: Some(vec![origin]), ..effects.clone() };
        Ok((Conditions { map: Some(Arc::new(part)), ..conditions.clone() }, effects))
    });
    each.collect()
}

/// Parses a template such as `"/app{path}"`.
pub(super) fn rewrite(value: &DeValue<'_>) -> Result<Template, String> {
    let text = string(value)?;
    let begins = ["/", "{path}", "{path:lower}", "{uri}", "{1}"].iter().any(|start| text.starts_with(start));
    let is_path = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'#' | b'\\');
    if !begins || !text.bytes().all(is_path) {
        return Err(format!(
            "'{}' is not a path: begin it with '/', {{path}}, {{uri}} or {{1}}",
            text.escape_debug()
        ));
    }
    Template::parse_path(&text)
}

/// Checks the origins and paths to which a rule, of a site or of the forward proxy, sends requests.
pub(super) fn check(
    draft: &RuleDraft,
    effects: &Effects,
    all: &[RuleDraft],
    of_site: bool,
) -> Result<(), String> {
    if effects.balance.is_some() && effects.origin.is_none() {
        return Err("balance chooses among the origins of its rule: write origin beside it".to_owned());
    }
    if !effects.redirect_to_origins() {
        return Ok(());
    }
    if !of_site {
        return Err("origin, rewrite and host are for rules of a [[site]]: the forward proxy sends each request to the origin that it names".to_owned());
    }
    if !draft.conditions.are_about_resource() {
        check_variants(draft, effects, all)?;
    }
    let mut placeholders = effects.rewrite.iter().flat_map(Template::placeholders);
    match placeholders.find(|own| !own.is_of_resource()) {
        Some(_) => {
            Err("rewrite: {client}, {id}, {outcome}, {time}, fields and cookies differ among requests that share a stored response"
                .to_owned())
        }
        None => Ok(()),
    }
}

/// Checks that a rule whose conditions are not only about the resource sends all requests that share a stored response to
/// the same origins: those with the same values of fields and cookies by which responses are stored apart.
fn check_variants(draft: &RuleDraft, effects: &Effects, all: &[RuleDraft]) -> Result<(), String> {
    let Conditions { field, cookie, method, .. } = &draft.conditions;
    let is_cached = |method: &str| ["GET", "HEAD"].iter().any(|own| method.eq_ignore_ascii_case(own));
    // No stored response answers another method, and the query is a part of the cache key.
    let about = Conditions {
        field: Names::default(),
        cookie: Names::default(),
        query: Names::default(),
        method: if method.iter().any(|own| is_cached(own)) { method.clone() } else { Vec::new() },
        ..draft.conditions.clone()
    };
    let cookies = cookie.each.iter().map(|named| match named.name.literal() {
        (name, true) => Some(format!("cookie:{name}")),
        _ => None,
    });
    let names: Option<Vec<_>> =
        field.each.iter().map(|named| Some(named.name.to_string())).chain(cookies).collect();
    let is_apart = |name: &String| {
        // `Accept` and its kin select by their meaning, in any spelling.
        if name.starts_with("accept") {
            return false;
        }
        let covers = |rule: &&RuleDraft| rule.conditions == Conditions::default() || rule.conditions == about;
        all.iter().filter(covers).any(|rule| stores_apart(rule).any(|own| own == *name))
    };
    if !about.are_about_resource() || !names.is_some_and(|names| names.iter().all(is_apart)) {
        return Err("origin, rewrite and host hold for all requests that share a stored response: match only path, extension, host, scheme and query, methods other than GET and HEAD, or fields and cookies that key_fields, key_cookies, classes or split of another rule store apart for all these requests".to_owned());
    }
    if field.each.is_empty() && cookie.each.is_empty() {
        return Ok(());
    }
    let keys = effects.keys();
    match keys.iter().find(|key| !matches!(**key, "origin" | "balance" | "rewrite" | "host")) {
        // Such a rule sees the fields that other rules have written.
        Some(key) => Err(format!("'{key}' and origins by a field or cookie: write them in separate rules")),
        None => Ok(()),
    }
}

/// Returns the fields and cookies by which a rule stores responses apart.
fn stores_apart(rule: &RuleDraft) -> impl Iterator<Item = &str> {
    let classes = rule.classes.iter().map(|class| class.name.as_str());
    let split = rule.split.iter().map(|division| division.field.as_str());
    rule.effects.apart.iter().map(String::as_str).chain(classes).chain(split)
}
