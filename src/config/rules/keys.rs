//! The keys of a rule other than `match`, `request`, `response` and `reply`.

use std::sync::Arc;

use larder_proxy::settings::{Ignored, Pattern, Query, TRACKING};
use larder_semantics::coding::Coding;
use larder_semantics::storable::Prediction;
use toml::de::DeValue;

use super::answers::{redirect, respond};
use super::classes::classes;
use super::cors::cors;
use super::files::error_pages;
use super::key::{RuleKey, rule_key};
use super::limits::limits;
use super::lists::{networks, tokens, users};
use super::origins::{origins, rewrite};
use super::values::{by_status, each, entries, field, flag, string, strings, unknown, word};
use crate::config::draft::rule::RuleDraft;
use crate::config::kinds::{AtLeast, Count, Kind, Percent, Seconds};
use crate::config::names;

/// The keys of a rule.
pub(crate) const RULE: &[RuleKey<RuleDraft>] = &[
    rule_key!(
        "name",
        "text",
        |rule, value| rule.name = Some(string(value)?),
        "name of the rule in explanations and statistics; without it, its number"
    ),
    rule_key!(
        "stop",
        "true or false",
        |rule, value| rule.stop = flag(value)?,
        "if the rule holds, no later rule applies"
    ),
    rule_key!(
        "cache",
        "true or false",
        |rule, value| rule.effects.cache = Some(flag(value)?),
        "false: nothing is stored, and nothing stored is used; true: undoes that of an earlier rule"
    ),
    rule_key!(
        "ttl",
        "duration, or a table of status codes and durations",
        |rule, value| match value.as_table() {
            Some(table) => rule.ttl_by_status = by_status(table)?,
            None => rule.effects.lifetimes.replace = Some(Seconds.read(value)?),
        },
        "lifetime of responses in place of the origin's; no-store, no-cache and private still hold"
    ),
    rule_key!(
        "ttl_default",
        "duration",
        |rule, value| rule.effects.lifetimes.default = Some(Seconds.read(value)?),
        "lifetime of responses for which the origin sets none"
    ),
    rule_key!(
        "ttl_min",
        "duration",
        |rule, value| rule.effects.lifetimes.least = Some(Seconds.read(value)?),
        "least lifetime of responses that have one"
    ),
    rule_key!(
        "ttl_max",
        "duration",
        |rule, value| rule.effects.lifetimes.most = Some(Seconds.read(value)?),
        "longest lifetime of responses"
    ),
    rule_key!(
        "stale_while_revalidate",
        "duration",
        |rule, value| rule.effects.stale_while_revalidate = Some(Seconds.read(value)?),
        "as the site's key of this name"
    ),
    rule_key!(
        "refresh_ahead",
        "share",
        |rule, value| rule.effects.refresh_ahead = Some(Percent.read(value)?),
        "as the site's key of this name"
    ),
    rule_key!(
        "refresh_ahead_hits",
        "number",
        |rule, value| rule.effects.refresh_ahead_hits = Some(Count(1..=10_000_000).read(value)?),
        "as the site's key of this name"
    ),
    rule_key!(
        "early_hints",
        "\"h2\", \"always\" or \"off\"",
        |rule, value| rule.effects.early_hints = Some(word(&string(value)?, names::EARLY_HINTS)?),
        "as the site's key of this name"
    ),
    rule_key!(
        "client_prefetch",
        "\"serve\" or \"cached-only\"",
        |rule, value| rule.effects.declines_prefetches =
            Some(word(&string(value)?, names::CLIENT_PREFETCHES)?),
        "as the site's key of this name"
    ),
    rule_key!(
        "prefetch",
        "list of: association sequence, or false",
        |rule, value| rule.effects.prefetch = Some(predictions(value)?),
        "as the site's key of this name; false: nothing"
    ),
    rule_key!(
        "prefetch_traffic",
        "share",
        |rule, value| rule.effects.prefetch_traffic = Some(Percent.read(value)?),
        "as the site's key of this name"
    ),
    rule_key!(
        "stale_if_error",
        "duration",
        |rule, value| rule.effects.stale_if_error = Some(Seconds.read(value)?),
        "as the site's key of this name"
    ),
    rule_key!(
        "ignore",
        "list of: no-cache no-store private must-revalidate",
        |rule, value| rule.effects.ignored = Some(ignored(value)?),
        "directives of the origin's Cache-Control that have no effect, against RFC 9111"
    ),
    rule_key!(
        "query",
        "\"drop\", or { keep = [names] } or { drop = [names] }, with sort = true if wanted",
        |rule, value| rule.effects.query = Some(query(value)?),
        "parameters of the query that stay in the cache key and in the request to the origin; \"@tracking\" stands for those of advertisements"
    ),
    rule_key!(
        "key_fields",
        "list of field names",
        |rule, value| rule.effects.apart.extend(each(value, |name| field(name).map(String::from))?),
        "request fields for whose values separate responses are stored, as if Vary named them; replies name them in Vary"
    ),
    rule_key!(
        "key_cookies",
        "list of cookie names",
        |rule, value| {
            let cookie = |name: &str| names::token(name).map(|name| format!("cookie:{name}"));
            rule.effects.apart.extend(each(value, cookie)?);
        },
        "cookies for whose values separate responses are stored; replies have Vary: Cookie"
    ),
    rule_key!(
        "vary",
        "true or false",
        |rule, value| rule.effects.vary = Some(flag(value)?),
        "false: replies do not name in Vary what decides by key_fields, key_cookies and classes: a cache between clients and this proxy mixes the responses; true: undoes that of an earlier rule"
    ),
    rule_key!(
        "classes",
        "{ field = \"X-Device\", of = \"User-Agent\", values = { phone = \"*Mobile*\" }, else = \"desktop\" }, or a list of such tables",
        |rule, value| rule.classes = classes(value)?,
        "a request field with the class of the client, by another field or by its network (of = \"client\"); each class has separate stored responses, and replies name the other field in Vary. No field tells a cache in front the network: keep them from it, as by Cache-Control: private"
    ),
    rule_key!(
        "cors",
        "origins, or { origins = [..], methods = [..], fields = [..], expose = [..], credentials = true, max_age = \"10m\" }",
        |rule, value| rule.cors = Some(cors(value)?),
        "pages of these origins (\"*\": of all) may read the responses; preflight requests are answered"
    ),
    rule_key!(
        "security_headers",
        "true or false",
        |rule, value| rule.security_headers = flag(value)?,
        "adds X-Content-Type-Options, X-Frame-Options and Referrer-Policy to replies without them"
    ),
    rule_key!(
        "compress",
        "list of: zstd br gzip, or false",
        |rule, value| rule.effects.compress = Some(codings(value)?),
        "codings in which stored responses are sent to clients that accept them, the preferred one first; false: as the origin sent them"
    ),
    rule_key!(
        "redirect",
        "URL, or { to = URL, status = 301 }",
        |rule, value| rule.redirect = Some(redirect(value)?),
        "redirects to this URL; {uri} {path} {query} {host} {scheme} and {1} to {9} (the stars of match.path) stand for parts of the request"
    ),
    rule_key!(
        "respond",
        "status code, or { status = 200, type = \"text/plain\", body = text } or with file = path",
        |rule, value| rule.respond = Some(respond(value)?),
        "answers without a request to an origin"
    ),
    rule_key!(
        "origin",
        "URL or list of URLs",
        |rule, value| rule.effects.upstream.origins = origins(value)?,
        "origins in place of the site's, written as those; for rules of sites that match only path, extension, host and scheme"
    ),
    rule_key!(
        "rewrite",
        "path",
        |rule, value| rule.effects.upstream.rewrite = Some(rewrite(value)?),
        "path of the request to the origin; placeholders as for redirect; the query is appended unless the path contains {uri}, {query} or a ?"
    ),
    rule_key!(
        "host",
        "\"preserve\" or \"origin\" or a host",
        |rule, value| rule.effects.upstream.host = Some(names::host_header(&string(value)?)?),
        "as the site's key of this name"
    ),
    rule_key!(
        "retries",
        "number",
        |rule, value| rule.effects.tries.retries = Some(Count(0..=100).read(value)?),
        "as the site's key of this name"
    ),
    rule_key!(
        "first_byte",
        "duration",
        |rule, value| rule.effects.tries.first_byte = Some(AtLeast(1).read(value)?),
        "for the origin's answer to begin (504), in place of that in [timeouts]"
    ),
    rule_key!(
        "origin_idle",
        "duration",
        |rule, value| rule.effects.tries.origin_idle = Some(AtLeast(1).read(value)?),
        "between two reads of that answer (502), in place of that in [timeouts]"
    ),
    rule_key!(
        "error_page",
        "table of status codes and paths, as { 404 = \"404.html\", 5xx = \"sorry.html\" }",
        |rule, value| rule.error_pages = error_pages(value)?,
        "files that replace the content of errors, of the origin and of this proxy; the pages of several rules are combined"
    ),
    rule_key!(
        "allow",
        "list of networks",
        |rule, value| rule.effects.allow = Some(networks(value)?),
        "clients that are served; others are refused (403); \"@FILE\" as for match.client"
    ),
    rule_key!(
        "deny",
        "list of networks",
        |rule, value| rule.effects.deny = Some(networks(value)?),
        "clients that are refused (403); \"@FILE\" as for match.client"
    ),
    rule_key!(
        "users",
        "file, or false",
        |rule, value| rule.effects.users = Some(file_or_false(value)?.map(|path| users(&path)).transpose()?),
        "requires the password of a user in this file, which larder passwd writes (401; 407 of the forward proxy); false: requires none"
    ),
    rule_key!(
        "tokens",
        "file, or false",
        |rule, value| rule.effects.tokens =
            Some(file_or_false(value)?.map(|path| tokens(&path)).transpose()?),
        "requires a bearer token in this file, or the password of a user; a line is a token, or a name and a token"
    ),
    rule_key!(
        "realm",
        "text",
        |rule, value| rule.effects.realm = Some(realm(&string(value)?)?),
        "text that clients show when they request the password from their user"
    ),
    rule_key!(
        "limit",
        "{ requests = \"10/s\", burst = 20, concurrent = 5, by = \"client\", count = \"misses\" }, or a list of such tables",
        |rule, value| rule.effects.limits = Some(limits(value)?),
        "limits of the requests in a time, and at once, for each client (or network, host, value of a \"field:NAME\", or all); others get 429. \
                count = \"misses\": only requests to an origin count"
    ),
];

