//! What is said of certificates by ACME: in `/stats`, in metrics, on the dashboard.

use serde::Serialize;

use super::Acme;
use super::name::{Held, Name, Obstacle};

/// All of it.
#[derive(Debug, Serialize)]
pub(crate) struct AcmeReport {
    /// Orders that led to a certificate, since the process began.
    pub(crate) issued: u64,
    /// Orders that did not.
    pub(crate) failed: u64,
    pub(crate) names: Vec<OfName>,
}

/// A name.
#[derive(Debug, Serialize)]
pub(crate) struct OfName {
    pub(crate) name: String,
    /// `valid`; `awaited`, before the first certificate; `expired`.
    pub(crate) state: &'static str,
    /// An order is in progress.
    pub(crate) ordering: bool,
    /// When the certificate ends, in UNIX seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) not_after: Option<u64>,
    /// When it is to be renewed, in UNIX seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) renewal: Option<u64>,
    /// Orders in a row that have failed.
    pub(crate) failures: u32,
    /// Why the last one has, or why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trouble: Option<String>,
    /// How long ago the first one failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failing_seconds: Option<u64>,
    /// In how many seconds the next one follows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_seconds: Option<u64>,
}

impl Acme {
    /// What can be said now; `None` if no site has certificates by ACME.
    pub(crate) fn report(&self) -> Option<AcmeReport> {
        let (names, now) = (self.names(), super::now());
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
            renewal: name.held.as_ref().map(Held::renewal),
            failures: standing.map_or(0, |standing| standing.failures),
            trouble: obstacle.map(of_obstacle).or_else(|| standing.map(|standing| standing.trouble.clone())),
            failing_seconds: standing.map(|standing| now.saturating_sub(standing.since)),
            retry_seconds: standing.map(|standing| standing.retry.saturating_sub(now)),
        }
    }
}
