//! By what kind of connection requests arrive.

use crate::base::settings::Role;

/// What a listener is for, and whether clients reach it over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// What clients may ask.
    pub role: Role,
    /// Requests arrive over TLS.
    pub tls: bool,
}
