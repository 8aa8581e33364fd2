//! Sizes, durations and percentages as users write and read them: `64MiB`, `30s`, `10%`.
//!
//! `parse_*` and `show_*` are exact inverses of each other; the `about_*` functions round, for people.

use std::time::Duration;

/// A unit's name and its number of smallest units, largest first.
type Units = [(&'static str, u64)];

const SIZES: &Units = &[("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];
const MILLISECONDS: &Units = &[("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

/// Other names of units of sizes: `4G` is 4 GiB, as in the configs of other servers; `4GB` is 4,000,000,000 bytes.
const OTHER_SIZES: &Units = &[
    ("T", 1 << 40),
    ("G", 1 << 30),
    ("M", 1 << 20),
    ("K", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
];

/// Parses bytes from `64MiB`, `1.5GiB`, `4G`, `64MB` or a plain number of bytes; a fraction of a byte is cut off. Case
/// does not matter. The error names the valid units.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let known = |unit: &str| {
        let mut units = SIZES.iter().chain(OTHER_SIZES);
        units.find(|(name, _)| name.eq_ignore_ascii_case(unit)).map(|(_, scale)| *scale)
    };
    text.parse().or_else(|_| parse(text, "64MiB", SIZES, known))
}

/// Parses a duration such as `30s`; exact to the millisecond. The error names the valid units.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let known = |unit: &str| MILLISECONDS.iter().find(|(name, _)| *name == unit).map(|(_, scale)| *scale);
    parse(text, "30s", MILLISECONDS, known).map(Duration::from_millis)
}

/// Parses a share from 0 to 1, from `0.01` or `1%`.
pub fn parse_share(text: &str) -> Result<f64, String> {
    let number = match text.strip_suffix('%') {
        Some(percent) => percent.trim_end().parse().map(|percent: f64| percent / 100.0),
        None => text.parse(),
    };
    let share = number.ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("'{}' is not a share from 0% to 100%", text.escape_debug()))
}

/// Formats a share from 0 to 1 in percent, to a millionth of a percent.
pub fn show_share(share: f64) -> String {
    format!("{}%", (share * 1e8).round() / 1e6)
}

/// Formats `bytes` in the largest unit that leaves a whole number.
pub fn show_size(bytes: u64) -> String {
    show(bytes, "0B", SIZES)
}

/// Formats `duration` in the largest unit that leaves a whole number; fractions of a millisecond are cut off.
pub fn show_duration(duration: Duration) -> String {
    show(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX), "0s", MILLISECONDS)
}

/// Formats `bytes` with about three digits, such as `1.18 GiB`.
pub fn about_size(bytes: u64) -> String {
    match SIZES.iter().find(|(_, scale)| bytes >= *scale && *scale > 1) {
        Some((unit, scale)) => {
            let amount = bytes as f64 / *scale as f64;
            let decimals = if amount < 10.0 { 2 } else { 1 };
            format!("{amount:.decimals$} {unit}")
        }
        None => format!("{bytes} B"),
    }
}

/// Formats microseconds with about three digits, such as `1.18 ms`.
pub fn about_time(micros: f64) -> String {
    match micros {
        ..1e3 => format!("{micros:.0} us"),
        ..1e6 => format!("{:.2} ms", micros / 1e3),
        _ => format!("{:.2} s", micros / 1e6),
    }
}

/// Formats `number` with thousands separators: `1,234,567`.
pub fn about_count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats a count with its noun: `1 object`, `2 objects`.
pub fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", about_count(number), if number == 1 { one } else { many })
}

/// Parses `text` into the smallest unit, by the `scale` of the unit that it names; the error names `units`.
fn parse(
    text: &str,
    example: &str,
    units: &Units,
    scale: impl Fn(&str) -> Option<u64>,
) -> Result<u64, String> {
    let quoted = text.escape_debug();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..digits], text[digits..].trim_start());
    if number.is_empty() {
        return Err(format!("'{quoted}' is not a number with a unit, such as '{example}'"));
    }
    let Some(scale) = scale(unit) else {
        let known = units.iter().rev().map(|(name, _)| *name).collect::<Vec<_>>().join(" ");
        return Err(match unit {
            "" => format!("'{quoted}' lacks a unit; known: {known}"),
            _ => format!("unknown unit '{}' in '{quoted}'; known: {known}", unit.escape_debug()),
        });
    };
    amount(number, scale).ok_or_else(|| match number.matches('.').count() {
        0 => format!("'{quoted}' is too large"),
        _ => format!("'{quoted}' is too large, or '{number}' is not a number"),
    })
}

