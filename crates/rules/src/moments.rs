//! Times of day and dates at which a rule holds.

use jiff::Timestamp;
use jiff::civil::{DateTime, Time};
use jiff::tz::{Offset, TimeZone};

/// Times of day and dates, in a time zone. Without any, all moments are among them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moments {
    /// Parts of each day; if there are some, the time of day is in one of them.
    hours: Vec<Hours>,
    /// Days of the week, a bit each from Sunday on; if there are some, the day is one of them.
    weekdays: u8,
    /// The first second, in local time.
    from: Option<i64>,
    /// The first second that is too late, in local time.
    until: Option<i64>,
    /// The time zone; `None`: UTC.
    zone: Option<TimeZone>,
}

/// A part of each day, in seconds since midnight. It may go past midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hours {
    start: i64,
    end: i64,
}

const DAY: i64 = 86_400;
/// The days of the week. The first second of UNIX time is on a Thursday.
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const FIRST_DAY: i64 = 4;

impl Moments {
    /// Whether all moments are among them.
    pub fn are_all(&self) -> bool {
        self.hours.is_empty() && self.weekdays == 0 && self.from.is_none() && self.until.is_none()
    }

    /// Adds a part of each day, such as `22:00-06:00`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn add_hours(&mut self, text: &str) -> Result<(), String> {
        let wrong = || format!("'{}' is no part of a day such as \"22:00-06:00\"", text.escape_debug());
        let (start, end) = text.split_once('-').ok_or_else(wrong)?;
        let (start, end) = (second_of_day(start), second_of_day(end));
        let (start, end) = start.zip(end).filter(|(start, end)| start != end).ok_or_else(wrong)?;
        self.hours.push(Hours { start, end });
        Ok(())
    }

    /// Adds a day of the week, such as `sat`, or several, such as `mon-fri`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn add_weekdays(&mut self, text: &str) -> Result<(), String> {
        let day = |text: &str| WEEKDAYS.iter().position(|own| text.trim().eq_ignore_ascii_case(own));
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (first, last) = day(first).zip(day(last)).ok_or_else(|| {
            format!(
                "'{}' is no day such as \"sat\" or \"mon-fri\"; known: {}",
                text.escape_debug(),
                WEEKDAYS.join(" ")
            )
        })?;
        let count = (last + 7 - first) % 7 + 1;
        self.weekdays |= (first..first + count).fold(0, |days, day| days | 1 << (day % 7));
        Ok(())
    }

    /// Sets the beginning, such as `2026-12-24` or `2026-12-24T18:00`.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn set_from(&mut self, text: &str) -> Result<(), String> {
        self.from = Some(local_second(text)?);
        Ok(())
    }

    /// Sets the end, from which on moments are too late.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn set_until(&mut self, text: &str) -> Result<(), String> {
        self.until = Some(local_second(text)?);
        Ok(())
    }

    /// Sets the time zone: `UTC`, a name such as `Europe/Berlin`, or an offset such as `+02:00`.
    ///
    /// # Errors
    /// The machine does not know the zone.
    pub fn set_zone(&mut self, text: &str) -> Result<(), String> {
        let zone = offset(text).or_else(|| TimeZone::get(text).ok());
        let unknown = || {
            format!(
                "'{}' is no time zone that this machine knows, such as \"Europe/Berlin\" or \"+02:00\"",
                text.escape_debug()
            )
        };
        self.zone = Some(zone.ok_or_else(unknown)?);
        Ok(())
    }

    /// Whether `now`, in UNIX seconds, is one of them.
    pub fn contain(&self, now: u32) -> bool {
        let local = self.local(now);
        let of_day = local.rem_euclid(DAY);
        let is_within = |hours: &Hours| match hours.start < hours.end {
            true => (hours.start..hours.end).contains(&of_day),
            false => of_day >= hours.start || of_day < hours.end,
        };
        self.from.is_none_or(|from| local >= from)
            && self.until.is_none_or(|until| local < until)
            && (self.weekdays == 0
                || self.weekdays >> (local.div_euclid(DAY) + FIRST_DAY).rem_euclid(7) & 1 == 1)
            && (self.hours.is_empty() || self.hours.iter().any(is_within))
    }

    /// Whether no moment is one of them.
    pub fn are_none(&self) -> bool {
        self.from.zip(self.until).is_some_and(|(from, until)| from >= until)
    }

    /// Whether all of them are before `now`, in UNIX seconds.
    pub fn are_over(&self, now: u32) -> bool {
        self.until.is_some_and(|until| self.local(now) >= until)
    }

    /// Returns the local time in seconds, as if it were in UTC.
    fn local(&self, now: u32) -> i64 {
        let offset = self.zone.as_ref().and_then(|zone| {
            let now = Timestamp::from_second(now.into()).ok()?;
            Some(zone.to_offset(now).seconds())
        });
        i64::from(now) + i64::from(offset.unwrap_or(0))
    }
}

/// Returns the time zone of a fixed offset such as `+02:00`.
fn offset(text: &str) -> Option<TimeZone> {
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let seconds = i32::try_from(second_of_day(text.strip_prefix(['+', '-'])?)?).ok()?;
    Offset::from_seconds(sign * seconds).ok().map(TimeZone::fixed)
}

