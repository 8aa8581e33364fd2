//! Certificates that an authority issues to this process by ACME (RFC 8555): the [names](name) that need one, their
//! [orders](keeper) and renewals, and the state shared with [other nodes](sync). The listeners get them from
//! [`Certificates`]; requests and handshakes never wait for this module.

mod account;
mod answers;
mod client;
mod failure_streak;
mod files;
mod keeper;
mod name;
mod report;
mod schedule;
mod shared;
mod sync;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use larder_acme::{Boxed, Guard, Responder};
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::MissedTickBehavior;

use self::account::Accounts;
use self::answers::{Answer, Answers, Offer, challenge_field};
use self::files::Files;
use self::name::{Name, NameCertificate, Obstacle};
pub use self::report::{AcmeReport, OfName};
use self::shared::SharedState;
use crate::base::clock;
use crate::base::error::Error;
use crate::base::settings::{Acme as Wanted, AcmeChallenge, Settings, Site, Timeouts};
use crate::cluster::Cluster;
use crate::net::tls::certificates::{CertificateIssuer, Certificates};
use crate::net::tls::server::Server;

/// Interval of synchronisation with other nodes.
const LOOK: Duration = Duration::from_secs(1);
/// Maximum of concurrent orders: a config with many hosts would exceed the limits of authorities.
const AT_ONCE: usize = 4;
/// Maximum time for which other nodes serve a challenge response, in seconds: longer than an order can take.
const ANSWERED: u64 = 3_600;

/// The certificates of this process. One instance per process with TLS listeners.
pub struct Acme {
    /// The state directory.
    state: PathBuf,
    timeouts: Timeouts,
    certificates: Arc<Certificates>,
    answers: Arc<Answers>,
    /// Challenge responses of other nodes, by their fields.
    elsewhere: Mutex<BTreeMap<String, Answer>>,
    accounts: Accounts,
    /// Permits for concurrent orders.
    orders: Semaphore,
    shared: Option<Arc<SharedState>>,
    names: Mutex<BTreeMap<String, Name>>,
    /// Notified when the set of names has changed.
    changed: Notify,
    /// Orders since the process began, by result.
    issued: AtomicU64,
    failed: AtomicU64,
}

impl Acme {
    /// Creates the state by `settings` and the stored files; `None` if no listener uses TLS, or there is no state
    /// directory. Errors: the file that is unusable, and the reason.
    pub(crate) fn new(
        settings: &Settings,
        tls: Option<&Server>,
        cluster: Option<&Arc<Cluster>>,
    ) -> Result<Option<Arc<Self>>, Error> {
        let (Some(tls), Some(state)) = (tls, &settings.state) else { return Ok(None) };
        let acme = Self {
            state: state.clone(),
            timeouts: settings.timeouts.clone(),
            certificates: Arc::clone(&tls.certificates),
            answers: Arc::new(Answers::new(&tls.certificates)),
            elsewhere: Mutex::default(),
            accounts: Accounts::new(),
            orders: Semaphore::new(AT_ONCE),
            shared: cluster.and_then(SharedState::new).map(Arc::new),
            names: Mutex::default(),
            changed: Notify::new(),
            issued: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        };
        if let Some(problem) = acme.want(&settings.sites).into_iter().next() {
            return Err(Error::new("cannot use the stored keys and certificates of ACME", problem));
        }
        acme.publish();
        Ok(Some(Arc::new(acme)))
    }

    /// Applies a reload. Orders in progress continue if their settings are the same.
    pub(crate) fn reload(&self, settings: &Settings) {
        for problem in self.want(&settings.sites) {
            tracing::error!("no certificate is ordered: {problem}");
        }
        self.publish();
        self.changed.notify_one();
    }

    /// Returns the content of the challenge file at `path`, if an authority may request it (RFC 8555 section 8.3).
    pub(crate) fn answer(&self, path: &[u8]) -> Option<String> {
        self.answers.find(path)
    }

