//! `classes`: responses stored apart by classes of clients, such as devices and countries.

use larder_proxy::settings::{Conditions, Effects, NamedPatterns, Names, Networks, Pattern};
use toml::de::DeValue;

use super::values::{entries, entries_in_order, field, field_value, unknown, written_field};
use crate::config::draft::rule::{Class, Members};
use crate::config::lists::{items, networks, patterns, string};

const KEYS: [&str; 4] = ["field", "of", "values", "else"];

/// The value of `of` for the client's address.
const CLIENT: &str = "client";

/// Parses one table, or a list of tables.
pub(super) fn classes(value: &DeValue<'_>) -> Result<Vec<Class>, String> {
    items(value, class)
}

fn class(value: &DeValue<'_>) -> Result<Class, String> {
    const SHAPE: &str = "{ field = \"X-Device\", of = \"User-Agent\", values = { phone = \"*Mobile*\" }, else = \"desktop\" }";
    let table = value.as_table().ok_or_else(|| format!("expected a table such as {SHAPE}"))?;
    let (mut name, mut of, mut values, mut otherwise) = (None, None, None, None);
    for (key, value) in entries(table) {
        match key {
            "field" => name = Some(written_field(&string(value)?)?),
            "of" => of = Some(string(value)?),
            "values" => values = Some(value),
            "else" => otherwise = Some(field_value(&string(value)?)?),
            _ => return Err(unknown(key, &KEYS)),
        }
    }
    let (Some(name), Some(of), Some(values)) = (name, of, values) else {
        return Err(format!("field, of and values belong together, as in {SHAPE}"));
    };
    let members = |value: &DeValue<'_>| match of.as_str() {
        CLIENT => networks(value).map(Members::Clients),
        of => Ok(Members::Values { of: field(of)?, patterns: patterns(value)? }),
    };
    let values = values.as_table().ok_or("values is a table such as { phone = \"*Mobile*\" }")?;
    let value = |(key, value): (&str, &DeValue<'_>)| Ok((field_value(key)?, members(value)?));
    let values = entries_in_order(values).map(value).collect::<Result<Vec<_>, String>>()?;
    Ok(Class { name, values, otherwise })
}

/// Returns the rules for `class` under these conditions. The first value whose members include the client counts.
pub(super) fn rules(class: &Class, conditions: &Conditions) -> Result<Vec<(Conditions, Effects)>, String> {
    if !conditions.are_about_resource() {
        return Err(
            "classes hold for all requests of a path: match only path, extension, host and scheme".to_owned()
        );
    }
    let mut all = Effects { apart: vec![class.name.to_string()], ..Effects::default() };
    match &class.otherwise {
        Some(value) => all.request.set.push((class.name.clone(), value.clone())),
        // A client must not choose its class by sending the field.
        None => all.request.remove.push(class.name.clone()),
    }
    let mut rules = vec![(conditions.clone(), all)];
    // The last matching rule counts.
    for (value, members) in class.values.iter().rev() {
        let mut effects = Effects::default();
        effects.request.set.push((class.name.clone(), value.clone()));
        rules.push((of(members, conditions), effects));
    }
    Ok(rules)
}

fn of(members: &Members, conditions: &Conditions) -> Conditions {
    let mut conditions = conditions.clone();
    match members {
        Members::Clients(networks) => conditions.client = networks.clone(),
        Members::Values { of, patterns } => {
            let named = NamedPatterns { name: of.clone(), values: patterns.clone() };
            conditions.field = Names { each: vec![named], all: true };
        }
    }
    conditions
}

/// Returns the patterns of fields in `classes`.
pub(super) fn patterns_of(classes: &[Class]) -> impl Iterator<Item = &Pattern> {
    let values = classes.iter().flat_map(|class| &class.values);
    values.flat_map(|(_, members)| match members {
        Members::Values { patterns, .. } => &patterns[..],
        Members::Clients(_) => &[],
    })
}

/// Returns the files of networks that `classes` name.
pub(super) fn files(classes: &[Class]) -> impl Iterator<Item = &str> {
    let values = classes.iter().flat_map(|class| &class.values);
    let networks = values.filter_map(|(_, members)| match members {
        Members::Clients(networks) => Some(networks),
        Members::Values { .. } => None,
    });
    networks.flat_map(Networks::files)
}
