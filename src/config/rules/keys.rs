//! The keys of a rule other than `match`, `request`, `response` and `reply`.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, header};
use larder_proxy::settings::{
    Dates, Exemption, IgnoredDirectives, LoggedRequests, MinAge, OutcomeKind, Pattern, Protocol, Protocols,
    Query, SignaturePlace, SignedUrls, TRACKING, Tokens, Users,
};
use larder_semantics::coding::Coding;
use larder_semantics::storable::Prediction;
use toml::de::DeValue;

use super::answers::{redirect, respond};
use super::auth::auth_request;
use super::classes::classes;
use super::cors::cors;
use super::files::error_pages;
use super::jwt::jwt;
use super::key::{RuleKey, rows};
use super::limits::{bandwidth, limits};
use super::origins::{origins, rewrite};
use super::split::split;
use super::values::{by_status, each, entries, field, statuses, unknown, word, written_field};
use crate::config::draft::rule::RuleDraft;
use crate::config::keys::{BALANCE, EARLY_HINTS, HOST_HEADER, PREFETCHES, SLICE};
use crate::config::kinds::{AtLeast, Count, Flag, Kind, Percent, Seconds, Share, Size};
use crate::config::lists::{networks, signed_urls, string, strings, tokens, users};
use crate::config::names;

/// Makes the keys of a rule from the table of effects.
macro_rules! rule_keys {
    ($($(#[$doc:meta])* $field:ident: $type:ty $(=> $($rule:ident).+)?, $phase:ident $(, named $name:literal)? {
        $($key:literal, $values:literal, $how:ident[$($reader:tt)*], $about:literal;)*
    })*) => {
        /// The keys of a rule.
        pub(crate) const RULE: &[RuleKey<RuleDraft>] = rows! {
            "name": "text", |rule, value| rule.name = Some(string(value)?),
                "name of the rule in explanations and statistics; without it, its number";
            "stop": "true or false", |rule, value| rule.stop = flag(value)?, "if the rule holds, no later rule applies";
            $($($key: $values, |rule, value| read!($how[$($reader)*], value, rule, $field), $about;)*)*
        };
    };
}

/// Reads the value of a key into the field of its effect, by a kind of values or a function; into a field of the rule as
/// written; or with a function that writes into that rule.
macro_rules! read {
    (kind[$kind:expr], $value:ident, $rule:ident, $field:ident) => {
        $rule.effects.$field = Some($kind.read($value)?)
    };
    (read[$read:ident], $value:ident, $rule:ident, $field:ident) => {
        $rule.effects.$field = Some($read($value)?)
    };
    (draft[$draft:ident = $read:ident], $value:ident, $rule:ident, $field:ident) => {
        $rule.$draft = $read($value)?.into()
    };
    (with[$write:ident], $value:ident, $rule:ident, $field:ident) => {
        $write($rule, $value)?
    };
}

larder_proxy::effects!(rule_keys);

fn flag(value: &DeValue<'_>) -> Result<bool, String> {
    Flag.read(value)
}

fn set_ttl(rule: &mut RuleDraft, value: &DeValue<'_>) -> Result<(), String> {
    match value.as_table() {
        Some(table) => rule.ttl_by_status = by_status(table)?,
        None => rule.effects.ttl = Some(Seconds.read(value)?),
    }
    Ok(())
}

fn add_fields(rule: &mut RuleDraft, value: &DeValue<'_>) -> Result<(), String> {
    rule.effects.apart.extend(each(value, |name| field(name).map(String::from))?);
    Ok(())
}

fn add_cookies(rule: &mut RuleDraft, value: &DeValue<'_>) -> Result<(), String> {
    let cookie = |name: &str| names::token(name).map(|name| format!("cookie:{name}"));
    rule.effects.apart.extend(each(value, cookie)?);
    Ok(())
}

/// Adds tags to the responses: Cache-Tag names them.
fn add_tags(rule: &mut RuleDraft, value: &DeValue<'_>) -> Result<(), String> {
    rule.tags.extend(each(value, |text| {
        let is_tag = !text.trim().is_empty() && !text.contains(',');
        let tag = HeaderValue::from_str(text).ok().filter(|_| is_tag);
        tag.ok_or_else(|| {
            format!("'{}' is not a tag: tags have no commas and no line ends", text.escape_debug())
        })
    })?);
    Ok(())
}

