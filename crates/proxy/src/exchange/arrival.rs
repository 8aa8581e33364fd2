//! By what kind of connection requests arrive.

use crate::base::settings::Role;
use crate::http::head::Target;

/// What a listener is for, and whether clients reach it over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// What clients may ask.
    pub role: Role,
    /// Requests arrive over TLS.
    pub tls: bool,
}

/// Whether a target is a URL of https.
pub(crate) fn is_https(target: &Target<'_>) -> bool {
    matches!(target, Target::Absolute { scheme: "https", .. })
}
