//! `Strict-Transport-Security` (RFC 6797).

use std::fmt;

/// What browsers are told by `Strict-Transport-Security`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hsts {
    /// For how many seconds they use TLS only.
    pub max_age: u32,
    /// For subdomains as well.
    pub subdomains: bool,
    /// The host may be in the lists that browsers come with.
    pub preload: bool,
}

impl fmt::Display for Hsts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "max-age={}", self.max_age)?;
        f.write_str(if self.subdomains { "; includeSubDomains" } else { "" })?;
        f.write_str(if self.preload { "; preload" } else { "" })
    }
}
