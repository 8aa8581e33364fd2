//! The cluster of a proxy: its keys, and their combinations.

use std::env;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use larder_proxy::Settings;
use larder_proxy::settings::{Cluster, Engine, Origin, SecondTier, Token, WithoutEngine};

use super::draft::Draft as Whole;
use super::keys::{ADDRESS, ADMIN_TOKEN, Key, ORIGIN, TOKEN as WORD, key};
use super::kinds::{AtLeast, Choice, Count, Flag, Kind, Or, Share, Size, Text, Words};
use super::settle::place;
use crate::units::show_duration;
use crate::words::hint;

/// The variable that has the nodes' token, where the file has none.
const TOKEN: &str = "LARDER_CLUSTER_TOKEN";

/// The cluster as it was written.
#[derive(Clone, Debug)]
pub(super) struct Draft {
    pub(super) engine: Option<Engine>,
    pub(super) node: Option<String>,
    pub(super) listen: SocketAddr,
    pub(super) advertise: Option<Origin>,
    pub(super) weight: u16,
    pub(super) prefix: String,
    pub(super) token: Option<Token>,
    pub(super) heartbeat: Duration,
    pub(super) drop_out: Duration,
    pub(super) max_invalidation_lag: Duration,
    pub(super) without_engine: WithoutEngine,
    pub(super) hot: f64,
    pub(super) tier: Option<u64>,
    pub(super) tier_lifetime: Duration,
    pub(super) tier_compression: bool,
    pub(super) tier_deadline: Duration,
}

impl Default for Draft {
    fn default() -> Self {
        Self {
            engine: None,
            node: None,
            listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9146),
            advertise: None,
            weight: 100,
            prefix: "larder".to_owned(),
            token: None,
            heartbeat: Duration::from_secs(1),
            drop_out: Duration::from_secs(5),
            max_invalidation_lag: Duration::from_secs(10),
            without_engine: WithoutEngine::Revalidate,
            hot: 0.1,
            tier: None,
            tier_lifetime: Duration::from_secs(3_600),
            tier_compression: true,
            tier_deadline: Duration::from_millis(100),
        }
    }
}

const ENGINE: Text<Engine> =
    Text { words: "URL of a Valkey or Redis", parse: engine, show: |engine| engine.secret().to_owned() };
const NODE: Text<String> = Text { words: "word", parse: node, show: String::clone };
const WITHOUT_ENGINE: Choice<WithoutEngine> =
    Choice(&[("revalidate", WithoutEngine::Revalidate), ("serve", WithoutEngine::Serve)]);

/// The keys of `[cluster]`.
pub(super) const KEYS: &[Key<Whole>] = &[
    key!(
        "engine",
        Or("none", ENGINE),
        cluster.engine,
        "redis://[user:password@]host[:port][/database], rediss:// over TLS; redis+sentinel://host,host/master and \
         redis+cluster://host,host take several; none: no cluster"
    ),
    key!(
        "node",
        Or("auto", NODE),
        cluster.node,
        "name of this node, unique in the cluster; auto: the machine's name"
    ),
    key!(
        "listen",
        ADDRESS,
        cluster.listen,
        "listener for other nodes; addresses other than loopback need token"
    ),
    key!(
        "advertise",
        Or("auto", ORIGIN),
        cluster.advertise,
        "URL at which other nodes connect; auto: the address of listen, or, for all addresses, the one towards the engine"
    ),
    key!(
        "weight",
        Count(1..=10_000),
        cluster.weight,
        "share of the keys that this node owns, relative to the other nodes' weights"
    ),
    key!("prefix", WORD, cluster.prefix, "prefix of keys on the engine, unique for each cluster"),
    key!(
        "token",
        Or("off", ADMIN_TOKEN),
        cluster.token,
        "shared secret of the nodes, which authenticates them and their data on the engine; also $LARDER_CLUSTER_TOKEN"
    ),
    key!("heartbeat", AtLeast(10), cluster.heartbeat, "interval between heartbeats"),
    key!(
        "drop_out",
        AtLeast(100),
        cluster.drop_out,
        "a node counts as down after this long without a heartbeat"
    ),
    key!(
        "max_invalidation_lag",
        AtLeast(100),
        cluster.max_invalidation_lag,
        "serve hits for at most this long without contact to the stream of purges"
    ),
    key!(
        "without_engine",
        WITHOUT_ENGINE,
        cluster.without_engine,
        "after max_invalidation_lag: revalidate treats hits as stale, serve serves them"
    ),
    key!(
        "hot",
        Share,
        cluster.hot,
        "share of the memory for copies of popular responses that other nodes own"
    ),
    key!(
        "tier",
        Or("off", Size(1..=1 << 30)),
        cluster.tier,
        "also store fresh responses of up to this size on the engine, for nodes that take over their keys"
    ),
    key!(
        "tier_lifetime",
        AtLeast(1_000),
        cluster.tier_lifetime,
        "largest lifetime of responses on the engine"
    ),
    key!("tier_compression", Flag, cluster.tier_compression, "compress responses on the engine (Zstandard)"),
    key!(
        "tier_deadline",
        AtLeast(1),
        cluster.tier_deadline,
        "longest wait for an answer of the engine in the second tier"
    ),
];

