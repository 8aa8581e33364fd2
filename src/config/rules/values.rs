//! The kinds of values that only rules have.

use std::cmp::Reverse;
use std::ops::RangeInclusive;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use larder_proxy::exchange::forwarded::is_dropped;
use larder_proxy::settings::{NamedPatterns, Names, Pattern, Template};
use larder_semantics::storable::is_hop_by_hop;
use toml::de::{DeTable, DeValue};

use crate::cli::words::hint;
pub(super) use crate::config::kinds::word;
use crate::config::kinds::{Kind, Seconds};
use crate::config::lists::{items, patterns, status, status_text, string, strings, text_of};
use crate::config::names;

/// Parses each string of a list.
pub(super) fn each<V>(
    value: &DeValue<'_>,
    parse: impl Fn(&str) -> Result<V, String>,
) -> Result<Vec<V>, String> {
    strings(value)?.iter().map(|text| parse(text)).collect()
}

/// Reads names, of which one has to be present, or a table of names with patterns of their values, all of which have to
/// match.
pub(super) fn named<N>(
    value: &DeValue<'_>,
    name: impl Fn(&str) -> Result<N, String>,
) -> Result<Names<N>, String> {
    let Some(table) = value.as_table() else {
        let one = |text: &str| Ok(NamedPatterns { name: name(text)?, values: Vec::new() });
        return Ok(Names { each: each(value, one)?, all: false });
    };
    let one =
        |(key, value): (&str, &DeValue<'_>)| Ok(NamedPatterns { name: name(key)?, values: patterns(value)? });
    let each = entries(table).map(one).collect::<Result<_, String>>()?;
    Ok(Names { each, all: true })
}

/// Returns the keys and values of a table.
pub(super) fn entries<'t>(table: &'t DeTable<'_>) -> impl Iterator<Item = (&'t str, &'t DeValue<'t>)> {
    table.iter().map(|(key, value)| (&**key.get_ref(), value.get_ref()))
}

/// Returns the keys and values of a table in the order in which they are written.
pub(super) fn entries_in_order<'t>(
    table: &'t DeTable<'_>,
) -> impl Iterator<Item = (&'t str, &'t DeValue<'t>)> {
    let mut written: Vec<_> = table.iter().collect();
    written.sort_by_key(|(key, _)| key.span().start);
    written.into_iter().map(|(key, value)| (&**key.get_ref(), value.get_ref()))
}

/// Parses the name of a cookie or parameter, which is a pattern.
pub(super) fn name_pattern(text: &str) -> Result<Pattern, String> {
    match text.split_once('=').filter(|_| !text.starts_with('~')) {
        Some((name, value)) => Err(format!(
            "'{}' is no name: for a value, write {{ {} = \"{}\" }}",
            text.escape_debug(),
            name.escape_debug(),
            value.escape_debug()
        )),
        None => Pattern::parse(text),
    }
}

/// Parses the name of a field that rules may read.
pub(super) fn field(text: &str) -> Result<Box<str>, String> {
    let name = names::field_name(text)?;
    match name.as_str() {
        "host" => Err("the host is in match.host".to_owned()),
        "client-cert" => Err("the certificate that a client has shown is in match.client_cert".to_owned()),
        _ if is_dropped(&name) || is_hop_by_hop(&HeaderMap::new())(name.as_bytes()) => {
            Err(format!("'{name}' is not seen by rules: it is for this proxy only"))
        }
        _ => Ok(name.into()),
    }
}

/// Reads one status code or a list of them: `404`, `"5xx"` or `"500-503"`.
pub(super) fn statuses(value: &DeValue<'_>) -> Result<Vec<RangeInclusive<u16>>, String> {
    items(value, status)
}

/// Reads a lifetime for each status. Entries for fewer status codes come later, and so override the others.
pub(super) fn by_status(table: &DeTable<'_>) -> Result<Vec<(RangeInclusive<u16>, u32)>, String> {
    let each = entries(table).map(|(key, value)| Ok((status_text(key)?, Seconds.read(value)?)));
    let mut all: Vec<(RangeInclusive<u16>, u32)> = each.collect::<Result<_, String>>()?;
    all.sort_by_key(|(statuses, _)| Reverse(statuses.len()));
    Ok(all)
}

