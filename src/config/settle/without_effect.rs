//! Keys that have no effect because another key is not written: valid, but most likely a mistake.

use std::collections::BTreeMap;

use super::cluster;
use crate::config::draft::Draft;
use crate::config::draft::rule::RuleDraft;

/// Keys of sites, rules and the forward proxy, each with the key that it needs, and an example of that.
const NEEDS: [(&str, &str, &str); 2] = [
    ("refresh_ahead_hits", "refresh_ahead", "refresh_ahead = \"10%\""),
    ("prefetch_traffic", "prefetch", "prefetch = [\"association\"]"),
];
const OF_TIER: [&str; 3] = ["tier_lifetime", "tier_compression", "tier_deadline"];

/// Returns a warning for each of these keys of `draft`.
pub(super) fn find(draft: &Draft) -> Vec<String> {
    if let Some(no_cluster) = cluster::without_effect(draft) {
        return of_owners(draft).chain([no_cluster]).collect();
    }
    let written = |key: &str| draft.places.get(&format!("cluster.{key}"));
    let without_trust = draft
        .places
        .get("real_ip")
        .filter(|_| draft.values.trust.real_ip.is_some() && draft.values.trust.proxies.is_empty());
    let without_trust =
        without_trust.map(|place| line(place, "real_ip", "trust", "trust = [\"10.0.0.0/8\"]"));
    let of_tier = OF_TIER.iter().filter(|_| written("tier").is_none()).filter_map(|key| {
        let place = written(key)?;
        Some(line(place, key, "tier", "tier = \"64KiB\""))
    });
    of_owners(draft).chain(of_tier).chain(without_trust).collect()
}

fn of_owners(draft: &Draft) -> impl Iterator<Item = String> {
    let sites = draft.sites.iter().flat_map(|site| of_owner(&site.places, "", &site.site_rules));
    sites.chain(of_owner(&draft.places, "forward.", &draft.forward_rules))
}

/// Returns the warnings for a site or the forward proxy, whose keys begin with `prefix` in `places`.
fn of_owner(places: &BTreeMap<String, String>, prefix: &str, rules: &[RuleDraft]) -> Vec<String> {
    let is_set = |rule: &RuleDraft, key: &str| rule.effects.keys().contains(&key);
    let written = |key: &str| places.get(&format!("{prefix}{key}"));
    let lacking = NEEDS
        .iter()
        .filter(|(_, needed, _)| written(needed).is_none() && !rules.iter().any(|rule| is_set(rule, needed)));
    let warnings = lacking.flat_map(|(key, needed, example)| {
        let of_rules = rules.iter().filter(|rule| is_set(rule, key)).map(|rule| &rule.place);
        written(key).into_iter().chain(of_rules).map(|place| line(place, key, needed, example))
    });
    warnings.collect()
}

fn line(place: &str, key: &str, needed: &str, example: &str) -> String {
    format!("{place}: {key} has no effect without '{needed}', such as {example}")
}

#[cfg(test)]
mod tests {
    use crate::config::flags::Flags;
    use crate::config::parse;

    #[test]
    fn a_key_that_needs_another_is_named_with_it() {
        let site = "[[site]]\norigin = 'http://a'\n";
        let rule = "[[site.rule]]\n";
        for (text, places) in [
            ("[cluster]\nengine = 'redis://a'\ntier_deadline = '1s'", vec!["f:3: tier_deadline"]),
            ("[cluster]\nengine = 'redis://a'\ntier_deadline = '1s'\ntier = '1KiB'", vec![]),
            (
                "[forward]\nrefresh_ahead_hits = 3\nprefetch_traffic = '1%'",
                vec!["f:2: refresh_ahead_hits", "f:3: prefetch_traffic"],
            ),
            (&format!("{site}prefetch_traffic = '1%'"), vec!["f:3: prefetch_traffic"]),
            (&format!("{site}prefetch_traffic = '1%'\nprefetch = ['sequence']"), vec![]),
            (&format!("{site}prefetch_traffic = '1%'\n{rule}prefetch = ['sequence']"), vec![]),
            (&format!("{site}{rule}refresh_ahead_hits = 3"), vec!["f:3: refresh_ahead_hits"]),
            (&format!("{site}refresh_ahead = '10%'\n{rule}refresh_ahead_hits = 3"), vec![]),
        ] {
            let settings = parse("f", text, &Flags::default()).unwrap();
            let named: Vec<_> = settings
                .without_effect
                .iter()
                .filter_map(|line| line.split(" has no effect").next())
                .collect();
            assert_eq!(named, places, "{text}");
        }
    }
}
