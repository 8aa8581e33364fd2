//! The names that `Vary` of replies has because of rules that store responses apart.

use std::sync::Arc;

use http::header;

use crate::base::settings::{Effects, Jwt, Placeholder, SiteRule, Template};

/// Returns the names for `Vary` of replies: the fields of a client's request that decide which of the responses that
/// these rules store apart it gets. A field that rules write depends on the fields in the conditions of these rules, and
/// of those that stop before them.
pub(super) fn vary(effects: &Effects, numbers: &[u16], rules: &[SiteRule]) -> Vec<String> {
    if effects.vary == Some(false) || effects.reply.replace(header::VARY.as_str()) {
        return Vec::new();
    }
    let (mut names, mut parts): (Vec<&str>, Vec<String>) = Default::default();
    let holding = numbers.iter().filter_map(|number| rules.get(usize::from(*number)));
    for (own, name) in holding.flat_map(|own| own.effects.apart.iter().map(move |name| (own, name))) {
        let auth = own
            .effects
            .auth_request
            .iter()
            .flatten()
            .find(|auth| auth.take.iter().any(|taken| taken.as_str() == name.as_str()));
        if let Some(auth) = auth {
            names.extend(auth.seen_fields());
            continue;
        }
        let sends = |jwt: &&Arc<Jwt>| jwt.send.iter().any(|(taken, _)| taken.as_str() == name.as_str());
        if let Some(jwt) = own.effects.jwt.iter().flatten().find(sends) {
            names.push(jwt.seen_field());
            continue;
        }
        parts.extend(sources(own, name));
        let name = if name.starts_with("cookie:") { header::COOKIE.as_str() } else { name };
        let meets = |rule: &SiteRule| rule.rule.conditions.may_meet(&own.rule.conditions);
        let writes = |rule: &SiteRule| rule.effects.request.may_change(name) && meets(rule);
        let end = rules.iter().rposition(writes).map_or(0, |last| last + 1);
        let deciding = rules[..end].iter().filter(|rule| (rule.rule.stop && meets(rule)) || writes(rule));
        names.extend(deciding.flat_map(|rule| rule.rule.conditions.request_fields()));
        names.extend(Some(name).filter(|name| !effects.request.replace(name)));
    }
    let mut names: Vec<_> =
        names.into_iter().chain(parts.iter().map(String::as_str)).map(title_case).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the fields of a client's request that placeholders stand for in the field `name` that a rule writes.
fn sources(rule: &SiteRule, name: &str) -> Vec<String> {
    let lines = rule
        .effects
        .request
        .written_lines()
        .filter(|(own, value)| own.as_str() == name && !value.is_sensitive());
    let templates = lines.filter_map(|(_, value)| Some(Template::of_value(value.to_str().ok()?)));
    let source = |own: &Placeholder| match own {
        Placeholder::Field(name) => Some(name.as_str().to_owned()),
        Placeholder::Cookie(_) => Some(header::COOKIE.as_str().to_owned()),
        _ => None,
    };
    templates.flat_map(|own| own.placeholders().filter_map(source).collect::<Vec<_>>()).collect()
}

/// Returns a field's name as it is usually written, such as `User-Agent`.
fn title_case(name: &str) -> String {
    let mut starts = true;
    let letter = |letter: char| {
        let starts = std::mem::replace(&mut starts, letter == '-');
        if starts { letter.to_ascii_uppercase() } else { letter }
    };
    name.chars().map(letter).collect()
}
