//! `larder purge`: makes a running larder invalidate or remove stored responses.

use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use serde_json::Value;

use crate::cli::admin::AdminListener;
use crate::cli::units::{about_size, counted, parse_duration};
use crate::cli::words::printable;
use crate::cli::{Failure, say};

pub(super) const EXAMPLES: &str = "\
Examples:
  larder purge http://127.0.0.1:8080/index.html
      the next request revalidates it; the stored response may replace an error
  larder purge --tag product-17 --hard
      removes all responses with this tag
  larder purge --prefix http://127.0.0.1:8080/img/
  larder purge --prefix /img/
      the same for all hosts, where there is one site
  larder purge --glob '/img/*.png'
  larder purge --group users --host 127.0.0.1:8080
  larder purge --all --hard --count

A purge covers all variants, in memory and on disk, for clients of all listeners, and fetches in progress. It is in force
when this command ends. --count waits until memory has been searched, and reports how many objects the purge reached.
--wait waits for all nodes of the cluster, and reports the nodes that have it in force. With both, objects on disks are
counted, too.";

/// The arguments of `purge`.
#[derive(Debug, Args)]
#[group(skip)]
pub(crate) struct Purge {
    /// The URLs, as clients write them; if there is one site, also paths
    #[arg(value_name = "URL", value_parser = NonEmptyStringValueParser::new(), conflicts_with_all = OTHERS)]
    urls: Vec<String>,
    /// All URLs with this prefix, or, if there is one site, all with this prefix of their path; repeatable
    #[arg(long, value_name = "URL", value_parser = NonEmptyStringValueParser::new(), conflicts_with_all = ["tag", "group", "host", "all"])]
    prefix: Vec<String>,
    /// All URLs whose path matches this one, in which a star stands for any characters; repeatable
    #[arg(long, value_name = "URL", value_parser = NonEmptyStringValueParser::new(), conflicts_with_all = ["tag", "group", "host", "all"])]
    glob: Vec<String>,
    /// All responses with this tag (Cache-Tag, Surrogate-Key, xkey); repeatable
    #[arg(long, value_parser = NonEmptyStringValueParser::new(), conflicts_with_all = ["group", "host", "all"])]
    tag: Vec<String>,
    /// All responses of this cache group (Cache-Groups) of the host; repeatable
    #[arg(long, value_parser = NonEmptyStringValueParser::new(), requires = "host", conflicts_with = "all")]
    group: Vec<String>,
    /// All responses of this host; with --group, the host of the group
    #[arg(long, value_parser = NonEmptyStringValueParser::new(), conflicts_with = "all")]
    host: Option<String>,
    /// Everything
    #[arg(long)]
    all: bool,
    /// Mark them stale: they are revalidated before use, and may replace an error [default]
    #[arg(long, conflicts_with = "hard")]
    soft: bool,
    /// Remove them
    #[arg(long)]
    hard: bool,
    /// Wait until memory has been searched, and report the number of objects; with --wait, also on disks
    #[arg(long)]
    count: bool,
    /// Wait until all nodes of the cluster have the purge in force
    #[arg(long)]
    wait: bool,
    /// Longest wait for the nodes [default: 5s]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "wait")]
    timeout: Option<Duration>,
    /// Print a line of JSON for each
    #[arg(long)]
    json: bool,
    /// The admin listener.
    #[command(flatten)]
    listener: AdminListener,
}

/// The scopes of purges other than single URLs.
const OTHERS: [&str; 6] = ["prefix", "glob", "tag", "group", "host", "all"];

