//! Renews the certificate of one name in time: waits, queries the authority for the time of renewal, and orders.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;
use larder_acme::{ChallengeType, OrderTerms, Renewal, identifier};
use tokio::sync::Notify;

use super::account::AccountFiles;
use super::failure_streak::{Failure, FailureStreak};
use super::name::{NameCertificate, NextAction, Obstacle};
use super::schedule::{INQUIRE_AGAIN, Window, until_inquiry};
use super::shared::{Lease, SharedState};
use super::sync::{certificate_field, failure_field};
use super::{Acme, ChallengeResponder, now};
use crate::base::settings::AcmeChallenge;

/// Maximum time of an order. Shorter than a lease in the cluster.
const LONGEST: Duration = Duration::from_secs(300);
/// Interval between checks whether another node has ordered, or the engine is reachable again.
const AGAIN: Duration = Duration::from_secs(2);

/// Renews the certificate of `host`, as long as the name needs one.
pub(super) async fn keep(acme: Arc<Acme>, host: String) {
    while let Some((step, changed)) = acme.next(&host) {
        match step {
            // The time has passed, or the state has changed.
            NextAction::Wait(time) => drop(tokio::time::timeout(time, changed.notified()).await),
            NextAction::Inquire => acme.inquire(&host).await,
            NextAction::Order => acme.order(&host, &changed).await,
        }
    }
}

impl Acme {
    fn next(&self, host: &str) -> Option<(NextAction, Arc<Notify>)> {
        self.names.lock().get(host).map(|name| (name.step(now()), Arc::clone(&name.changed)))
    }

    /// Queries the authority for the time of renewal of the certificate of `host`.
    async fn inquire(&self, host: &str) {
        let known = self.names.lock().get(host).and_then(|name| {
            let leaf = name.held.as_ref()?.certificate.leaf()?.clone().into_owned();
            Some((Arc::clone(&name.settings), name.files.clone(), leaf))
        });
        let Some((settings, files, leaf)) = known else { return };
        let keeping =
            AccountFiles { files: &files, shared: self.shared.as_deref(), timeouts: &self.timeouts };
        let asked = async {
            let identifier = identifier(&leaf).ok_or("it has no key identifier of an authority")?;
            let opened = self.accounts.open(&settings, &keeping).await.map_err(|failure| failure.why)?;
            opened.account.renewal(&identifier).await.map_err(|problem| problem.why)
        };
        let asked: Result<_, String> = asked.await;
        let mut names = self.names.lock();
        let held = names.get_mut(host).and_then(|name| name.held.as_mut());
        // Another certificate may have replaced it meanwhile.
        let Some(held) = held.filter(|held| held.certificate.leaf() == Some(&leaf)) else { return };
        match asked {
            Ok(Renewal { start, end, wait }) => {
                held.window = Some(Window { start, end });
                held.inquiry = now() + until_inquiry(wait).as_secs();
                tracing::debug!("{host}: to be renewed from {start} to {end}");
            }
            Err(why) => {
                held.inquiry = now() + INQUIRE_AGAIN.as_secs();
                tracing::debug!(
                    "{host}: the authority gives no time for the renewal of the certificate: {why}"
                );
            }
        }
    }

    /// Orders a certificate for `host`, unless another node does.
    async fn order(&self, host: &str, changed: &Notify) {
        // The semaphore is never closed.
        let _permit = self.orders.acquire().await;
        let _lease = match &self.shared {
            None => None,
            Some(shared) => match self.granted(shared, host).await {
                Some(lease) => Some(lease),
                None => return drop(tokio::time::timeout(AGAIN, changed.notified()).await),
            },
        };
        self.set_ordered(host, true);
        // Also resets the state if this future is cancelled.
        let _ended = OrderGuard { acme: self, host };
        let limit = tokio::time::timeout(LONGEST, self.obtain(host));
        match limit.await.unwrap_or_else(|_| Err(Failure::refused("the order took longer than five minutes")))
        {
            Ok(pem) => self.succeed(host, pem).await,
            Err(failure) => self.fail(host, &failure).await,
        }
    }

    /// Takes the lease to order for `host`. `None` if the changes of other nodes have made the order unnecessary, or
    /// the lease is not available.
    async fn granted(&self, shared: &Arc<SharedState>, host: &str) -> Option<Lease> {
        if !shared.is_settled() {
            return None;
        }
        let granted = async {
            let lease = shared.lease(host).await?;
            self.synchronise(shared).await?;
            Ok(lease)
        };
        let granted: Result<_, crate::cluster::EngineError> = granted.await;
        let obstacle = granted.as_ref().err().map(|error| Obstacle::Engine(error.to_string()));
        let mut names = self.names.lock();
        let name = names.get_mut(host)?;
        if obstacle.is_some() && name.obstacle.is_none() {
            tracing::warn!(
                "no certificate is ordered for {host}: the cluster's engine cannot grant the order"
            );
        }
        name.obstacle = obstacle;
        granted.ok().flatten().filter(|_| name.step(now()) == NextAction::Order)
    }

