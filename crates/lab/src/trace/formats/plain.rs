//! A list of keys, one per line: numbers, or names such as URLs. There are no sizes and no times.

use std::borrow::Cow;

use super::lines::{Parsed, Said};
use super::words::{integer, text};
use crate::trace::sink::Facts;

pub(super) fn parse(line: &[u8]) -> Parsed<'_> {
    key(Cow::Borrowed(text(line.trim_ascii())?), Facts::NONE)
}

/// Returns a request for an object identified by a number if `key` is written as one; `007` is not `7`.
pub(super) fn key(key: Cow<'_, str>, facts: Facts) -> Parsed<'_> {
    let plain = key == "0" || !key.starts_with('0');
    let number = integer(key.as_bytes()).filter(|_| plain);
    Ok(match number {
        Some(number) => Said::Number(number, facts),
        None => Said::Name(key, facts),
    })
}
