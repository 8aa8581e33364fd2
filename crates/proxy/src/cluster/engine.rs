//! The engine that nodes share: Valkey or Redis, its connections, and its health.
//!
//! Every command has a deadline. A connection that failed is dropped; the next command makes another one, but not
//! before the backoff after the last failure is over. Connections live on the cluster's own thread, for all callers.
//! Other modules define the meaning of keys.

use std::io;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(crate) use larder_engine::Link;
use parking_lot::Mutex;
use redis::{
    ClientTlsConfig, Cmd, ErrorKind, FromRedisValue, Pipeline, RedisError, RedisResult, ServerErrorKind,
    TlsCertificates,
};
use serde::Serialize;
use tokio::net::UdpSocket;
use tokio::runtime::Handle;

use crate::base::error::part;
use crate::base::settings::{CertificateFiles, EngineAddress, EngineTls};
use crate::base::whole_file;

/// The deadline of a connection, and of an ordinary command.
const PATIENCE: Duration = Duration::from_secs(1);
/// The backoff between two tries to connect: the first one, and the longest one.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));

pub(crate) struct Engine {
    place: EngineAddress,
    tls: EngineTls,
    /// The runtime of the connections.
    handle: Handle,
    link: tokio::sync::Mutex<Option<Link>>,
    health: Mutex<Health>,
    failures: AtomicU64,
}

/// The reason why a command was not answered.
#[derive(Clone, Debug, thiserror::Error)]
pub enum EngineError {
    /// There is no connection, or it broke, or no answer arrived in time.
    #[error("{0}")]
    Unreachable(Arc<str>),
    /// The engine refused the command.
    #[error("{0}")]
    Refused(Arc<str>),
}

/// The health of the engine.
struct Health {
    is_up: bool,
    /// The time of the last change of `is_up`.
    since: Instant,
    trouble: Option<EngineError>,
    /// No connection is tried before this time.
    retry: Instant,
    backoff: Duration,
    round_trip: Duration,
}

/// The health of the engine, as `/cluster` shows it.
#[derive(Clone, Debug, Serialize)]
pub struct EngineReport {
    /// The engine's address, without the password.
    pub(crate) place: String,
    pub up: bool,
    /// Seconds since the last change of `up`.
    pub(crate) seconds: f64,
    /// The reason why it is down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) trouble: Option<String>,
    /// Commands that were not answered.
    pub failures: u64,
    /// The round trip of the last command that was answered, in microseconds.
    pub(crate) round_trip_micros: u64,
}

impl Engine {
    /// Creates the engine at `place`, whose connections live on the runtime of `handle`. It does not connect yet.
    pub(super) fn new(place: EngineAddress, tls: EngineTls, handle: Handle) -> Self {
        let now = Instant::now();
        let health = Health {
            is_up: false,
            since: now,
            trouble: None,
            retry: now,
            backoff: BACKOFF.0,
            round_trip: Duration::ZERO,
        };
        let (link, failures) = (tokio::sync::Mutex::default(), AtomicU64::new(0));
        Self { place, tls, handle, link, health: Mutex::new(health), failures }
    }

    /// Returns the engine's answer to `command`.
    pub(crate) async fn command<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, EngineError> {
        self.ask(async |link| command.query_async(link).await).await
    }

    /// Returns the engine's answers to several commands, sent at once. Their keys have to be in one slot.
    pub(crate) async fn pipeline<T: FromRedisValue>(&self, commands: &Pipeline) -> Result<T, EngineError> {
        self.ask(async |link| commands.query_async(link).await).await
    }

    /// Returns a connection for one user, whose commands may take as long as `patience`, such as one that waits for
    /// news.
    pub(crate) async fn dedicated(&self, patience: Duration) -> Result<Link, EngineError> {
        self.wait_for_turn()?;
        self.connect(patience).await.map_err(|error| self.failed(&error))
    }

    /// Returns the address of this machine on the route to the engine. Sends nothing. The error is the reason why there
    /// is no address.
    pub(super) async fn own_address(&self) -> Result<IpAddr, EngineError> {
        let (host, port) = &self.place.hosts[0];
        let found = async {
            let mut found = tokio::net::lookup_host((host.as_str(), *port)).await?;
            let engine = found.next().ok_or(io::ErrorKind::NotFound)?;
            let any = if engine.is_ipv4() { IpAddr::from([0; 4]) } else { IpAddr::from([0; 16]) };
            let socket = UdpSocket::bind((any, 0)).await?;
            socket.connect(engine).await?;
            Ok::<_, io::Error>(socket.local_addr()?.ip())
        };
        found.await.map_err(|error| self.failed(&error.into()))
    }

    pub(crate) fn report(&self) -> EngineReport {
        let health = self.health.lock();
        EngineReport {
            place: self.place.to_string(),
            up: health.is_up,
            seconds: health.since.elapsed().as_secs_f64(),
            trouble: health.trouble.as_ref().map(EngineError::to_string),
            failures: self.failures.load(Ordering::Relaxed),
            round_trip_micros: u64::try_from(health.round_trip.as_micros()).unwrap_or(u64::MAX),
        }
    }

