//! The values of rules' placeholders in a request.

use std::borrow::Cow;

use larder_rules::{Pattern, sent_captures};
use percent_encoding::AsciiSet;

use super::request::Request;
use crate::base::path_prefix::IN_PATH;
use crate::base::settings::{Placeholder, Template};

/// Returns `template` filled with the parts of `request`. Text from the client cannot change the host.
pub(crate) fn fill<'p>(
    template: &Template,
    request: &Request,
    paths: impl IntoIterator<Item = &'p Pattern>,
) -> String {
    let stars = stars(request, paths);
    let (path, query) = request.path.split_at(request.path.find('?').unwrap_or(request.path.len()));
    let value = |placeholder| match placeholder {
        Placeholder::Uri => Cow::Borrowed(&*request.path),
        Placeholder::Path => Cow::Borrowed(path),
        Placeholder::Query => Cow::Borrowed(query),
        Placeholder::Host => Cow::Borrowed(&*request.authority),
        Placeholder::Scheme => Cow::Borrowed(request.scheme),
        Placeholder::Star(number) => Cow::Owned(stars.get(number - 1).cloned().unwrap_or_default()),
    };
    let filled = template.fill(value);
    match filled.starts_with(['/', '\\']) {
        // Browsers take two slashes at the beginning, or a backslash, for the start of another host.
        true => format!("/{}", filled.trim_start_matches(['/', '\\'])),
        false => filled,
    }
}

/// Returns the parts of the path that the stars of the first matching pattern of `paths` match, as the client sent them.
fn stars<'p>(request: &Request, paths: impl IntoIterator<Item = &'p Pattern>) -> Vec<String> {
    let path = request.path.split('?').next().unwrap_or_default();
    let mut found = paths.into_iter().filter_map(|pattern| sent_captures(path, pattern));
    let encode = |star: &str| percent_encoding::utf8_percent_encode(star, UNSENT).to_string();
    found.next().into_iter().flatten().map(encode).collect()
}

/// The bytes that a client may send, but that a URL must not contain.
const UNSENT: &AsciiSet = &IN_PATH.remove(b'%');