    /// Whether there are challenge files.
    pub(crate) fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// Renews the certificates in time, until the process ends.
    pub async fn run(self: Arc<Self>) {
        let mut keepers: HashMap<String, (Arc<Wanted>, AbortHandle)> = HashMap::new();
        let mut ticks = tokio::time::interval(LOOK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.changed.notify_one();
        loop {
            tokio::select! {
                () = self.changed.notified() => self.employ(&mut keepers),
                _ = ticks.tick(), if self.shared.is_some() => self.look().await,
            }
        }
    }

    /// Starts a task for each name that renews its certificate, and aborts the tasks of removed or changed names.
    fn employ(self: &Arc<Self>, keepers: &mut HashMap<String, (Arc<Wanted>, AbortHandle)>) {
        let names = self.names.lock();
        keepers.retain(|host, (wanted, keeper)| {
            let is_wanted = names.get(host).is_some_and(|name| name.settings.is_same(wanted));
            if !is_wanted {
                keeper.abort();
            }
            is_wanted
        });
        for (host, name) in names.iter().filter(|(host, _)| !keepers.contains_key(*host)).collect::<Vec<_>>()
        {
            let keeper = tokio::spawn(keeper::keep(Arc::clone(self), host.clone()));
            keepers.insert(host.clone(), (Arc::clone(&name.settings), keeper.abort_handle()));
        }
    }

    /// Replaces the names by those of `sites`. Returns descriptions of unusable files.
    fn want(&self, sites: &[Site]) -> Vec<String> {
        let (mut problems, now) = (Vec::new(), now());
        let mut names = self.names.lock();
        let mut old = std::mem::take(&mut *names);
        for (position, (host, settings)) in wanted(sites).into_iter().enumerate() {
            let known = old.remove(&host).filter(|name| name.settings.directory == settings.directory);
            let mut name = match known {
                Some(mut name) => {
                    let is_same = name.settings.is_same(&settings);
                    if let Some(standing) = &mut name.standing {
                        if is_same { standing.reload(now) } else { standing.retry = now }
                    }
                    Name { settings, ..name }
                }
                None => self.load(&host, settings, &mut problems),
            };
            name.position = position;
            name.changed.notify_one();
            names.insert(host, name);
        }
        problems
    }

    /// Reads the stored files of a name.
    fn load(&self, host: &str, settings: Arc<Wanted>, problems: &mut Vec<String>) -> Name {
        let files = Files::new(&self.state, &settings.directory);
        let mut name = Name {
            settings,
            files: files.clone(),
            position: 0,
            held: None,
            standing: None,
            obstacle: None,
            is_ordered: false,
            changed: Arc::default(),
        };
        let read = files.account().map(drop).and_then(|()| {
            name.standing = files.standing(host)?;
            name.held =
                files.certificate(host)?.map(|(certificate, pem)| NameCertificate::new(certificate, pem, 0));
            Ok(())
        });
        if let Err(why) = read {
            problems.push(why.clone());
            name.obstacle = Some(Obstacle::File(why));
        }
        name
    }

    /// Passes the certificates to the listeners.
    fn publish(&self) {
        let names = self.names.lock();
        let mut held: Vec<_> =
            names.values().filter_map(|name| Some((name.position, name.held.as_ref()?))).collect();
        held.sort_by_key(|(position, _)| *position);
        let certificates = held.into_iter().map(|(_, held)| held.certificate.clone()).collect();
        let awaited =
            names.iter().filter(|(_, name)| name.held.is_none()).map(|(host, _)| host.clone()).collect();
        self.certificates.issue(CertificateIssuer { certificates, awaited });
    }

    /// Serves a challenge response on all nodes until the result is dropped. The error is the reason why it cannot be
    /// served.
    async fn offer(
        &self,
        host: &str,
        kind: AcmeChallenge,
        token: &str,
        key_authorization: &str,
    ) -> Result<Offer, String> {
        let answer = Answer {
            kind: kind.name().to_owned(),
            name: host.to_owned(),
            token: token.to_owned(),
            key_authorization: key_authorization.to_owned(),
            until: now() + ANSWERED,
        };
        self.answers.give(&answer)?;
        let offer = Offer { answers: Arc::clone(&self.answers), answer, shared: self.shared.clone() };
        if let Some(shared) = &self.shared {
            let bytes = serde_json::to_vec(&offer.answer).map_err(|error| error.to_string())?;
            let told = shared.put(&challenge_field(host), &bytes).await;
            let number = told.map_err(|error| format!("the cluster's engine: {error}"))?;
            shared.wait_for_others(number).await;
        }
        Ok(offer)
    }
}

/// Answers the challenges of an order, on all nodes.
struct ChallengeResponder<'o> {
    acme: &'o Acme,
    host: &'o str,
    kind: AcmeChallenge,
}

impl Responder for ChallengeResponder<'_> {
    fn serve<'a>(&'a self, token: &'a str, key_authorization: &'a str) -> Boxed<'a, Result<Guard, String>> {
        Box::pin(async move {
            let offer = self.acme.offer(self.host, self.kind, token, key_authorization).await?;
            Ok(Box::new(offer) as Guard)
        })
    }
}

/// A stored certificate for a name, or the problem with its file.
#[derive(Debug)]
pub struct CertificateFile {
    /// The name.
    pub name: String,
    /// The URL of the authority's directory.
    pub directory: String,
    /// The end of the certificate's validity, in UNIX seconds; `None`: there is no certificate yet.
    pub not_after: Result<Option<u64>, String>,
}

/// Returns the stored certificates for the sites of `settings`, without any change.
pub fn examine(settings: &Settings) -> Vec<CertificateFile> {
    let Some(state) = &settings.state else { return Vec::new() };
    let kept = |(name, wanted): (String, Arc<Wanted>)| {
        let found = Files::new(state, &wanted.directory).certificate(&name);
        let not_after = found.map(|found| found.map(|(certificate, _)| certificate.not_after));
        CertificateFile { name, directory: wanted.directory.clone(), not_after }
    };
    wanted(&settings.sites).into_iter().map(kept).collect()
}

/// Returns the hosts that need certificates, in the order of the config. There is one account per authority, with the
/// contacts of all its sites.
fn wanted(sites: &[Site]) -> Vec<(String, Arc<Wanted>)> {
    let all = || sites.iter().filter_map(|site| Some((site, site.acme.as_ref()?)));
    let mut wanted: Vec<(String, Arc<Wanted>)> = Vec::new();
    for (site, acme) in all() {
        let of_directory = all().filter(|(_, other)| other.directory == acme.directory);
        let mut contact: Vec<_> = of_directory.flat_map(|(_, other)| other.contact.clone()).collect();
        contact.sort();
        contact.dedup();
        let settings = Arc::new(Wanted { contact, ..Wanted::clone(acme) });
        for host in &site.hosts {
            if !wanted.iter().any(|(known, _)| known == host) {
                wanted.push((host.clone(), Arc::clone(&settings)));
            }
        }
    }
    wanted
}

/// Returns the time in UNIX seconds.
fn now() -> u64 {
    clock::now().into()
}