/// Returns the value of a field as text with placeholders; `None` for one from a file, which has none.
pub(super) fn template(value: &HeaderValue) -> Option<Template> {
    str::from_utf8(value.as_bytes()).ok().filter(|_| !value.is_sensitive()).map(Template::of_value)
}

/// Reads fields with their values; `@FILE` stands for the text of that file, which is added to `files`, and `@@` for `@`.
pub(super) fn fields(
    value: &DeValue<'_>,
    files: &mut Vec<Box<str>>,
) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
    let table = value.as_table().ok_or_else(|| {
        format!("expected a table such as {{ X-Frame-Options = \"DENY\" }}, got type {}", value.type_str())
    })?;
    let pair = |(key, value): (&str, &DeValue<'_>)| {
        let text = string(value)?;
        let value = match text.strip_prefix('@') {
            Some(path) if !path.starts_with('@') => {
                files.push(path.into());
                secret(path, &text_of(path)?)?
            }
            Some(literal) => field_value(literal)?,
            None => field_value(&text)?,
        };
        Ok((written_field(key)?, value))
    };
    entries(table).map(pair).collect()
}

/// Parses the content of the file at `path`, the value of a field: it is taken as it is, without placeholders, and never
/// shown.
fn secret(path: &str, text: &str) -> Result<HeaderValue, String> {
    let text = text.trim();
    if text.is_empty() {
        return Err(format!("{path}: it is empty: write the value of the field"));
    }
    let mut value = HeaderValue::from_str(text)
        .map_err(|_| format!("{path}: not a value of a field: write one line of visible characters"))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Parses the value of a field.
pub(super) fn field_value(text: &str) -> Result<HeaderValue, String> {
    HeaderValue::from_str(text).map_err(|_| format!("'{}' is not a value of a field", text.escape_debug()))
}

/// Parses the name of a field that rules may change.
pub(super) fn written_field(text: &str) -> Result<HeaderName, String> {
    let name = names::field_name(text)?;
    if name.contains('*') {
        return Err(format!("'{name}' is not a field name: only remove has names such as X-Internal-*"));
    }
    match FRAMING.iter().find(|(own, _)| *own == name) {
        Some((_, why)) => Err(format!("'{name}' cannot be changed: {why}")),
        None => HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("'{name}' is not a field name")),
    }
}

/// Parses the name of a field that rules may remove. `Via` is one only in the replies of a site, where it is optional (RFC
/// 9110 section 7.6.3). A star at the end stands for any characters.
pub(super) fn removed_field(text: &str) -> Result<HeaderName, String> {
    if let Some(start) = text.strip_suffix('*') {
        let start = names::field_name(start)?;
        let of_connection = FRAMING.iter().find(|(own, _)| own.starts_with(&*start));
        return match of_connection {
            Some((own, why)) => Err(format!("'{start}*' would remove '{own}': {why}")),
            None if start.contains('*') => {
                Err(format!("'{start}*': a star stands at the end of a name only"))
            }
            None => {
                HeaderName::from_bytes(text.as_bytes()).map_err(|_| format!("'{start}*' is not a field name"))
            }
        };
    }
    if text.eq_ignore_ascii_case("via") { Ok(header::VIA) } else { written_field(text) }
}

const CONNECTION: &str = "it belongs to the connection";
const LENGTH: &str = "it follows from the content";

/// Fields that rules must not change.
const FRAMING: [(&str, &str); 12] = [
    ("connection", CONNECTION),
    ("keep-alive", CONNECTION),
    ("proxy-connection", CONNECTION),
    ("te", CONNECTION),
    ("trailer", CONNECTION),
    ("transfer-encoding", CONNECTION),
    ("upgrade", CONNECTION),
    ("content-length", LENGTH),
    ("content-range", LENGTH),
    ("host", "set the site's 'host'"),
    ("via", "it names the proxies on the way"),
    ("client-cert", "it is the certificate that a client has shown"),
];

/// Returns the error for an unknown key of a table.
pub(super) fn unknown(name: &str, known: &[&str]) -> String {
    let all = known.join(" ");
    format!("unknown key '{}'{}; known: {all}", name.escape_debug(), hint(name, known.iter().copied()))
}
