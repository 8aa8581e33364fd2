//! A list of keys, one a line: numbers, or names such as URLs. There are no sizes and no times.

use std::borrow::Cow;

use super::lines::{Parsed, Said};
use crate::trace::sink::Facts;

const FACTS: Facts = Facts { time: 0, size: Some(1), cost: Some(0) };

pub(super) fn parse(line: &[u8]) -> Parsed<'_> {
    let key = str::from_utf8(line.trim_ascii()).map_err(|_| "not UTF-8")?;
    Ok(match number(key) {
        Some(number) => Said::Number(number, FACTS),
        None => Said::Name(Cow::Borrowed(key), FACTS),
    })
}

/// What `key` is if it is written as numbers are; `007` is not `7`.
pub(super) fn number(key: &str) -> Option<u64> {
    let plain = key == "0" || !key.starts_with(['0', '+']);
    plain.then(|| key.parse().ok()).flatten()
}
