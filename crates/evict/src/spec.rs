//! Conversion between a policy as users write it, `name:param=value,param=value` or `filter+name`, and a [`Spec`].

use std::fmt::{self, Display};
use std::str::FromStr;

use crate::filters::{FILTERS, FilterSpec};
use crate::params::{Param, Params};
use crate::policies::{POLICIES, PolicySpec};
use crate::registry::Listing;

/// A policy with its parameters, as a user names them: `lru`, `name:param=value,param=value`, and either of them behind
/// an admission filter: `tinylfu+lru`, `size:max=1MiB+lru`.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    pub(crate) filter: Option<FilterSpec>,
    pub(crate) policy: PolicySpec,
}

/// The reason why a spec is not valid: one line for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError(String);

impl Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SpecError {}

impl Spec {
    /// Reads `lru`, `name:param=value,param=value` or `filter+name`. The error names the invalid part, the nearest
    /// valid name, and all valid names.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let (filter, policy) = match text.split_once('+') {
            Some((_, policy)) if policy.contains('+') => {
                return Err(SpecError(format!(
                    "one filter at most stands before a policy, got {}",
                    quoted(text)
                )));
            }
            Some((filter, policy)) => (Some(filter), policy),
            None => (None, text),
        };
        Ok(Self { filter: filter.map(read_filter).transpose()?, policy: read_policy(policy)? })
    }

    /// Returns the policy's name in [`POLICIES`].
    pub fn name(&self) -> &'static str {
        self.policy.name()
    }

    /// Returns the name in [`FILTERS`] of the filter before the policy, if there is one.
    pub fn filter(&self) -> Option<&'static str> {
        self.filter.as_ref().map(FilterSpec::name)
    }
}

fn read_policy(text: &str) -> Result<PolicySpec, SpecError> {
    let (name, params) = name_and_params(text);
    PolicySpec::read(name, params).unwrap_or_else(|| Err(unknown(PolicySpec::WHAT, name, POLICIES)))
}

fn read_filter(text: &str) -> Result<FilterSpec, SpecError> {
    let (name, params) = name_and_params(text);
    FilterSpec::read(name, params).unwrap_or_else(|| Err(unknown(FilterSpec::WHAT, name, FILTERS)))
}

fn name_and_params(text: &str) -> (&str, Option<&str>) {
    match text.split_once(':') {
        Some((name, params)) => (name, Some(params)),
        None => (text, None),
    }
}

fn unknown(what: &str, name: &str, list: &[Listing]) -> SpecError {
    let known = list.iter().map(|listing| listing.name);
    SpecError(format!("unknown {what} {}{}", quoted(name), advice(name, known)))
}

impl Default for Spec {
    /// The default policy.
    fn default() -> Self {
        Self { filter: None, policy: PolicySpec::Adaptive(Default::default()) }
    }
}

impl FromStr for Spec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        Self::parse(text)
    }
}

impl Display for Spec {
    /// Writes the text that [`Spec::parse`] reads as the same spec, without defaults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(filter) = &self.filter {
            write!(f, "{}{}+", filter.name(), parameters(&filter.tuned()))?;
        }
        write!(f, "{}{}", self.name(), parameters(&self.policy.tuned()))
    }
}

/// Returns the text after a name that is tuned by `params`.
fn parameters(params: &[String]) -> String {
    match params {
        [] => String::new(),
        params => format!(":{}", params.join(",")),
    }
}

/// Reads the parameters of `owner`, such as "policy 'lru'". Absent parameters keep their defaults.
pub(crate) fn read_params<P: Params>(owner: &str, text: Option<&str>) -> Result<P, SpecError> {
    let mut params = P::default();
    let mut seen = Vec::new();
    for assignment in text.into_iter().flat_map(|text| text.split(',')) {
        let (name, value) = match assignment.split_once('=') {
            Some((name, value)) => (name, value),
            None => {
                let expected = "expected param=value after ':'";
                return Err(SpecError(format!("{owner}: {expected}, got {}", quoted(assignment))));
            }
        };
        let Some(param) = P::ALL.iter().find(|param| param.name == name) else {
            return Err(unknown_param(owner, name, P::ALL));
        };
        if seen.contains(&param.name) {
            return Err(SpecError(format!("{owner}: parameter '{name}' is given twice")));
        }
        seen.push(param.name);
        params.set(name, value).map_err(|expected| {
            let value = quoted(value);
            SpecError(format!("{owner}: parameter '{name}' cannot be {value}; expected {expected}"))
        })?;
    }
    Ok(params)
}

