//! The keys of a config as people compare them: by name, with their values as TOML, without those that have defaults.

use larder_proxy::settings::{CertificateFiles, ConfigKeys, ConfigValue};
use toml::de::{DeTable, DeValue};

use super::draft::rule::RuleDraft;
use super::draft::{DiskDraft, Draft, SiteDraft};
use super::keys::{CACHING, DISK_KEYS, Key, SECTIONS, SITE, TLS_KEYS, TOP};

/// The keys that apply at the start only; `stats.*` stands for all keys of the table. [`needs_restart`](super::needs_restart)
/// compares the same in the settings.
const AT_START: &[&str] = &[
    "threads",
    "admin",
    "advise",
    "memory.size",
    "memory.entries",
    "memory.count",
    "stats.url",
    "stats.keep",
    "stats.client",
    "stats.rate",
    "stats.queue",
    "stats.max_size",
    "stats.contents",
    "cluster.*",
    "trace.*",
    "reverse.listen",
    "reverse.listen_tls",
    "reverse.socket_mode",
    "forward.listen",
    "forward.listen_tls",
    "intercept.ca",
    "thrift.*",
    "onc.listen",
    "onc.udp",
    "line.listen",
    "line.tls",
    "disk.path",
];

/// Returns the keys of `draft` that do not have their defaults. Rules have none, and are compared as a whole.
pub(super) fn keys(draft: &Draft) -> ConfigKeys {
    let (mut keys, defaults) = (KeyList::default(), Draft::default());
    keys.add("", "", TOP, (draft, &defaults));
    for section in SECTIONS {
        keys.add(section.name, section.name, section.keys, (draft, &defaults));
    }
    keys.add("forward", "forward", CACHING, (&draft.values.forward.rules, &defaults.values.forward.rules));
    keys.rules("", &draft.rules);
    keys.rules("forward.", &draft.forward_rules);
    for files in &draft.values.certificates {
        let name = format!("tls[{}]", files.cert.display());
        keys.add("tls", &name, TLS_KEYS, (files, &CertificateFiles::default()));
    }
    for disk in &draft.disks {
        let name = format!("disk[{}]", disk.tier.path.display());
        keys.add("disk", &name, DISK_KEYS, (disk, &DiskDraft::default()));
    }
    let defaults = SiteDraft::default();
    for (at, site) in draft.sites.iter().enumerate() {
        let name = format!("site[{}]", site.name_at(at));
        keys.add("site", &name, SITE, (site, &defaults));
        keys.add("site", &name, CACHING, (&site.values.rules, &defaults.values.rules));
        keys.rules(&format!("{name}."), &site.site_rules);
    }
    keys.0
}

#[derive(Default)]
struct KeyList(ConfigKeys);

impl KeyList {
    /// Adds the `keys` of `table`, which is called `name` here, if their values are not the defaults.
    fn add<T>(&mut self, table: &str, name: &str, keys: &[Key<T>], (target, defaults): (&T, &T)) {
        let below =
            |table: &str, key: &str| if table.is_empty() { key.to_owned() } else { format!("{table}.{key}") };
        for key in keys {
            let text = (key.show)(target);
            if text == (key.show)(defaults) {
                continue;
            }
            let needs_restart = applies_at_start(&below(table, key.name));
            let value = ConfigValue { text, is_secret: (key.is_secret)(), needs_restart };
            self.0.insert(below(name, key.name), value);
        }
    }

    /// Adds the rules of `owner`, which ends with a point unless it is empty. Fields that they set may contain credentials.
    fn rules(&mut self, owner: &str, rules: &[RuleDraft]) {
        for (rule, number) in rules.iter().zip(1..) {
            let name = rule.name.clone().unwrap_or_else(|| number.to_string());
            let value = ConfigValue { text: rule.text.clone(), is_secret: true, needs_restart: false };
            self.0.insert(format!("{owner}rule[{name}]"), value);
        }
    }
}

fn applies_at_start(key: &str) -> bool {
    AT_START.iter().any(|start| match start.strip_suffix('*') {
        Some(table) => key.starts_with(table),
        None => key == *start,
    })
}

/// Formats a table as TOML in one line.
pub(super) fn table(table: &DeTable<'_>) -> String {
    let row = |(key, value): (&toml::Spanned<_>, &toml::Spanned<DeValue<'_>>)| {
        let key: &std::borrow::Cow<'_, str> = key.get_ref();
        format!("{key:?} = {}", text(value.get_ref()))
    };
    format!("{{ {} }}", table.iter().map(row).collect::<Vec<_>>().join(", "))
}

fn text(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("{text:?}"),
        DeValue::Integer(number) => number.as_str().to_owned(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(items) => {
            let items: Vec<_> = items.iter().map(|item| text(item.get_ref())).collect();
            format!("[{}]", items.join(", "))
        }
        DeValue::Table(inner) => table(inner),
    }
}

#[cfg(test)]
mod tests {
    use larder_proxy::Settings;
    use toml::de::DeValue;

    use super::{Draft, Key, SECTIONS, TOP, keys};
    use crate::config::flags::Flags;
    use crate::config::{needs_restart, parse};

