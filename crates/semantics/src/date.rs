//! HTTP dates (RFC 9110 section 5.6.7), read and written in a few nanoseconds.

/// Reads a date in any of the three forms. Letters may have the wrong case; any other error makes it invalid.
/// Dates before 1970 become 0, dates beyond 2106 `u32::MAX`. The weekday is not compared with the date.
/// Two-digit years below 70 belong to this century, so that none is more than 50 years ahead.
pub fn parse(value: &[u8]) -> Option<u32> {
    match value.get(3)? {
        b',' => imf_fixdate(value),
        b' ' => asctime(value),
        _ => rfc850(value),
    }
}

/// Formats a date in the preferred form, `Sun, 06 Nov 1994 08:49:37 GMT`.
pub fn format(time: u32) -> [u8; 29] {
    let mut out = [0; 29];
    write(time, &mut out);
    out
}

/// Writes a time as [`format`] returns it to `out`.
#[inline]
pub fn write(time: u32, out: &mut [u8; 29]) {
    let (days, seconds) = (time / 86_400, time % 86_400);
    let (year, month, day) = civil(days);
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let weekday = (days as usize + 4) % 7;
    out[..4].copy_from_slice(ABBREVIATED[weekday]);
    out[4] = b' ';
    out[5..7].copy_from_slice(two_digits(day));
    out[7] = b' ';
    out[8..11].copy_from_slice(MONTHS[month as usize - 1]);
    out[11] = b' ';
    out[12..14].copy_from_slice(two_digits(year / 100));
    out[14..16].copy_from_slice(two_digits(year % 100));
    out[16] = b' ';
    out[17..19].copy_from_slice(two_digits(hours));
    out[19] = b':';
    out[20..22].copy_from_slice(two_digits(minutes % 60));
    out[22] = b':';
    out[23..25].copy_from_slice(two_digits(seconds % 60));
    out[25..].copy_from_slice(b" GMT");
}

const WEEKDAYS: [&[u8]; 7] =
    [b"Sunday", b"Monday", b"Tuesday", b"Wednesday", b"Thursday", b"Friday", b"Saturday"];
const ABBREVIATED: [&[u8; 4]; 7] = [b"Sun,", b"Mon,", b"Tue,", b"Wed,", b"Thu,", b"Fri,", b"Sat,"];
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

/// The two digits of the numbers below 100.
static NUMBERS: [[u8; 2]; 100] = {
    let (mut all, mut n) = ([[0; 2]; 100], 0);
    while n < 100 {
        all[n] = [b'0' + (n / 10) as u8, b'0' + (n % 10) as u8];
        n += 1;
    }
    all
};

#[inline]
fn two_digits(value: u32) -> &'static [u8; 2] {
    &NUMBERS[value as usize % 100]
}

/// Parses `Sun, 06 Nov 1994 08:49:37 GMT`.
fn imf_fixdate(value: &[u8]) -> Option<u32> {
    let value: &[u8; 29] = value.try_into().ok()?;
    weekday(&value[..3])?;
    let separators = [(3, b','), (4, b' '), (7, b' '), (11, b' '), (16, b' '), (25, b' ')];
    spelt(value, &separators)?;
    gmt(&value[26..])?;
    seconds(digits(&value[12..16])?, month(&value[8..11])?, digits(&value[5..7])?, &value[17..25])
}

/// Parses `Sunday, 06-Nov-94 08:49:37 GMT`.
fn rfc850(value: &[u8]) -> Option<u32> {
    let comma = value.iter().position(|&byte| byte == b',')?;
    WEEKDAYS.iter().any(|day| day.eq_ignore_ascii_case(&value[..comma])).then_some(())?;
    let rest: &[u8; 24] = value[comma..].try_into().ok()?;
    spelt(rest, &[(1, b' '), (4, b'-'), (8, b'-'), (11, b' '), (20, b' ')])?;
    gmt(&rest[21..])?;
    let year = digits(&rest[9..11])?;
    let century = if year < 70 { 2000 } else { 1900 };
    seconds(century + year, month(&rest[5..8])?, digits(&rest[2..4])?, &rest[12..20])
}

/// Parses `Sun Nov  6 08:49:37 1994`.
fn asctime(value: &[u8]) -> Option<u32> {
    let value: &[u8; 24] = value.try_into().ok()?;
    weekday(&value[..3])?;
    spelt(value, &[(3, b' '), (7, b' '), (10, b' '), (19, b' ')])?;
    let day = if value[8] == b' ' { &value[9..10] } else { &value[8..10] };
    seconds(digits(&value[20..])?, month(&value[4..7])?, digits(day)?, &value[11..19])
}

fn spelt(value: &[u8], separators: &[(usize, u8)]) -> Option<()> {
    separators.iter().all(|&(at, byte)| value[at] == byte).then_some(())
}

/// Checks for the abbreviation of a weekday.
fn weekday(name: &[u8]) -> Option<()> {
    let name = capitalised(name)?;
    WEEKDAYS.iter().any(|day| day[..3] == name).then_some(())
}

fn month(name: &[u8]) -> Option<u32> {
    let name = capitalised(name)?;
    MONTHS.iter().zip(1..).find_map(|(month, number)| (**month == name).then_some(number))
}

/// Returns a name of three letters as it is written, which is then compared at once.
fn capitalised(name: &[u8]) -> Option<[u8; 3]> {
    let &[first, second, third] = name else { return None };
    Some([first.to_ascii_uppercase(), second.to_ascii_lowercase(), third.to_ascii_lowercase()])
}

fn gmt(zone: &[u8]) -> Option<()> {
    zone.eq_ignore_ascii_case(b"GMT").then_some(())
}

