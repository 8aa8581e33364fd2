//! The keys of `match`.

use larder_proxy::settings::{Conditions, Pattern};

use super::key::{RuleKey, rows};
use super::patterns::{host_pattern, path_pattern, type_pattern};
use super::values::{each, field, named, status, word};
use crate::config::kinds::{Kind, Size};
use crate::config::lists::{domains, map, networks, string};
use crate::config::names;

/// The keys of a rule's `match`.
pub(crate) const MATCH: &[RuleKey<Conditions>] = rows! {
    "path": "list of paths", |own, value| own.path = each(value, path_pattern)?,
        "the path without its query; `*` stands for any characters, `~` begins a regular expression";
    "map": "file", |own, value| own.map = Some(map(&string(value)?)?),
        "file with a path and a text on each line: the path is one of them; {map} stands for the text";
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
    "query": "names, or a table of names and values", |own, value| own.query = named(value, Pattern::parse)?,
        "parameters of the query: one of these names, or all of these names with one of their values each; `*` and `~` as for path";
    "field": "names, or a table of names and values", |own, value| own.field = named(value, field)?,
        "fields of the request, in the same way";
    "cookie": "names, or a table of names and values", |own, value| own.cookie = named(value, Pattern::parse)?,
        "cookies of the request, in the same way";
    "status": "list of status codes", |own, value| own.status = match value.as_array() {
        Some(items) => items.iter().map(|item| status(item.get_ref())).collect::<Result<_, _>>()?,
        None => vec![status(value)?],
    }, "the status of the origin's response: 404, \"5xx\" or \"500-503\"";
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
