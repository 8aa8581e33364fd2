//! The access log.

/// The format of the access log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessLog {
    /// No access log.
    Off,
    /// One readable line per request.
    Text,
    /// One JSON object per request.
    Json,
    /// NCSA's combined log format.
    Combined,
    /// Squid's native format.
    Squid,
}
