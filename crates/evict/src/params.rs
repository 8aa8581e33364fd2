//! The parameters of policies and filters, which users set by name: `s3fifo:small=0.2,threshold=1`.

use std::fmt::Debug;
use std::ops::RangeInclusive;

use crate::spec_error::{SpecError, advice, quoted};

/// One tunable parameter of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// The name in a spec: `small` in `s3fifo:small=0.1`.
    pub name: &'static str,
    /// The effect of the parameter, with unit and range, in one line.
    pub about: &'static str,
}

/// The parameters of a policy: a typed struct whose fields can be read and set by name; none by default.
pub trait Params: Default + Clone + Debug + PartialEq + Send {
    /// Every parameter, in the order in which a spec prints them.
    const ALL: &'static [Param] = &[];

    /// Sets the parameter of this name, one of [`ALL`](Self::ALL). The error describes valid values, such as "a share
    /// from 0 to 1".
    fn set(&mut self, _name: &str, _value: &str) -> Result<(), String> {
        Err("no parameter".into())
    }

    /// Returns the value of the parameter of this name, one of [`ALL`](Self::ALL), in the syntax of [`set`](Self::set).
    fn get(&self, _name: &str) -> String {
        String::new()
    }
}

impl Params for () {}

/// Reads a share of the capacity, for [`Params::set`].
pub(crate) fn read_share(value: &str) -> Result<f64, String> {
    let share = value.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "a share from 0 to 1".into())
}

/// Reads a count within `range`, for [`Params::set`].
pub(crate) fn read_count(value: &str, range: RangeInclusive<u32>) -> Result<u32, String> {
    let count = value.parse().ok().filter(|count| range.contains(count));
    count.ok_or_else(|| format!("a count from {} to {}", range.start(), range.end()))
}

/// Reads a bool, for [`Params::set`].
pub(crate) fn read_bool(value: &str) -> Result<bool, String> {
    value.parse().map_err(|_| "true or false".into())
}

/// Defines the parameters of a policy by a table: for each its name, type, default, parser and description.
macro_rules! params {
    ($(#[$about:meta])* $name:ident {
        $($(#[$doc:meta])* $field:ident: $type:ty = $default:expr, $parse:expr, $effect:literal;)+
    }) => {
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name {
            $($(#[$doc])* pub(crate) $field: $type,)+
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default),+ }
            }
        }

        impl $crate::Params for $name {
            const ALL: &'static [$crate::Param] =
                &[$($crate::Param { name: stringify!($field), about: $effect }),+];

            fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
                match name {
                    $(stringify!($field) => self.$field = ($parse)(value)?,)+
                    _ => return Err("no parameter".into()),
                }
                Ok(())
            }

            fn get(&self, name: &str) -> String {
                match name {
                    $(stringify!($field) => self.$field.to_string(),)+
                    _ => String::new(),
                }
            }
        }
    };
}

pub(crate) use params;

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

#[cfg(test)]
mod tests {
    use super::*;

    params! {
        #[allow(unreachable_pub, reason = "the parameters of policies are public")]
        Queues {
            small: f64 = 0.1, read_share, "share, 0 to 1";
            bits: u32 = 2, |value| read_count(value, 1..=8), "count, 1 to 8";
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