/// Heartbeats that may get lost before a node is out.
const BEATS: u32 = 2;

/// The cluster that `draft` stands for, if there is one.
pub(super) fn settle(draft: &Whole, problems: &mut Vec<String>) -> Option<Cluster> {
    let written = &draft.cluster;
    let engine = written.engine.clone()?;
    let token = token(written, problems);
    let listen = written.listen;
    if token.is_none() && !listen.ip().to_canonical().is_loopback() {
        let place = place(draft, &["cluster.listen"]);
        problems.push(format!(
            "{place}: cluster.listen {listen} can be reached from other machines: set cluster.token in the file, or ${TOKEN}"
        ));
    }
    if written.drop_out < written.heartbeat * BEATS {
        let place = place(draft, &["cluster.drop_out", "cluster.heartbeat"]);
        let (drop_out, heartbeat) = (show_duration(written.drop_out), show_duration(written.heartbeat));
        problems.push(format!(
            "{place}: cluster.drop_out {drop_out} is shorter than {BEATS} of cluster.heartbeat {heartbeat}"
        ));
    }
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Some(Cluster {
        engine,
        node: written.node.clone().unwrap_or(machine),
        listen,
        advertise: written.advertise.clone(),
        weight: written.weight,
        prefix: written.prefix.clone(),
        token,
        heartbeat: written.heartbeat,
        drop_out: written.drop_out,
        max_invalidation_lag: written.max_invalidation_lag,
        without_engine: written.without_engine,
        hot: written.hot,
        tier: written.tier.map(|object| SecondTier {
            object,
            lifetime: written.tier_lifetime,
            compression: written.tier_compression,
            deadline: written.tier_deadline,
        }),
    })
}

/// The secret by which nodes know each other: what the file says, or the environment.
fn token(draft: &Draft, problems: &mut Vec<String>) -> Option<Token> {
    let from_environment = || env::var(TOKEN).ok().filter(|text| !text.is_empty());
    let read = |text: String| match text.parse() {
        Ok(token) => Some(token),
        Err(why) => {
            problems.push(format!("${TOKEN}: {why}"));
            None
        }
    };
    draft.token.clone().or_else(|| from_environment().and_then(read))
}

/// The cluster, for people.
pub(super) fn summary(settings: &Settings) -> String {
    settings.cluster.as_ref().map_or_else(
        || "off".to_owned(),
        |cluster| {
            let Cluster { engine, node, listen, weight, prefix, .. } = cluster;
            format!("{node} (weight {weight}) at {listen}, by {engine} (prefix {prefix})")
        },
    )
}

fn engine(text: &str) -> Result<Engine, String> {
    text.parse().map_err(|why| {
        // What stands behind the scheme may have a password in it.
        let scheme = text.split("://").next().unwrap_or_default();
        format!("{why}{}", hint(scheme, Engine::schemes()))
    })
}

/// A name that is a token, and not so long that it makes lists unreadable.
fn node(text: &str) -> Result<String, String> {
    match text.len() {
        ..=64 => super::names::token(text),
        long => Err(format!("the name of a node has 64 characters at most, not {long}")),
    }
}

#[cfg(test)]
mod tests {
    use crate::args::Flags;
    use crate::config::parse;
    use larder_proxy::settings::Cluster;

    fn cluster(keys: &str) -> Result<Option<Cluster>, Vec<String>> {
        let text = format!("[cluster]\n{keys}");
        parse("f", &text, &Flags::default()).map(|settings| settings.cluster).map_err(|wrong| wrong.problems)
    }

    #[test]
    fn without_an_engine_there_is_no_cluster() {
        assert!(cluster("node = 'a'").unwrap().is_none());
        let settled = cluster("engine = 'redis://a'").unwrap().unwrap();
        assert_eq!((settled.listen.port(), settled.token, settled.node.is_empty()), (9146, None, false));
    }

    #[test]
    fn what_does_not_agree_is_said() {
        for (keys, problem) in [
            (
                "engine = 'rediss+clustr://u:secret@a'",
                "f:2: cluster.engine: unknown scheme 'rediss+clustr'; did you mean 'rediss+cluster'?",
            ),
            (
                "engine = 'redis://a'\nlisten = '10.0.0.1:1'",
                "f:3: cluster.listen 10.0.0.1:1 can be reached from other machines: set cluster.token in the file, or $LARDER_CLUSTER_TOKEN",
            ),
            (
                "engine = 'redis://a'\ndrop_out = '1500ms'",
                "f:3: cluster.drop_out 1500ms is shorter than 2 of cluster.heartbeat 1s",
            ),
            (
                "engine = 'redis://a'\nlisten = '127.0.0.1:9145'",
                "f:3: cluster.listen 127.0.0.1:9145 and admin 127.0.0.1:9145 cannot both listen",
            ),
        ] {
            assert_eq!(cluster(keys).expect_err(keys), [problem]);
        }
    }
}
