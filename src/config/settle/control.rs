//! A site's keys for changing data: combinations of them.

use larder_semantics::storable::Rules;
use larder_tags::{Couplings, Push, Settings};

use super::problems::Problems;
use crate::config::draft::SiteDraft;
use crate::config::draft::control::{Draft, Role, ValidationTime};

/// Reports contradictions among these keys of a site.
pub(super) fn check(site: &SiteDraft, problems: &mut Problems<'_>) {
    let Draft { role, validate, stale_if_error, .. } = site.control;
    let tags = Settings { doubt: site.control.tags.doubt, ..Settings::default() };
    let only_defaults = Draft { role, validate, stale_if_error, tags, ..Draft::default() };
    let mut problem = |text: &str| problems.add_to_site(site, text);
    if role == Role::Tags && validate == ValidationTime::Always {
        problem("role = \"tags\" stores no responses, so validate = \"always\" has no effect");
    }
    if validate == ValidationTime::Always && !site.values.cache {
        problem("cache = false stores no responses, so validate = \"always\" has no effect");
    }
    if role == Role::Tags && !site.values.cache {
        problem("cache = false and role = \"tags\": a gateway answers from its tags");
    }
    if role == Role::Tags && site.site_rules.iter().any(|rule| rule.effects.redirect_to_origins()) {
        problem(
            "role = \"tags\": a gateway is before the site's origins only; its rules have no origin, rewrite or host",
        );
    }
    if role == Role::Cache && site.control != only_defaults {
        problem("couple, push, and keys that begin with tag (except tag_doubt) need role = \"tags\"");
    } else if !site.control.push && site.control.push_lifetime != Draft::default().push_lifetime {
        problem("push_lifetime has no effect without push = true");
    }
}

/// Returns whether the site caches, its settings as a gateway if it is one, and its rules.
pub(super) fn settle(site: &SiteDraft) -> (bool, Option<Settings>, Rules) {
    let Draft { role, validate, stale_if_error, couple, transitive, tags, push, push_lifetime } =
        &site.control;
    let mut rules = Rules { validated: *validate == ValidationTime::Always, ..site.values.rules.clone() };
    if rules.validated && !stale_if_error {
        rules.stale_if_error = 0;
    }
    let tags = (*role == Role::Tags).then(|| Settings {
        couplings: Couplings::new(couple, *transitive),
        push: push.then_some(Push { lifetime: *push_lifetime }),
        ..tags.clone()
    });
    (site.values.cache && tags.is_none(), tags, rules)
}

#[cfg(test)]
mod tests {
    use crate::config::flags::Flags;
    use crate::config::{ConfigError, parse};
    use larder_proxy::settings::{DOUBT, Site};

    fn site(keys: &str) -> Result<Site, ConfigError> {
        let text = format!("[[site]]\norigin = 'http://a'\n{keys}");
        parse("f", &text, &Flags::default()).map(|mut settings| settings.sites.remove(0))
    }

    #[test]
    fn conflicting_keys_of_a_tags_site_are_reported() {
        for (keys, problem) in [
            ("role = 'tag'", "f:3: site.role: unknown word 'tag'; did you mean 'tags'?; known: cache tags"),
            (
                "role = 'tags'\ncache = false",
                "f:1: cache = false and role = \"tags\": a gateway answers from its tags",
            ),
            (
                "role = 'tags'\nvalidate = 'always'",
                "f:1: role = \"tags\" stores no responses, so validate = \"always\" has no effect",
            ),
            (
                "cache = false\nvalidate = 'always'",
                "f:1: cache = false stores no responses, so validate = \"always\" has no effect",
            ),
            (
                "push = true",
                "f:1: couple, push, and keys that begin with tag (except tag_doubt) need role = \"tags\"",
            ),
            ("role = 'tags'\npush_lifetime = '1m'", "f:1: push_lifetime has no effect without push = true"),
            (
                "role = 'tags'\ncouple = { users = ['a/b'] }",
                "f:4: site.couple: 'a/b' is not one segment of a path, such as 'users'",
            ),
            (
                "role = 'tags'\ncouple = 'users'",
                "f:4: site.couple: expected table of lists of first path segments, such as `{ users = [\"paths\"] }`, got type string",
            ),
        ] {
            assert_eq!(site(keys).expect_err(keys).problems, [problem]);
        }
    }

    #[test]
    fn a_gateway_has_pools_and_no_cache() {
        let gateway = site(
            "role = 'tags'\ncouple = { '/USERS' = 'paths', paths = ['feeds'] }\ncouple_transitively = true",
        )
        .unwrap();
        let tags = gateway.tags.unwrap();
        assert_eq!((gateway.cache, tags.push), (false, None));
        assert_eq!(tags.couplings.of("users").join(" "), "feeds paths");
    }

    #[test]
    fn a_cache_has_a_doubt_as_well() {
        assert_eq!(site("").unwrap().doubt, DOUBT);
        assert_eq!(site("tag_doubt = '5s'").unwrap().doubt, 5);
        let gateway = site("role = 'tags'\ntag_doubt = '5s'").unwrap();
        assert_eq!((gateway.doubt, gateway.tags.unwrap().doubt), (5, 5));
    }

    #[test]
    fn nothing_stands_in_where_all_is_validated_unless_that_is_said() {
        for (keys, validated, stands_in) in [
            ("", false, 3_600),
            ("validate = 'always'", true, 0),
            ("validate = 'always'\nstale_if_error = '1h'", true, 3_600),
        ] {
            let rules = site(keys).unwrap().rules;
            assert_eq!((rules.validated, rules.stale_if_error), (validated, stands_in), "{keys}");
        }
    }
}
