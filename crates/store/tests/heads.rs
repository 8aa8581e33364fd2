//! The store returns a head exactly as it was stored, byte for byte, for any form of its dates.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use larder_semantics::date;
use larder_semantics::fields::Fields;
use larder_semantics::freshness::{Flags, Freshness};
use larder_store::entry::Parts;
use larder_store::{Body, Entry, Generation, LinePool, LinesRef};
use proptest::prelude::*;

/// Dates as origins write them, and malformed ones.
fn a_date() -> impl Strategy<Value = Vec<u8>> {
    let plain = || any::<u32>().prop_map(|time| date::format(time).to_vec());
    prop_oneof![
        6 => plain(),
        1 => plain().prop_map(|text| text.to_ascii_lowercase()),
        1 => plain().prop_map(|text| [&b"Xyz"[..], &text[3..]].concat()),
        1 => plain().prop_map(|text| [&text[..], b" "].concat()),
        1 => (plain(), 0..29_usize, b'0'..=b'Z').prop_map(|(mut text, at, byte)| {
            text[at] = byte;
            text
        }),
        1 => Just(b"Sunday, 06-Nov-94 08:49:37 GMT".to_vec()),
        1 => Just(b"Sun Nov  6 08:49:37 1994".to_vec()),
        1 => Just(b"Fri, 31 Dec 9999 23:59:59 GMT".to_vec()),
        1 => Just(b"-1".to_vec()),
        1 => Just(Vec::new()),
    ]
}

/// A field; most names have a meaning for the store.
fn field() -> impl Strategy<Value = (&'static str, Vec<u8>)> {
    let other = prop::sample::select(vec!["etag", "server", "vary", "x-last-modified", "expires", "x-date"]);
    prop_oneof![
        4 => a_date().prop_map(|value| ("last-modified", value)),
        1 => a_date().prop_map(|value| ("date", value)),
        2 => (other.clone(), a_date()),
        4 => (other, "[ -~]{0,40}".prop_map(String::into_bytes)),
    ]
}

/// Ages and lifetimes: ordinary ones, and any.
fn freshness() -> impl Strategy<Value = Freshness> {
    let window = || prop_oneof![2 => Just(0), 1 => any::<u32>()];
    let delay = prop::option::of(0..6_u32);
    (any::<[u32; 3]>(), delay, any::<u32>(), window(), window()).prop_map(
        |([received, date, lifetime], delay, age, stale_while_revalidate, stale_if_error)| Freshness {
            received,
            initial_age: delay.map_or(age, |delay| received.saturating_sub(date).saturating_add(delay)),
            lifetime,
            date,
            stale_while_revalidate,
            stale_if_error,
            flags: Flags::IMMUTABLE,
        },
    )
}

fn map(fields: &[(&'static str, Vec<u8>)]) -> HeaderMap {
    let field = |(name, value): &(&'static str, Vec<u8>)| {
        Some((HeaderName::from_static(name), HeaderValue::from_bytes(value).ok()?))
    };
    let mut map = HeaderMap::new();
    for (name, value) in fields.iter().filter_map(field) {
        map.append(name, value);
    }
    map
}

/// The lines as they came, except `Date`, which comes last with the store's value.
fn expected(fields: &HeaderMap, date: u32) -> Vec<u8> {
    let mut lines = Vec::new();
    for name in fields.keys().filter(|name| **name != header::DATE) {
        for value in fields.get_all(name) {
            larder_store::lines::write_line(&mut lines, name.as_str().as_bytes(), value.as_bytes());
        }
    }
    larder_store::lines::write_line(&mut lines, b"date", &date::format(date));
    lines
}

fn written(lines: &LinesRef<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    lines.write(&mut out);
    out
}

fn sorted(lines: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<_> = lines.split_inclusive(|&byte| byte == b'\n').collect();
    lines.sort_unstable();
    lines
}

fn check(
    lines: &LinesRef<'_>,
    fields: &HeaderMap,
    date: u32,
    is_in_order: bool,
) -> Result<(), TestCaseError> {
    let (found, expected) = (written(lines), expected(fields, date));
    match is_in_order {
        true => prop_assert_eq!(&found, &expected, "{}", String::from_utf8_lossy(&found)),
        false => prop_assert_eq!(sorted(&found), sorted(&expected)),
    }
    let mut all = fields.clone();
    all.insert(header::DATE, HeaderValue::from_bytes(&date::format(date)).expect("a date"));
    let read = lines.to_map();
    for name in ["last-modified", "date", "etag", "server", "vary", "x-last-modified", "expires", "x-date"] {
        let values: Vec<_> = all.lines(name).map(<[u8]>::trim_ascii).collect();
        prop_assert_eq!(lines.lines(name).collect::<Vec<_>>(), values.clone(), "{}", name);
        prop_assert_eq!(read.lines(name).collect::<Vec<_>>(), values, "{}", name);
        prop_assert_eq!(lines.contains(name), all.contains_key(name));
    }
    prop_assert_eq!(lines.iter().count(), all.len());
    Ok(())
}

proptest! {
    #[test]
    fn a_head_is_read_as_it_was_stored(
        fields in prop::collection::vec(field(), 0..8), freshness in freshness(), other in prop::option::of(any::<u32>())
    ) {
        let (pool, fields, date) = (LinePool::default(), map(&fields), other.unwrap_or(freshness.date));
        // The first response shares no lines; the third and fourth share some.
        for turn in 0..4 {
            let lines = pool.keep(&fields, date);
            check(&lines.view(), &fields, date, turn == 0)?;
            let signature: &[u8] = if turn % 2 == 0 { b"" } else { b"v" };
            let parts = Parts {
                key: b"http://h/",
                signature,
                status: StatusCode::OK,
                freshness,
                cost: 0,
                born: Generation::default(),
                fields: &lines,
                body: Body::empty(),
            };
            let entry = Entry::new(parts).expect("a short head");
            prop_assert_eq!((entry.key(), entry.signature()), (&b"http://h/"[..], signature));
            prop_assert_eq!(entry.freshness(), freshness);
            prop_assert_eq!(written(&entry.fields()), written(&lines.view()));
            check(&entry.fields(), &fields, date, turn == 0)?;
        }
    }
}
