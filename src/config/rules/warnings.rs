//! Rules that are valid, but most likely a mistake.

use larder_proxy::Settings;
use larder_proxy::settings::{Conditions, Ignored, Pattern, RuleSet, Site, SiteRule};

/// Returns warnings about rules that never hold, and about those that break assumptions of origins, one line each.
pub(crate) fn warnings(settings: &Settings) -> Vec<String> {
    let of_site = |site: &Site| {
        let own =
            site.site_rules.iter().filter_map(|rule| Some((rule, elsewhere(site, &rule.rule.conditions)?)));
        let own = own.map(|(rule, why)| never(&rule.place, &why));
        own.chain(of_rules(&site.site_rules)).collect::<Vec<_>>()
    };
    let sites = settings.sites.iter().flat_map(of_site);
    sites.chain(of_rules(&settings.forward.site_rules)).collect()
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

fn of_rules(rules: &[SiteRule]) -> Vec<String> {
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
        let harms = IGNORED.iter().filter(|(is_set, _)| effects.ignore.as_ref().is_some_and(is_set));
        warnings.extend(harms.map(|(_, harm)| format!("{place}: ignore = {harm}")));
    }
    // One rule of the config may become several rules.
    warnings.dedup();
    warnings
}

/// A test whether a directive is ignored, and the consequence.
type Harm = (fn(&Ignored) -> bool, &'static str);

const IGNORED: [Harm; 4] = [
    (|own| own.private, "\"private\" serves responses that the origin sent for one user to all users"),
    (|own| own.no_store, "\"no-store\" stores responses that the origin forbids to store"),
    (|own| own.no_cache, "\"no-cache\" serves responses without the validation that the origin requires"),
    (|own| own.must_revalidate, "\"must-revalidate\" serves stale responses where the origin forbids it"),
];
