//! `PURGE` on a site's listener, as caches have long understood it: the clients that may send it, and its meaning.
//!
//! It is answered here and never passed on. It purges its target, unless a field names something else: tags
//! (`Cache-Tag`, `Surrogate-Key`, `xkey`), groups of the target's origin (`Cache-Groups`), or, by `Larder-Purge`, all
//! URLs that begin with the target, match it as a glob, or have its host. `Larder-Purge` also sets the options of the purge.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use larder_semantics::groups;
use larder_semantics::purge::{Effect, Scope};
use larder_semantics::status::Why;

use crate::base::networks;
use crate::base::outcome::{Kind as Ending, Outcome};
use crate::base::settings::{Site, Token};
use crate::exchange::plan::Plan;
use crate::exchange::reply::{Reply, Source};
use crate::exchange::request::Request;
use crate::exchange::route::{Route, SiteState};
use crate::features::edges::Queries;
use crate::features::purge::{self, PurgeRequest, PurgeResult, ScopeKind};
use crate::flow::worker::Worker;
use crate::http::names::{PURGE, PURGE_MORE};

/// The status and the reason of a refused purge.
type PurgeRefusal = (StatusCode, String);

/// Returns the site of a `PURGE`; `None` for every other request.
pub(crate) fn site(request: &Request) -> Option<&SiteState> {
    match &request.route {
        Route::Site(site) if request.is_purge() => Some(&**site),
        _ => None,
    }
}

/// Returns the answer to a `PURGE` for `site`.
pub(crate) async fn answer(worker: &Arc<Worker>, plan: &Plan, site: &SiteState, request: &Request) -> Reply {
    let (token, url) = (plan.settings.admin_token.as_ref(), request.url());
    let asked = may(&site.settings, token, request);
    let asked =
        asked.and_then(|of_site| read(&url, &request.fields, of_site.then_some(&*site.settings.name)));
    let asked = match asked {
        Ok(asked) => asked,
        Err((status, why)) => return refused(status, &why),
    };
    match purge::purge(&worker.shared, asked).await {
        Ok(purged) => {
            tracing::info!("{PURGE} {} from {}: {purged}", request.logged_url(), request.client.ip());
            done(purged)
        }
        Err(error) => refused(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string()),
    }
}

/// Returns a reply like that of [`answer`] to `request`, if that is a `PURGE`. It does not purge.
pub(crate) fn dry_run(plan: &Plan, request: &Request) -> Option<Reply> {
    let site = site(request)?;
    Some(match may(&site.settings, plan.settings.admin_token.as_ref(), request) {
        Ok(_) => Reply::text(StatusCode::OK, String::new(), Outcome::forwarded(Ending::Pass, Why::Method)),
        Err((status, why)) => refused(status, &why),
    })
}

/// Checks whether the sender of `request` may purge. True: only entries of this site, as `purge_from` allows it.
fn may(site: &Site, token: Option<&Token>, request: &Request) -> Result<bool, PurgeRefusal> {
    let client = request.client.ip().to_canonical();
    let shown = request.fields.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
    let shown = shown.and_then(|shown| shown.split_at_checked("Bearer ".len()));
    let shown = shown.filter(|(scheme, _)| scheme.eq_ignore_ascii_case(b"Bearer "));
    match (token, shown) {
        (Some(token), Some((_, shown))) if token.is(shown.trim_ascii()) => Ok(false),
        _ if networks::have(&site.purge_from, client) => Ok(true),
        (None, _) if site.purge_from.is_empty() => Err((
            StatusCode::METHOD_NOT_ALLOWED,
            "PURGE is off here; list its clients in purge_from of the site".to_owned(),
        )),
        _ => Err((
            StatusCode::FORBIDDEN,
            format!(
                "{client} may not purge: it is not in purge_from of the site, and did not send the admin token"
            ),
        )),
    }
}

