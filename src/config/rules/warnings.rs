//! Rules that are valid, and most likely a mistake.

use larder_proxy::Settings;
use larder_proxy::settings::{Ignored, RuleSet, SiteRule};

/// Rules that never hold, and those that break what origins rely on, one line each.
pub(crate) fn warnings(settings: &Settings) -> Vec<String> {
    let sites = settings.sites.iter().map(|site| &site.site_rules);
    sites.chain([&settings.forward.site_rules]).flat_map(|rules| of_rules(rules)).collect()
}

fn of_rules(rules: &[SiteRule]) -> Vec<String> {
    let mut warnings = Vec::new();
    let set = RuleSet::new(rules.iter().map(|rule| rule.rule.clone()).collect());
    for (never, earlier) in set.unreachable() {
        let (place, other) = (&rules[never].place, &rules[earlier].place);
        warnings.push(format!(
            "{place}: the rule never holds: the one at {other} takes its requests, with stop = true"
        ));
    }
    for SiteRule { place, rule, effects, .. } in rules {
        if let Some(why) = rule.conditions.contradiction() {
            warnings.push(format!("{place}: the rule never holds: {why}"));
        }
        let harms = IGNORED.iter().filter(|(is_set, _)| effects.ignored.as_ref().is_some_and(is_set));
        warnings.extend(harms.map(|(_, harm)| format!("{place}: ignore = {harm}")));
    }
    // One rule may stand for several.
    warnings.dedup();
    warnings
}

/// Whether a directive is ignored, and what that does.
type Harm = (fn(&Ignored) -> bool, &'static str);

const IGNORED: [Harm; 4] = [
    (|own| own.private, "\"private\" gives one user's response to others, if the origin means it"),
    (|own| own.no_store, "\"no-store\" stores what the origin wants to be stored nowhere"),
    (|own| own.no_cache, "\"no-cache\" serves responses that the origin wants to be asked about each time"),
    (|own| own.must_revalidate, "\"must-revalidate\" serves stale responses where the origin forbids it"),
];
