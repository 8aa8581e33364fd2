//! `POST /purge`: marks stored responses to be revalidated, or removes them, and also those being fetched: of a URL, of
//! all URLs with a prefix, of a glob, with a tag, of a group, of a host, or all.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::{HeaderName, StatusCode};
use serde::Serialize;

use larder_semantics::purge::Effect;

use super::query::Query;
use super::{Call, Outcome, Refusal, json};
use crate::features::edges::OF_SHIELD;
use crate::features::only_site;
use crate::features::purge::{self, PurgeRequest, PurgeResult, ScopeKind, purge};
use crate::http::names::POSITION;

/// The longest wait for other nodes, in seconds.
const LONGEST: f64 = 600.0;

/// The scope of a purge in the words of the request, and the result.
#[derive(Debug, Serialize)]
struct PurgeReport {
    #[serde(flatten)]
    words: BTreeMap<&'static str, String>,
    #[serde(flatten)]
    purged: PurgeResult,
}

/// Purges the responses that the query names.
pub(super) async fn answer(call: Call<'_>) -> Outcome {
    let shared = &call.state.shared;
    let (words, mut asked) = read(&call.query, &|| only_site::origins(shared))?;
    purge::add_ruled(&shared.plan(), &mut asked.scopes);
    let mut purged = purge(shared, asked)
        .await
        .map_err(|error| Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    let word = |(name, value): (&&str, &String)| match value.as_str() {
        "" => (*name).to_string(),
        value => format!("{name} {}", value.escape_debug()),
    };
    tracing::info!("purged {}: {purged}", words.iter().map(word).collect::<Vec<_>>().join(", "));
    let position = purged.position.take();
    let mut response = json(&PurgeReport { words, purged });
    if let Some(position) = position {
        response.headers_mut().insert(HeaderName::from_static(POSITION), position);
    }
    Ok(response)
}

/// The origins of the only site.
type Origins<'o> = dyn Fn() -> Result<BTreeSet<String>, String> + 'o;

type ParsedPurge = (BTreeMap<&'static str, String>, PurgeRequest);

/// Parses a purge. `origins` returns the origins to which a path alone may belong.
fn read(query: &Query<'_>, origins: &Origins<'_>) -> Result<ParsedPurge, String> {
    let has = |name: &str| query.get(name).is_some();
    // A group needs the host that it belongs to.
    let is_named = |name: &str| has(name) && !(name == "host" && has("group"));
    let mut named = ScopeKind::ALL.into_iter().filter(|kind| is_named(kind.name()));
    let kind = match (named.next(), named.next()) {
        (Some(kind), None) => kind,
        (None, _) => {
            let kinds = ScopeKind::ALL.map(ScopeKind::name);
            return Err(format!("nothing to purge: write one of {}", kinds.join(", ")));
        }
        (Some(one), Some(other)) => return Err(format!("{one} and {other}: write one of them")),
    };
    let effect = match (has("soft"), has("hard")) {
        (true, true) => return Err("soft and hard: write one of them".to_owned()),
        (_, true) => Effect::Remove,
        (_, false) => Effect::Stale,
    };
    let host = query.get("host").filter(|_| kind == ScopeKind::Group);
    let (mut scopes, mut at_edges) = (Vec::new(), Vec::new());
    let name = kind.name();
    for value in query.all(name) {
        match kind {
            ScopeKind::Url | ScopeKind::Prefix | ScopeKind::Glob if value.starts_with('/') => {
                let origins = origins().map_err(|why| format!("'{}': {why}", value.escape_debug()))?;
                for origin in origins {
                    let url = format!("{origin}{value}");
                    scopes.extend(kind.scopes(&url, None)?);
                    at_edges.push((name, url));
                }
            }
            _ => {
                scopes.extend(kind.scopes(value, host)?);
                at_edges.push((name, value.to_owned()));
            }
        }
    }
    at_edges.extend(host.map(|host| ("host", host.to_owned())));
    let at_edges = if has(OF_SHIELD) { Vec::new() } else { vec![at_edges] };
    let values = query.all(name).collect::<Vec<_>>().join(" ");
    let words = [(name, values)].into_iter().chain(host.map(|host| ("host", host.to_owned()))).collect();
    let patience = query.get("timeout").map(patience).transpose()?.unwrap_or(purge::PATIENCE);
    let (counts, waits) = (has("count"), has("wait"));
    Ok((words, PurgeRequest { scopes, effect, counts, waits, patience, at_edges }))
}

/// Parses a duration with its unit, or a number of seconds.
pub(super) fn patience(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 4] = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let of_unit = |(unit, seconds): &(&str, f64)| Some((text.strip_suffix(unit)?, *seconds));
    let (number, unit) = UNITS.iter().find_map(of_unit).unwrap_or((text, 1.0));
    let seconds = number.trim_end().parse::<f64>().ok().map(|number| number * unit);
    let patience = seconds.filter(|seconds| *seconds <= LONGEST);
    let patience = patience.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let wrong =
        || format!("timeout '{}': expected a duration such as 5s, at most {LONGEST}s", text.escape_debug());
    patience.ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> Result<BTreeSet<String>, String> {
        Err("write the whole URL: a path needs one site, and 0 are configured".to_owned())
    }

    #[test]
    fn a_path_is_purged_of_each_origin_of_the_only_site() {
        let origins = || Ok(["http://a".to_owned(), "http://b:81".to_owned()].into());
        let (words, asked) = read(&Query::new("url=/x%3Fy&hard"), &origins).unwrap();
        let whole = |url| ScopeKind::Url.scopes(url, None).unwrap();
        assert_eq!(asked.scopes, [whole("http://a/x?y"), whole("http://b:81/x?y")].concat());
        assert_eq!(words["url"], "/x?y");
        let error = "'/x': write the whole URL: a path needs one site, and 0 are configured";
        assert_eq!(read(&Query::new("prefix=/x"), &none).unwrap_err(), error);
    }

    #[test]
    fn one_kind_of_thing_is_purged_in_one_way() {
        for (query, words, effect, waits) in [
            ("url=http://a/", "url=http://a/", Effect::Stale, false),
            ("tag=a&tag=b&hard", "tag=a b", Effect::Remove, false),
            ("group=g&host=a&soft&wait", "group=g host=a", Effect::Stale, true),
            ("host=a", "host=a", Effect::Stale, false),
            ("all&hard=1", "all=", Effect::Remove, false),
        ] {
            let (read, asked) = read(&Query::new(query), &none).unwrap();
            let read: Vec<_> = read.iter().map(|(name, value)| format!("{name}={value}")).collect();
            assert_eq!((&*read.join(" "), asked.effect, asked.waits), (words, effect, waits), "{query}");
        }
    }

    #[test]
    fn a_timeout_has_a_unit_or_is_in_seconds() {
        for (text, milliseconds) in
            [("1s", 1_000), ("1", 1_000), ("0.1", 100), ("1500ms", 1_500), ("2m", 120_000), ("0.1h", 360_000)]
        {
            assert_eq!(patience(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn an_invalid_purge_query_gets_an_error_of_one_line() {
        for (query, error) in [
            ("", "nothing to purge: write one of url, prefix, glob, tag, group, host, all"),
            ("soft", "nothing to purge: write one of url, prefix, glob, tag, group, host, all"),
            ("url=http://a/&tag=b", "url and tag: write one of them"),
            ("tag=b&soft&hard", "soft and hard: write one of them"),
            ("group=g", "a group needs its host: write host=HOST, or host=http://HOST:PORT"),
            ("tag=b&wait&timeout=x", "timeout 'x': expected a duration such as 5s, at most 600s"),
            ("tag=b&wait&timeout=-1", "timeout '-1': expected a duration such as 5s, at most 600s"),
            ("tag=b&wait&timeout=1e9", "timeout '1e9': expected a duration such as 5s, at most 600s"),
            ("tag=b&wait&timeout=11m", "timeout '11m': expected a duration such as 5s, at most 600s"),
            ("tag=b&wait&timeout=nans", "timeout 'nans': expected a duration such as 5s, at most 600s"),
        ] {
            assert_eq!(read(&Query::new(query), &none).unwrap_err(), error, "{query}");
        }
    }
}
