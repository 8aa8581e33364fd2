//! `match.claim`: conditions on the claims of tokens, which are known once a token is verified.

use larder_proxy::settings::Effects;

use crate::config::draft::rule::RuleDraft;

/// The keys that take effect after a token is verified.
const LATE: [&str; 10] =
    ["cache", "allow", "deny", "respond", "redirect", "limit", "bandwidth", "reply", "error_page", "log"];

/// Checks a rule among `all` of its site.
pub(super) fn check(draft: &RuleDraft, effects: &Effects, all: &[RuleDraft]) -> Result<(), String> {
    if !draft.conditions.look_at_claims() {
        return Ok(());
    }
    if !all.iter().any(|rule| rule.effects.jwt.iter().any(Option::is_some)) {
        return Err("match.claim: no rule here has jwt, which verifies tokens".to_owned());
    }
    let further = [
        ("ttl", !draft.ttl_by_status.is_empty()),
        ("classes", !draft.classes.is_empty()),
        ("split", draft.split.is_some()),
        ("cors", draft.cors.is_some()),
        ("stop", draft.stop),
    ];
    let further = further.into_iter().filter(|(_, is_set)| *is_set).map(|(key, _)| key);
    match effects.keys().into_iter().chain(further).find(|key| !LATE.contains(key)) {
        Some(key) => Err(format!(
            "'{key}' takes effect before the token is verified: match.claim is for {}",
            LATE.join(", ")
        )),
        None => Ok(()),
    }
}
