//! Log lines by a pattern, in the words of NGINX (`$remote_addr [$time_local] "$request"`) or of Apache and Varnish
//! (`%h %t "%r" %>s %b`): fields, and the text between them.

use std::str::FromStr;

use memchr::memmem;

use super::fields::Fields;
use super::lines::LineResult;
use super::names::{Field, meaning};
use super::words::{is_escaped, lenient, no, unescape};

/// The format of a log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    parts: Vec<Part>,
    /// The text after the last field.
    end: String,
}

/// A field, and the text before it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    before: String,
    field: Field,
}

impl Pattern {
    pub(super) fn parse<'l>(&self, line: &'l [u8]) -> LineResult<'l> {
        let (mut fields, mut rest) = (Fields::default(), line);
        for (at, Part { before, field }) in self.parts.iter().enumerate() {
            rest = skip(rest, before).ok_or_else(|| format!("no '{before}' where the format has it"))?;
            let after = self.parts.get(at + 1).map_or(&*self.end, |part| &*part.before);
            let end =
                end(rest, before, after).ok_or_else(|| format!("no '{after}' where the format has it"))?;
            let value;
            (value, rest) = rest.split_at(end);
            // Another form, which has this field elsewhere.
            if before.ends_with(' ') && value.starts_with(b"\"") || after == "/" && value.contains(&b' ') {
                return Err(no("a single word", value));
            }
            match field {
                Field::Ignored => {}
                Field::Key | Field::Request => fields.put(*field, unescape(value)),
                field => fields.put(*field, lenient(value)),
            }
        }
        fields.request()
    }
}

/// Returns `rest` after the text `expected`. A space stands for any number of them.
fn skip<'l>(rest: &'l [u8], expected: &str) -> Option<&'l [u8]> {
    match expected.strip_suffix(' ') {
        Some(expected) => {
            let rest = rest.strip_prefix(expected.as_bytes())?;
            let spaces = rest.iter().take_while(|byte| **byte == b' ').count();
            (spaces > 0).then(|| &rest[spaces..])
        }
        None => rest.strip_prefix(expected.as_bytes()),
    }
}

/// Returns the end of the field with which `rest` begins, between the texts `before` and `after`.
fn end(rest: &[u8], before: &str, after: &str) -> Option<usize> {
    if before.ends_with('"') && after.starts_with('"') {
        // Some programs do not escape the marks in a value.
        let ends = |at: &usize| !is_escaped(rest, *at) && rest[*at..].starts_with(after.as_bytes());
        return memchr::memchr_iter(b'"', rest).find(ends).or_else(|| memchr::memchr(b'"', rest));
    }
    match after {
        "" => Some(memchr::memchr(b' ', rest).unwrap_or(rest.len())),
        after => memmem::find(rest, after.as_bytes()),
    }
}

impl FromStr for Pattern {
    type Err = String;

    /// Reads a pattern, as the server's configuration has it. Parts that say nothing about the request are ignored.
    fn from_str(pattern: &str) -> Result<Self, String> {
        let pattern = pattern.trim().replace("\\\"", "\"").replace("\\t", "\t");
        let (mark, name): (_, fn(&str) -> Option<Name<'_>>) =
            if pattern.contains('$') { ('$', nginx) } else { ('%', apache) };
        let (mut parts, mut before, mut rest): (Vec<Part>, _, _) = (Vec::new(), String::new(), &*pattern);
        while let Some(at) = rest.find(mark) {
            before.push_str(&rest[..at]);
            // Apache writes `%%` as `%`.
            if mark == '%' && rest[at + 1..].starts_with('%') {
                before.push('%');
                rest = &rest[at + 2..];
                continue;
            }
            let Name { field, in_brackets, after } =
                name(&rest[at + 1..]).ok_or_else(|| format!("'{mark}' without a name in the log format"))?;
            before.push_str(if in_brackets { "[" } else { "" });
            match parts.last_mut() {
                // Fields that adjoin are one: `$host$request_uri` and `%U%q` are keys.
                Some(last) if before.is_empty() => last.field = joined(last.field, field),
                _ => parts.push(Part { before: std::mem::take(&mut before), field }),
            }
            before.push_str(if in_brackets { "]" } else { "" });
            rest = after;
        }
        before.push_str(rest);
        match parts.iter().any(|part| matches!(part.field, Field::Key | Field::Request)) {
            true => Ok(Self { parts, end: before }),
            false => Err("a log format needs the request: $request, $request_uri, %r or %U".to_owned()),
        }
    }
}

/// The name of a field in a pattern.
struct Name<'p> {
    field: Field,
    /// Whether the server writes brackets around the value.
    in_brackets: bool,
    /// The pattern after the name.
    after: &'p str,
}

/// Returns the variable of NGINX with which `pattern` begins: `name` or `{name}`.
fn nginx(pattern: &str) -> Option<Name<'_>> {
    let (name, after) = match pattern.strip_prefix('{') {
        Some(inner) => inner.split_once('}')?,
        None => {
            let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            pattern.split_at(pattern.find(|c| !is_of_name(c)).unwrap_or(pattern.len()))
        }
    };
    (!name.is_empty()).then(|| Name { field: meaning(name), in_brackets: false, after })
}

/// Returns the directive of Apache with which `pattern` begins: `>s`, `{Host}i` or `{ms}T`.
fn apache(pattern: &str) -> Option<Name<'_>> {
    let is_modifier = |c: char| "<>!,".contains(c) || c.is_ascii_digit();
    let pattern = pattern.trim_start_matches(is_modifier);
    let (argument, pattern) = match pattern.strip_prefix('{') {
        Some(inner) => inner.split_once('}')?,
        None => ("", pattern),
    };
    let pattern = pattern.trim_start_matches(is_modifier);
    // `^ti` and `^to` are trailers.
    let length = if pattern.starts_with('^') { 3 } else { 1 };
    let (letter, after) = pattern.split_at_checked(length)?;
    let field = match (letter, argument) {
        ("h" | "a", "") => Field::Client,
        ("t", _) => Field::Time,
        ("r", _) => Field::Request,
        ("s", _) => Field::Status,
        ("b" | "B" | "O", _) => Field::Size,
        ("D", _) | ("T", "us") => Field::Micros,
        ("T", "ms") => Field::Millis,
        ("T", _) => Field::Seconds,
        ("v" | "V", _) => Field::Host,
        ("m", _) => Field::Method,
        ("U", _) => Field::Key,
        ("q", _) => Field::Query,
        ("i", _) if argument.eq_ignore_ascii_case("host") => Field::Host,
        // The server's fields, and Varnish's own names, such as `Varnish:hitmiss`.
        ("o" | "x", name) => match meaning(name.rsplit(':').next().unwrap_or(name)) {
            field @ (Field::Cache | Field::Seconds) => field,
            _ => Field::Ignored,
        },
        _ => Field::Ignored,
    };
    Some(Name { field, in_brackets: letter == "t" && argument.is_empty(), after })
}

/// Returns the meaning of two fields without text between them.
fn joined(one: Field, other: Field) -> Field {
    let is_key = [one, other].contains(&Field::Key);
    if is_key { Field::Key } else { one }
}
