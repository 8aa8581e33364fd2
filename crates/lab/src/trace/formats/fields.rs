//! A record as fields with a meaning: from JSON, columns, or the parts of a log line.

use std::borrow::Cow;

use super::lines::{LineContent, LineResult};
use super::names::Field;
use super::words::{
    Access, LineError, cost, decimal, integer, keyed, no, seconds, size, status, time, time_in_millis,
};
use crate::trace::sink::{Fact, Facts, client};
use crate::trace::summary::Exclusion;

/// The number of fields.
const FIELDS: usize = Field::Client as usize + 1;

/// The units that some programs write behind a duration.
const UNITS: &[(&str, Field)] = &[
    ("ms", Field::Millis),
    ("us", Field::Micros),
    ("\u{b5}s", Field::Micros),
    ("ns", Field::Nanos),
    ("s", Field::Seconds),
];

/// The URL in a log of a request that could not be read.
const NO_URL: &str = "-";

/// The fields of one record that were present.
pub(super) struct Fields<'l>([Option<Cow<'l, str>>; FIELDS]);

impl Default for Fields<'_> {
    fn default() -> Self {
        Self([const { None }; FIELDS])
    }
}

impl<'l> Fields<'l> {
    /// Stores the value of `field`, unless it already has one; of several keys, the one that says the most. `-` means that
    /// there is none, or a size of 0; as a key, it stands for a request that could not be read.
    pub(super) fn put(&mut self, field: Field, value: impl Into<Cow<'l, str>>) {
        let value = value.into();
        let place = &mut self.0[field as usize];
        let is_better = |old: &Cow<'l, str>| field == Field::Key && says_more(&value, old);
        if field == Field::Ignored || place.as_ref().is_some_and(|old| !is_better(old)) {
            return;
        }
        // Of a response that had not ended yet.
        let is_early = value.strip_prefix('+').is_some_and(|digits| integer(digits.as_bytes()).is_some());
        *place = match (value, field) {
            (dash, Field::Size) if dash == "-" => Some(Cow::Borrowed("0")),
            (dash, Field::Key | Field::Request) if dash == NO_URL => Some(dash),
            (_, Field::Size) if is_early => None,
            (value, Field::Millis) if is_early => Some(value[1..].to_owned().into()),
            (value, _) if value.is_empty() || value == "-" => None,
            (value, _) => Some(value),
        };
    }

