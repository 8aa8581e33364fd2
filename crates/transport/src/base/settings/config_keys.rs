//! The keys of the config that differ from their defaults, for people: what runs, and what a reload would change.

use std::collections::{BTreeMap, BTreeSet};

use larder_words::debug_as;
use serde::{Serialize, Serializer};

/// Keys by name, such as `memory.size` or `site[docs.example].origin`.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct ConfigKeys(BTreeMap<String, ConfigValue>);

/// The value of a key. It is shown as TOML, unless it is a secret.
#[derive(Clone, PartialEq, Eq)]
pub struct ConfigValue {
    /// The value as TOML.
    pub text: String,
    /// Whether it may contain a secret, so that it is compared and never shown.
    pub is_secret: bool,
    /// Whether a change needs a restart.
    pub needs_restart: bool,
}

/// A key whose value in the file is not the one in force.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct ConfigDifference {
    /// Its name.
    pub key: String,
    /// The value in force; `None`: the default.
    pub running: Option<ConfigValue>,
    /// The value in the file; `None`: the default.
    pub file: Option<ConfigValue>,
    /// Whether the values may contain secrets, so that they are not shown.
    pub is_secret: bool,
    /// Whether a reload leaves it as it is.
    pub needs_restart: bool,
}

impl ConfigKeys {
    /// Adds a key.
    pub fn insert(&mut self, key: String, value: ConfigValue) {
        self.0.insert(key, value);
    }

    /// Returns the keys in force after these are applied to a process that was started with `started`.
    #[must_use]
    pub fn reloaded(self, started: &Self) -> Self {
        let applied = self.0.into_iter().filter(|(_, value)| !value.needs_restart);
        let kept = started.0.iter().filter(|(_, value)| value.needs_restart);
        Self(applied.chain(kept.map(|(key, value)| (key.clone(), value.clone()))).collect())
    }

    /// Returns the keys that have other values in `file`.
    pub fn differences(&self, file: &Self) -> Vec<ConfigDifference> {
        let keys: BTreeSet<_> = self.0.keys().chain(file.0.keys()).collect();
        let pairs = keys.into_iter().map(|key| (key, self.0.get(key), file.0.get(key)));
        let differ = pairs.filter(|(_, running, file)| running != file);
        differ
            .map(|(key, running, file)| ConfigDifference {
                key: key.clone(),
                running: running.cloned(),
                file: file.cloned(),
                is_secret: running.into_iter().chain(file).any(|value| value.is_secret),
                needs_restart: running.into_iter().chain(file).any(|value| value.needs_restart),
            })
            .collect()
    }
}

/// What stands for a secret.
const HIDDEN: &str = "(not shown)";

impl ConfigValue {
    fn shown(&self) -> &str {
        if self.is_secret { HIDDEN } else { &self.text }
    }
}

debug_as!(ConfigValue, |value| "{}", value.shown());

impl Serialize for ConfigValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.shown())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(rows: &[(&str, &str)]) -> ConfigKeys {
        let value = |key: &str, text: &str| ConfigValue {
            text: text.to_owned(),
            is_secret: key == "admin_token",
            needs_restart: key == "threads",
        };
        ConfigKeys(rows.iter().map(|(key, text)| ((*key).to_owned(), value(key, text))).collect())
    }

    #[test]
    fn a_reload_keeps_the_keys_that_need_a_restart() {
        let started = keys(&[("threads", "2"), ("name", "\"a\"")]);
        let file = keys(&[("threads", "4"), ("x_cache", "true")]);
        let running = file.clone().reloaded(&started);
        let differences = running.differences(&file);
        let names: Vec<_> =
            differences.iter().map(|found| (found.key.as_str(), found.needs_restart)).collect();
        assert_eq!(names, [("threads", true)]);
        assert!(running.differences(&running.clone()).is_empty());
        // A key that is no longer written has its default, and that needs a restart, too.
        let running = keys(&[]).reloaded(&started);
        assert!(running.differences(&keys(&[]))[0].needs_restart);
    }

    #[test]
    fn secrets_are_compared_and_never_shown() {
        let (old, new) = (keys(&[("admin_token", "old-secret")]), keys(&[("admin_token", "new-secret")]));
        let differences = old.differences(&new);
        assert_eq!(differences.len(), 1);
        let shown = format!("{differences:?} {}", serde_json::to_string(&differences).unwrap());
        assert!(shown.contains(HIDDEN) && !shown.contains("-secret"), "{shown}");
    }
}