    async fn ask<T>(&self, query: impl AsyncFnOnce(&mut Link) -> RedisResult<T>) -> Result<T, EngineError> {
        let mut link = self.link().await?;
        let begun = Instant::now();
        let answered = match tokio::time::timeout(PATIENCE, query(&mut link)).await {
            Ok(answered) => answered,
            Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut).into()),
        };
        match answered {
            Ok(answer) => {
                self.answered(begun.elapsed());
                Ok(answer)
            }
            Err(error) if spoils(&error) => {
                *self.link.lock().await = None;
                Err(self.failed(&error))
            }
            Err(error) => {
                self.answered(begun.elapsed());
                Err(EngineError::Refused(explain(&error).into()))
            }
        }
    }

    /// Returns the shared connection, and connects first if there is none.
    async fn link(&self) -> Result<Link, EngineError> {
        let mut link = self.link.lock().await;
        if let Some(link) = &*link {
            return Ok(link.clone());
        }
        self.wait_for_turn()?;
        let new = self.connect(PATIENCE).await.map_err(|error| self.failed(&error))?;
        Ok(link.insert(new).clone())
    }

    fn wait_for_turn(&self) -> Result<(), EngineError> {
        let health = self.health.lock();
        match &health.trouble {
            Some(trouble) if Instant::now() < health.retry => Err(trouble.clone()),
            _ => Ok(()),
        }
    }

    async fn connect(&self, patience: Duration) -> RedisResult<Link> {
        let tls = self.tls.clone();
        let connecting =
            larder_engine::connect(&self.handle, self.place.clone(), move || certificates(&tls), patience);
        let aborts = connecting.abort_handle();
        match tokio::time::timeout(PATIENCE, connecting).await {
            Ok(Ok(connected)) => connected,
            Ok(Err(error)) => Err(io::Error::other(error).into()),
            Err(_) => {
                aborts.abort();
                Err(io::Error::from(io::ErrorKind::TimedOut).into())
            }
        }
    }

    fn answered(&self, took: Duration) {
        let mut health = self.health.lock();
        health.round_trip = took;
        if !health.is_up {
            tracing::info!("the engine {} answers", self.place);
            (health.is_up, health.since) = (true, Instant::now());
            (health.trouble, health.backoff) = (None, BACKOFF.0);
        }
    }

    fn failed(&self, error: &RedisError) -> EngineError {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let trouble = EngineError::Unreachable(explain(error).into());
        let mut health = self.health.lock();
        if health.is_up || health.trouble.is_none() {
            tracing::warn!("the engine {} does not answer: {trouble}", self.place);
            (health.is_up, health.since) = (false, Instant::now());
        }
        let jitter = fastrand::u64(..=health.backoff.as_millis() as u64 / 2);
        health.retry = Instant::now() + health.backoff / 2 + Duration::from_millis(jitter);
        health.backoff = (health.backoff * 2).min(BACKOFF.1);
        health.trouble = Some(trouble.clone());
        trouble
    }
}

/// Returns the cause of `error` as a part of a sentence, in one line.
fn explain(error: &RedisError) -> String {
    match error.kind() {
        _ if error.is_timeout() => "no answer in time".to_owned(),
        ErrorKind::AuthenticationFailed => "it does not accept the user or the password".to_owned(),
        ErrorKind::Parse => "its answer is not of a Valkey or Redis".to_owned(),
        _ if has_no_memory(error) => {
            "it has no memory left: raise its maxmemory, or let it evict keys".to_owned()
        }
        _ => part(&error.to_string()),
    }
}

/// Whether the connection with this error is of no further use: it broke, or leads to a server that is not, or not
/// yet, a master.
fn spoils(error: &RedisError) -> bool {
    let is_lost = error.is_io_error() || error.is_timeout() || error.is_unrecoverable_error();
    let is_no_master = matches!(
        error.kind(),
        ErrorKind::Server(
            ServerErrorKind::ReadOnly
                | ServerErrorKind::MasterDown
                | ServerErrorKind::BusyLoading
                | ServerErrorKind::ClusterDown
        ) | ErrorKind::ClusterConnectionNotFound
            | ErrorKind::AuthenticationFailed
    );
    (is_lost || is_no_master) && !has_no_memory(error)
}

/// Whether the engine refuses commands that store something. It answers others, and its connections are of use.
fn has_no_memory(error: &RedisError) -> bool {
    error.to_string().contains("when used memory > 'maxmemory'")
}

/// Returns the error of a command on a [dedicated](Engine::dedicated) connection. If the connection was lost or is of
/// no further use, the error is that the engine cannot be reached.
pub(super) fn refused_or_lost(error: &RedisError) -> EngineError {
    let text = error.to_string().into();
    if spoils(error) { EngineError::Unreachable(text) } else { EngineError::Refused(text) }
}

/// Returns the content of the files of `tls`; `None` if `tls` names no files.
fn certificates(tls: &EngineTls) -> io::Result<Option<TlsCertificates>> {
    let read = |path: &PathBuf| {
        whole_file::bytes(path, whole_file::LARGEST)
            .map_err(|error| io::Error::other(format!("cannot read {}: {error}", path.display())))
    };
    let client = |own: &CertificateFiles| {
        Ok::<_, io::Error>(ClientTlsConfig { client_cert: read(&own.cert)?, client_key: read(&own.key)? })
    };
    if *tls == EngineTls::default() {
        return Ok(None);
    }
    let (client_tls, root_cert) =
        (tls.own.as_ref().map(client).transpose()?, tls.ca.as_ref().map(read).transpose()?);
    Ok(Some(TlsCertificates { client_tls, root_cert }))
}
