//! The keys of `[cluster]`.

use larder_proxy::settings::{EngineAddress, WithoutEngine};

use super::key::{Key, key};
use super::values::{ADDRESS, DIRECTORY, HOST, NODE_URL, SECRET, TOKEN};
use crate::cli::words::hint;
use crate::config::draft::Draft;
use crate::config::draft::cluster::NodeProof;
use crate::config::kinds::{AtLeast, Choice, Count, Flag, Kind, Or, Share, Size, Text, Words};
use crate::config::names;

const ENGINE: Text<EngineAddress> =
    Text { words: "URL of a Valkey or Redis", parse: engine, show: |engine| engine.secret().to_owned() };
const NODE: Text<String> = Text { words: "word", parse: node, show: String::clone };
const WITHOUT_ENGINE: Choice<WithoutEngine> =
    Choice(&[("revalidate", WithoutEngine::Revalidate), ("serve", WithoutEngine::Serve)]);

const TLS: Choice<NodeProof> =
    Choice(&[("token", NodeProof::Token), ("files", NodeProof::Files), ("off", NodeProof::Off)]);

/// The keys of `[cluster]`.
pub(super) const KEYS: &[Key<Draft>] = &[
    key!(
        "engine",
        Or("none", ENGINE),
        cluster.engine,
        "redis://[user:password@]host[:port][/database], rediss:// over TLS; redis+sentinel://host,host/master and \
         redis+cluster://host,host take several; none: no cluster"
    ),
    key!(
        "engine_ca",
        Or("none", DIRECTORY),
        cluster.engine_ca,
        "with rediss://: PEM file with the authorities that are trusted for the engine's certificate; none: the \
         system's"
    ),
    key!(
        "engine_cert",
        Or("none", DIRECTORY),
        cluster.engine_cert,
        "PEM file with the certificate chain that this node sends to the engine"
    ),
    key!(
        "engine_key",
        Or("none", DIRECTORY),
        cluster.engine_key,
        "the private key of that certificate in PEM"
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
        Or("auto", NODE_URL),
        cluster.advertise,
        "URL at which other nodes connect; auto: the address of listen, or, for all addresses, the one towards the engine"
    ),
    key!(
        "weight",
        Count(1..=10_000),
        cluster.weight,
        "share of the keys that this node owns, relative to the other nodes' weights"
    ),
    key!("prefix", TOKEN, cluster.prefix, "prefix of keys on the engine, unique for each cluster"),
    key!(
        "token",
        Or("off", SECRET),
        cluster.token,
        "shared secret of the nodes, which authenticates them and their data on the engine; also $LARDER_CLUSTER_TOKEN"
    ),
    key!(
        "tls",
        Or("auto", TLS),
        cluster.tls,
        "connections between nodes: token: over TLS, authenticated by the token; files: over TLS, authenticated by \
         certificates; off: without TLS; auto: token if there is one and other machines can reach listen, or \
         advertise begins with https://, otherwise off"
    ),
    key!(
        "ca",
        Or("none", DIRECTORY),
        cluster.ca,
        "with tls = \"files\": PEM file with the authorities that are trusted for certificates of nodes; preferably \
         one that signs for nodes only"
    ),
    key!(
        "cert",
        Or("none", DIRECTORY),
        cluster.cert,
        "PEM file with the certificate chain of this node, which it sends as a server and as a client"
    ),
    key!("key", Or("none", DIRECTORY), cluster.key, "the private key of that certificate in PEM"),
    key!(
        "tls_name",
        Or("none", HOST),
        cluster.tls_name,
        "name in the certificates of all nodes; none: the host of the URL at which a node is reached"
    ),
    key!("heartbeat", AtLeast(10), cluster.heartbeat, "interval between heartbeats"),
    key!(
        "drop_out",
        AtLeast(100),
        cluster.drop_out,
        "time without a heartbeat after which a node counts as down"
    ),
    key!(
        "max_invalidation_lag",
        AtLeast(100),
        cluster.max_invalidation_lag,
        "hits are served for at most this long after the last complete read of the stream of purges"
    ),
    key!(
        "without_engine",
        WITHOUT_ENGINE,
        cluster.without_engine,
        "after max_invalidation_lag: revalidate: stored responses are revalidated before use; serve: they are used"
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

fn engine(text: &str) -> Result<EngineAddress, String> {
    text.parse().map_err(|why: String| {
        // The part behind the scheme may contain a password.
        let scheme = text.split_once("://").map(|(scheme, _)| scheme);
        match scheme.filter(|_| why.starts_with("unknown") && !why.contains(';')) {
            Some(scheme) => {
                format!(
                    "{why}{}; known: {}",
                    hint(scheme, EngineAddress::schemes()),
                    list(EngineAddress::schemes())
                )
            }
            None => why,
        }
    })
}

fn list(words: impl Iterator<Item = &'static str>) -> String {
    words.collect::<Vec<_>>().join(" ")
}

/// Parses the name of a node: a token, short enough for readable lists.
fn node(text: &str) -> Result<String, String> {
    match text.len() {
        ..=64 => names::token(text),
        long => Err(format!("the name of a node has 64 characters at most, not {long}")),
    }
}
