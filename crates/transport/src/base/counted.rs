//! Counts, and the counters behind them.

/// Declares a struct of counts, and one of the counters behind them, which any thread increases:
/// `struct COUNTS, COUNTERS { COUNT, .. }`.
#[macro_export]
macro_rules! counted {
    ($(#[$about:meta])* $vis:vis struct $Counts:ident, $Counters:ident {
        $($(#[$doc:meta])* $count:ident,)+
    }) => {
        $(#[$about])*
        $vis struct $Counts {
            $($(#[$doc])* pub $count: u64,)+
        }

        #[doc = concat!("The counters of [`", stringify!($Counts), "`].")]
        #[derive(Debug, Default)]
        $vis struct $Counters {
            $($(#[$doc])* pub $count: ::std::sync::atomic::AtomicU64,)+
        }

        impl $Counters {
            /// Returns the counts so far.
            $vis fn report(&self) -> $Counts {
                $Counts { $($count: self.$count.load(::std::sync::atomic::Ordering::Relaxed),)+ }
            }
        }
    };
}

pub use counted;