    fn settings(text: &str) -> Settings {
        parse("larder.toml", text, &Flags::default()).expect(text)
    }

    /// Returns the names of the keys that differ, those that need a restart with a star.
    fn differences(running: &str, file: &str) -> Vec<String> {
        let found = settings(running).keys.differences(&settings(file).keys);
        found.iter().map(|one| format!("{}{}", one.key, if one.needs_restart { "*" } else { "" })).collect()
    }

    const SITE: &str = "[[site]]\nhosts = 'a.test'\norigin = 'http://a'\n";

    #[test]
    fn keys_with_the_same_meaning_do_not_differ() {
        assert!(differences("", "x_cache = false\n[memory]\nsize = 'auto'").is_empty());
        assert!(differences("[timeouts]\nidle = '60s'", "[timeouts]\nidle = '1m'").is_empty());
        let rule = "[[site.rule]]\nttl = '1m'\nmatch = { path = '/a' }";
        let moved = format!("\n\n{SITE}[[site.rule]]\nmatch.path = '/a'\nttl = \"1m\"");
        assert!(differences(&format!("{SITE}{rule}"), &moved).is_empty());
    }

    #[test]
    fn keys_that_differ_are_named_with_their_tables() {
        let changed =
            "[[site]]\nhosts = 'a.test'\norigin = 'http://b'\ncache = false\n[[site.rule]]\nttl = '2m'";
        assert_eq!(
            differences(SITE, changed),
            ["site[a.test].cache", "site[a.test].origin", "site[a.test].rule[1]"]
        );
        let of_all = |ttl: &str| {
            format!("{SITE}[[site.rule]]\nname = 'a'\nttl = '1m'\n[[rule]]\nname = 'a'\nttl = '{ttl}'")
        };
        assert_eq!(differences(&of_all("2m"), &of_all("3m")), ["rule[a]"]);
        assert_eq!(differences("", "[[disk]]\npath = '/a'"), ["disk[/a].path*"]);
        assert_eq!(
            differences("[memory]\nsize = '1GiB'", "[memory]\npolicy = 'lru'"),
            ["memory.policy", "memory.size*"]
        );
    }

    #[test]
    fn keys_need_a_restart_where_a_reload_would_say_so() {
        for keys in [
            "threads = 7",
            "admin = 'off'",
            "x_cache = true",
            "[memory]\nsize = '3MiB'",
            "[memory]\nentries = 7",
            "[memory]\ncount = 'content'",
            "[memory]\npolicy = 'lru'",
            "[stats]\nurl = 'none'",
            "[stats]\nkeep = '1d'",
            "[stats]\nquery = 'drop'",
            "[trace]\nsample = 0.5",
            "[cluster]\nengine = 'redis://127.0.0.1'",
            "[reverse]\nlisten = '127.0.0.1:81'\n[[site]]\norigin = 'http://a'",
            "[forward]\nlisten = '127.0.0.1:81'",
            "[forward]\nclients = '127.0.0.1'",
            "[line]\nlisten = '127.0.0.1:81'",
            "[thrift]\nlisten = '127.0.0.1:81'",
            "[onc]\nudp_rate = 7",
            "[doors]\nredirects = 7",
            "[[disk]]\npath = '/a'",
            "[timeouts]\nidle = '7s'",
        ] {
            let (before, after) = (settings(""), settings(keys));
            let found = before.keys.differences(&after.keys);
            let needed = found.iter().any(|one| one.needs_restart);
            // Without an endpoint, there is nothing that a new sample could change.
            let told = !needs_restart(&before, &after).is_empty() || keys.starts_with("[trace]");
            assert_eq!((found.is_empty(), needed), (false, told), "{keys}");
        }
    }

    /// Values for all kinds of secrets; each has `hidden-word` in it.
    const SECRETS: &[&str] = &[
        "0123456789-hidden-word",
        "http://u:hidden-word@proxy",
        "redis://u:hidden-word@engine",
        "postgres://u:hidden-word@host/base",
    ];

    #[test]
    fn no_key_that_may_have_a_secret_is_shown() {
        let all: Vec<&Key<Draft>> =
            TOP.iter().chain(SECTIONS.iter().flat_map(|section| section.keys)).collect();
        for key in &all {
            // What its name says, its kind says, too.
            let sounds_secret = ["token", "password", "secret"].iter().any(|word| key.name.contains(word));
            assert!(!sounds_secret || (key.is_secret)(), "{}", key.name);
        }
        let secret: Vec<_> = all.into_iter().filter(|key| (key.is_secret)()).collect();
        assert_eq!(secret.len(), 7);
        for key in secret {
            let mut draft = Draft::default();
            let set = |text: &&str| (key.set)(&mut draft, &DeValue::String((*text).into())).is_ok();
            assert!(SECRETS.iter().any(set), "{} takes one of the values", key.name);
            let shown = format!("{0:?} {1}", keys(&draft), serde_json::to_string(&keys(&draft)).unwrap());
            assert!(shown.contains("(not shown)") && !shown.contains("hidden-word"), "{shown}");
        }
    }
}