/// Names and values of a query.
type Query = Vec<(&'static str, String)>;

/// Runs the purges one after the other, and reports the size of each.
pub(crate) fn run(purge: &Purge) -> Result<(), Failure> {
    let queries = queries(purge);
    if queries.is_empty() {
        let what = "nothing to purge: name URLs, or --prefix, --glob, --tag, --group, --host or --all";
        return Err(Failure::Refused(what.to_owned()));
    }
    for prefix in purge.prefix.iter().filter(|prefix| prefix.ends_with('*')) {
        let meant = prefix.trim_end_matches('*');
        eprintln!(
            "larder: warning: '{prefix}': a star stands for itself in a prefix; all URLs below are --prefix {meant}; --glob has stars"
        );
    }
    for url in purge.urls.iter().filter(|url| url.contains('*')) {
        eprintln!(
            "larder: warning: '{url}': a star stands for itself in a URL; --glob '{url}' means any text"
        );
    }
    let remote = purge.listener.client()?;
    let mut troubles = Vec::new();
    for query in queries {
        let purged: Value = remote.post("purge", &query)?;
        say(&if purge.json { purged.to_string() } else { sentence(&purged) });
        troubles.extend(trouble(&purged).map(|trouble| format!("{}: {trouble}", subject(&purged))));
    }
    if troubles.is_empty() { Ok(()) } else { Err(Failure::Failed(troubles.join("\n"))) }
}

/// Returns the reason why other nodes of the cluster, if the user waited for them, or edges may not have a purge in force.
fn trouble(purged: &Value) -> Option<String> {
    trouble_of_nodes(purged).or_else(|| {
        let missing = purged["edges"]["missing"].as_array()?.iter().filter_map(Value::as_str);
        Some(format!("not in force at an edge: {}", missing.map(printable).collect::<Vec<_>>().join(", ")))
    })
}

fn trouble_of_nodes(purged: &Value) -> Option<String> {
    let nodes = purged.get("nodes")?;
    let why = nodes["trouble"].as_str().map(printable);
    let missing = nodes["missing"].as_array().into_iter().flatten();
    let missing: Vec<_> = missing.filter_map(Value::as_str).map(printable).collect();
    match (nodes["published"].as_bool()?, why, &missing[..]) {
        (false, why, _) => Some(format!("not published to the other nodes: {}", why.unwrap_or_default())),
        (true, Some(why), _) => Some(format!("the nodes that have it in force are not known: {why}")),
        (true, None, []) => None,
        (true, None, missing) => Some(format!("not yet in force on {}", missing.join(", "))),
    }
}

fn queries(purge: &Purge) -> Vec<Query> {
    let flag = |name, is_set: bool| is_set.then(|| (name, String::new()));
    let timeout = purge.timeout.map(|timeout| ("timeout", timeout.as_secs_f64().to_string()));
    let how = [flag("hard", purge.hard), flag("count", purge.count), flag("wait", purge.wait), timeout];
    let how: Query = how.into_iter().flatten().collect();
    let each = |name: &'static str, values: &[String]| -> Vec<Query> {
        values.iter().map(|value| vec![(name, value.clone())]).collect()
    };
    let named = [("url", &purge.urls), ("prefix", &purge.prefix), ("glob", &purge.glob), ("tag", &purge.tag)];
    let mut things: Vec<Query> = named.into_iter().flat_map(|(name, values)| each(name, values)).collect();
    let host = purge.host.iter().map(|host| ("host", host.clone()));
    match &purge.group[..] {
        [] => things.extend(host.map(|host| vec![host])),
        groups => things.extend(
            each("group", groups).into_iter().map(|group| group.into_iter().chain(host.clone()).collect()),
        ),
    }
    things.extend(flag("all", purge.all).map(|all| vec![all]));
    things.into_iter().map(|thing| [thing, how.clone()].concat()).collect()
}

fn sentence(purged: &Value) -> String {
    let done = if purged["effect"] == "removed" { "removed" } else { "marked stale" };
    let is_under_way = purged["disk"] == "under-way";
    let size = about_size(purged["bytes"].as_u64().unwrap_or_default());
    let reached = match purged["objects"].as_u64() {
        None => done.to_owned(),
        Some(0) if is_under_way => "nothing was stored in memory".to_owned(),
        Some(0) => "nothing was stored".to_owned(),
        Some(count) => format!("{} {done}, {size}", counted(count, "object", "objects")),
    };
    let mut sentence = format!("{}: {reached}", subject(purged));
    if is_under_way {
        sentence.push_str("; objects on disks are not counted");
    }
    if let Some(why) = purged["not_counted"].as_str() {
        sentence.push_str(&format!("; not counted: {}", printable(why)));
    }
    let nodes = &purged["nodes"];
    if let (Some(acknowledged), Some(of)) = (nodes["acknowledged"].as_u64(), nodes["of"].as_u64()) {
        sentence.push_str(&format!("; in force on {acknowledged} of {}", counted(of, "node", "nodes")));
    }
    sentence
}

