//! Limits of rules: `"10/s"`, and the requests that share them.

use std::num::NonZeroU64;
use std::time::Duration;

use http::HeaderName;
use larder_proxy::settings::{Bandwidth, BandwidthBy, CountedRequests, Limit, LimitBy, Pattern, Rate};
use toml::de::{DeTable, DeValue};

use super::values::{entries, field, unknown, word};
use crate::cli::units::parse_duration;
use crate::config::kinds::{Count, Kind, Size};
use crate::config::lists::{items, string};
use crate::config::names;

const KEYS: [&str; 5] = ["requests", "burst", "concurrent", "by", "count"];
const FIELD: &str = "field:";
const MORE: &str = "\"field:NAME\", \"cookie:NAME\" or \"query:NAME\"";
const MOST: Count = Count(1..=1_000_000);
/// Bytes in a second.
const RATE: Size = Size(1 << 10..=1 << 40);

/// The replies that share a rate.
const SHARED_BY: &[(&str, BandwidthBy)] =
    &[("reply", BandwidthBy::Reply), ("client", BandwidthBy::Client), ("all", BandwidthBy::All)];

/// Parses the rate of replies: a size, or a table with `rate`, `by` and `after`.
pub(super) fn bandwidth(value: &DeValue<'_>) -> Result<Bandwidth, String> {
    let mut size = value.as_table().is_none().then_some(value);
    let (mut by, mut after) = (BandwidthBy::Reply, 0);
    for (key, value) in value.as_table().into_iter().flat_map(entries) {
        match key {
            "rate" => size = Some(value),
            "by" => by = word(&string(value)?, SHARED_BY)?,
            "after" => after = Size(0..=1 << 50).read(value)?,
            _ => return Err(unknown(key, &["rate", "by", "after"])),
        }
    }
    let rate: u64 = RATE.read(size.ok_or("it has no 'rate', such as \"500KiB\"")?)?;
    match by {
        BandwidthBy::Client | BandwidthBy::All if after > 0 => {
            Err("after is about each reply: write it without by".to_owned())
        }
        _ => Ok(Bandwidth { rate: NonZeroU64::new(rate).unwrap_or(NonZeroU64::MIN), by, after }),
    }
}

/// Parses one limit, or a list of limits; `false` for none.
pub(super) fn limits(value: &DeValue<'_>) -> Result<Vec<Limit>, String> {
    let table = |value: &DeValue<'_>| match value.as_table() {
        Some(table) => limit(table),
        None => Err(format!(
            "expected a table such as {{ requests = \"10/s\", by = \"client\" }}, got type {}",
            value.type_str()
        )),
    };
    // No limit, in place of that of an earlier rule.
    if value.as_bool() == Some(false) { Ok(Vec::new()) } else { items(value, table) }
}

fn limit(table: &DeTable<'_>) -> Result<Limit, String> {
    let (mut rate, mut burst) = (None, None);
    let mut limit =
        Limit { rate: None, concurrent: None, by: LimitBy::Client, counted: CountedRequests::All };
    for (key, value) in entries(table) {
        match key {
            "requests" => rate = Some(requests(&string(value)?)?),
            "burst" => burst = Some(MOST.read(value)?),
            "concurrent" => limit.concurrent = Some(MOST.read(value)?),
            "by" => limit.by = by(&string(value)?)?,
            "count" => {
                limit.counted = word(
                    &string(value)?,
                    &[("all", CountedRequests::All), ("misses", CountedRequests::Misses)],
                )?;
            }
            _ => return Err(unknown(key, &KEYS)),
        }
    }
    limit.rate = match (rate, burst) {
        (None, Some(_)) => return Err("burst needs requests, such as requests = \"10/s\"".to_owned()),
        (None, None) if limit.concurrent.is_none() => {
            return Err("it has neither requests, such as \"10/s\", nor concurrent".to_owned());
        }
        (rate, burst) => {
            rate.map(|(requests, period)| Rate { requests, period, burst: burst.unwrap_or(requests) })
        }
    };
    Ok(limit)
}

fn requests(text: &str) -> Result<(u32, Duration), String> {
    let wrong =
        || format!("'{}' is not a rate such as \"10/s\", \"100/m\" or \"1000/h\"", text.escape_debug());
    let (count, period) = text.split_once('/').ok_or_else(wrong)?;
    let count =
        count.trim().parse().ok().filter(|count| (1..=1_000_000).contains(count)).ok_or_else(wrong)?;
    let period = period.trim();
    let period = if period.starts_with(|first: char| first.is_ascii_digit()) {
        period.to_owned()
    } else {
        format!("1{period}")
    };
    let period = parse_duration(&period).map_err(|_| wrong())?;
    let fits = !period.is_zero() && period <= Duration::from_secs(86_400);
    fits.then_some((count, period)).ok_or_else(wrong)
}