fn realm(text: &str) -> Result<Arc<str>, String> {
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\'));
    match is_plain {
        true => Ok(text.into()),
        false => Err("expected visible ASCII without quotation marks and backslashes".to_owned()),
    }
}

/// Returns the file that a key names; `None` for `false`.
fn file_or_false(value: &DeValue<'_>) -> Result<Option<String>, String> {
    match value.as_bool() {
        Some(false) => Ok(None),
        _ => string(value).map(Some),
    }
}

fn predictions(value: &DeValue<'_>) -> Result<Vec<Prediction>, String> {
    match value.as_bool() {
        Some(false) => Ok(Vec::new()),
        Some(true) => Err("write the predictions, such as [\"association\", \"sequence\"]".to_owned()),
        None => each(value, |text| word(text, names::PREDICTIONS)),
    }
}

fn codings(value: &DeValue<'_>) -> Result<Vec<Coding>, String> {
    match value.as_bool() {
        Some(false) => Ok(Vec::new()),
        Some(true) => Err("write the codings, such as [\"zstd\", \"br\", \"gzip\"]".to_owned()),
        None => each(value, |text| word(text, names::CODINGS)),
    }
}

/// Stands for the names of all parameters that serve only to track users.
const TRACKERS: &str = "@tracking";

fn ignored(value: &DeValue<'_>) -> Result<Ignored, String> {
    let mut ignored = Ignored::default();
    type Directive = (&'static str, fn(&mut Ignored));
    let words: [Directive; 4] = [
        ("no-cache", |own| own.no_cache = true),
        ("no-store", |own| own.no_store = true),
        ("private", |own| own.private = true),
        ("must-revalidate", |own| own.must_revalidate = true),
    ];
    for text in strings(value)? {
        word(&text, &words)?(&mut ignored);
    }
    Ok(ignored)
}

fn query(value: &DeValue<'_>) -> Result<Query, String> {
    let Some(table) = value.as_table() else {
        return match value.as_str() {
            Some("drop") => Ok(Query { keep: Some(Vec::new()), ..Query::default() }),
            _ => Err("expected \"drop\", { keep = [names] } or { drop = [names] }".to_owned()),
        };
    };
    let mut query = Query::default();
    for (key, value) in entries(table) {
        match key {
            "keep" => query.keep = Some(parameters(value)?),
            "drop" => query.drop = parameters(value)?,
            "sort" => query.sort = flag(value)?,
            _ => return Err(unknown(key, &["keep", "drop", "sort"])),
        }
    }
    Ok(query)
}

fn parameters(value: &DeValue<'_>) -> Result<Vec<Pattern>, String> {
    let mut patterns = Vec::new();
    for name in strings(value)? {
        match name.as_str() {
            TRACKERS => patterns.extend(TRACKING.iter().filter_map(|name| Pattern::parse(name).ok())),
            name => patterns.push(Pattern::parse(name)?),
        }
    }
    Ok(patterns)
}
