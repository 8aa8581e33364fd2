//! The keys of `match`.

use larder_proxy::settings::{Conditions, Pattern};

use super::key::RuleKey;
use super::lists::{domains, networks};
use super::patterns::{host_pattern, path_pattern, type_pattern};
use super::values::{each, field, named, status, word};
use crate::config::kinds::{Kind, Size};
use crate::config::names;

/// The keys of a rule's `match`.
pub(crate) const MATCH: &[RuleKey<Conditions>] = &[
    RuleKey {
        name: "path",
        values: "list of paths",
        about: "the path without its query; `*` stands for any characters, `~` begins a regular expression",
        set: |own, value| {
            own.path = each(value, path_pattern)?;
            Ok(())
        },
    },
    RuleKey {
        name: "extension",
        values: "list of extensions",
        about: "the extension of the path's last segment, such as \"css\", in any case",
        set: |own, value| {
            own.extension = each(value, extension)?;
            Ok(())
        },
    },
    RuleKey {
        name: "host",
        values: "list of hosts",
        about: "the host without its port; `*` and `~` as for path",
        set: |own, value| {
            own.host = each(value, host_pattern)?;
            Ok(())
        },
    },
    RuleKey {
        name: "domains",
        values: "list of files",
        about: "files with any number of domains, one on each line or as in a hosts file: the host is one of them, or below one",
        set: |own, value| {
            own.domains = each(value, domains)?;
            Ok(())
        },
    },
    RuleKey {
        name: "method",
        values: "list of methods",
        about: "the method, such as \"GET\"",
        set: |own, value| {
            own.method = each(value, method)?;
            Ok(())
        },
    },
    RuleKey {
        name: "scheme",
        values: "\"http\" or \"https\"",
        about: "the scheme of the request",
        set: |own, value| {
            let scheme = |text: &str| word(text, &[("http", "http"), ("https", "https")]).map(Box::from);
            own.scheme = each(value, scheme)?;
            Ok(())
        },
    },
    RuleKey {
        name: "client",
        values: "list of networks",
        about: "the client's address; \"@FILE\": the networks in a file, one on each line",
        set: |own, value| {
            own.client = networks(value)?;
            Ok(())
        },
    },
    RuleKey {
        name: "query",
        values: "names, or a table of names and values",
        about: "parameters of the query: one of these names, or all of these names with one of their values each; `*` and `~` as for path",
        set: |own, value| {
            own.query = named(value, Pattern::parse)?;
            Ok(())
        },
    },
    RuleKey {
        name: "field",
        values: "names, or a table of names and values",
        about: "fields of the request, in the same way",
        set: |own, value| {
            own.field = named(value, field)?;
            Ok(())
        },
    },
    RuleKey {
        name: "cookie",
        values: "names, or a table of names and values",
        about: "cookies of the request, in the same way",
        set: |own, value| {
            own.cookie = named(value, Pattern::parse)?;
            Ok(())
        },
    },
    RuleKey {
        name: "status",
        values: "list of status codes",
        about: "the status of the origin's response: 404, \"5xx\" or \"500-503\"",
        set: |own, value| {
            own.status = match value.as_array() {
                Some(items) => items.iter().map(|item| status(item.get_ref())).collect::<Result<_, _>>()?,
                None => vec![status(value)?],
            };
            Ok(())
        },
    },
    RuleKey {
        name: "type",
        values: "list of media types",
        about: "the media type of the response without parameters; `*` and `~` as for path",
        set: |own, value| {
            own.content_type = each(value, type_pattern)?;
            Ok(())
        },
    },
    RuleKey {
        name: "min_length",
        values: "size",
        about: "the least length of the response; one of unknown length does not match",
        set: |own, value| {
            let least: u64 = SIZE.read(value)?;
            own.length = Some(least..=own.length.as_ref().map_or(u64::MAX, |range| *range.end()));
            Ok(())
        },
    },
    RuleKey {
        name: "max_length",
        values: "size",
        about: "the largest length of the response; one of unknown length does not match",
        set: |own, value| {
            let most: u64 = SIZE.read(value)?;
            own.length = Some(own.length.as_ref().map_or(0, |range| *range.start())..=most);
            Ok(())
        },
    },
    RuleKey {
        name: "response_field",
        values: "names, or a table of names and values",
        about: "fields of the response, as for query",
        set: |own, value| {
            own.response_field = named(value, |name| names::field_name(name).map(Box::from))?;
            Ok(())
        },
    },
];

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
