//! The cluster of a proxy: combinations of its keys.

use std::env;

use larder_proxy::settings::{Cluster, SecondTier, Token};

use super::node_tls;
use super::problems::Problems;
use crate::cli::units::show_duration;
use crate::config::draft::Draft;
use crate::config::draft::cluster::Draft as Written;

/// The variable with the nodes' token, if the file has none.
const TOKEN: &str = "LARDER_CLUSTER_TOKEN";
/// Heartbeats that may be lost before a node is dropped.
const BEATS: u32 = 2;

/// Returns the cluster of `draft`, if there is one.
pub(super) fn settle(draft: &Draft, problems: &mut Problems<'_>) -> Option<Cluster> {
    let written = &draft.cluster;
    let engine = written.engine.clone()?;
    let token = token(written, problems);
    let listen = written.listen;
    if token.is_none() && !listen.ip().to_canonical().is_loopback() {
        let text = format!(
            "cluster.listen {listen} can be reached from other machines: set cluster.token in the file, or ${TOKEN}"
        );
        problems.add(&["cluster.listen"], &text);
    }
    if written.drop_out < written.heartbeat * BEATS {
        let (drop_out, heartbeat) = (show_duration(written.drop_out), show_duration(written.heartbeat));
        let text =
            format!("cluster.drop_out {drop_out} is shorter than {BEATS} of cluster.heartbeat {heartbeat}");
        problems.add(&["cluster.drop_out", "cluster.heartbeat"], &text);
    }
    let tls = node_tls::settle(draft, token.is_some(), problems);
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Some(Cluster {
        engine_tls: node_tls::of_engine(draft, &engine, problems),
        engine,
        node: written.node.clone().unwrap_or(machine),
        listen,
        advertise: written.advertise.clone(),
        weight: written.weight,
        prefix: written.prefix.clone(),
        token,
        tls,
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

/// Returns a warning if the table has no effect since it names no engine.
pub(super) fn without_effect(draft: &Draft) -> Option<String> {
    let is_written = |key: &str| draft.places.contains_key(&format!("cluster.{key}"));
    let mut keys = draft.places.keys().filter(|key| key.starts_with("cluster."));
    let place = (!is_written("engine")).then(|| keys.next()).flatten().map(|key| draft.place(&[key]))?;
    Some(format!(
        "{place}: [cluster] has no effect without 'engine', the URL of a Valkey or Redis, such as \
         engine = \"redis://127.0.0.1\""
    ))
}

/// Returns the secret that nodes share: from the file, or from the environment.
fn token(draft: &Written, problems: &mut Problems<'_>) -> Option<Token> {
    let from_environment = || env::var(TOKEN).ok().filter(|text| !text.is_empty());
    let read = |text: String| match text.parse() {
        Ok(token) => Some(token),
        Err(why) => {
            problems.add_line(format!("${TOKEN}: {why}"));
            None
        }
    };
    draft.token.clone().or_else(|| from_environment().and_then(read))
}

#[cfg(test)]
mod tests {
    use crate::config::flags::Flags;
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
    fn conflicting_cluster_keys_are_reported() {
        for (keys, problem) in [
            (
                "engine = 'rediss+clustr://u:secret@a'",
                "f:2: cluster.engine: unknown scheme 'rediss+clustr'; did you mean 'rediss+cluster'?; \
                 known: redis rediss redis+sentinel rediss+sentinel redis+cluster rediss+cluster; also valid: \"none\"",
            ),
            (
                "engine = '127.0.0.1:6379'",
                "f:2: cluster.engine: write the scheme too, such as 'redis://127.0.0.1:6379'; also valid: \"none\"",
            ),
            (
                "engine = 'u:secret@a'",
                "f:2: cluster.engine: write the scheme too, such as 'redis://127.0.0.1:6379'; also valid: \"none\"",
            ),
            (
                "engine = 'valkey://a'",
                "f:2: cluster.engine: unknown scheme 'valkey'; a Valkey is written as redis://, too; also valid: \"none\"",
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
