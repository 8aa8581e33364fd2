//! A name and its certificate: the state of its orders, and the next action.

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use tokio::sync::Notify;

use super::failure_streak::FailureStreak;
use super::files::Files;
use super::schedule::{Validity, Window, renewal};
use crate::base::settings::{Acme as Settings, AcmeChallenge};
use crate::net::tls::certificates::Certificate;

/// Maximum wait before the clock is read again, since it may be set forward meanwhile.
const LOOK: Duration = Duration::from_secs(60);

/// Minimum time between two orders for a name with a certificate, in seconds.
const OFTEN: u64 = 3_600;

/// A name that needs a certificate.
#[derive(Debug)]
pub(super) struct Name {
    pub(super) settings: Arc<Settings>,
    pub(super) files: Files,
    /// The position of the name in the config.
    pub(super) position: usize,
    pub(super) held: Option<NameCertificate>,
    /// The consecutive failures of orders; `None` if the last order succeeded.
    pub(super) standing: Option<FailureStreak>,
    /// A further obstacle to an order.
    pub(super) obstacle: Option<Obstacle>,
    pub(super) is_ordered: bool,
    /// Wakes the task that renews the certificate when the state has changed.
    pub(super) changed: Arc<Notify>,
}

/// The reason why no certificate is ordered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Obstacle {
    /// An unusable file, which the operator has to repair first.
    File(String),
    /// An error of the cluster's engine, which has to grant the lease.
    Engine(String),
}

/// A certificate in use.
#[derive(Clone, Debug)]
pub(super) struct NameCertificate {
    pub(super) certificate: Certificate,
    /// The certificate and its key, in PEM.
    pub(super) pem: Vec<u8>,
    /// The window of renewal that the authority suggests, if it is known.
    pub(super) window: Option<Window>,
    /// The time of the next query for that window, in UNIX seconds.
    pub(super) inquiry: u64,
    /// The time when this process obtained it, in UNIX seconds; 0: an earlier process did.
    pub(super) obtained: u64,
}

/// The next action for a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextAction {
    /// To wait for this time.
    Wait(Duration),
    /// To query the authority for the time of renewal.
    Inquire,
    /// To order a certificate.
    Order,
}

impl NameCertificate {
    /// Creates the state of a certificate that was `obtained` at this time.
    pub(super) fn new(certificate: Certificate, pem: Vec<u8>, obtained: u64) -> Self {
        Self { certificate, pem, window: None, inquiry: 0, obtained }
    }

    /// Returns the time of its renewal, in UNIX seconds. If the authority always suggests an immediate renewal, there
    /// is at most one order per hour.
    pub(super) fn renewal(&self) -> u64 {
        let lifetime = self.certificate.not_after.saturating_sub(self.certificate.not_before);
        self.due().max(self.obtained + OFTEN.min(lifetime / 6))
    }

    /// Returns the time of renewal regardless of `obtained`: the same on all nodes, and after a restart.
    pub(super) fn due(&self) -> u64 {
        let Certificate { not_before, not_after, .. } = self.certificate;
        renewal(Validity { from: not_before, until: not_after }, self.window, self.share())
    }

    /// Returns a number from 0 to 1 that differs between certificates.
    fn share(&self) -> f64 {
        let hash = self.certificate.leaf().map(|leaf| digest(&SHA256, leaf));
        let first = hash.as_ref().and_then(|hash| hash.as_ref().first_chunk()).copied().unwrap_or_default();
        f64::from(u32::from_be_bytes(first)) / f64::from(u32::MAX)
    }
}

impl Name {
    /// Returns the next action at `now`, in UNIX seconds.
    pub(super) fn step(&self, now: u64) -> NextAction {
        if matches!(self.obstacle, Some(Obstacle::File(_))) {
            return NextAction::Wait(LOOK);
        }
        let inquiry = self.held.as_ref().map(|held| held.inquiry);
        if inquiry.is_some_and(|inquiry| inquiry <= now) {
            return NextAction::Inquire;
        }
        let due = self.held.as_ref().map_or(0, NameCertificate::renewal);
        let due = due.max(self.standing.as_ref().map_or(0, |standing| standing.retry));
        if due <= now {
            return NextAction::Order;
        }
        let next = due.min(inquiry.unwrap_or(u64::MAX));
        NextAction::Wait(Duration::from_secs(next - now).min(LOOK))
    }

    /// Returns the challenge to use next: after each failure, a different one.
    pub(super) fn challenge(&self) -> Option<AcmeChallenge> {
        let all = &self.settings.challenges;
        let failures = self.standing.as_ref().map_or(0, |standing| standing.failures as usize);
        all.get(failures.checked_rem(all.len())?).copied()
    }

