//! The keys of `request`, `response` and `reply`: changes to fields and cookies.

use larder_proxy::settings::{CookieFilter, Edits, Pattern};
use toml::de::DeValue;

use super::key::{RuleKey, rows};
use super::values::{each, entries, fields, removed_field, unknown};

/// The keys of a rule's `request`, `response` and `reply`.
pub(crate) const EDITS: &[RuleKey<Edits>] = rows! {
    "remove": "list of field names", |own, value| own.remove = each(value, removed_field)?,
        "fields that are removed";
    "cookies": "\"drop\", or { keep = [names] } or { drop = [names] }",
        |own, value| own.cookies = Some(cookies(value)?),
        "cookies that are kept or dropped; `*` and `~` as for path";
    "set": "table of fields and values", |own, value| own.set = fields(value)?,
        "fields that are set to these values, in place of existing ones";
    "default": "table of fields and values", |own, value| own.default = fields(value)?,
        "fields that are added if there is none of that name";
    "add": "table of fields and values", |own, value| own.add = fields(value)?,
        "fields that are added, beside existing ones";
};

fn cookies(value: &DeValue<'_>) -> Result<CookieFilter, String> {
    let Some(table) = value.as_table() else {
        return match value.as_str() {
            Some("drop") => Ok(CookieFilter { keeps: true, names: Vec::new() }),
            _ => Err("expected \"drop\", { keep = [names] } or { drop = [names] }".to_owned()),
        };
    };
    let mut entries = entries(table);
    match (entries.next(), entries.next()) {
        (Some((key @ ("keep" | "drop"), names)), None) => {
            Ok(CookieFilter { keeps: key == "keep", names: each(names, Pattern::parse)? })
        }
        (Some((key, _)), None) => Err(unknown(key, &["keep", "drop"])),
        _ => Err("write either keep or drop".to_owned()),
    }
}