fn users_in_file(value: &DeValue<'_>) -> Result<Option<Arc<Users>>, String> {
    file_or_false(value)?.map(|path| users(&path)).transpose()
}

fn tokens_in_file(value: &DeValue<'_>) -> Result<Option<Arc<Tokens>>, String> {
    file_or_false(value)?.map(|path| tokens(&path)).transpose()
}

fn signed(value: &DeValue<'_>) -> Result<Option<Arc<SignedUrls>>, String> {
    let Some(table) = value.as_table() else {
        return file_or_false(value)?.map(|path| signed_urls(&path).map(Arc::new)).transpose();
    };
    let keys =
        entries(table).find(|(key, _)| *key == "keys").ok_or("it has no 'keys', the file of the keys")?.1;
    let mut signed = signed_urls(&string(keys)?)?;
    for (key, value) in entries(table) {
        match key {
            "keys" => {}
            "expires" => signed.expires = names::token(&string(value)?)?.into(),
            "signature" => signed.signature = names::token(&string(value)?)?.into(),
            "in" => {
                let places = [
                    ("query", SignaturePlace::Query),
                    ("path", SignaturePlace::Path),
                    ("folder", SignaturePlace::Folder),
                ];
                signed.place = word(&string(value)?, &places)?;
            }
            "client" => signed.by_client = flag(value)?,
            "skew" => signed.skew = Seconds.read(value)?,
            _ => return Err(unknown(key, &["keys", "in", "client", "expires", "signature", "skew"])),
        }
    }
    let names_parameters = entries(table).any(|(key, _)| matches!(key, "expires" | "signature"));
    match signed.expires == signed.signature {
        true => Err("expires and signature are different parameters".to_owned()),
        false if signed.place != SignaturePlace::Query && names_parameters => {
            Err("expires and signature name parameters, which only in = \"query\" has".to_owned())
        }
        false => Ok(Some(Arc::new(signed))),
    }
}

fn logged(value: &DeValue<'_>) -> Result<LoggedRequests, String> {
    let Some(table) = value.as_table() else { return flag(value).map(LoggedRequests::all) };
    let mut logged = LoggedRequests::all(false);
    let outcomes = OutcomeKind::ALL.map(|own| (own.word(), own));
    for (key, value) in entries(table) {
        match key {
            "status" => logged.statuses = statuses(value)?,
            "outcome" => logged.outcomes = each(value, |text| word(text, &outcomes))?,
            "slower" => logged.slower = AtLeast(1).read(value)?,
            "share" => logged.share = Share.read(value)?,
            _ => return Err(unknown(key, &["status", "outcome", "slower", "share"])),
        }
    }
    Ok(logged)
}

fn user_field(value: &DeValue<'_>) -> Result<HeaderName, String> {
    let name = written_field(&string(value)?)?;
    match [header::AUTHORIZATION, header::COOKIE, header::RANGE].contains(&name) {
        true => Err(format!("'{name}' has a meaning of its own: write a field such as X-Remote-User")),
        false => Ok(name),
    }
}

fn realm(value: &DeValue<'_>) -> Result<Arc<str>, String> {
    let text = string(value)?;
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
    words(value, ("predictions", Prediction::NAMES))
}

fn codings(value: &DeValue<'_>) -> Result<Vec<Coding>, String> {
    words(value, ("codings", Coding::NAMES))
}

/// Reads a list of the words in `known`, or `false` for none of them.
fn words<T: Copy>(value: &DeValue<'_>, (what, known): (&str, &[(&str, T)])) -> Result<Vec<T>, String> {
    match value.as_bool() {
        Some(false) => Ok(Vec::new()),
        Some(true) => {
            let all: Vec<_> = known.iter().map(|(name, _)| *name).collect();
            Err(format!("write the {what}, such as {all:?}"))
        }
        None => each(value, |text| word(text, known)),
    }
}

fn packages(value: &DeValue<'_>) -> Result<Protocols, String> {
    let known: Vec<_> = Protocol::ALL.iter().map(|own| (own.name(), *own)).collect();
    match (value.as_bool(), value.as_str()) {
        (Some(false), _) => Ok(Protocols::default()),
        (Some(true), _) | (_, Some("all")) => Ok(Protocols::ALL),
        _ => Ok(each(value, |text| word(text, &known))?.into_iter().collect()),
    }
}

