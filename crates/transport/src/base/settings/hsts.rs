//! `Strict-Transport-Security` (RFC 6797).

use std::fmt;

/// The directives of `Strict-Transport-Security`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hsts {
    /// Time for which browsers use only TLS, in seconds.
    pub max_age: u32,
    /// Whether it applies to subdomains as well.
    pub subdomains: bool,
    /// Whether the host may be in the preload lists of browsers.
    pub preload: bool,
}

impl fmt::Display for Hsts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "max-age={}", self.max_age)?;
        f.write_str(if self.subdomains { "; includeSubDomains" } else { "" })?;
        f.write_str(if self.preload { "; preload" } else { "" })
    }
}
