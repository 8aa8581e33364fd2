//! A limit on the size of admitted objects.

use crate::filter::Filter;
use crate::params::{Param, Params};
use crate::policy::{Object, Residents};

const UNITS: [(&str, u64); 5] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Admits objects up to a size, which includes bookkeeping if the cache counts that.
pub struct SizeLimit {
    params: SizeLimitParams,
}

/// The parameters of [`SizeLimit`].
#[derive(Clone, Debug, PartialEq)]
pub struct SizeLimitParams {
    /// The largest admitted size, in bytes.
    pub max: u64,
}

impl Default for SizeLimitParams {
    fn default() -> Self {
        Self { max: 64 << 10 }
    }
}

impl Params for SizeLimitParams {
    const ALL: &'static [Param] =
        &[Param { name: "max", about: "size of the largest object admitted, such as 1MiB" }];

    fn set(&mut self, _name: &str, value: &str) -> Result<(), String> {
        self.max = bytes(value).ok_or("a size such as 64KiB, in B KiB MiB GiB TiB")?;
        Ok(())
    }

    fn get(&self, _name: &str) -> String {
        let (unit, scale) = UNITS
            .iter()
            .find(|(_, scale)| self.max.is_multiple_of(*scale) && self.max > 0)
            .unwrap_or(&("B", 1));
        format!("{}{unit}", self.max / scale)
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
        new.size <= self.params.max
    }

    fn heap_bytes(&self) -> usize {
        0
    }
}