fn min_age(value: &DeValue<'_>) -> Result<Arc<MinAge>, String> {
    let mut policy = MinAge::default();
    let set = |policy: &mut MinAge, protocols: Protocols, value: &DeValue<'_>| {
        let seconds = Seconds.read(value)?;
        policy.seconds.extend(protocols.each().map(|protocol| (protocol, seconds)));
        Ok::<_, String>(())
    };
    let Some(table) = value.as_table() else {
        if value.as_bool() != Some(false) {
            set(&mut policy, Protocols::ALL, value)?;
        }
        return Ok(Arc::new(policy));
    };
    // The age of one protocol takes precedence over that of all.
    if let Some((_, all)) = entries(table).find(|(key, _)| *key == "all") {
        set(&mut policy, Protocols::ALL, all)?;
    }
    let protocols = Protocol::ALL.iter().map(|own| (own.name(), *own));
    for (key, value) in entries(table) {
        match key {
            "all" => {}
            "allow" => policy.allowed = each(value, allowed)?,
            "dates" => policy.dates = word(&string(value)?, Dates::NAMES)?,
            _ => match protocols.clone().find(|(name, _)| *name == key) {
                Some((_, protocol)) => set(&mut policy, [protocol].into_iter().collect(), value)?,
                None => {
                    let known: Vec<_> =
                        protocols.map(|(name, _)| name).chain(["all", "allow", "dates"]).collect();
                    return Err(unknown(key, &known));
                }
            },
        }
    }
    Ok(Arc::new(policy))
}

fn allowed(text: &str) -> Result<Exemption, String> {
    Exemption::parse(text)
        .ok_or_else(|| format!("'{}' is not a package: NAME, NAME@VERSION or NAME*", text.escape_debug()))
}

/// Stands for the names of all parameters that serve only to track users.
const TRACKERS: &str = "@tracking";

fn ignored(value: &DeValue<'_>) -> Result<IgnoredDirectives, String> {
    let mut ignored = IgnoredDirectives::default();
    type Directive = (&'static str, fn(&mut IgnoredDirectives));
    let words: [Directive; 4] = [
        ("no-cache", |own| own.no_cache = true),
        ("no-store", |own| own.no_store = true),
        ("private", |own| own.private = true),
        ("must-revalidate", |own| own.must_revalidate = true),
    ];
    for text in strings(value)? {
        let way = match text.to_ascii_lowercase().as_str() {
            "set-cookie" | "cookies" => "; response = { cookies = \"drop\" } drops cookies",
            "vary" => "; response = { remove = \"Vary\" } ignores Vary",
            "expires" | "max-age" | "s-maxage" => "; ttl replaces the origin's lifetimes",
            _ => "",
        };
        word(&text, &words).map_err(|error| error + way)?(&mut ignored);
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
            "keep" => query.keep = Some(parameters(&strings(value)?)?),
            "drop" => (query.drop, query.except) = dropped(value)?,
            "sort" => query.sort = flag(value)?,
            _ => return Err(unknown(key, &["keep", "drop", "sort"])),
        }
    }
    Ok(query)
}

/// Reads the parameters to drop, and those behind `!`, which are kept in spite of them.
fn dropped(value: &DeValue<'_>) -> Result<(Vec<Pattern>, Vec<Pattern>), String> {
    let names = strings(value)?;
    let (excepted, dropped): (Vec<_>, Vec<_>) = names.iter().partition(|name| name.starts_with('!'));
    let excepted = excepted.iter().map(|name| Pattern::parse(&name[1..]));
    Ok((parameters(dropped)?, excepted.collect::<Result<_, _>>()?))
}

fn parameters<'n>(names: impl IntoIterator<Item = &'n String>) -> Result<Vec<Pattern>, String> {
    let mut patterns = Vec::new();
    for name in names {
        match name.as_str() {
            TRACKERS => patterns.extend(TRACKING.iter().filter_map(|name| Pattern::parse(name).ok())),
            name => patterns.push(Pattern::parse(name)?),
        }
    }
    Ok(patterns)
}