/// Returns the purge that a `PURGE` of `url` with these fields requests. Its tags are those of `site`, if it is
/// given.
fn read(url: &str, fields: &HeaderMap, site: Option<&str>) -> Result<PurgeRequest, PurgeRefusal> {
    let bad = |why: String| (StatusCode::BAD_REQUEST, why);
    let start = start_by_pattern(url, fields)?;
    let url = start.unwrap_or(url);
    let (mut effects, mut kinds, mut counts, mut waits) = (Vec::new(), Vec::new(), false, false);
    for word in
        fields.get_all(PURGE_MORE).iter().flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
    {
        match word.trim_ascii() {
            b"" => {}
            b"soft" => effects.push(Effect::Stale),
            b"hard" => effects.push(Effect::Remove),
            b"prefix" => kinds.push(ScopeKind::Prefix),
            b"glob" => kinds.push(ScopeKind::Glob),
            b"host" => kinds.push(ScopeKind::Host),
            b"count" => counts = true,
            b"wait" => waits = true,
            other => {
                let other = String::from_utf8_lossy(other);
                let why = format!(
                    "larder-purge '{}': expected soft, hard, prefix, glob, host, count, wait",
                    other.escape_debug()
                );
                return Err(bad(why));
            }
        }
    }
    kinds.extend(start.map(|_| ScopeKind::Prefix));
    if effects.len() > 1 || kinds.len() > 1 || (!kinds.is_empty() && groups::is_tagged(fields)) {
        let why = "larder-purge: write one of soft and hard, and one of prefix, glob, host, tags and groups";
        return Err(bad(why.to_owned()));
    }
    let effect = effects.pop().unwrap_or(Effect::Stale);
    let kind = kinds.pop().unwrap_or(ScopeKind::Url);
    let tags = groups::tags(fields).map(|tag| match site {
        Some(site) => Scope::SiteTag { site: site.to_owned(), tag: tag.to_vec() },
        None => Scope::Tag(tag.to_vec()),
    });
    let of_origin =
        groups::groups(fields).into_iter().map(|name| ScopeKind::Group.scopes(&name, Some(origin(url))));
    let mut scopes = of_origin.collect::<Result<Vec<_>, _>>().map_err(bad)?.concat();
    scopes.extend(tags);
    let mut at_edges = tagged(url, fields);
    if scopes.is_empty() && groups::is_tagged(fields) {
        return Err(bad(
            "no tag and no group is named; write groups in quotation marks: \"a\", \"b\"".to_owned()
        ));
    }
    if scopes.is_empty() {
        let values = match kind {
            ScopeKind::Host => vec![host(url).to_owned()],
            _ => vec![url.to_owned(), in_other_scheme(url)],
        };
        for value in values {
            scopes.extend(kind.scopes(&value, None).map_err(bad)?);
            at_edges.push(vec![(kind.name(), value)]);
        }
    }
    Ok(PurgeRequest { scopes, effect, counts, waits, patience: purge::PATIENCE, at_edges })
}

/// Returns the beginning of the URLs that a `PURGE` of `url` names by a pattern, as plugins for WordPress do: a URL
/// with `.*` behind it. Errors: the refusal of other patterns of URLs, and of tags in a field that is not read: to
/// purge the target alone would leave what the sender means.
fn start_by_pattern<'u>(url: &'u str, fields: &HeaderMap) -> Result<Option<&'u str>, PurgeRefusal> {
    let means = fields.get("x-purge-method").map(HeaderValue::as_bytes);
    let start = url.strip_suffix(".*").filter(|_| means == Some(b"regex"));
    let is_url = matches!(means, None | Some(b"default" | b"exact"));
    // Such as Cache-Tags of Drupal, and X-Magento-Tags-Pattern.
    let has_other_tags = fields.keys().any(|name| name.as_str().contains("-tags"));
    if start.is_none() && !is_url || has_other_tags {
        let why = "name tags in Cache-Tag, Surrogate-Key or xkey, and the beginning of URLs by Larder-Purge: prefix; \
            of patterns, only X-Purge-Method: regex with .* at the end of the path is understood";
        return Err((StatusCode::BAD_REQUEST, why.to_owned()));
    }
    Ok(start)
}

/// Returns the tags and groups in `fields` for the edges.
fn tagged(url: &str, fields: &HeaderMap) -> Queries {
    let text = |tag: &[u8]| String::from_utf8_lossy(tag).into_owned();
    let tags: Vec<_> = groups::tags(fields).map(|tag| (ScopeKind::Tag.name(), text(tag))).collect();
    let mut groups: Vec<_> =
        groups::groups(fields).into_iter().map(|name| (ScopeKind::Group.name(), name.to_string())).collect();
    if !groups.is_empty() {
        groups.push((ScopeKind::Host.name(), origin(url).to_owned()));
    }
    [tags, groups].into_iter().filter(|query| !query.is_empty()).collect()
}

/// Returns scheme, host and port of a URL.
fn origin(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?']).map_or(url.len(), |at| start + at);
    &url[..end]
}

/// Returns `url` in https in place of http, and the other way round: a program beside a proxy that terminates TLS purges the
/// pages that clients request over TLS.
fn in_other_scheme(url: &str) -> String {
    match url.strip_prefix("http://") {
        Some(rest) => format!("https://{rest}"),
        None => url.replacen("https://", "http://", 1),
    }
}

fn host(url: &str) -> &str {
    origin(url).split_once("://").map_or(url, |(_, host)| host)
}

fn done(purged: PurgeResult) -> Reply {
    let text = serde_json::to_string(&purged).unwrap_or_default() + "\n";
    let reply = Reply::text(StatusCode::OK, text, Outcome::forwarded(Ending::Pass, Why::Method));
    let fields = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")];
    let fields = fields.map(|(name, value)| (name, HeaderValue::from_static(value)));
    Reply { fields: Source::Fields(HeaderMap::from_iter(fields).into()), ..reply }.at(purged.position)
}

fn refused(status: StatusCode, why: &str) -> Reply {
    let text = format!("{}: {why}\n", status.as_str());
    Reply::text(status, text, Outcome::forwarded(Ending::Refused, Why::Refused))
}
