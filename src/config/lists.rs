//! Lists: those of keys, and the files that keys name.

use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Arc;

use ipnet::IpNet;
use larder_proxy::base::whole_file;
use larder_proxy::settings::{
    BadLine, Domains, LARGEST_LIST, MapBy, Networks, Pattern, SignedUrls, Sticky, Tokens, UrlMap, Users,
};
use toml::de::DeValue;

use crate::cli::files::unread;
use crate::config::names;

/// Reads each item of a list; a single one may be written without brackets.
pub(crate) fn items<T>(
    value: &DeValue<'_>,
    read: impl Fn(&DeValue<'_>) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    match value.as_array() {
        Some(items) => items.iter().map(|item| read(item.get_ref())).collect(),
        None => Ok(vec![read(value)?]),
    }
}

/// Reads the strings of a list; a single string may be written without brackets.
pub(crate) fn strings(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    items(value, string)
}

/// Reads a string.
pub(crate) fn string(value: &DeValue<'_>) -> Result<String, String> {
    match value.as_str() {
        Some(text) => Ok(text.to_owned()),
        None => Err(format!("expected text, got type {}", value.type_str())),
    }
}

/// Reads the users in the file at `path`.
pub(super) fn users(path: &str) -> Result<Arc<Users>, String> {
    Users::parse(path, &text_of(path)?).map(Arc::new).map_err(|bad| told(path, &bad))
}

/// Reads the tokens in the file at `path`.
pub(super) fn tokens(path: &str) -> Result<Arc<Tokens>, String> {
    Tokens::parse(path, &text_of(path)?).map(Arc::new).map_err(|bad| told(path, &bad))
}

/// Reads the keys of signed URLs in the file at `path`.
pub(super) fn signed_urls(path: &str) -> Result<SignedUrls, String> {
    SignedUrls::parse(path, &text_of(path)?).map_err(|bad| told(path, &bad))
}

/// Reads the keys of `sticky` sessions in the file at `path`.
pub(super) fn keep_keys(sticky: &mut Sticky, path: &str) -> Result<(), String> {
    sticky.use_keys(path, &text_of(path)?).map_err(|bad| told(path, &bad))
}

fn told(path: &str, BadLine { line, why }: &BadLine) -> String {
    format!("{path}:{line}: {why}")
}

/// Reads the domains in the file at `path`.
pub(super) fn domains(path: &str) -> Result<Arc<Domains>, String> {
    let text = text_of(path)?;
    let domains = Domains::parse(path, &text).map_err(|bad| {
        format!(
            "{path}:{}: '{}' is neither a domain nor a line of a hosts file",
            bad.line,
            bad.text.escape_debug()
        )
    })?;
    Ok(Arc::new(domains))
}

/// Reads the map in the file at `path`.
pub(super) fn map(path: &str, by: MapBy) -> Result<Arc<UrlMap>, String> {
    let map = UrlMap::parse(path, &text_of(path)?, by);
    map.map(Arc::new).map_err(|(line, why)| told(path, &BadLine { line, why }))
}

/// Parses patterns, and files with patterns (`@FILE`).
pub(super) fn patterns(value: &DeValue<'_>) -> Result<Vec<Pattern>, String> {
    let pattern = |text: &String| match text.strip_prefix('@') {
        Some(path) => Pattern::parse_lines(path, &text_of(path)?)
            .map_err(|(line, why)| told(path, &BadLine { line, why })),
        None => Pattern::parse(text),
    };
    strings(value)?.iter().map(pattern).collect()
}

/// Parses networks, and files with networks (`@FILE`).
pub(super) fn networks(value: &DeValue<'_>) -> Result<Networks, String> {
    let (mut networks, mut files) = (Vec::new(), Vec::new());
    for text in strings(value)? {
        match text.strip_prefix('@') {
            Some(path) => {
                networks.extend(networks_in(path)?);
                files.push(path.into());
            }
            None => networks.push(names::network(&text)?),
        }
    }
    Ok(networks.into_iter().collect::<Networks>().from_files(files))
}

/// Reads networks from a file: the first word of each line, up to a comment.
fn networks_in(path: &str) -> Result<Vec<IpNet>, String> {
    let text = text_of(path)?;
    let words = text.lines().zip(1..).filter_map(|(line, number)| {
        let line = line.split(['#', ';']).next().unwrap_or_default();
        Some((line.split_whitespace().next()?, number))
    });
    let network = |(word, line)| names::network(word).map_err(|why| told(path, &BadLine { line, why }));
    words.map(network).collect()
}

/// Reads the file at `path`.
pub(super) fn text_of(path: &str) -> Result<String, String> {
    let text = whole_file::text(Path::new(path), LARGEST_LIST);
    text.map_err(|error| format!("cannot read {path}: {}", unread(&error)))
}

/// Reads one status code, or a class or range of them.
pub(crate) fn status(value: &DeValue<'_>) -> Result<RangeInclusive<u16>, String> {
    match value.as_integer() {
        Some(number) => status_text(number.as_str()),
        None => status_text(&string(value)?),
    }
}

/// Parses status codes from text.
pub(crate) fn status_text(text: &str) -> Result<RangeInclusive<u16>, String> {
    let code = |text: &str| text.trim().parse().ok().filter(|code| (100..=599).contains(code));
    let class = |text: &str| {
        let class: u16 = text.strip_suffix("xx")?.parse().ok().filter(|class| (1..=5).contains(class))?;
        Some(class * 100..=class * 100 + 99)
    };
    let range = |text: &str| match text.split_once('-') {
        Some((first, last)) => Some(code(first)?..=code(last)?).filter(|range| !range.is_empty()),
        None => code(text).map(|code| code..=code),
    };
    class(text).or_else(|| range(text)).ok_or_else(|| {
        format!("'{}' is not a status code such as 404, \"5xx\" or \"500-503\"", text.escape_debug())
    })
}
