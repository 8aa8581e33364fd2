//! The names of JSON fields and CSV columns, and their meaning.

use std::borrow::Cow;

use super::lines::{Parsed, Said};
use super::words::{Access, Wrong, integer, moment, no, seconds, size, status};
use super::{larder, plain};
use crate::trace::read::LeftOut;
use crate::trace::sink::{Fact, Facts, client};

/// The meaning of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Field {
    /// Ignored.
    Ignored,
    /// The time of the request: seconds with decimals, or a date in the format of HTTP or ISO 8601.
    Time,
    /// The object.
    Key,
    /// The host of the object, if the key is a path.
    Host,
    /// The size of the object or of the response, in bytes.
    Size,
    /// The time of the response, in microseconds.
    Micros,
    /// The time of the response, in seconds with decimals.
    Seconds,
    /// The method.
    Method,
    /// The status code.
    Status,
    /// The Cache-Status.
    Cache,
    /// The client.
    Client,
}

/// The names of fields, in lower case and without `-` and `_`. The first ones are the names of columns in options.
const NAMES: &[(&str, Field)] = &[
    ("time", Field::Time),
    ("key", Field::Key),
    ("size", Field::Size),
    ("micros", Field::Micros),
    ("seconds", Field::Seconds),
    ("method", Field::Method),
    ("status", Field::Status),
    ("cache", Field::Cache),
    ("client", Field::Client),
    ("_", Field::Ignored),
    ("timestamp", Field::Time),
    ("ts", Field::Time),
    ("clocktime", Field::Time),
    ("date", Field::Time),
    ("timeiso8601", Field::Time),
    ("object", Field::Key),
    ("objectid", Field::Key),
    ("objid", Field::Key),
    ("id", Field::Key),
    ("url", Field::Key),
    ("uri", Field::Key),
    ("requesturi", Field::Key),
    ("path", Field::Key),
    ("host", Field::Host),
    ("vhost", Field::Host),
    ("lbn", Field::Key),
    ("block", Field::Key),
    ("objsize", Field::Size),
    ("objectsize", Field::Size),
    ("bytes", Field::Size),
    ("bytessent", Field::Size),
    ("bodybytessent", Field::Size),
    ("length", Field::Size),
    ("cost", Field::Micros),
    ("duration", Field::Seconds),
    ("requesttime", Field::Seconds),
    ("requestmethod", Field::Method),
    ("cachestatus", Field::Cache),
    ("clientip", Field::Client),
    ("remoteaddr", Field::Client),
    ("remoteip", Field::Client),
];

/// The number of [`NAMES`] that an error suggests.
const PROPOSED: usize = 10;

impl Field {
    /// Returns the meaning of a field with this name, if known.
    pub(super) fn named(name: &str) -> Self {
        let name = name.trim();
        let plain: String = name.chars().filter(|c| !"-_".contains(*c)).collect();
        let plain = plain.to_ascii_lowercase();
        let found = NAMES.iter().find(|(known, _)| *known == plain);
        found.map_or(Self::Ignored, |(_, field)| *field)
    }
}

impl std::str::FromStr for Field {
    type Err = String;

    /// Returns the meaning of a column with this name. The error names the valid ones.
    fn from_str(name: &str) -> Result<Self, String> {
        match Self::named(name) {
            Self::Ignored if name != "_" => {
                let known = NAMES[..PROPOSED].iter().map(|(known, _)| *known).collect::<Vec<_>>().join(" ");
                Err(format!("unknown column '{}'; known: {known}", name.escape_debug()))
            }
            field => Ok(field),
        }
    }
}

/// The fields of one record that were present.
#[derive(Default)]
pub(super) struct Fields<'l> {
    time: Option<Cow<'l, str>>,
    key: Option<Cow<'l, str>>,
    host: Option<Cow<'l, str>>,
    size: Option<Cow<'l, str>>,
    micros: Option<Cow<'l, str>>,
    seconds: Option<Cow<'l, str>>,
    method: Option<Cow<'l, str>>,
    status: Option<Cow<'l, str>>,
    cache: Option<Cow<'l, str>>,
    client: Option<Cow<'l, str>>,
}

impl<'l> Fields<'l> {
    /// Stores the value of `field`, unless it already has one.
    pub(super) fn put(&mut self, field: Field, value: impl Into<Cow<'l, str>>) {
        let place = match field {
            Field::Ignored => return,
            Field::Time => &mut self.time,
            Field::Key => &mut self.key,
            Field::Host => &mut self.host,
            Field::Size => &mut self.size,
            Field::Micros => &mut self.micros,
            Field::Seconds => &mut self.seconds,
            Field::Method => &mut self.method,
            Field::Status => &mut self.status,
            Field::Cache => &mut self.cache,
            Field::Client => &mut self.client,
        };
        place.get_or_insert_with(|| value.into());
    }

    /// Returns the request. A missing method counts as GET; a missing status counts as a served request.
    pub(super) fn request(mut self) -> Parsed<'l> {
        let key = self.key.take().filter(|key| !key.trim().is_empty()).ok_or("no key")?;
        let key = match &self.host {
            Some(host) if key.starts_with('/') => format!("{host}{key}").into(),
            _ => key,
        };
        let time = self.time.as_deref().map_or(Ok(0), time)?;
        let cost = self.cost()?;
        let bytes = self.size.as_deref().map_or(Ok(1), |text| size(text.as_bytes()))?;
        let client = self.client.as_deref().map_or(0, |name| client(name.as_bytes()));
        let method = self.method.as_deref().unwrap_or("GET");
        if let Some(text) = &self.status {
            let status = status(text.as_bytes())?;
            return Access { method: method.as_bytes(), status, time, bytes, cost, client }.of(key);
        }
        if !method.eq_ignore_ascii_case("get") {
            return Ok(Said::LeftOut(LeftOut::Method));
        }
        plain::key(key, Facts { time, size: Fact::Known(bytes), cost, client })
    }

    fn cost(&self) -> Result<Fact<u32>, Wrong> {
        let (text, micros) = match (&self.micros, &self.seconds) {
            (Some(text), _) => (text, integer(text.as_bytes())),
            (None, Some(text)) => (text, seconds(text.as_bytes())),
            (None, None) => return Ok(Fact::Known(0)),
        };
        let micros = micros.ok_or_else(|| no("a duration", text.as_bytes()))?;
        Ok(match &self.cache {
            Some(cache) => larder::cost(micros, cache),
            None => Fact::Known(u32::try_from(micros).unwrap_or(u32::MAX)),
        })
    }
}

fn time(text: &str) -> Result<u64, Wrong> {
    let text = text.trim();
    seconds(text.as_bytes()).map_or_else(|| moment(text), Ok)
}