fn by(text: &str) -> Result<LimitBy, String> {
    if let Some(name) = text.strip_prefix(FIELD) {
        let name = names::field_name(name)?;
        let name = match name.as_str() {
            "host" => return Ok(LimitBy::Host),
            // The credentials for this proxy, which rules require.
            "proxy-authorization" => name,
            _ => field(&name)?.into(),
        };
        let name =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| format!("'{name}' is not a field name"))?;
        return Ok(LimitBy::Field(name));
    }
    for (kind, limit) in
        [("query:", LimitBy::Parameter as fn(Pattern) -> LimitBy), ("cookie:", LimitBy::Cookie)]
    {
        if let Some(name) = text.strip_prefix(kind) {
            return names::token(name).and_then(|name| Pattern::parse(&name)).map(limit);
        }
    }
    let words = ["client", "network", "host", "all"];
    let meanings = [LimitBy::Client, LimitBy::Network, LimitBy::Host, LimitBy::All];
    let known: Vec<_> = words.into_iter().zip(0..).collect();
    let at: usize = word(text, &known).map_err(|error| format!("{error}, {MORE}"))?;
    Ok(meanings[at].clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Vec<Limit>, String> {
        let text = format!("limit = {text}");
        let document = DeTable::parse(&text).expect("TOML");
        limits(document.get_ref().get("limit").expect("a key").get_ref())
    }

    #[test]
    fn limits_are_read_with_their_defaults() {
        let rate =
            |requests, seconds, burst| Some(Rate { requests, period: Duration::from_secs(seconds), burst });
        let limit = |rate, concurrent, by, counted| Limit { rate, concurrent, by, counted };
        for (text, expected) in [
            ("{ requests = '10/s' }", limit(rate(10, 1, 10), None, LimitBy::Client, CountedRequests::All)),
            (
                "{ requests = '5/10s', by = 'network' }",
                limit(rate(5, 10, 5), None, LimitBy::Network, CountedRequests::All),
            ),
            (
                "{ requests = '1/m', burst = 3, count = 'misses', by = 'all' }",
                limit(rate(1, 60, 3), None, LimitBy::All, CountedRequests::Misses),
            ),
            ("{ concurrent = 5, by = 'host' }", limit(None, Some(5), LimitBy::Host, CountedRequests::All)),
            (
                "{ concurrent = 5, by = 'field:X-Key' }",
                limit(None, Some(5), LimitBy::Field(HeaderName::from_static("x-key")), CountedRequests::All),
            ),
        ] {
            assert_eq!(read(text), Ok(vec![expected]), "{text}");
        }
        assert_eq!(read("[{ requests = '1/s' }, { concurrent = 1 }]").map(|limits| limits.len()), Ok(2));
    }

    #[test]
    fn an_invalid_limit_of_a_rule_is_refused_with_its_problem() {
        for (text, error) in [
            ("7", "expected a table such as { requests = \"10/s\", by = \"client\" }, got type integer"),
            ("{ by = 'client' }", "it has neither requests, such as \"10/s\", nor concurrent"),
            ("{ burst = 3, concurrent = 1 }", "burst needs requests, such as requests = \"10/s\""),
            ("{ requests = '10' }", "'10' is not a rate such as \"10/s\", \"100/m\" or \"1000/h\""),
            ("{ requests = '0/s' }", "'0/s' is not a rate such as \"10/s\", \"100/m\" or \"1000/h\""),
            ("{ requests = '5/0s' }", "'5/0s' is not a rate such as \"10/s\", \"100/m\" or \"1000/h\""),
            ("{ rate = '1/s' }", "unknown key 'rate'; known: requests burst concurrent by count"),
            (
                "{ concurrent = 1, by = 'cleint' }",
                "unknown word 'cleint'; did you mean 'client'?; known: client network host all, \"field:NAME\", \"cookie:NAME\" or \"query:NAME\"",
            ),
            (
                "{ concurrent = 1, by = 'field:Connection' }",
                "'connection' is not seen by rules: it is for this proxy only",
            ),
            ("{ concurrent = 0 }", "0 is not a number from 1 to 1000000"),
        ] {
            assert_eq!(read(text), Err(error.to_owned()), "{text}");
        }
    }
}
