//! The words after a command: `--name value` and `--name`, checked against the command's known names.

use anyhow::{Result, anyhow, bail};
use larder_words::nearest;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// An option: its name and whether a value follows.
pub(crate) type OptionSpec = (&'static str, bool);

/// The options of a command line.
#[derive(Debug)]
pub(crate) struct Words(BTreeMap<&'static str, String>);

impl Words {
    /// Returns the value of an option, if it was given; the empty string for a switch.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(crate) fn path(&self, name: &str) -> Option<PathBuf> {
        self.get(name).map(PathBuf::from)
    }

    /// Returns the paths of an option, which are separated by commas.
    pub(crate) fn paths(&self, name: &str) -> Vec<PathBuf> {
        self.get(name).iter().flat_map(|list| list.split(',')).map(PathBuf::from).collect()
    }

    /// Returns the number of an option, or `usual` if it was not given. Errors: a value that is not a whole number
    /// above 0.
    pub(crate) fn number(&self, name: &str, usual: u32) -> Result<u32> {
        let Some(value) = self.get(name) else { return Ok(usual) };
        match value.parse() {
            Ok(number) if number > 0 => Ok(number),
            _ => bail!("option `{name}` needs a whole number above 0, but got `{value}`"),
        }
    }

    /// Returns the seconds of an option, or `usual` seconds if it was not given.
    pub(crate) fn seconds(&self, name: &str, usual: u32) -> Result<Duration> {
        self.number(name, usual).map(|seconds| Duration::from_secs(seconds.into()))
    }
}

/// Reads options. Errors: a name that is not in `known`, a missing value, a name given twice, or a word that is not an
/// option.
pub(crate) fn parse(words: &[String], known: &[OptionSpec]) -> Result<Words> {
    let mut found = BTreeMap::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (name, inline) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (word.as_str(), None),
        };
        let Some(&(name, takes_value)) = known.iter().find(|(known, _)| *known == name) else {
            let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
            return Err(unknown("option", name, &names));
        };
        let value = match (takes_value, inline) {
            (false, Some(value)) => bail!("option `{name}` takes no value, but got `{value}`"),
            (false, None) => String::new(),
            (true, Some(value)) => value,
            (true, None) => words.next().cloned().ok_or_else(|| anyhow!("option `{name}` needs a value"))?,
        };
        if found.insert(name, value).is_some() {
            bail!("option `{name}` is given twice");
        }
    }
    Ok(Words(found))
}

/// Returns the values whose names are in `words`, separated by commas; all of them if it is `None`. Errors call a value a
/// `kind`. Errors: a name that is not in `known`.
pub(crate) fn chosen<T: Copy>(words: Option<&str>, kind: &str, known: &[(&str, T)]) -> Result<Vec<T>> {
    let Some(words) = words else { return Ok(known.iter().map(|(_, value)| *value).collect()) };
    let value = |word| {
        let found = known.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
        found.ok_or_else(|| unknown(kind, word, &known.iter().map(|(name, _)| *name).collect::<Vec<_>>()))
    };
    words.split(',').map(value).collect()
}

/// Returns the error "unknown KIND `word`", with the nearest known name if one is near.
pub(crate) fn unknown(kind: &str, word: &str, known: &[&str]) -> anyhow::Error {
    match nearest(word, known.iter().copied()) {
        Some(name) => anyhow!("unknown {kind} `{word}`; did you mean `{name}`?"),
        None if known.is_empty() => anyhow!("unknown {kind} `{word}`; none is known here"),
        None => anyhow!("unknown {kind} `{word}`; known are: {}", known.join(", ")),
    }
}

/// Returns the words of a command line, for tests.
#[cfg(test)]
pub(crate) fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::{parse, unknown, words};

    const KNOWN: &[super::OptionSpec] = &[("--seconds", true), ("--install", false)];

    #[test]
    fn values_follow_or_are_joined() {
        for line in ["--seconds 5 --install", "--install --seconds=5"] {
            let found = parse(&words(line), KNOWN).unwrap();
            assert_eq!(found.number("--seconds", 1).unwrap(), 5, "{line}");
            assert!(found.has("--install"), "{line}");
        }
    }

    #[test]
    fn wrong_words_are_named() {
        for (line, complaint) in [
            ("--second 5", "unknown option `--second`; did you mean `--seconds`?"),
            ("--seconds", "option `--seconds` needs a value"),
            ("--install=yes", "option `--install` takes no value, but got `yes`"),
            ("--install --install", "option `--install` is given twice"),
            ("x", "unknown option `x`; known are: --seconds, --install"),
        ] {
            assert_eq!(parse(&words(line), KNOWN).unwrap_err().to_string(), complaint);
        }
    }

    #[test]
    fn a_far_word_gets_the_list() {
        let error = unknown("server", "zebra", &["nginx", "varnish"]);
        assert_eq!(error.to_string(), "unknown server `zebra`; known are: nginx, varnish");
    }
}
