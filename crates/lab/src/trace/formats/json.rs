//! JSON lines: one object per line, with fields by their usual names, as in the logs of Larder, Caddy and many others.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::fields::Fields;
use super::lines::LineResult;
use super::names::{Field, meaning};
use super::words::unescape;

/// Nested objects whose fields count as fields of the line.
const INNER: &[&str] = &[
    "request",
    "response",
    "http",
    "req",
    "resp",
    "res",
    "httpRequest",
    "properties",
    "proxy",
    "api",
    "headers",
];

/// Those whose size is that of a request, not of a response.
const REQUESTS: &[&str] = &["request", "req"];

/// The object whose fields come before those of the line: in Vercel's logs, the client's request, and not that of the function.
const OF_CLIENT: &str = "proxy";

/// The maximum nesting depth of such objects.
const DEPTH: u8 = 3;

pub(super) fn parse(line: &[u8]) -> LineResult<'_> {
    let text = super::words::text(line)?;
    let mut fields = Fields::default();
    gather(text, &mut fields, "", DEPTH).map_err(|error| format!("no JSON object: {error}"))?;
    fields.request()
}

/// Returns the reason why `line` is no request.
pub(in crate::trace) fn fault_of(line: &[u8]) -> Option<String> {
    parse(line).err().map(Cow::into_owned)
}

/// Puts the fields of the object in `text`, which has this `name`, into `fields`.
fn gather<'l>(text: &'l str, fields: &mut Fields<'l>, name: &str, depth: u8) -> serde_json::Result<()> {
    let mut json = serde_json::Deserializer::from_str(text);
    json.deserialize_map(FieldCollector { fields, name, depth })?;
    json.end()
}

struct FieldCollector<'f, 'l> {
    fields: &'f mut Fields<'l>,
    /// The name of the object.
    name: &'f str,
    depth: u8,
}

impl<'l> Visitor<'l> for FieldCollector<'_, 'l> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<M: MapAccess<'l>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(Name(name)) = map.next_key()? {
            let field = meaning_in(self.name, &name);
            let inner = INNER.contains(&&*name);
            let is_of_request = field == Field::Size && REQUESTS.contains(&self.name);
            if field == Field::Ignored && !inner || is_of_request {
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = map.next_value::<&'l RawValue>()?.get();
            if value.starts_with('{') && inner && self.depth > 0 {
                gather(value, self.fields, &name, self.depth - 1).map_err(serde::de::Error::custom)?;
                continue;
            }
            let Some(text) = scalar(field, value).map_err(serde::de::Error::custom)? else { continue };
            if self.name == OF_CLIENT {
                self.fields.take(field);
            }
            self.fields.put(field, address(field, text));
        }
        Ok(())
    }
}

/// Returns the text of a string or a number, or whether a cache had it; `None` of other values.
fn scalar(field: Field, value: &str) -> serde_json::Result<Option<Cow<'_, str>>> {
    Ok(match value.as_bytes().first() {
        Some(b'"') => Some(serde_json::from_str::<Name<'_>>(value)?.0),
        Some(b'0'..=b'9') => Some(value.into()),
        Some(b't' | b'f') if field == Field::Cache => Some(value.into()),
        _ => None,
    })
}

/// Returns the meaning of a field of the object `object`. MinIO's records have the operation in `api`. Of the headers, only
/// the host tells objects apart.
fn meaning_in(object: &str, name: &str) -> Field {
    match (object, name) {
        ("api", "name") => Field::Operation,
        ("api", "tx") => Field::Size,
        ("headers", "host") => Field::Host,
        ("api", "status") | ("headers", _) => Field::Ignored,
        _ => meaning(name),
    }
}

/// Returns `text` without the escapes that some servers write in addition to those of JSON.
fn address(field: Field, text: Cow<'_, str>) -> Cow<'_, str> {
    match text {
        Cow::Borrowed(text) if matches!(field, Field::Key | Field::Request) => unescape(text.as_bytes()),
        Cow::Owned(text) if matches!(field, Field::Key | Field::Request) => {
            unescape(text.as_bytes()).into_owned().into()
        }
        text => text,
    }
}

/// A string, borrowed from the line if it has no escapes.
#[derive(serde::Deserialize)]
struct Name<'l>(#[serde(borrow)] Cow<'l, str>);
