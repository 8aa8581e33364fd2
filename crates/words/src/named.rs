/// Declares an enum with `ALL` its values, in their order, `NAMES`, which has their names, too, a function that returns the
/// name of a value, and `of_name`, the way back: `enum TYPE, FUNCTION { VALUE = NAME, .. }`.
#[macro_export]
macro_rules! named {
    ($(#[$about:meta])* $vis:vis enum $Type:ident, $word:ident {
        $($(#[$doc:meta])* $Value:ident = $name:expr,)+
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $Type {
            $($(#[$doc])* $Value,)+
        }

        #[allow(dead_code, reason = "not every enum needs a list of its values, and the way back from a name")]
        impl $Type {
            /// All values, in the order of their discriminants.
            $vis const ALL: [Self; [$(stringify!($Value)),+].len()] = [$(Self::$Value),+];

            /// All values with their names, in the same order.
            $vis const NAMES: &'static [(&'static str, Self)] = &[$(($name, Self::$Value)),+];

            /// Returns the name of the value, as users see it.
            $vis const fn $word(self) -> &'static str {
                match self {
                    $(Self::$Value => $name,)+
                }
            }

            /// Returns the value of this name.
            $vis fn of_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.$word() == name)
            }
        }

        impl std::fmt::Display for $Type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.$word())
            }
        }
    };
}

/// Implements `Debug` by a text, for a type whose fields are secrets or too long for logs:
/// `debug_as!(TYPE, |VALUE| FORMAT, ARGUMENTS)`.
#[macro_export]
macro_rules! debug_as {
    ($Type:ty, |$value:pat_param| $($format:tt)+) => {
        impl std::fmt::Debug for $Type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                let $value = self;
                write!(f, $($format)+)
            }
        }
    };
}
