//! The keys of `request`, `response` and `reply`: changes to fields and cookies.

use larder_proxy::settings::{CookieFilter, Edits, Pattern};
use toml::de::DeValue;

use super::key::RuleKey;
use super::values::{each, entries, fields, unknown, written_field};

/// The keys of a rule's `request`, `response` and `reply`.
pub(crate) const EDITS: &[RuleKey<Edits>] = &[
    RuleKey {
        name: "remove",
        values: "list of field names",
        about: "fields that are removed",
        set: |own, value| {
            own.remove = each(value, written_field)?;
            Ok(())
        },
    },
    RuleKey {
        name: "cookies",
        values: "\"drop\", or { keep = [names] } or { drop = [names] }",
        about: "cookies that are kept or dropped; `*` and `~` as for path",
        set: |own, value| {
            own.cookies = Some(cookies(value)?);
            Ok(())
        },
    },
    RuleKey {
        name: "set",
        values: "table of fields and values",
        about: "fields that are set to these values, in place of existing ones",
        set: |own, value| {
            own.set = fields(value)?;
            Ok(())
        },
    },
    RuleKey {
        name: "default",
        values: "table of fields and values",
        about: "fields that are added if there is none of that name",
        set: |own, value| {
            own.default = fields(value)?;
            Ok(())
        },
    },
    RuleKey {
        name: "add",
        values: "table of fields and values",
        about: "fields that are added, beside existing ones",
        set: |own, value| {
            own.add = fields(value)?;
            Ok(())
        },
    },
];

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