    /// Returns the request. A missing method counts as GET; a missing status counts as a served request.
    pub(super) fn request(mut self) -> LineResult<'l> {
        self.open_request_line();
        if self.get(Field::Key) == Some(NO_URL) {
            return Ok(LineContent::LeftOut(Exclusion::Incomplete));
        }
        let key = self.key()?;
        let time = self.time()?;
        let cost = self.cost()?;
        let whole = self.get(Field::Whole).map(|text| size(text.as_bytes())).transpose()?;
        let sent = self.get(Field::Size).map(|text| size(text.as_bytes())).transpose()?;
        let bytes = sent.or(whole).unwrap_or(1);
        let client = self.get(Field::Client).map_or(0, |name| client(without_port(name).as_bytes()));
        let method = self.get(Field::Method).unwrap_or("GET");
        let is_get = method.eq_ignore_ascii_case("get") && self.get(Field::Operation).is_none_or(reads);
        let said = match self.get(Field::Status) {
            Some(text) => {
                let method = if is_get { &b"GET"[..] } else { b"" };
                let status = status(text.as_bytes())?;
                Access { method, status, time, bytes, cost, client }.of(key)?
            }
            None if !is_get => LineContent::LeftOut(Exclusion::Method),
            None => keyed(key, Facts { time, size: Fact::Known(bytes), cost, client })?,
        };
        let size = match (whole, sent) {
            (Some(whole), _) => Fact::Known(whole),
            (None, None) => Fact::Guessed(1),
            // A cache has no size for a get that missed.
            (None, Some(0)) if self.get(Field::Operation).is_some() => Fact::Guessed(0),
            _ => return Ok(said),
        };
        Ok(match said {
            LineContent::Name(key, facts) => LineContent::Name(key, Facts { size, ..facts }),
            LineContent::Number(key, facts) => LineContent::Number(key, Facts { size, ..facts }),
            said => said,
        })
    }

    fn get(&self, field: Field) -> Option<&str> {
        self.0[field as usize].as_deref()
    }

    pub(super) fn take(&mut self, field: Field) -> Option<Cow<'l, str>> {
        self.0[field as usize].take()
    }

    /// Puts the method and the target of the request line into their fields. The target comes before another key, which
    /// may lack the query. A line without a target is one of a request that could not be read.
    fn open_request_line(&mut self) {
        let (method, target) = match self.take(Field::Request) {
            None => return,
            // Some logs have the target alone, and the method in a field of its own.
            Some(target) if !target.contains(' ') && (target.starts_with('/') || target.contains("://")) => {
                self.take(Field::Key);
                return self.put(Field::Key, target);
            }
            Some(Cow::Borrowed(line)) => {
                let (method, target) = request_line(line);
                (Cow::Borrowed(method), Cow::Borrowed(target))
            }
            Some(Cow::Owned(line)) => {
                let (method, target) = request_line(&line);
                (method.to_owned().into(), target.to_owned().into())
            }
        };
        self.put(Field::Method, method);
        if target.is_empty() || target.starts_with("- ") {
            self.put(Field::Key, NO_URL);
        } else {
            self.take(Field::Key);
            self.put(Field::Key, target);
        }
    }

    /// Returns the key, with the query, and with what tells the path of one site from that of another.
    fn key(&mut self) -> Result<Cow<'l, str>, LineError> {
        let mut key = self.take(Field::Key).ok_or("no key")?;
        if key.trim().is_empty() {
            return Err("no key".into());
        }
        if let Some(query) = self.get(Field::Query).filter(|_| !key.contains('?')) {
            key = format!("{key}?{}", query.trim_start_matches('?')).into();
        }
        // Blocks have numbers. Elsewhere a volume is mostly a number of bytes.
        let is_block = key.bytes().all(|byte| byte.is_ascii_digit());
        if let Some(volume) = self.get(Field::Volume).filter(|_| is_block) {
            return Ok(format!("{volume}:{key}").into());
        }
        if !key.starts_with('/') {
            return Ok(key);
        }
        if let Some(bucket) = self.get(Field::Bucket) {
            let path = key[1..].strip_prefix(bucket).filter(|path| path.starts_with('/')).unwrap_or(&key);
            return Ok(format!("{bucket}{path}").into());
        }
        Ok(match (self.get(Field::Site).or(self.get(Field::Host)), self.get(Field::Scheme)) {
            (Some(host), Some(scheme)) => format!("{}://{host}{key}", scheme.to_ascii_lowercase()).into(),
            (Some(host), None) => format!("{host}{key}").into(),
            (None, _) => key,
        })
    }

    fn time(&self) -> Result<u64, LineError> {
        match (self.get(Field::Date), self.get(Field::Time)) {
            (Some(date), Some(hour)) if hour.as_bytes().get(2) == Some(&b':') => {
                time(&format!("{date}T{hour}"))
            }
            (_, Some(text)) | (Some(text), None) => time(text),
            (None, None) => self.get(Field::TimeMillis).map_or(Ok(0), |text| time_in_millis(text.as_bytes())),
        }
    }

    fn cost(&self) -> Result<Fact<u32>, LineError> {
        let units =
            [Field::Micros, Field::Millis, Field::Seconds, Field::Nanos, Field::Elapsed, Field::WithUnit];
        // A negative time means that there is none.
        let found = units.iter().find_map(|unit| Some((*unit, self.get(*unit)?)));
        let Some((unit, text)) = found.filter(|(_, text)| !text.starts_with('-')) else {
            return Ok(Fact::Known(0));
        };
        let word = text.trim().as_bytes();
        let with_unit =
            UNITS.iter().find_map(|(name, unit)| Some((word.strip_suffix(name.as_bytes())?, *unit)));
        let micros = match with_unit.unwrap_or((word, unit)) {
            (_, Field::WithUnit) => return Ok(Fact::Known(0)),
            (number, Field::Micros) => decimal(number, 0),
            (number, Field::Millis) => decimal(number, 3),
            (number, Field::Nanos) => decimal(number, 0).map(|nanos| nanos / 1_000),
            (number, Field::Elapsed) if integer(number).is_some() => decimal(number, 3),
            (number, _) => seconds(number),
        };
        let micros = micros.ok_or_else(|| no("a duration", word))?;
        Ok(match self.get(Field::Cache) {
            Some(cache) => cost(micros, cache),
            None => Fact::Known(u32::try_from(micros).unwrap_or(u32::MAX)),
        })
    }
}

/// Returns the address of a client without the port, which is that of one connection.
fn without_port(client: &str) -> &str {
    match client.rsplit_once(':') {
        Some((address, _)) if !address.contains(':') || address.ends_with(']') => address,
        _ => client,
    }
}

/// Splits a request line into its method and its target; the latter may contain spaces.
pub(super) fn request_line(line: &str) -> (&str, &str) {
    let (method, rest) = line.split_once(' ').unwrap_or((line, ""));
    match rest.rsplit_once(' ') {
        Some((target, version)) if version.starts_with("HTTP/") => (method, target.trim()),
        _ => (method, rest.trim()),
    }
}

/// Whether the key `new` says more than `old`: a URL more than a path, either more than a number or a name, such as that of
/// a request, and one with a query more than one without.
fn says_more(new: &str, old: &str) -> bool {
    let is_address = |key: &str| key.starts_with('/') || key.contains("://");
    let names_site =
        || old.starts_with('/') && !new.starts_with('/') && new.contains('?') >= old.contains('?');
    is_address(new) && (!is_address(old) || names_site() || new.len() > old.len() && new.starts_with(old))
}

/// Whether `operation` reads an object: words that are not known as such write it. Codes count as reads, since each
/// system has its own. Those of S3 have the interface and the kind of resource: `REST.GET.OBJECT`.
fn reads(operation: &str) -> bool {
    const READS: [&str; 3] = ["get", "read", "head"];
    let operation = match operation.split_once('.') {
        Some((_, rest)) => rest.strip_suffix(".OBJECT").unwrap_or("other"),
        None => operation,
    };
    let begins = |word: &str| operation.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word));
    !operation.starts_with(|c: char| c.is_ascii_alphabetic())
        || READS.into_iter().any(begins)
        || operation.eq_ignore_ascii_case("r")
}
