//! Conversion between a policy as users write it, `name:param=value,param=value` or `filter+name`, and a [`Spec`].

use std::fmt::{self, Display};
use std::str::FromStr;

use crate::filters::{FILTERS, FilterSpec};
use crate::listing::Listing;
use crate::policies::{POLICIES, PolicySpec};
use crate::spec_error::{SpecError, advice, quoted};

/// A policy with its parameters, as a user names them: `lru`, `name:param=value,param=value`, and either of them behind
/// an admission filter: `tinylfu+lru`, `size:max=1MiB+lru`.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    pub(crate) filter: Option<FilterSpec>,
    pub(crate) policy: PolicySpec,
}

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
