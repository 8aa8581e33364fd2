//! The keys of `[cluster]`.

use larder_proxy::settings::{EngineAddress, EngineOutagePolicy};

use super::key::{Key, keys};
use super::values::{ADDRESS, DIRECTORY, HOST, NODE_URL, SECRET, TOKEN};
use crate::cli::words::hint;
use crate::config::draft::Draft;
use crate::config::draft::cluster::NodeProof;
use crate::config::kinds::{AtLeast, Choice, Count, Flag, Kind, OrWord, Secret, Share, Size, Text, Words};
use crate::config::names;

const ENGINE: Secret<Text<EngineAddress>> =
    Secret(Text("URL of a Valkey or Redis", engine, |engine| engine.secret().to_owned()));
const NODE: Text<String> = Text("word", node, String::clone);
const WITHOUT_ENGINE: Choice<EngineOutagePolicy> =
    Choice(&[("revalidate", EngineOutagePolicy::Revalidate), ("serve", EngineOutagePolicy::Serve)]);

const TLS: Choice<NodeProof> =
    Choice(&[("token", NodeProof::Token), ("files", NodeProof::Files), ("off", NodeProof::Off)]);

/// The keys of `[cluster]`.
pub(super) const KEYS: &[Key<Draft>] = keys! {
    "engine" in cluster.engine: OrWord("none", ENGINE),
        "redis://[user:password@]host[:port][/database], rediss:// over TLS; redis+sentinel://host,host/master and \
         redis+cluster://host,host take several; none: no cluster";
    "engine_ca" in cluster.engine_ca: OrWord("none", DIRECTORY),
        "with rediss://: PEM file with the authorities that are trusted for the engine's certificate; none: the \
         system's";
    "engine_cert" in cluster.engine_cert: OrWord("none", DIRECTORY),
        "PEM file with the certificate chain that this node sends to the engine";
    "engine_key" in cluster.engine_key: OrWord("none", DIRECTORY), "the private key of that certificate in PEM";
    "node" in cluster.node: OrWord("auto", NODE),
        "name of this node, unique in the cluster; auto: the machine's name";
    "listen" in cluster.listen: ADDRESS, "listener for other nodes; addresses other than loopback need token";
    "advertise" in cluster.advertise: OrWord("auto", NODE_URL),
        "URL at which other nodes connect; auto: the address of listen, or, for all addresses, the one towards the engine";
    "weight" in cluster.weight: Count(1..=10_000),
        "share of the keys that this node owns, relative to the other nodes' weights";
    "prefix" in cluster.prefix: TOKEN, "prefix of keys on the engine, unique for each cluster";
    "token" in cluster.token: OrWord("off", SECRET),
        "shared secret of the nodes, which authenticates them and their data on the engine; also $LARDER_CLUSTER_TOKEN";
    "tls" in cluster.tls: OrWord("auto", TLS),
        "connections between nodes: token: over TLS, authenticated by the token; files: over TLS, authenticated by \
         certificates; off: without TLS; auto: token if there is one and other machines can reach listen, or \
         advertise begins with https://, otherwise off";
    "ca" in cluster.ca: OrWord("none", DIRECTORY),
        "with tls = \"files\": PEM file with the authorities that are trusted for certificates of nodes; preferably \
         one that signs for nodes only";
    "cert" in cluster.cert: OrWord("none", DIRECTORY),
        "PEM file with the certificate chain of this node, which it sends as a server and as a client";
    "key" in cluster.key: OrWord("none", DIRECTORY), "the private key of that certificate in PEM";
    "tls_name" in cluster.tls_name: OrWord("none", HOST),
        "name in the certificates of all nodes; none: the host of the URL at which a node is reached";
    "heartbeat" in cluster.heartbeat: AtLeast(10), "interval between heartbeats";
    "drop_out" in cluster.drop_out: AtLeast(100),
        "time without a heartbeat after which a node counts as down";
    "max_invalidation_lag" in cluster.max_invalidation_lag: AtLeast(100),
        "hits are served for at most this long after the last complete read of the stream of purges";
    "without_engine" in cluster.without_engine: WITHOUT_ENGINE,
        "after max_invalidation_lag: revalidate: stored responses are revalidated before use; serve: they are used";
    "hot" in cluster.hot: Share, "share of the memory for copies of popular responses that other nodes own";
    "tier" in cluster.tier: OrWord("off", Size(1..=1 << 30)),
        "also store fresh responses of up to this size on the engine, for nodes that take over their keys";
    "tier_lifetime" in cluster.tier_lifetime: AtLeast(1_000), "largest lifetime of responses on the engine";
    "tier_compression" in cluster.tier_compression: Flag, "compress responses on the engine (Zstandard)";
    "tier_deadline" in cluster.tier_deadline: AtLeast(1),
        "longest wait for an answer of the engine in the second tier";
};

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
