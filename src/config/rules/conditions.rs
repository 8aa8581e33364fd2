//! The keys of `match`.

use std::sync::Arc;

use larder_proxy::settings::{CertificateCondition, Conditions, MapBy, UrlMap};
use toml::de::DeValue;

use super::key::{RuleKey, rows};
use super::patterns::{host_pattern, path_pattern, type_pattern};
use super::values::{each, entries, field, name_pattern, named, statuses, unknown, word};
use crate::config::kinds::{Kind, Size};
use crate::config::lists::{domains, map, networks, patterns, string, strings};
use crate::config::names;

/// The keys of a rule's `match`.
pub(crate) const MATCH: &[RuleKey<Conditions>] = rows! {
    "path": "list of paths", |own, value| own.path = each(value, path_pattern)?,
        "the path without its query; `*` stands for any characters, `~` begins a regular expression";
    "map": "file, or { file = file, by = \"host\" }", |own, value| own.map = Some(url_map(value)?),
        "file with a path on each line, and a text behind it if {map} is to stand for one: the path is one of them. by = \"host\": a host in place of the path";
    "extension": "list of extensions", |own, value| own.extension = each(value, extension)?,
        "the extension of the path's last segment, such as \"css\", in any case";
    "host": "list of hosts", |own, value| own.host = each(value, host_pattern)?,
        "the host without its port; `*` and `~` as for path";
    "domains": "list of files", |own, value| own.domains = each(value, domains)?,
        "files with any number of domains, one on each line or as in a hosts file: the host is one of them, or below one";
    "method": "list of methods", |own, value| own.method = each(value, method)?,
        "the method, such as \"GET\"";
    "scheme": "\"http\" or \"https\"", |own, value| {
        let scheme = |text: &str| word(text, &[("http", "http"), ("https", "https")]).map(Box::from);
        own.scheme = each(value, scheme)?;
    }, "the scheme of the request";
    "client": "list of networks", |own, value| own.client = networks(value)?,
        "the client's address; \"@FILE\": the networks in a file, one on each line";
    "client_cert": "true or false, or list of names", |own, value| own.client_cert = Some(client_cert(value)?),
        "true: the client has shown a certificate that client_ca verifies; false: it has not; names: its subject, such as \"CN=ann*\", or one of its DNS names; `*` and `~` as for path";
    "time": "list of parts of the day", |own, value| {
        strings(value)?.iter().try_for_each(|text| own.moments.add_hours(text))?;
    }, "the time of day, such as \"22:00-06:00\"";
    "weekday": "list of days", |own, value| {
        strings(value)?.iter().try_for_each(|text| own.moments.add_weekdays(text))?;
    }, "the day of the week, such as \"sat\" or \"mon-fri\"";
    "from": "date", |own, value| own.moments.set_from(&date(value)?)?,
        "the first moment, such as \"2026-12-24\" or \"2026-12-24T18:00\"";
    "until": "date", |own, value| own.moments.set_until(&date(value)?)?,
        "the end, which is not included: \"2026-12-27\" is midnight before that day";
    "zone": "time zone", |own, value| own.moments.set_zone(&string(value)?)?,
        "the time zone of time, weekday, from and until, such as \"Europe/Berlin\" or \"+02:00\"; without it, UTC";
    "query": "names, or a table of names and values", |own, value| own.query = named(value, name_pattern)?,
        "parameters of the query: one of these names, or all of these names with one of their values each; `*` and `~` as for path. \"@FILE\" among the values: the patterns in a file, one on each line";
    "field": "names, or a table of names and values", |own, value| own.field = named(value, field)?,
        "fields of the request, in the same way";
    "cookie": "names, or a table of names and values", |own, value| own.cookie = named(value, name_pattern)?,
        "cookies of the request, in the same way";
    "claim": "names, or a table of names and values", |own, value| own.claim = named(value, |name| Ok(name.into()))?,
        "claims of the token that a rule with jwt has verified, in the same way; dots lead into objects";
    "status": "list of status codes", |own, value| own.status = statuses(value)?,
        "the status of the origin's response: 404, \"5xx\" or \"500-503\"";
    "type": "list of media types", |own, value| own.content_type = each(value, type_pattern)?,
        "the media type of the response without parameters; `*` and `~` as for path";
    "min_length": "size", |own, value| {
        let least: u64 = SIZE.read(value)?;
        own.length = Some(least..=own.length.as_ref().map_or(u64::MAX, |range| *range.end()));
    }, "the least length of the response; one of unknown length does not match";
    "max_length": "size", |own, value| {
        let most: u64 = SIZE.read(value)?;
        own.length = Some(own.length.as_ref().map_or(0, |range| *range.start())..=most);
    }, "the largest length of the response; one of unknown length does not match";
    "response_field": "names, or a table of names and values",
        |own, value| own.response_field = named(value, |name| names::field_name(name).map(Box::from))?,
        "fields of the response, as for query";
};

const SIZE: Size = Size(0..=1 << 60);

/// Reads the file of a map, and the part of URLs that it is by.
fn url_map(value: &DeValue<'_>) -> Result<Arc<UrlMap>, String> {
    let Some(table) = value.as_table() else { return map(&string(value)?, MapBy::Path) };
    let (mut file, mut by) = (None, MapBy::Path);
    for (key, value) in entries(table) {
        match key {
            "file" => file = Some(string(value)?),
            "by" => by = word(&string(value)?, &[("path", MapBy::Path), ("host", MapBy::Host)])?,
            _ => return Err(unknown(key, &["file", "by"])),
        }
    }
    map(&file.ok_or("it has no 'file'")?, by)
}

fn client_cert(value: &DeValue<'_>) -> Result<CertificateCondition, String> {
    match value.as_bool() {
        Some(is_shown) => Ok(CertificateCondition::Shown(is_shown)),
        None => Ok(CertificateCondition::Named(patterns(value)?)),
    }
}

/// Reads a date, with or without quotation marks.
fn date(value: &DeValue<'_>) -> Result<String, String> {
    match value.as_datetime() {
        Some(date) => Ok(date.to_string()),
        None => string(value),
    }
}

fn extension(text: &str) -> Result<Box<str>, String> {
    let extension = text.strip_prefix('.').unwrap_or(text);
    match extension.is_empty() || extension.contains(['.', '/', '*']) {
        true => Err(format!("'{}' is not an extension such as \"css\"", text.escape_debug())),
        false => Ok(extension.into()),
    }
}

fn method(text: &str) -> Result<Box<str>, String> {
    names::token(text).map(|token| token.to_ascii_uppercase().into())
}
