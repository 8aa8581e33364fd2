//! The keys of a site for changing data: whether it is a gateway that stores tags, and whether a cache revalidates each use.

use std::collections::BTreeMap;

use larder_semantics::storable::Rules;
use larder_tags::{Couplings, Push, Segment, Settings};
use toml::de::DeValue;

use super::draft::SiteDraft;
use super::kinds::{Choice, Kind, List, Text, Words};

/// What a site is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// A cache.
    Cache,
    /// A gateway.
    Tags,
}

/// When what is stored is validated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Validate {
    /// Once it is stale.
    Stale,
    /// Each time.
    Always,
}

pub(super) const ROLE: Choice<Role> = Choice(&[("cache", Role::Cache), ("tags", Role::Tags)]);
pub(super) const VALIDATE: Choice<Validate> =
    Choice(&[("stale", Validate::Stale), ("always", Validate::Always)]);
const POOL: Text<Box<str>> = Text { words: "first path segment", parse: pool, show: |name| name.to_string() };

/// Pools, and those that a change to them blanks as well: `{ users = ["paths"] }`.
pub(super) struct Couple;

type Coupled = BTreeMap<Box<str>, Vec<Box<str>>>;

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Draft {
    pub(super) role: Role,
    pub(super) validate: Validate,
    /// Whether `stale_if_error` was.
    pub(super) stale_if_error: bool,
    pub(super) couple: Coupled,
    pub(super) transitive: bool,
    /// But for couplings and push.
    pub(super) tags: Settings,
    pub(super) push: bool,
    pub(super) push_lifetime: u32,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            role: Role::Cache,
            validate: Validate::Stale,
            stale_if_error: false,
            couple: Coupled::new(),
            transitive: false,
            tags: Settings::default(),
            push: false,
            push_lifetime: 3_600,
        }
    }
}

/// What does not agree in what a site says of it.
pub(super) fn check(site: &SiteDraft, problems: &mut Vec<String>) {
    let Draft { role, validate, stale_if_error, .. } = site.control;
    let tags = Settings { doubt: site.control.tags.doubt, ..Settings::default() };
    let only_defaults = Draft { role, validate, stale_if_error, tags, ..Draft::default() };
    let mut problem = |text: &str| problems.push(format!("{}: {text}", site.place));
    if role == Role::Tags && validate == Validate::Always {
        problem("role = \"tags\" stores nothing that validate = \"always\" could be about");
    }
    if validate == Validate::Always && !site.cache {
        problem("cache = false stores nothing that validate = \"always\" could be about");
    }
    if role == Role::Tags && !site.cache {
        problem("cache = false and role = \"tags\": a gateway answers from its tags");
    }
    if role == Role::Cache && site.control != only_defaults {
        problem("couple, push and what begins with tag, except tag_doubt, are for role = \"tags\"");
    } else if !site.control.push && site.control.push_lifetime != Draft::default().push_lifetime {
        problem("push_lifetime says nothing without push = true");
    }
}

/// Whether the site caches, its settings as a gateway if it is one, and its rules.
pub(super) fn settle(site: &SiteDraft) -> (bool, Option<Settings>, Rules) {
    let Draft { role, validate, stale_if_error, couple, transitive, tags, push, push_lifetime } =
        &site.control;
    let mut rules = Rules { validated: *validate == Validate::Always, ..site.rules.clone() };
    if rules.validated && !stale_if_error {
        rules.stale_if_error = 0;
    }
    let tags = (*role == Role::Tags).then(|| Settings {
        couplings: Couplings::new(couple, *transitive),
        push: push.then_some(Push { lifetime: *push_lifetime }),
        ..tags.clone()
    });
    (site.cache && tags.is_none(), tags, rules)
}

fn pool(text: &str) -> Result<Box<str>, String> {
    Segment::named(text)
        .ok_or_else(|| format!("'{}' is not one segment of a path, such as 'users'", text.escape_debug()))
}

impl Words for Couple {
    fn words(&self) -> String {
        "table of lists of first path segments, such as `{ users = [\"paths\"] }`".to_owned()
    }
}

impl Kind<Coupled> for Couple {
    fn read(&self, value: &DeValue<'_>) -> Result<Coupled, String> {
        let Some(table) = value.as_table() else {
            return Err(format!("expected {}, got type {}", self.words(), value.type_str()));
        };
        let row = |(from, to): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
            let from: &std::borrow::Cow<'_, str> = from.get_ref();
            Ok((pool(from)?, List(POOL).read(to.get_ref())?))
        };
        table.iter().map(row).collect()
    }

    fn show(&self, value: &Coupled) -> String {
        let rows = value.iter().map(|(from, to)| format!("\"{from}\" = {}", List(POOL).show(to)));
        let rows: Vec<_> = rows.collect();
        if rows.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", rows.join(", ")) }
    }
}

#[cfg(test)]
mod tests {
    use crate::args::Flags;
    use crate::config::{ConfigError, parse};
    use larder_proxy::settings::{DOUBT, Site};

    fn site(keys: &str) -> Result<Site, ConfigError> {
        let text = format!("[[site]]\norigin = 'http://a'\n{keys}");
        parse("f", &text, &Flags::default()).map(|mut settings| settings.sites.remove(0))
    }

    #[test]
    fn what_does_not_agree_is_said() {
        for (keys, problem) in [
            ("role = 'tag'", "f:3: site.role: unknown word 'tag'; did you mean 'tags'?; known: cache tags"),
            (
                "role = 'tags'\ncache = false",
                "f:1: cache = false and role = \"tags\": a gateway answers from its tags",
            ),
            (
                "role = 'tags'\nvalidate = 'always'",
                "f:1: role = \"tags\" stores nothing that validate = \"always\" could be about",
            ),
            (
                "cache = false\nvalidate = 'always'",
                "f:1: cache = false stores nothing that validate = \"always\" could be about",
            ),
            (
                "push = true",
                "f:1: couple, push and what begins with tag, except tag_doubt, are for role = \"tags\"",
            ),
            ("role = 'tags'\npush_lifetime = '1m'", "f:1: push_lifetime says nothing without push = true"),
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