/// Parses at most four digits.
fn digits(text: &[u8]) -> Option<u32> {
    let add = |sum: u32, digit: &u8| sum * 10 + u32::from(digit - b'0');
    text.iter().all(u8::is_ascii_digit).then(|| text.iter().fold(0, add))
}

fn seconds(year: u32, month: u32, day: u32, clock: &[u8]) -> Option<u32> {
    spelt(clock, &[(2, b':'), (5, b':')])?;
    let (hour, minute, second) = (digits(&clock[..2])?, digits(&clock[3..5])?, digits(&clock[6..])?);
    // Second 60 is a leap second.
    if hour > 23 || minute > 59 || second > 60 || day == 0 || day > days_in(year, month) {
        return None;
    }
    let time = days_from_civil(year, month, day) * 86_400 + i64::from(hour * 3600 + minute * 60 + second);
    Some(time.clamp(0, u32::MAX.into()) as u32)
}

fn days_in(year: u32, month: u32) -> u32 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 => 28 + u32::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the days since 1970. Years are counted from March, so that the leap day is the last of its year.
fn days_from_civil(year: u32, month: u32, day: u32) -> i64 {
    let year = i64::from(year) - i64::from(month <= 2);
    let day_of_year = i64::from((153 * ((month + 9) % 12) + 2) / 5 + day - 1);
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468
}

/// Returns year, month and day of a day from 1970 to 2106. Years are counted from March 1968, so that the
/// leap day is the last of every fourth year; 2100, which has none, gets one that no day is mapped to.
#[inline]
fn civil(days: u32) -> (u32, u32, u32) {
    const MARCH_2100: u32 = 47_541;
    let days = 4 * (days + 671 + u32::from(days >= MARCH_2100)) + 3;
    let (year, day_of_year) = (1968 + days / 1461, days % 1461 / 4);
    // From March on, a day is 2,141 of the 65,536 parts of a month, rounded so that each month gets its days.
    let parts = 2141 * day_of_year + 197_913;
    let (month, day) = (parts >> 16, (parts & 0xFFFF) / 2141 + 1);
    if month > 12 { (year + 1, month - 12, day) } else { (year, month, day) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_three_forms_are_read() {
        let cases = [
            ("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_777),
            ("Sunday, 06-Nov-94 08:49:37 GMT", 784_111_777),
            ("Sun Nov  6 08:49:37 1994", 784_111_777),
            ("Sun Nov 16 08:49:37 1994", 784_975_777),
            ("sUN, 06 NOV 1994 08:49:37 gmt", 784_111_777),
            ("Thursday, 18-Aug-50 02:01:18 GMT", 2_544_400_878),
            ("Thu, 18 Aug 2050 02:01:18 GMT", 2_544_400_878),
            ("Sat, 30 Jun 2012 23:59:60 GMT", 1_341_100_800),
            ("Tue, 29 Feb 2000 00:00:00 GMT", 951_782_400),
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Fri, 01 Jan 1960 00:00:00 GMT", 0),
            ("Sun, 21 Nov 2286 04:46:39 GMT", u32::MAX),
            ("Fri, 31 Dec 9999 23:59:59 GMT", u32::MAX),
        ];
        for (text, time) in cases {
            assert_eq!(parse(text.as_bytes()), Some(time), "{text}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        let cases = [
            "",
            "0",
            "-1",
            "Thu, 18 Aug 2050 02:01:18 UTC",
            "Thu, 18 Aug 2050 02:01:18 AEST",
            "Thu, 18 Aug 50 02:01:18 GMT",
            "Thu 18 Aug 2050 02:01:18 GMT",
            "Thu, 18  Aug  2050 02:01:18 GMT",
            "Thu, 18-Aug-2050 02:01:18 GMT",
            "Thu, 18 Aug 2050 02.01.18 GMT",
            "Thu, 18 Aug 2050 2:01:18 GMT",
            "Thu, 18 Aug 2050 24:01:18 GMT",
            "Thu, 18 Aug 2050 02:60:18 GMT",
            "Thu, 18 Aug 2050 02:01:61 GMT",
            "Thu, 31 Jun 2050 02:01:18 GMT",
            "Thu, 29 Feb 2100 02:01:18 GMT",
            "Thu, 00 Aug 2050 02:01:18 GMT",
            "Thu, 18 Aux 2050 02:01:18 GMT",
            "Thx, 18 Aug 2050 02:01:18 GMT",
            "Thu, 18 Aug 2050 02:01:18 GMT, Thu, 18 Aug 2050 02:01:18 GMT",
            "Thu, 18-Aug-50 02:01:18 GMT",
            "Sun Nov 6 08:49:37 1994",
        ];
        for text in cases {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_formatted_date_parses_to_the_same_time(time: u32) {
            prop_assert_eq!(parse(&format(time)), Some(time));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            parse(&bytes);
        }

        #[test]
        fn damaged_dates_are_read_without_a_panic(time: u32, at in 0..29_usize, byte: u8) {
            let mut text = format(time);
            text[at] = byte;
            parse(&text);
        }
    }

    #[test]
    fn every_day_is_read_as_written() {
        for day in 0..=u32::MAX / 86_400 {
            let time = (day * 86_400).saturating_add(day % 86_400);
            assert_eq!(parse(&format(time)), Some(time), "day {day}");
        }
    }

    #[test]
    fn weekdays_are_right() {
        assert_eq!(&format(784_111_777), b"Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(&format(0), b"Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(&format(u32::MAX), b"Sun, 07 Feb 2106 06:28:15 GMT");
    }
}