    async fn obtain(&self, host: &str) -> Result<String, Failure> {
        let wanted = self.names.lock().get(host).and_then(|name| {
            let replaced = name.held.as_ref().filter(|held| held.window.is_some() && name.standing.is_none());
            let replaces = replaced.and_then(|held| identifier(held.certificate.leaf()?));
            Some((replaces, name.challenge()?, Arc::clone(&name.settings), name.files.clone()))
        });
        let Some((replaces, kind, settings, files)) = wanted else {
            return Err(Failure::unanswered("the config does not request it any more"));
        };
        tracing::info!("ordering a certificate for {host} from {} by {}", settings.directory, kind.name());
        let keeping =
            AccountFiles { files: &files, shared: self.shared.as_deref(), timeouts: &self.timeouts };
        let opened = self.accounts.open(&settings, &keeping).await?;
        let challenge = match kind {
            AcmeChallenge::Http01 => ChallengeType::Http01,
            AcmeChallenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
        };
        let terms = OrderTerms { name: host, challenge: (challenge, kind.name()), replaces };
        let responder = ChallengeResponder { acme: self, host, kind };
        let obtained = opened.account.obtain(terms, &responder).await;
        if obtained.is_err() {
            self.accounts.close(&settings.directory).await;
        }
        obtained.map_err(|problem| opened.client.failure(problem))
    }

    async fn succeed(&self, host: &str, pem: String) {
        let parsed = {
            let names = self.names.lock();
            let Some(name) = names.get(host) else { return };
            name.files.parse(host, pem.as_bytes())
        };
        let certificate = match parsed {
            Ok(certificate) => certificate,
            Err(why) => {
                let failure = Failure::refused(format!("the issued certificate cannot be used: {why}"));
                return self.fail(host, &failure).await;
            }
        };
        self.issued.fetch_add(1, Ordering::Relaxed);
        tracing::info!("a certificate for {host}, valid until {}", date(certificate.not_after));
        let held = NameCertificate::new(certificate, pem.into_bytes(), now());
        let bytes = held.pem.clone();
        let is_due = held.due() <= now();
        let kept = self.names.lock().get_mut(host).map(|name| {
            let kept = name.files.write_certificate(host, &held.pem);
            name.held = Some(held);
            (kept, name.files.clone(), certificate_field(name, host))
        });
        self.publish();
        let Some((kept, files, field)) = kept else { return };
        if let Err(why) = kept {
            tracing::error!("the certificate for {host} is lost with this process: {why}");
        }
        if let Some(shared) = &self.shared
            && let Err(error) = shared.put(&field, &bytes).await
        {
            shared.compare_again();
            tracing::debug!("other nodes do not have the certificate for {host} yet: {error}");
        }
        if is_due {
            let why = "the certificate that was just issued is to be renewed at once: the clock of this machine may be wrong";
            return self.fail(host, &Failure::refused(why)).await;
        }
        self.stand(host, None, &files).await;
    }

    async fn fail(&self, host: &str, failure: &Failure) {
        let files = self.names.lock().get(host).map(|name| (name.files.clone(), name.standing.clone()));
        let Some((files, before)) = files else { return };
        self.failed.fetch_add(1, Ordering::Relaxed);
        let standing = FailureStreak::after(before.as_ref(), failure, now(), fastrand::f64());
        let wait = Duration::from_secs(standing.retry.saturating_sub(now()));
        tracing::error!("no new certificate for {host}: {}; the next try is in {wait:?}", standing.trouble);
        self.stand(host, Some(standing), &files).await;
    }

    /// Stores the failures of orders for `host`: in memory, for the next process, and for other nodes.
    async fn stand(&self, host: &str, standing: Option<FailureStreak>, files: &super::files::Files) {
        let field = {
            let mut names = self.names.lock();
            let Some(name) = names.get_mut(host) else { return };
            name.standing.clone_from(&standing);
            failure_field(name, host)
        };
        if let Err(why) = files.write_standing(host, standing.as_ref()) {
            tracing::warn!("{why}");
        }
        let Some(shared) = &self.shared else { return };
        let told = match standing.as_ref().and_then(|standing| serde_json::to_vec(standing).ok()) {
            Some(bytes) => shared.put(&field, &bytes).await.map(drop),
            None => shared.remove(&field).await,
        };
        if let Err(error) = told {
            tracing::debug!("cannot share the state of orders for {host} with other nodes: {error}");
        }
    }

    fn set_ordered(&self, host: &str, is_ordered: bool) {
        if let Some(name) = self.names.lock().get_mut(host) {
            name.is_ordered = is_ordered;
        }
    }
}

/// An order in progress. Dropping this marks its end.
struct OrderGuard<'o> {
    acme: &'o Acme,
    host: &'o str,
}

impl Drop for OrderGuard<'_> {
    fn drop(&mut self) {
        self.acme.set_ordered(self.host, false);
    }
}

fn date(seconds: u64) -> String {
    let time = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.map_or_else(|| seconds.to_string(), |time| time.strftime("%Y-%m-%d %H:%M UTC").to_string())
}