/// Returns the scope that was purged.
fn subject(purged: &Value) -> String {
    let word = |name: &str| purged[name].as_str().map(printable);
    let group = |name| format!("group {name} of {}", word("host").unwrap_or_default());
    None.or_else(|| word("url"))
        .or_else(|| word("prefix").map(|prefix| format!("{prefix}...")))
        .or_else(|| word("glob"))
        .or_else(|| word("tag").map(|tag| format!("tag {tag}")))
        .or_else(|| word("group").map(group))
        .or_else(|| word("host").map(|host| format!("host {host}")))
        .unwrap_or_else(|| "everything".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_sentence_says_what_was_reached() {
        for (purged, expected) in [
            (json!({"tag": "t", "effect": "stale"}), "tag t: marked stale"),
            (json!({"all": "", "effect": "removed"}), "everything: removed"),
            (
                json!({"tag": "t", "effect": "stale", "not_counted": "too many"}),
                "tag t: marked stale; not counted: too many",
            ),
            (json!({"url": "http://a/\n", "objects": 0}), "http://a/\\n: nothing was stored"),
            (
                json!({"url": "http://a/", "objects": 1, "effect": "stale"}),
                "http://a/: 1 object marked stale, 2.00 KiB",
            ),
            (
                json!({"tag": "t", "objects": 1_200, "effect": "removed", "disk": "done"}),
                "tag t: 1,200 objects removed, 2.00 KiB",
            ),
            (
                json!({"group": "g", "host": "a", "objects": 2, "effect": "stale", "disk": "under-way"}),
                "group g of a: 2 objects marked stale, 2.00 KiB; objects on disks are not counted",
            ),
            (
                json!({"all": "", "objects": 0, "disk": "under-way"}),
                "everything: nothing was stored in memory; objects on disks are not counted",
            ),
            (
                json!({"url": "http://a/", "objects": 0, "nodes": {"published": true, "acknowledged": 2, "of": 3}}),
                "http://a/: nothing was stored; in force on 2 of 3 nodes",
            ),
            (
                json!({"url": "http://a/", "objects": 0, "nodes": {"published": true, "of": 3}}),
                "http://a/: nothing was stored",
            ),
        ] {
            let mut purged = purged;
            purged["bytes"] = json!(2048);
            assert_eq!(sentence(&purged), expected);
        }
    }

    #[test]
    fn a_purge_that_is_not_in_force_everywhere_is_reported() {
        for (nodes, expected) in [
            (json!({"published": true, "of": 3}), None),
            (json!({"published": true, "acknowledged": 3, "of": 3}), None),
            (
                json!({"published": true, "acknowledged": 1, "of": 3, "missing": ["b", "c"]}),
                Some("not yet in force on b, c"),
            ),
            (
                json!({"published": false, "of": 0, "trouble": "refused"}),
                Some("not published to the other nodes: refused"),
            ),
            (
                json!({"published": true, "of": 3, "trouble": "refused"}),
                Some("the nodes that have it in force are not known: refused"),
            ),
        ] {
            assert_eq!(trouble(&json!({"nodes": nodes})).as_deref(), expected);
        }
        assert_eq!(trouble(&json!({"objects": 1})), None);
    }

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        purge: Purge,
    }

    #[test]
    fn each_thing_is_a_purge_of_its_own() {
        let words = |line: &str| {
            let line = Line::try_parse_from(line.split(' ')).map_err(|error| error.kind())?;
            let word = |(name, value): &(&str, String)| format!("{name}={value}");
            let query = |query: &Query| query.iter().map(word).collect::<Vec<_>>().join("&");
            Ok::<_, clap::error::ErrorKind>(
                queries(&line.purge).iter().map(query).collect::<Vec<_>>().join(" "),
            )
        };
        for (line, expected) in [
            ("purge http://a/ http://b/ --soft", "url=http://a/ url=http://b/"),
            ("purge --tag a --tag b --hard", "tag=a&hard= tag=b&hard="),
            ("purge --group g --group h --host a", "group=g&host=a group=h&host=a"),
            ("purge --host a --wait", "host=a&wait="),
            ("purge --host a --count", "host=a&count="),
            ("purge --host a --count --wait", "host=a&count=&wait="),
            ("purge --host a --wait --timeout 1500ms", "host=a&wait=&timeout=1.5"),
            ("purge --prefix http://a/b", "prefix=http://a/b"),
            ("purge --glob /a*.png --hard", "glob=/a*.png&hard="),
            ("purge --all", "all="),
            ("purge", ""),
        ] {
            assert_eq!(words(line).as_deref(), Ok(expected), "{line}");
        }
        for wrong in [
            "purge http://a/ --all",
            "purge --group g",
            "purge --tag t --host a",
            "purge --all --soft --hard",
            "purge --all --timeout 5s",
        ] {
            assert!(words(wrong).is_err(), "{wrong}");
        }
    }
}
