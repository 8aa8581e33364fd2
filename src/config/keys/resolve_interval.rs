//! The value of `resolve_interval`.

use larder_proxy::settings::ResolveInterval;
use toml::de::DeValue;

use crate::config::kinds::{AtLeast, Kind, OrWord, Words};

const FORM: OrWord<OrWord<AtLeast>> = OrWord("off", OrWord("auto", AtLeast(1_000)));

pub(super) struct Interval;

impl Words for Interval {
    fn words(&self) -> String {
        FORM.words()
    }
}

impl Kind<ResolveInterval> for Interval {
    fn read(&self, value: &DeValue<'_>) -> Result<ResolveInterval, String> {
        Ok(match FORM.read(value)? {
            None => ResolveInterval::Off,
            Some(None) => ResolveInterval::Auto,
            Some(Some(interval)) => ResolveInterval::Every(interval),
        })
    }

    fn show(&self, value: &ResolveInterval) -> String {
        FORM.show(&match value {
            ResolveInterval::Off => None,
            ResolveInterval::Auto => Some(None),
            ResolveInterval::Every(interval) => Some(Some(*interval)),
        })
    }
}