/// Returns the parameters that differ from their defaults, as `name=value`.
pub(crate) fn tuned<P: Params>(params: &P) -> Vec<String> {
    let default = P::default();
    let values = P::ALL.iter().map(|param| (param.name, params.get(param.name), default.get(param.name)));
    values
        .filter(|(_, value, default)| value != default)
        .map(|(name, value, _)| format!("{name}={value}"))
        .collect()
}

fn unknown_param(owner: &str, name: &str, known: &[Param]) -> SpecError {
    let advice = match known {
        [] => "; it has none".into(),
        _ => advice(name, known.iter().map(|param| param.name)),
    };
    SpecError(format!("{owner} has no parameter {}{advice}", quoted(name)))
}

/// Returns the user's text in quotes on one line, with special characters escaped.
fn quoted(text: &str) -> String {
    format!("'{}'", text.escape_debug())
}

/// Returns the advice for a misspelt `word`: the nearest name and the known names.
fn advice<'a>(word: &str, known: impl Iterator<Item = &'a str> + Clone) -> String {
    let word = word.to_lowercase();
    let near = known.clone().map(|name| (strsim::osa_distance(&word, name), name)).min();
    let hint = match near {
        Some((distance, name)) if distance <= 1 + name.len() / 4 => format!("; did you mean '{name}'?"),
        _ => ";".into(),
    };
    format!("{hint} known: {}", known.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Queues {
        small: f64,
        bits: u8,
    }

    impl Default for Queues {
        fn default() -> Self {
            Self { small: 0.1, bits: 2 }
        }
    }

    impl Params for Queues {
        const ALL: &'static [Param] = &[
            Param { name: "small", about: "share, 0 to 1" },
            Param { name: "bits", about: "count, 1 to 8" },
        ];

        fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
            match name {
                "small" => self.small = value.parse().map_err(|_| "a share from 0 to 1")?,
                _ => self.bits = value.parse().map_err(|_| "a count from 1 to 8")?,
            }
            Ok(())
        }

        fn get(&self, name: &str) -> String {
            match name {
                "small" => self.small.to_string(),
                _ => self.bits.to_string(),
            }
        }
    }

    fn read(text: Option<&str>) -> Result<Queues, String> {
        read_params("policy 'q'", text).map_err(|error: SpecError| error.to_string())
    }

    #[test]
    fn parameters_that_are_not_mentioned_keep_their_defaults() {
        assert_eq!(read(None), Ok(Queues { small: 0.1, bits: 2 }));
        assert_eq!(read(Some("bits=3")), Ok(Queues { small: 0.1, bits: 3 }));
        assert_eq!(read(Some("bits=3,small=0.25")), Ok(Queues { small: 0.25, bits: 3 }));
    }

    #[test]
    fn only_tuned_parameters_are_printed() {
        assert_eq!(tuned(&Queues::default()), [""; 0]);
        assert_eq!(tuned(&Queues { small: 0.25, bits: 3 }), ["small=0.25", "bits=3"]);
    }

    #[test]
    fn wrong_parameters_are_named() {
        let table = [
            ("smal=0.2", "policy 'q' has no parameter 'smal'; did you mean 'small'? known: small bits"),
            ("colour=1", "policy 'q' has no parameter 'colour'; known: small bits"),
            ("bits", "policy 'q': expected param=value after ':', got 'bits'"),
            ("", "policy 'q': expected param=value after ':', got ''"),
            ("bits=1,bits=2", "policy 'q': parameter 'bits' is given twice"),
            ("bits=\n", "policy 'q': parameter 'bits' cannot be '\\n'; expected a count from 1 to 8"),
        ];
        for (text, error) in table {
            assert_eq!(read(Some(text)), Err(error.into()), "{text}");
        }
    }
}
