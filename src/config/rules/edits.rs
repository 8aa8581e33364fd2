//! The keys of `request`, `response` and `reply`: changes to fields and cookies.

use larder_proxy::settings::{CookieFilter, Edits, Pattern};
use toml::de::DeValue;

use super::key::{RuleKey, rows};
use super::values::{each, entries, fields, removed_field, unknown, word};

/// The keys of a rule's `request`, `response` and `reply`.
pub(crate) const EDITS: &[RuleKey<Edits>] = rows! {
    "remove": "list of field names", |own, value| own.remove = each(value, removed_field)?,
        "fields that are removed";
    "cookies": "\"drop\", or { keep = [names] } or { drop = [names] }, with flags = [\"Secure\"] in reply, for those of = [names]",
        |own, value| own.cookies = Some(cookies(value)?),
        "cookies that are kept or dropped; `*` and `~` as for path. flags: attributes that the cookies of replies, or those named in of, get if they lack them: Secure HttpOnly Partitioned SameSite=Lax";
    "set": "table of fields and values", |own, value| own.set = fields(value, &mut own.files)?,
        "fields that are set to these values, in place of existing ones; \"@FILE\": to the text in a file; \"@@\" begins a text with @";
    "default": "table of fields and values", |own, value| own.default = fields(value, &mut own.files)?,
        "fields that are added if there is none of that name";
    "add": "table of fields and values", |own, value| own.add = fields(value, &mut own.files)?,
        "fields that are added, beside existing ones";
};

fn cookies(value: &DeValue<'_>) -> Result<CookieFilter, String> {
    let Some(table) = value.as_table() else {
        return match value.as_str() {
            Some("drop") => Ok(CookieFilter { keeps: true, ..CookieFilter::default() }),
            _ => Err("expected \"drop\", { keep = [names] } or { drop = [names] }".to_owned()),
        };
    };
    let mut filter = CookieFilter::default();
    for (key, value) in entries(table) {
        match key {
            "keep" | "drop" => {
                (filter.keeps, filter.names) = (key == "keep", each(value, Pattern::parse)?);
            }
            "flags" => filter.flags = each(value, flag)?,
            "of" => filter.flagged = each(value, Pattern::parse)?,
            _ => return Err(unknown(key, &["keep", "drop", "flags", "of"])),
        }
    }
    if filter.flags.is_empty() && !filter.flagged.is_empty() {
        return Err("of names the cookies that get flags: write flags = [\"HttpOnly\"] beside it".to_owned());
    }
    match entries(table).filter(|(key, _)| matches!(*key, "keep" | "drop")).count() {
        0 | 1 if !table.is_empty() => Ok(filter),
        _ => Err("write either keep or drop".to_owned()),
    }
}

/// Parses an attribute of cookies that clients obey for safety.
fn flag(text: &str) -> Result<Box<str>, String> {
    let known = ["Secure", "HttpOnly", "Partitioned", "SameSite=Lax", "SameSite=Strict", "SameSite=None"];
    let words: Vec<_> = known.into_iter().map(|own| (own, own)).collect();
    let found = known.into_iter().find(|own| own.eq_ignore_ascii_case(text));
    found.map_or_else(|| word(text, &words), Ok).map(Box::from)
}
