//! The parameters of policies and filters, which users set by name: `s3fifo:small=0.2,threshold=1`.

use std::fmt::Debug;
use std::ops::RangeInclusive;

/// One tunable parameter of a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param {
    /// The name in a spec: `small` in `s3fifo:small=0.1`.
    pub name: &'static str,
    /// The effect of the parameter, with unit and range, in one line.
    pub about: &'static str,
}

/// The parameters of a policy: a typed struct whose fields can be read and set by name. `()` has none.
pub trait Params: Default + Clone + Debug + PartialEq + Send {
    /// Every parameter, in the order in which a spec prints them.
    const ALL: &'static [Param];

    /// Sets parameter `name`, one of [`ALL`](Self::ALL). The error describes valid values, such as "a share from 0 to
    /// 1".
    fn set(&mut self, name: &str, value: &str) -> Result<(), String>;

    /// Returns the value of parameter `name`, one of [`ALL`](Self::ALL), in the syntax of [`set`](Self::set).
    fn get(&self, name: &str) -> String;
}

impl Params for () {
    const ALL: &'static [Param] = &[];

    fn set(&mut self, _name: &str, _value: &str) -> Result<(), String> {
        Err("no parameter".into())
    }

    fn get(&self, _name: &str) -> String {
        String::new()
    }
}

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
