//! Enums whose values have names.

/// Declares an enum with `ALL` its values, in their order, and a function that returns the name of a value:
/// `enum TYPE, FUNCTION { VALUE = NAME, .. }`.
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

        #[allow(dead_code, reason = "not every enum needs a list of its values")]
        impl $Type {
            /// All values, in the order of their discriminants.
            $vis const ALL: [Self; [$(stringify!($Value)),+].len()] = [$(Self::$Value),+];

            /// Returns the name of the value, as users see it.
            $vis const fn $word(self) -> &'static str {
                match self {
                    $(Self::$Value => $name,)+
                }
            }
        }
    };
}

pub use named;
