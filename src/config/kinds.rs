//! The kinds of values of a key: reading from TOML, output as TOML, and names in the docs.

use std::ops::RangeInclusive;
use std::time::Duration;

use larder_proxy::settings::Networks;
use toml::de::{DeTable, DeValue};

use crate::cli::units;
use crate::cli::words::hint;
use crate::config::lists::{items, networks, status, text_of};
use crate::config::names;

/// The name of a kind in the docs and in errors.
pub(super) trait Words {
    /// Returns the name, such as `size`, or `"off" or an address`.
    fn words(&self) -> String;

    /// Whether its values may contain secrets, which are never shown.
    fn is_secret(&self) -> bool {
        false
    }
}

/// A format of values of type `V`.
pub(super) trait Kind<V>: Words {
    /// Reads the value; an error describes the mistake.
    fn read(&self, value: &DeValue<'_>) -> Result<V, String>;

    /// Formats a value so that [`read`](Self::read) reads it again.
    fn show(&self, value: &V) -> String;
}

/// `true` or `false`.
pub(super) struct Flag;

/// A whole number within bounds.
pub(super) struct Count(pub(super) RangeInclusive<u64>);

/// A port, or a range of ports such as `"1025-65535"`.
pub(super) struct Ports;

/// A number of bytes within bounds.
pub(super) struct Size(pub(super) RangeInclusive<u64>);

/// Networks, and files with networks (`@FILE`).
pub(super) struct NetworkList;

/// A duration of at most [`LONGEST`], and the shortest one allowed in milliseconds.
pub(super) struct AtLeast(pub(super) u64);

/// A year: longer than any useful wait, and far below an overflow of clocks.
const LONGEST: Duration = Duration::from_secs(365 * 86_400);

/// A duration in whole seconds, as cached responses count them.
pub(super) struct Seconds;

/// A share in whole percent: `"10%"` or `0.1`.
pub(super) struct Percent;

/// A share: `"0.1%"` or `0.001`.
pub(super) struct Share;

/// A price in any currency.
pub(super) struct Price;

/// A string: its name in the docs, and the functions that parse and format it.
pub(super) struct Text<V>(
    pub(super) &'static str,
    pub(super) fn(&str) -> Result<V, String>,
    pub(super) fn(&V) -> String,
);

/// Status codes: `401`, `"2xx"` or `"200-399"`.
pub(super) struct Statuses;

/// One of a few words.
pub(super) struct Choice<V: 'static>(pub(super) &'static [(&'static str, V)]);

/// A list of values; a single one may be written without brackets.
pub(super) struct List<K>(pub(super) K);

/// A value that may contain a secret: written, or the content of the file in `"@FILE"`.
pub(super) struct Secret<K>(pub(super) K);

/// A value, or the word for its absence.
pub(super) struct OrWord<K>(pub(super) &'static str, pub(super) K);

/// Names kinds without bounds.
macro_rules! words {
    ($($kind:ident: $words:literal;)*) => {
        $(impl Words for $kind {
            fn words(&self) -> String {
                $words.to_owned()
            }
        })*
    };
}

words! {
    Flag: "true or false";
    Ports: "port or range such as \"1025-65535\"";
    Seconds: "duration in whole seconds";
    Percent: "share from 0% to 100%, in whole percent";
    Share: "share from 0% to 100%";
    Price: "price, 0 or more";
}

impl Kind<bool> for Flag {
    fn read(&self, value: &DeValue<'_>) -> Result<bool, String> {
        value.as_bool().ok_or_else(|| mismatch(self, value))
    }

    fn show(&self, value: &bool) -> String {
        value.to_string()
    }
}

impl Words for Count {
    fn words(&self) -> String {
        format!("number from {} to {}", self.0.start(), self.0.end())
    }
}

impl<V: Copy + TryFrom<u64> + TryInto<u64>> Kind<V> for Count {
    fn read(&self, value: &DeValue<'_>) -> Result<V, String> {
        let integer = value.as_integer().ok_or_else(|| mismatch(self, value))?;
        let number = u64::from_str_radix(integer.as_str(), integer.radix()).ok();
        number
            .filter(|number| self.0.contains(number))
            .and_then(|number| V::try_from(number).ok())
            .ok_or_else(|| format!("{} is not a {}", integer.as_str(), self.words()))
    }

    fn show(&self, value: &V) -> String {
        (*value).try_into().unwrap_or(u64::MAX).to_string()
    }
}

impl Kind<RangeInclusive<u16>> for Ports {
    fn read(&self, value: &DeValue<'_>) -> Result<RangeInclusive<u16>, String> {
        if let DeValue::Integer(_) = value {
            let port: u16 = Count(1..=65_535).read(value)?;
            return Ok(port..=port);
        }
        let text = text(self, value)?;
        let port = |text: &str| text.trim().parse().ok().filter(|port| *port > 0);
        let range = match text.split_once('-') {
            Some((first, last)) => port(first).zip(port(last)),
            None => port(text).map(|port| (port, port)),
        };
        let range = range.filter(|(first, last)| first <= last).map(|(first, last)| first..=last);
        range.ok_or_else(|| format!("'{}' is not a {}", text.escape_debug(), self.words()))
    }

    fn show(&self, value: &RangeInclusive<u16>) -> String {
        match value.start() == value.end() {
            true => value.start().to_string(),
            false => quoted(&format!("{}-{}", value.start(), value.end())),
        }
    }
}

impl Words for Size {
    fn words(&self) -> String {
        format!("size from {} to {}", units::show_size(*self.0.start()), units::show_size(*self.0.end()))
    }
}

impl<V: Copy + TryFrom<u64> + TryInto<u64>> Kind<V> for Size {
    fn read(&self, value: &DeValue<'_>) -> Result<V, String> {
        let bytes = match value {
            DeValue::Integer(number) => Count(0..=u64::MAX)
                .read(value)
                .map_err(|_: String| format!("{} is not a {}", number.as_str(), self.words()))?,
            _ => units::parse_size(text(self, value)?)?,
        };
        let within = Some(bytes).filter(|bytes| self.0.contains(bytes));
        within
            .and_then(|bytes| V::try_from(bytes).ok())
            .ok_or_else(|| format!("{} is not a {}", units::show_size(bytes), self.words()))
    }

    fn show(&self, value: &V) -> String {
        quoted(&units::show_size((*value).try_into().unwrap_or(u64::MAX)))
    }
}

impl Words for NetworkList {
    fn words(&self) -> String {
        "list of: address, network or \"@FILE\"".to_owned()
    }
}

impl Kind<Networks> for NetworkList {
    fn read(&self, value: &DeValue<'_>) -> Result<Networks, String> {
        networks(value)
    }

    fn show(&self, value: &Networks) -> String {
        let written: Vec<_> = value.iter().map(|network| quoted(&names::show_network(network))).collect();
        format!("[{}]", written.join(", "))
    }
}

impl Words for AtLeast {
    fn words(&self) -> String {
        let least = units::show_duration(Duration::from_millis(self.0));
        format!("duration from {least} to {}", units::show_duration(LONGEST))
    }
}

impl Kind<Duration> for AtLeast {
    fn read(&self, value: &DeValue<'_>) -> Result<Duration, String> {
        let duration = duration(self, value)?;
        match (Duration::from_millis(self.0)..=LONGEST).contains(&duration) {
            true => Ok(duration),
            false => Err(format!("{} is not a {}", units::show_duration(duration), self.words())),
        }
    }

    fn show(&self, value: &Duration) -> String {
        quoted(&units::show_duration(*value))
    }
}

impl Kind<u32> for Seconds {
    fn read(&self, value: &DeValue<'_>) -> Result<u32, String> {
        let duration = duration(self, value)?;
        let seconds = u32::try_from(duration.as_secs()).ok().filter(|_| duration.subsec_nanos() == 0);
        seconds.ok_or_else(|| format!("{} is not a {}", units::show_duration(duration), self.words()))
    }

    fn show(&self, value: &u32) -> String {
        AtLeast(0).show(&Duration::from_secs(u64::from(*value)))
    }
}

impl Kind<u8> for Percent {
    fn read(&self, value: &DeValue<'_>) -> Result<u8, String> {
        let percent = Share.read(value)? * 100.0;
        let whole = percent.round();
        match (percent - whole).abs() < 1e-6 {
            true => Ok(whole as u8),
            false => Err(format!("{percent}% is not a {}", self.words())),
        }
    }

    fn show(&self, value: &u8) -> String {
        quoted(&format!("{value}%"))
    }
}

impl Kind<f64> for Share {
    fn read(&self, value: &DeValue<'_>) -> Result<f64, String> {
        match value {
            DeValue::Float(number) => units::parse_share(number.as_str()),
            DeValue::Integer(number) if number.radix() == 10 => units::parse_share(number.as_str()),
            _ => units::parse_share(text(self, value)?),
        }
    }

    fn show(&self, value: &f64) -> String {
        quoted(&units::show_share(*value))
    }
}

impl Kind<f64> for Price {
    fn read(&self, value: &DeValue<'_>) -> Result<f64, String> {
        let number = match value {
            DeValue::Float(number) => number.as_str(),
            DeValue::Integer(number) if number.radix() == 10 => number.as_str(),
            _ => return Err(mismatch(self, value)),
        };
        let price = number.parse().ok().filter(|price: &f64| price.is_finite() && *price >= 0.0);
        price.ok_or_else(|| format!("{number} is not a {}", self.words()))
    }

    fn show(&self, value: &f64) -> String {
        value.to_string()
    }
}

impl<V> Words for Text<V> {
    fn words(&self) -> String {
        self.0.to_owned()
    }
}

impl<V> Kind<V> for Text<V> {
    fn read(&self, value: &DeValue<'_>) -> Result<V, String> {
        (self.1)(text(self, value)?)
    }

    fn show(&self, value: &V) -> String {
        quoted(&(self.2)(value))
    }
}

impl Words for Statuses {
    fn words(&self) -> String {
        "status code or range".to_owned()
    }
}

impl Kind<RangeInclusive<u16>> for Statuses {
    fn read(&self, value: &DeValue<'_>) -> Result<RangeInclusive<u16>, String> {
        status(value)
    }

    fn show(&self, value: &RangeInclusive<u16>) -> String {
        quoted(&format!("{}-{}", value.start(), value.end()))
    }
}

impl<V> Words for Choice<V> {
    fn words(&self) -> String {
        let names: Vec<_> = self.0.iter().map(|(name, _)| quoted(name)).collect();
        names.join(" or ")
    }
}

impl<V: Copy + PartialEq> Kind<V> for Choice<V> {
    fn read(&self, value: &DeValue<'_>) -> Result<V, String> {
        word(text(self, value)?, self.0)
    }

    fn show(&self, value: &V) -> String {
        self.0.iter().find(|(_, meaning)| meaning == value).map_or_else(String::new, |(name, _)| quoted(name))
    }
}

impl<K: Words> Words for List<K> {
    fn words(&self) -> String {
        format!("list of: {}", self.0.words())
    }

    fn is_secret(&self) -> bool {
        self.0.is_secret()
    }
}

impl<V, K: Kind<V>> Kind<Vec<V>> for List<K> {
    fn read(&self, value: &DeValue<'_>) -> Result<Vec<V>, String> {
        items(value, |item| self.0.read(item))
    }

    fn show(&self, value: &Vec<V>) -> String {
        let items: Vec<_> = value.iter().map(|item| self.0.show(item)).collect();
        format!("[{}]", items.join(", "))
    }
}

impl<K: Words> Words for Secret<K> {
    fn words(&self) -> String {
        format!("{} or \"@FILE\"", self.0.words())
    }

    fn is_secret(&self) -> bool {
        true
    }
}

impl<V, K: Kind<V>> Kind<V> for Secret<K> {
    fn read(&self, value: &DeValue<'_>) -> Result<V, String> {
        let Some(path) = value.as_str().and_then(|text| text.strip_prefix('@')) else {
            return self.0.read(value);
        };
        let content = text_of(path)?;
        // The error may contain the value.
        let wrong = |_| format!("the content of {path} is not valid: expected {}", self.0.words());
        self.0.read(&DeValue::String(content.trim_end().into())).map_err(wrong)
    }

    fn show(&self, value: &V) -> String {
        self.0.show(value)
    }
}

impl<K: Words> Words for OrWord<K> {
    fn words(&self) -> String {
        format!("{} or {}", quoted(self.0), self.1.words())
    }

    fn is_secret(&self) -> bool {
        self.1.is_secret()
    }
}

impl<V, K: Kind<V>> Kind<Option<V>> for OrWord<K> {
    fn read(&self, value: &DeValue<'_>) -> Result<Option<V>, String> {
        match value.as_str() {
            Some(word) if word == self.0 => Ok(None),
            _ => self.1.read(value).map(Some).map_err(|problem| match value {
                // The mistake is in a part of it.
                DeValue::Table(_) | DeValue::Array(_) => problem,
                _ => format!("{problem}; also valid: {}", quoted(self.0)),
            }),
        }
    }

    fn show(&self, value: &Option<V>) -> String {
        value.as_ref().map_or_else(|| quoted(self.0), |value| self.1.show(value))
    }
}

/// Returns the meaning of a word; the error names the nearest known word.
pub(super) fn word<V: Copy>(text: &str, known: &[(&str, V)]) -> Result<V, String> {
    let names = || known.iter().map(|(name, _)| *name);
    known.iter().find(|(name, _)| *name == text).map(|(_, meaning)| *meaning).ok_or_else(|| {
        let all = names().collect::<Vec<_>>().join(" ");
        format!("unknown word '{}'{}; known: {all}", text.escape_debug(), hint(text, names()))
    })
}

fn text<'a>(kind: &impl Words, value: &'a DeValue<'_>) -> Result<&'a str, String> {
    value.as_str().ok_or_else(|| mismatch(kind, value))
}

pub(super) fn table<'a, 'v>(kind: &impl Words, value: &'a DeValue<'v>) -> Result<&'a DeTable<'v>, String> {
    value.as_table().ok_or_else(|| mismatch(kind, value))
}

/// Reads a duration. Other caches count lifetimes in seconds, without a unit.
fn duration(kind: &impl Words, value: &DeValue<'_>) -> Result<Duration, String> {
    match value.as_integer() {
        Some(number) => {
            Err(format!("{number} has no unit: write \"{number}s\" for seconds", number = number.as_str()))
        }
        None => units::parse_duration(text(kind, value)?),
    }
}

fn mismatch(kind: &(impl Words + ?Sized), value: &DeValue<'_>) -> String {
    format!("expected {}, got type {}", kind.words(), value.type_str())
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}
