//! A limit on the size of admitted objects.

use std::fmt::{self, Display, Formatter};

use crate::filter::Filter;
use crate::params::params;
use crate::policy::{Object, Residents};

const UNITS: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Admits objects up to a size, which includes bookkeeping if the cache counts that.
pub struct SizeLimit {
    params: SizeLimitParams,
}

params! {
    /// The parameters of [`SizeLimit`].
    SizeLimitParams {
        max: Bytes = Bytes(64 << 10),
            |value| bytes(value).map(Bytes).ok_or_else(|| "a size such as 64KiB, in B KiB MiB GiB TiB".to_owned()),
            "size of the largest object admitted, such as 1MiB";
    }
}

/// A number of bytes, which is written with the largest unit of which it is a multiple.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bytes(u64);

impl Display for Bytes {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let fits = |(_, scale): &&(&str, u64)| self.0.is_multiple_of(*scale) && self.0 > 0;
        let (unit, scale) = UNITS.iter().find(fits).unwrap_or(&("B", 1));
        write!(f, "{}{unit}", self.0 / scale)
    }
}

/// Reads a number of bytes, with or without a unit.
fn bytes(text: &str) -> Option<u64> {
    let unit = UNITS.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)));
    let (number, scale) = unit.unwrap_or((text, 1));
    match number.bytes().all(|byte| byte.is_ascii_digit()) {
        true => number.parse::<u64>().ok()?.checked_mul(scale),
        false => None,
    }
}

impl Filter for SizeLimit {
    type Params = SizeLimitParams;

    const ABOUT: &'static str = "admits objects up to a size";

    fn new(params: SizeLimitParams, _seed: u64) -> Self {
        Self { params }
    }

    fn admit<R: Residents>(&mut self, new: &Object, _residents: &R, _: impl Iterator<Item = Object>) -> bool {
        new.size <= self.params.max.0
    }

    fn heap_bytes(&self) -> usize {
        0
    }
}
