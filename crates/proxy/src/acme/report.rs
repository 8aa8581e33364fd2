//! The report about certificates by ACME: in `/stats`, in metrics, and on the dashboard.

use serde::Serialize;

use super::Acme;
use super::name::{Name, NameCertificate, Obstacle};

/// The report about all names.
#[derive(Debug, Serialize)]
pub struct AcmeReport {
    /// Orders that succeeded, since the process began.
    pub issued: u64,
    /// Orders that failed.
    pub failed: u64,
    /// The names with certificates.
    pub names: Vec<OfName>,
}

/// The report about a name.
#[derive(Debug, Serialize)]
pub struct OfName {
    /// The name.
    pub name: String,
    /// `valid`; `awaited`, before the first certificate; `expired`.
    pub(crate) state: &'static str,
    /// Whether an order is in progress.
    pub(crate) ordering: bool,
    /// The end of the certificate's validity, in UNIX seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) not_after: Option<u64>,
    /// The time of its renewal, in UNIX seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renewal: Option<u64>,
    /// Consecutive failed orders.
    pub failures: u32,
    /// The reason of the last failure, or the obstacle to an order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trouble: Option<String>,
    /// The time since the first of these failures, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failing_seconds: Option<u64>,
    /// The time until the next order, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_seconds: Option<u64>,
}

impl Acme {
    /// Returns the current report; `None` if no site has certificates by ACME.
    pub fn report(&self) -> Option<AcmeReport> {
        let (names, now) = (self.names.lock(), super::now());
        let issued = self.issued.load(std::sync::atomic::Ordering::Relaxed);
        let failed = self.failed.load(std::sync::atomic::Ordering::Relaxed);
        let of_names: Vec<_> = names.iter().map(|(host, name)| OfName::of(host, name, now)).collect();
        (!of_names.is_empty()).then_some(AcmeReport { issued, failed, names: of_names })
    }
}

impl OfName {
    fn of(host: &str, name: &Name, now: u64) -> Self {
        let not_after = name.held.as_ref().map(|held| held.certificate.not_after);
        let (standing, obstacle) = (name.standing.as_ref(), name.obstacle.as_ref());
        let of_obstacle = |obstacle: &Obstacle| match obstacle {
            Obstacle::File(why) => why.clone(),
            Obstacle::Engine(why) => format!("the cluster's engine has to grant the order: {why}"),
        };
        Self {
            name: host.to_owned(),
            state: match not_after {
                None => "awaited",
                Some(end) if end <= now => "expired",
                Some(_) => "valid",
            },
            ordering: name.is_ordered,
            not_after,
            renewal: name.held.as_ref().map(NameCertificate::renewal),
            failures: standing.map_or(0, |standing| standing.failures),
            trouble: obstacle.map(of_obstacle).or_else(|| standing.map(|standing| standing.trouble.clone())),
            failing_seconds: standing.map(|standing| now.saturating_sub(standing.since)),
            retry_seconds: standing.map(|standing| standing.retry.saturating_sub(now)),
        }
    }
}
