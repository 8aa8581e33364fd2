//! A connection to the engine, to one server or to a cluster.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClientBuilder;
use redis::cluster_async::ClusterConnection;
use redis::io::AsyncDNSResolver;
use redis::io::tcp::TcpSettings;
use redis::sentinel::{SentinelClientBuilder, SentinelServerType};
use redis::{
    AsyncConnectionConfig, Client, Cmd, ConnectionAddr, IntoConnectionInfo, Pipeline, RedisConnectionInfo,
    RedisFuture, RedisResult, TlsCertificates, TlsMode, Value,
};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::address::{EngineAddress, EngineKind};

/// The deadline of a connection.
const PATIENCE: Duration = Duration::from_secs(1);

/// Connections of one [`Link::Many`] to the servers of a cluster, those that ended included. The link fails when it needs
/// more, and the next one begins with none: servers may name any number of others.
const SERVERS: usize = 64;

/// A connection to one server, or several connections that act as one.
#[derive(Clone)]
pub enum Link {
    /// One server.
    One(MultiplexedConnection),
    /// A cluster.
    Many(ClusterConnection),
}

/// Connects to `place` in a task of `runtime`, which the connection belongs to. `certificates` is called first if the
/// engine is asked over TLS; commands may take as long as `patience`.
pub fn connect(
    runtime: &Handle,
    place: EngineAddress,
    certificates: impl FnOnce() -> io::Result<Option<TlsCertificates>> + Send + 'static,
    patience: Duration,
) -> JoinHandle<RedisResult<Link>> {
    connect_by(runtime, place, Box::new(certificates), patience)
}

type Certificates = Box<dyn FnOnce() -> io::Result<Option<TlsCertificates>> + Send>;

/// Neither generic nor inlined, so that this crate has the code of the library.
#[inline(never)]
fn connect_by(
    runtime: &Handle,
    place: EngineAddress,
    certificates: Certificates,
    patience: Duration,
) -> JoinHandle<RedisResult<Link>> {
    runtime.spawn(async move {
        let certificates = if place.tls { certificates()? } else { None };
        open(&place, certificates, patience).await
    })
}

async fn open(
    place: &EngineAddress,
    certificates: Option<TlsCertificates>,
    patience: Duration,
) -> RedisResult<Link> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(PATIENCE))
        .set_response_timeout(Some(patience));
    let client = match &place.kind {
        EngineKind::Cluster => {
            return connect_to_cluster(place, certificates, patience).await.map(Link::Many);
        }
        EngineKind::Single => {
            let info = address(place, &place.hosts[0]).into_connection_info()?;
            let info = info.set_redis_settings(login(place)).set_tcp_settings(at_once());
            match certificates {
                Some(certificates) => Client::build_with_tls(info, certificates)?,
                None => Client::open(info)?,
            }
        }
        EngineKind::Sentinel(service) => master(place, certificates, service).await?,
    };
    client.get_multiplexed_async_connection_with_config(&config).await.map(Link::One)
}

/// Returns a client of the master called `service`, as the Sentinels at `place` report it.
async fn master(
    place: &EngineAddress,
    certificates: Option<TlsCertificates>,
    service: &str,
) -> RedisResult<Client> {
    let hosts = place.hosts.iter().map(|host| address(place, host));
    let mut builder = SentinelClientBuilder::new(hosts, service, SentinelServerType::Master)?
        .set_client_to_redis_db(place.database.into())
        .set_client_to_redis_tcp_settings(at_once());
    if place.tls {
        builder = builder.set_client_to_redis_tls_mode(TlsMode::Secure);
        builder = builder.set_client_to_sentinel_tls_mode(TlsMode::Secure);
    }
    if let Some(certificates) = certificates {
        builder = builder.set_client_to_redis_certificates(certificates.clone());
        builder = builder.set_client_to_sentinel_certificates(certificates);
    }
    if let Some(user) = &place.user {
        builder = builder.set_client_to_redis_username(user);
    }
    if let Some(password) = &place.password {
        builder = builder.set_client_to_redis_password(password);
    }
    builder.build()?.async_get_client().await
}

async fn connect_to_cluster(
    place: &EngineAddress,
    certificates: Option<TlsCertificates>,
    patience: Duration,
) -> RedisResult<ClusterConnection> {
    let hosts = place.hosts.iter().map(|host| address(place, host).into_connection_info());
    let mut builder = ClusterClientBuilder::new(hosts.collect::<RedisResult<Vec<_>>>()?)
        .connection_timeout(PATIENCE)
        .response_timeout(patience)
        .overall_response_timeout(Some(patience))
        .tcp_settings(at_once())
        .async_dns_resolver(Few(AtomicUsize::new(0)))
        .retries(2);
    if let Some(certificates) = certificates {
        builder = builder.certs(certificates);
    }
    if let Some(user) = &place.user {
        builder = builder.username(user);
    }
    if let Some(password) = &place.password {
        builder = builder.password(password);
    }
    builder.build()?.get_async_connection().await
}

/// Resolves the addresses of at most [`SERVERS`] connections, so that the others fail.
struct Few(AtomicUsize);

impl AsyncDNSResolver for Few {
    fn resolve<'a, 'b: 'a>(
        &'a self,
        host: &'b str,
        port: u16,
    ) -> RedisFuture<'a, Box<dyn Iterator<Item = SocketAddr> + Send + 'a>> {
        Box::pin(async move {
            if self.0.fetch_add(1, Ordering::Relaxed) >= SERVERS {
                return Err(io::Error::other("the cluster names too many servers").into());
            }
            let found = tokio::net::lookup_host((host, port)).await?.collect::<Vec<_>>();
            Ok(Box::new(found.into_iter()) as Box<dyn Iterator<Item = SocketAddr> + Send>)
        })
    }
}

impl ConnectionLike for Link {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::One(link) => link.req_packed_command(command),
            Self::Many(link) => link.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::One(link) => link.req_packed_commands(commands, offset, count),
            Self::Many(link) => link.req_packed_commands(commands, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::One(link) => link.get_db(),
            Self::Many(link) => link.get_db(),
        }
    }
}

/// Returns settings without Nagle's algorithm: commands are written whole, and waiting for more would only delay
/// them.
fn at_once() -> TcpSettings {
    TcpSettings::default().set_nodelay(true)
}

fn address(place: &EngineAddress, (host, port): &(String, u16)) -> ConnectionAddr {
    match place.tls {
        true => ConnectionAddr::TcpTls { host: host.clone(), port: *port, insecure: false, tls_params: None },
        false => ConnectionAddr::Tcp(host.clone(), *port),
    }
}

fn login(place: &EngineAddress) -> RedisConnectionInfo {
    let mut login = RedisConnectionInfo::default().set_db(place.database.into());
    if let Some(user) = &place.user {
        login = login.set_username(user);
    }
    if let Some(password) = &place.password {
        login = login.set_password(password);
    }
    login
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_names_many_servers_is_reached_at_few() {
        let few = Few(AtomicUsize::new(0));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let reached = || runtime.block_on(few.resolve("127.0.0.1", 6379)).is_ok();
        assert_eq!((0..2 * SERVERS).filter(|_| reached()).count(), SERVERS);
    }
}
