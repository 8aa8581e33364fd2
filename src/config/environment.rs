//! Variables of the environment in the strings of a config: `${NAME}`.

use std::env::{self, VarError};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Replaces the variables in all strings of `table`. Returns the problems, each with the place in the text of its value.
pub(super) fn expand(table: &mut DeTable<'_>) -> Vec<(usize, String)> {
    let mut problems = Vec::new();
    for (_, value) in table.iter_mut() {
        expand_value(value, &mut problems);
    }
    problems
}

fn expand_value(value: &mut Spanned<DeValue<'_>>, problems: &mut Vec<(usize, String)>) {
    let start = value.span().start;
    match value.get_mut() {
        DeValue::String(text) if text.contains("${") => match expanded(text, variable) {
            Ok(new) => *text = new.into(),
            Err(problem) => problems.push((start, problem)),
        },
        DeValue::Array(items) => items.iter_mut().for_each(|item| expand_value(item, problems)),
        DeValue::Table(table) => problems.extend(expand(table)),
        _ => {}
    }
}

/// Returns the value of a variable of this process.
fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| match error {
        VarError::NotPresent => format!("${{{name}}}: there is no such variable in the environment"),
        VarError::NotUnicode(_) => format!("${{{name}}}: the variable is not UTF-8 text"),
    })
}

/// Replaces each `${NAME}` in `text` by its value. `$${` stands for `${`.
fn expanded(text: &str, value: impl Fn(&str) -> Result<String, String>) -> Result<String, String> {
    let (mut result, mut rest) = (String::new(), text);
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        rest = &from[2..];
        if let Some(before) = before.strip_suffix('$') {
            result += &format!("{before}${{");
            continue;
        }
        let name = rest.find('}').map(|end| &rest[..end]).filter(|name| is_name(name));
        let name = name.ok_or("a variable is written as ${NAME}; $${ stands for ${")?;
        result += before;
        result += &value(name)?;
        rest = &rest[name.len() + 1..];
    }
    Ok(result + rest)
}

fn is_name(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    text.bytes().next().is_some_and(is_letter)
        && text.bytes().all(|byte| is_letter(byte) || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(name: &str) -> Result<String, String> {
        match name {
            "A" => Ok("${B}".to_owned()),
            "_b2" => Ok("x".to_owned()),
            _ => Err(format!("no {name}")),
        }
    }

    #[test]
    fn variables_are_replaced_once_and_doubled_signs_stay() {
        for (text, expected) in [
            ("a$b {c} $", Ok("a$b {c} $")),
            ("${A}/${_b2}", Ok("${B}/x")),
            ("$${A} $$${A}", Ok("${A} $${A}")),
            ("\u{e4}${_b2}\u{e4}", Ok("\u{e4}x\u{e4}")),
            ("${B}", Err("no B")),
            ("${", Err("a variable is written as ${NAME}; $${ stands for ${")),
            ("${2}", Err("a variable is written as ${NAME}; $${ stands for ${")),
            ("${A B}", Err("a variable is written as ${NAME}; $${ stands for ${")),
        ] {
            assert_eq!(expanded(text, value), expected.map(str::to_owned).map_err(str::to_owned), "{text}");
        }
    }

    proptest! {
        #[test]
        fn every_text_can_be_written_with_doubled_signs(text in "[${}A]{0,12}|\\PC{0,12}") {
            let written = text.replace("${", "$${");
            // A sign right before would double another one.
            prop_assume!(!text.contains("$${"));
            prop_assert_eq!(expanded(&written, value), Ok(text));
        }
    }
}