    /// Replaces the certificate in use if this one is newer. Returns whether it is.
    pub(super) fn take(&mut self, held: NameCertificate) -> bool {
        let age = |held: &NameCertificate| (held.certificate.not_before, held.certificate.not_after);
        let is_newer = self.held.as_ref().is_none_or(|old| age(&held) > age(old));
        if is_newer {
            self.held = Some(held);
        }
        is_newer
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;
    use crate::origin::tls_config::tls_of_site;

    const DAY: u64 = 86_400;

    fn held(from: u64, until: u64) -> NameCertificate {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec!["a.test".to_owned()]).expect("a name");
        let moment = |seconds: u64| (std::time::UNIX_EPOCH + Duration::from_secs(seconds)).into();
        (params.not_before, params.not_after) = (moment(from), moment(until));
        let pem = params.self_signed(&key).expect("a certificate").pem() + &key.serialize_pem();
        let files = Files::new("/".as_ref(), "https://ca.test/dir");
        NameCertificate::new(
            files.parse("a.test", pem.as_bytes()).expect("a certificate"),
            pem.into_bytes(),
            0,
        )
    }

    fn name(held: Option<NameCertificate>, standing: Option<FailureStreak>) -> Name {
        let settings = Settings {
            contact: Vec::new(),
            directory: "https://ca.test/dir".to_owned(),
            accept_terms: true,
            challenges: vec![AcmeChallenge::Http01, AcmeChallenge::TlsAlpn01],
            ca: None,
            tls: Arc::new(tls_of_site(&Default::default()).expect("the system's authorities")),
        };
        let files = Files::new("/".as_ref(), &settings.directory);
        let (settings, changed) = (Arc::new(settings), Arc::default());
        Name { settings, files, position: 0, held, standing, obstacle: None, is_ordered: false, changed }
    }

    fn failed(failures: u32, retry: u64) -> Option<FailureStreak> {
        Some(FailureStreak { failures, retry, ..FailureStreak::default() })
    }

    #[test]
    fn the_next_action_for_a_name_follows_from_its_certificate_and_failures() {
        let asked = |inquiry: u64, window: Option<Window>| {
            Some(NameCertificate { inquiry: inquiry * DAY, window, ..held(0, 90 * DAY) })
        };
        let window = |start: u64| Some(Window { start: start * DAY, end: start * DAY + 1 });
        let wait = NextAction::Wait(LOOK);
        let table = [
            ("no certificate", None, None, 0, NextAction::Order),
            ("a failure", None, failed(1, DAY), 0, wait),
            ("the end of the wait", None, failed(1, DAY), DAY, NextAction::Order),
            ("a new certificate", Some(held(0, 90 * DAY)), None, DAY, NextAction::Inquire),
            ("long before the end", asked(100, None), None, 56 * DAY, wait),
            ("two thirds", asked(100, None), None, 60 * DAY, NextAction::Order),
            ("two thirds, after a failure", asked(100, None), failed(2, 61 * DAY), 60 * DAY, wait),
            ("expired, after a failure", asked(200, None), failed(2, 91 * DAY), 92 * DAY, NextAction::Order),
            ("time to ask", asked(30, None), None, 30 * DAY, NextAction::Inquire),
            ("the authority's word", asked(100, window(9)), None, 10 * DAY, NextAction::Order),
            ("before the authority's word", asked(100, window(70)), None, 61 * DAY, wait),
        ];
        for (what, held, standing, now, expected) in table {
            assert_eq!(name(held, standing).step(now), expected, "{what}");
        }
        let obtained = 10 * DAY;
        let again = Some(NameCertificate { obtained, ..asked(100, window(9)).expect("a certificate") });
        assert_eq!(name(again.clone(), None).step(obtained), wait, "an authority that always says 'now'");
        assert_eq!(name(again, None).step(obtained + OFTEN), NextAction::Order);
        let soon = name(None, failed(1, 100)).step(95);
        assert_eq!(soon, NextAction::Wait(Duration::from_secs(5)));
        let spoilt = Name { obstacle: Some(Obstacle::File("x".to_owned())), ..name(None, None) };
        assert_eq!(spoilt.step(0), wait);
    }

    #[test]
    fn after_a_failure_the_other_challenge_is_answered() {
        let kinds = (0..3).map(|failures| name(None, failed(failures, 0)).challenge());
        let (file, tls) = (Some(AcmeChallenge::Http01), Some(AcmeChallenge::TlsAlpn01));
        assert_eq!(kinds.collect::<Vec<_>>(), [file, tls, file]);
    }

    #[test]
    fn an_older_certificate_never_replaces_a_newer_one() {
        let mut name = name(Some(held(10, 100)), None);
        assert!(!name.take(held(9, 99)) && !name.take(held(10, 100)));
        assert!(name.take(held(11, 101)) && !name.take(held(10, 100)));
    }
}
