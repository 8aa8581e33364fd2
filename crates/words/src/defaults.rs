//! Structs of settings, with their defaults.

/// Declares a struct whose fields have defaults: `FIELD: TYPE = DEFAULT,`.
#[macro_export]
macro_rules! with_defaults {
    ($(#[$attribute:meta])* $vis:vis struct $name:ident {
        $($(#[$doc:meta])* $field_vis:vis $field:ident: $type:ty = $default:expr,)*
    }) => {
        $(#[$attribute])*
        $vis struct $name {
            $($(#[$doc])* $field_vis $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
    };
}