/// Returns `number` times `scale`; a fraction below 1 is cut off.
fn amount(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    // A millionth of every unit is negligible; more digits would overflow.
    let (fraction, divisor) = match fraction.get(..6) {
        Some(first) => (first, 1_000_000),
        None => (fraction, 10_u128.pow(u32::try_from(fraction.len()).ok()?)),
    };
    let part = u128::from(fraction.parse::<u64>().ok()?) * u128::from(scale) / divisor;
    whole.parse::<u64>().ok()?.checked_mul(scale)?.checked_add(u64::try_from(part).ok()?)
}

fn show(amount: u64, zero: &str, units: &Units) -> String {
    match units.iter().find(|(_, scale)| amount.is_multiple_of(*scale)) {
        Some((unit, scale)) if amount > 0 => format!("{}{unit}", amount / scale),
        _ => zero.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_read_in_binary_units() {
        assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
        let table = [("0B", 0), ("17", 17), ("64KiB", 65_536), ("1 GiB", 1 << 30), ("3TiB", 3 << 40)];
        let others =
            [("4G", 4 << 30), ("64MB", 64_000_000), ("1.5GiB", 3 << 29), ("0.5 kb", 500), ("10m", 10 << 20)];
        for (text, bytes) in table.into_iter().chain(others) {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn wrong_sizes_and_durations_say_what_would_be_right() {
        let sizes = [
            ("64MBit", "unknown unit 'MBit' in '64MBit'; known: B KiB MiB GiB TiB"),
            ("1.2.3GiB", "'1.2.3GiB' is too large, or '1.2.3' is not a number"),
            (".5GiB", "'.5GiB' is too large, or '.5' is not a number"),
            ("1Q", "unknown unit 'Q' in '1Q'; known: B KiB MiB GiB TiB"),
            ("big", "'big' is not a number with a unit, such as '64MiB'"),
            ("", "'' is not a number with a unit, such as '64MiB'"),
            ("-1MiB", "'-1MiB' is not a number with a unit, such as '64MiB'"),
            ("17000000TiB", "'17000000TiB' is too large"),
        ];
        for (text, error) in sizes {
            assert_eq!(parse_size(text), Err(error.to_owned()), "{text}");
        }
        let durations = [
            ("30", "'30' lacks a unit; known: ms s m h d"),
            ("30S", "unknown unit 'S' in '30S'; known: ms s m h d"),
            ("5 weeks", "unknown unit 'weeks' in '5 weeks'; known: ms s m h d"),
        ];
        for (text, error) in durations {
            assert_eq!(parse_duration(text), Err(error.to_owned()), "{text}");
        }
        for text in ["101%", "2", "-1", "ten", "", "%"] {
            assert_eq!(parse_share(text), Err(format!("'{text}' is not a share from 0% to 100%")));
        }
    }

    #[test]
    fn people_get_rounded_numbers() {
        assert_eq!([0, 1023, 1024, 123_456_789].map(about_size), ["0 B", "1023 B", "1.00 KiB", "117.7 MiB"]);
        assert_eq!([0.4, 999.0, 1_500.0, 2e6].map(about_time), ["0 us", "999 us", "1.50 ms", "2.00 s"]);
        assert_eq!([0, 999, 1_000, 1_234_567].map(about_count), ["0", "999", "1,000", "1,234,567"]);
    }

    proptest! {
        #[test]
        fn what_is_shown_is_read_as_the_same(amount: u64, millis in 0..u64::MAX, percent in 0..=10_000_u16) {
            prop_assert_eq!(parse_size(&show_size(amount)), Ok(amount));
            let duration = Duration::from_millis(millis);
            prop_assert_eq!(parse_duration(&show_duration(duration)), Ok(duration));
            let share = f64::from(percent) / 1e4;
            prop_assert!((parse_share(&show_share(share)).unwrap_or(-1.0) - share).abs() < 1e-9);
        }

        #[test]
        fn no_text_is_too_strange(text: String) {
            let _ = (parse_size(&text), parse_duration(&text), parse_share(&text));
        }
    }
}
