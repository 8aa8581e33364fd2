//! `split`: clients in buckets, with responses stored apart.

use std::sync::Arc;

use http::HeaderName;
use larder_proxy::settings::{Bucket, Conditions, Effects, NamedPatterns, Pattern, Split};
use toml::de::DeValue;

use super::values::{entries, entries_in_order, field_value, unknown, written_field};
use crate::config::draft::rule::{Division, RuleDraft};
use crate::config::kinds::{Count, Kind, Seconds};
use crate::config::lists::string;
use crate::config::names;

const KEYS: [&str; 4] = ["field", "values", "cookie", "ttl"];
const SHAPE: &str = "{ field = \"X-Bucket\", values = { stable = 95, canary = 5 }, cookie = \"bucket\" }";

/// How long clients keep the cookie if the config does not say it, in seconds.
const TTL: u32 = 30 * 86_400;

/// Parses a table.
pub(super) fn split(value: &DeValue<'_>) -> Result<Division, String> {
    let table = value.as_table().ok_or_else(|| format!("expected a table such as {SHAPE}"))?;
    let (mut field, mut buckets, mut cookie, mut ttl) = (None, Vec::new(), None, TTL);
    for (key, value) in entries(table) {
        match key {
            "field" => field = Some(written_field(&string(value)?)?),
            "values" => buckets = weights(value)?,
            "cookie" => cookie = Some(plain(&string(value)?)?),
            "ttl" => ttl = Seconds.read(value)?,
            _ => return Err(unknown(key, &KEYS)),
        }
    }
    let Some(field) = field.filter(|_| !buckets.is_empty()) else {
        return Err(format!("field and values belong together, as in {SHAPE}"));
    };
    if buckets.iter().all(|(_, weight)| *weight == 0) {
        return Err("values: no bucket gets clients, since all weights are 0".to_owned());
    }
    let split = Arc::new(Split { cookie, buckets, name: field.as_str().into() });
    Ok(Division { field, split, ttl })
}

/// Reads the weights of the buckets, in their written order.
fn weights(value: &DeValue<'_>) -> Result<Vec<(Box<str>, u32)>, String> {
    let table = value.as_table().ok_or("values is a table such as { stable = 95, canary = 5 }")?;
    let bucket =
        |(name, weight): (&str, &DeValue<'_>)| Ok((plain(name)?, Count(0..=1_000_000).read(weight)?));
    entries_in_order(table).map(bucket).collect()
}

/// Parses a word that is a name or value of a cookie, a value of a field, and no pattern.
fn plain(text: &str) -> Result<Box<str>, String> {
    match text.contains(['*', '~']) {
        true => Err(format!("'{}' is not a word: letters, digits and -._ only", text.escape_debug())),
        false => names::token(text).map(Box::from),
    }
}

/// Puts buckets in the place of conditions on their field in rules, which see the fields that clients send. Choices of
/// origins see the field that is written.
pub(super) fn with_buckets(drafts: &[RuleDraft]) -> Vec<RuleDraft> {
    let divisions: Vec<_> = drafts.iter().filter_map(|own| own.split.clone()).collect();
    let mut drafts = drafts.to_vec();
    for own in drafts.iter_mut().filter(|own| !own.effects.redirect_to_origins()) {
        let conditions = &mut own.conditions;
        for division in &divisions {
            put_bucket(division, conditions);
            conditions.not.iter_mut().for_each(|own| put_bucket(division, own));
        }
    }
    drafts
}

fn put_bucket(Division { field, split, .. }: &Division, conditions: &mut Conditions) {
    let is_field = |own: &NamedPatterns<Box<str>>| *own.name == *field.as_str();
    let Some(place) = conditions.field.each.iter().position(is_field) else { return };
    let bucket =
        |pattern: &Pattern| split.buckets.iter().position(|(name, _)| pattern.literal() == (&**name, true));
    let [value] = &conditions.field.each[place].values[..] else { return };
    if let Some(at) = bucket(value)
        && conditions.bucket.is_none()
    {
        conditions.bucket = Some(Bucket { split: Arc::clone(split), at, is_new: false });
        conditions.field.each.remove(place);
    }
}

/// Returns the rules for `division` under these conditions.
pub(super) fn rules(
    Division { field, split, ttl }: &Division,
    conditions: &Conditions,
) -> Result<Vec<(Conditions, Effects)>, String> {
    if !conditions.are_about_resource() {
        return Err(
            "split holds for all requests of a path: match only path, extension, host and scheme".to_owned()
        );
    }
    let own_cookies = split.cookie.iter().map(|name| name.to_string()).collect();
    let all = Effects { apart: vec![field.to_string()], own_cookies, ..Effects::default() };
    let mut rules = vec![(conditions.clone(), all)];
    for (at, (name, _)) in split.buckets.iter().enumerate() {
        let bucket = |is_new| Bucket { split: Arc::clone(split), at, is_new };
        let of = |is_new| Conditions { bucket: Some(bucket(is_new)), ..conditions.clone() };
        let mut effects = Effects::default();
        effects.request.set.push((field.clone(), field_value(name)?));
        rules.push((of(false), effects));
        if let Some(cookie) = &split.cookie {
            let line = field_value(&format!("{cookie}={name}; Path=/; Max-Age={ttl}; SameSite=Lax"))?;
            let mut effects = Effects::default();
            effects.reply.add.push((HeaderName::from_static("set-cookie"), line));
            rules.push((of(true), effects));
        }
    }
    Ok(rules)
}
