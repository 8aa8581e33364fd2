//! Whole numbers on the command line: an error says which ones are accepted.

use std::ops::RangeInclusive;
use std::str::FromStr;

/// Returns a parser of whole numbers within `bounds`; [`u64::MAX`] as the upper bound means no bound.
pub fn whole<T: FromStr>(
    bounds: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok().filter(|number: &u64| bounds.contains(number));
        number.and_then(|_| text.parse().ok()).ok_or_else(|| expected(&bounds))
    }
}

fn expected(bounds: &RangeInclusive<u64>) -> String {
    match (*bounds.start(), *bounds.end()) {
        (0, u64::MAX) => "expected a whole number".to_owned(),
        (least, u64::MAX) => format!("expected a whole number from {least}"),
        (least, most) => format!("expected a whole number from {least} to {most}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_out_of_bounds_is_reported_with_the_bounds() {
        let table = [
            (0..=u64::MAX, "x", Err("expected a whole number")),
            (0..=u64::MAX, "0", Ok(0)),
            (1..=u64::MAX, "0", Err("expected a whole number from 1")),
            (1..=u64::MAX, "1.5", Err("expected a whole number from 1")),
            (1..=70_000, "70001", Err("expected a whole number from 1 to 70000")),
            (1..=70_000, "70000", Ok(70_000)),
        ];
        for (bounds, text, expected) in table {
            assert_eq!(
                whole::<u64>(bounds)(text).as_ref().map_err(String::as_str).copied(),
                expected,
                "{text}"
            );
        }
        assert_eq!(
            whole::<u16>(1..=65_535)("65536"),
            Err("expected a whole number from 1 to 65535".to_owned())
        );
    }
}