/// Returns the seconds between midnight and `HH:MM`.
fn second_of_day(text: &str) -> Option<i64> {
    let is_number =
        |text: &str| (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    let (hour, minute) = text.split_once(':')?;
    if !is_number(hour) || !is_number(minute) || minute.len() != 2 {
        return None;
    }
    if (hour, minute) == ("24", "00") {
        return Some(DAY);
    }
    let time = Time::new(hour.parse().ok()?, minute.parse().ok()?, 0, 0).ok()?;
    Some(i64::from(time.hour()) * 3_600 + i64::from(time.minute()) * 60)
}

fn local_second(text: &str) -> Result<i64, String> {
    let shown = text.escape_debug();
    if text.contains(['Z', 'z', '+', '[']) {
        return Err(format!("'{shown}': write the time zone in match.zone"));
    }
    let date: Option<DateTime> = text.replace(' ', "T").parse().ok();
    let second = date.and_then(|date| Some(TimeZone::UTC.to_timestamp(date).ok()?.as_second()));
    second.ok_or_else(|| format!("'{shown}' is no date such as \"2026-12-24\" or \"2026-12-24T18:00\""))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(text: &str) -> u32 {
        text.parse::<Timestamp>().unwrap().as_second().try_into().unwrap()
    }

    fn moments(hours: &[&str], dates: [&str; 2], zone: &str) -> Moments {
        let mut moments = Moments::default();
        hours.iter().for_each(|hours| moments.add_hours(hours).unwrap());
        let [from, until] = dates;
        if !from.is_empty() {
            moments.set_from(from).unwrap();
        }
        if !until.is_empty() {
            moments.set_until(until).unwrap();
        }
        moments.set_zone(zone).unwrap();
        moments
    }

    #[test]
    fn a_night_goes_past_midnight() {
        for (hours, zone, now, expected) in [
            ("22:00-06:00", "UTC", "2026-01-01T21:59:59Z", false),
            ("22:00-06:00", "UTC", "2026-01-01T22:00:00Z", true),
            ("22:00-06:00", "UTC", "2026-01-01T05:59:59Z", true),
            ("22:00-06:00", "UTC", "2026-01-01T06:00:00Z", false),
            ("00:00-24:00", "UTC", "2026-01-01T23:59:59Z", true),
            ("09:00-17:00", "+02:00", "2026-01-01T07:00:00Z", true),
            ("09:00-17:00", "-05:00", "2026-01-01T07:00:00Z", false),
        ] {
            assert_eq!(moments(&[hours], ["", ""], zone).contain(at(now)), expected, "{hours} {zone} {now}");
        }
    }

    #[test]
    fn dates_begin_and_end_at_midnight_of_their_zone() {
        let christmas = moments(&[], ["2026-12-24T18:00", "2026-12-27"], "+01:00");
        for (now, expected, over) in [
            ("2026-12-24T16:59:59Z", false, false),
            ("2026-12-24T17:00:00Z", true, false),
            ("2026-12-26T22:59:59Z", true, false),
            ("2026-12-26T23:00:00Z", false, true),
        ] {
            assert_eq!((christmas.contain(at(now)), christmas.are_over(at(now))), (expected, over), "{now}");
        }
        assert!(moments(&[], ["2026-12-27", "2026-12-24"], "UTC").are_none());
        assert!(Moments::default().are_all() && Moments::default().contain(0));
    }

    #[test]
    fn weekdays_begin_at_midnight_of_their_zone() {
        for (days, zone, now, expected) in [
            ("mon-fri", "UTC", "2026-01-02T23:59:59Z", true),
            ("mon-fri", "UTC", "2026-01-03T00:00:00Z", false),
            ("Sat", "+02:00", "2026-01-02T22:00:00Z", true),
            ("sat-mon", "UTC", "2026-01-05T12:00:00Z", true),
            ("sat-mon", "UTC", "2026-01-06T00:00:00Z", false),
            ("sun", "UTC", "1970-01-04T00:00:00Z", true),
        ] {
            let mut moments = moments(&[], ["", ""], zone);
            moments.add_weekdays(days).unwrap();
            assert_eq!(moments.contain(at(now)), expected, "{days} {zone} {now}");
        }
    }

    #[test]
    fn texts_without_a_meaning_are_refused() {
        let mut moments = Moments::default();
        for days in ["m", "mon-", "mon-fri-sun", "8", ""] {
            assert!(moments.add_weekdays(days).is_err(), "{days}");
        }
        for hours in ["22-6", "22:00", "22:00-22:00", "24:01-25:00", "a:00-b:00", "1:0-2:0", ""] {
            assert!(moments.add_hours(hours).is_err(), "{hours}");
        }
        for date in ["2026", "24.12.2026", "2026-13-01", "2026-12-24T00:00Z", "2026-12-24T00:00+01:00", ""] {
            assert!(moments.set_from(date).is_err(), "{date}");
        }
        for zone in ["Mars/Olympus", "", "+1"] {
            assert!(moments.set_zone(zone).is_err(), "{zone}");
        }
    }

    proptest! {
        /// Any text is read or refused, and any moment is compared.
        #[test]
        fn any_text_is_read_without_a_panic(text in ".{0,30}", now in any::<u32>()) {
            let mut moments = Moments::default();
            let _ = (moments.add_weekdays(&text), moments.add_hours(&text), moments.set_from(&text), moments.set_until(&text));
            moments.contain(now);
        }
    }
}
