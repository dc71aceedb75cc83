//! Dates and times of ISO 8601 text, in the one form that the Iceberg types need.
//!
//! Only what is fixed in width is read, so that a text has one meaning or none. Years are 0001 to
//! 9999 of the Gregorian calendar, carried on backwards; leap seconds and 24:00 are refused, since the
//! table's types have no value for them.

/// What is wrong with a text.
pub(crate) type Rule = &'static str;

pub(crate) const DATE_RULE: Rule = "a date is written YYYY-MM-DD";
const TIME_RULE: Rule = "a time is written hh:mm, hh:mm:ss or hh:mm:ss with a fraction";
const ZONE_RULE: Rule = "a zone is written Z, +hh:mm or +hhmm";
pub(crate) const NO_ZONE_RULE: Rule = "a column without zone does not take a time with one";
pub(crate) const NEEDS_ZONE_RULE: Rule = "a column with zone needs one (Z or +hh:mm) with each time";
pub(crate) const FRACTION_RULE: Rule = "digits of a second beyond the column's precision must be zeros";

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// A moment: seconds since the epoch and nanoseconds within the second.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Moment {
    seconds: i64,
    nanos: i64,
}

impl Moment {
    /// Microseconds since the epoch; `None`: there are nanoseconds besides.
    pub(crate) const fn micros(self) -> Option<i64> {
        if self.nanos % 1000 != 0 {
            return None;
        }
        // Ten thousand years of microseconds are far from the end of i64.
        Some(self.seconds * 1_000_000 + self.nanos / 1000)
    }

    /// Nanoseconds since the epoch; `None`: before 1677 or after 2262.
    pub(crate) fn nanos(self) -> Option<i64> {
        let nanos = i128::from(self.seconds) * i128::from(NANOS_PER_SECOND) + i128::from(self.nanos);
        i64::try_from(nanos).ok()
    }
}

/// Whether a column's times have a zone.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Zone {
    Without,
    With,
}

/// Days since the epoch.
pub(crate) fn date(text: &str) -> Result<i32, Rule> {
    let (days, rest) = split_date(text.as_bytes())?;
    if rest.is_empty() { Ok(days) } else { Err(DATE_RULE) }
}

/// Nanoseconds since midnight.
pub(crate) fn time(text: &str) -> Result<i64, Rule> {
    let (nanos, rest) = split_time(text.as_bytes())?;
    if rest.is_empty() { Ok(nanos) } else { Err(TIME_RULE) }
}

/// A date with a time, or a date alone for its midnight.
pub(crate) fn timestamp(text: &str, zone: Zone) -> Result<Moment, Rule> {
    let (days, rest) = split_date(text.as_bytes())?;
    let midnight = i64::from(days) * SECONDS_PER_DAY;
    let Some((separator, rest)) = rest.split_first() else {
        return Ok(Moment { seconds: midnight, nanos: 0 });
    };
    if !matches!(separator, b'T' | b' ') {
        return Err("T or a space stands between date and time");
    }
    let (nanos, rest) = split_time(rest)?;
    let offset = match zone {
        Zone::Without if rest.is_empty() => 0,
        Zone::Without => return Err(NO_ZONE_RULE),
        Zone::With => offset_seconds(rest)?,
    };
    let seconds = midnight + nanos / NANOS_PER_SECOND - offset;
    Ok(Moment { seconds, nanos: nanos % NANOS_PER_SECOND })
}

fn split_date(text: &[u8]) -> Result<(i32, &[u8]), Rule> {
    let ([y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2], rest) =
        text.split_first_chunk::<10>().ok_or(DATE_RULE)?
    else {
        return Err(DATE_RULE);
    };
    let year = two(*y1, *y2).zip(two(*y3, *y4)).map(|(century, year)| century * 100 + year);
    let (Some(year), Some(month), Some(day)) = (year, two(*m1, *m2), two(*d1, *d2)) else {
        return Err(DATE_RULE);
    };
    if year == 0 || !(1..=12).contains(&month) || day == 0 || day > month_length(year, month) {
        return Err("there is no such day");
    }
    Ok((days_since_epoch(year, month, day), rest))
}

fn split_time(text: &[u8]) -> Result<(i64, &[u8]), Rule> {
    let ([h1, h2, b':', m1, m2], rest) = text.split_first_chunk::<5>().ok_or(TIME_RULE)? else {
        return Err(TIME_RULE);
    };
    let (hour, minute) = two(*h1, *h2).zip(two(*m1, *m2)).ok_or(TIME_RULE)?;
    let (second, nanos, rest) = split_second(rest)?;
    if hour > 23 || minute > 59 || second > 59 {
        return Err("hours go to 23, minutes and seconds to 59");
    }
    let seconds = i64::from(hour * 3600 + minute * 60 + second);
    Ok((seconds * NANOS_PER_SECOND + nanos, rest))
}

/// `:ss` with or without a fraction, or nothing.
fn split_second(text: &[u8]) -> Result<(i32, i64, &[u8]), Rule> {
    let Some((b':', rest)) = text.split_first() else { return Ok((0, 0, text)) };
    let ([s1, s2], rest) = rest.split_first_chunk::<2>().ok_or(TIME_RULE)?;
    let second = two(*s1, *s2).ok_or(TIME_RULE)?;
    let Some((b'.', rest)) = rest.split_first() else { return Ok((second, 0, rest)) };
    let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = rest.split_at(length);
    if digits.is_empty() {
        return Err(TIME_RULE);
    }
    Ok((second, fraction(digits)?, rest))
}

fn fraction(digits: &[u8]) -> Result<i64, Rule> {
    let (kept, beyond) = digits.split_at(digits.len().min(9));
    if beyond.iter().any(|digit| *digit != b'0') {
        return Err(FRACTION_RULE);
    }
    let padded = kept.iter().chain(std::iter::repeat(&b'0')).take(9);
    Ok(padded.fold(0, |nanos, digit| nanos * 10 + i64::from(digit - b'0')))
}

fn offset_seconds(text: &[u8]) -> Result<i64, Rule> {
    let (sign, hours, minutes) = match text {
        [] => return Err(NEEDS_ZONE_RULE),
        [b'Z'] => return Ok(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] | [sign @ (b'+' | b'-'), h1, h2, m1, m2] => {
            (*sign, two(*h1, *h2), two(*m1, *m2))
        }
        _ => return Err(ZONE_RULE),
    };
    let (hours, minutes) = hours.zip(minutes).ok_or(ZONE_RULE)?;
    let seconds = i64::from(hours * 3600 + minutes * 60);
    if minutes > 59 || seconds > 18 * 3600 {
        return Err("a zone is at most 18 hours off");
    }
    Ok(if sign == b'-' { -seconds } else { seconds })
}

fn two(tens: u8, ones: u8) -> Option<i32> {
    let digit = |byte: u8| byte.is_ascii_digit().then(|| i32::from(byte - b'0'));
    Some(digit(tens)? * 10 + digit(ones)?)
}

const fn month_length(year: i32, month: i32) -> i32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Counts from 1 March of year 0, so that the leap day is a year's last.
const fn days_since_epoch(year: i32, month: i32, day: i32) -> i32 {
    const EPOCH: i32 = 719_468;
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - EPOCH
}

#[cfg(test)]
mod tests {
    use super::*;

    fn micros(text: &str, zone: Zone) -> Result<Option<i64>, Rule> {
        timestamp(text, zone).map(Moment::micros)
    }

    #[test]
    fn known_days() {
        assert_eq!(date("1970-01-01"), Ok(0));
        assert_eq!(date("1969-12-31"), Ok(-1));
        assert_eq!(date("2000-02-29"), Ok(11_016));
        assert_eq!(date("0001-01-01"), Ok(-719_162));
        assert_eq!(date("9999-12-31"), Ok(2_932_896));
        for text in [
            "2023-02-29",
            "1900-02-29",
            "2024-13-01",
            "2024-00-01",
            "2024-01-00",
            "0000-01-01",
            "2024-1-1",
            "20240101",
            "2024-01-01 ",
            "２０２４-01-01",
            "",
        ] {
            assert!(date(text).is_err(), "{text}");
        }
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut expected = -719_162;
        for year in 1..=9999 {
            for month in 1..=12 {
                for day in 1..=month_length(year, month) {
                    assert_eq!(days_since_epoch(year, month, day), expected);
                    expected += 1;
                }
            }
        }
    }

    #[test]
    fn timestamps_with_and_without_zone() {
        let noon = 1_704_196_800_000_000;
        for text in [
            "2024-01-02T12:00:00Z",
            "2024-01-02 12:00Z",
            "2024-01-02T17:30:00+05:30",
            "2024-01-02T04:00:00.000-0800",
        ] {
            assert_eq!(micros(text, Zone::With), Ok(Some(noon)), "{text}");
        }
        assert_eq!(micros("2024-01-02T12:00:00", Zone::Without), Ok(Some(noon)));
        assert_eq!(micros("2024-01-02", Zone::With), Ok(Some(noon - 43_200_000_000)));
        assert_eq!(micros("2024-01-02T12:00:00", Zone::With), Err(NEEDS_ZONE_RULE));
        assert_eq!(micros("2024-01-02T12:00:00Z", Zone::Without), Err(NO_ZONE_RULE));
        for text in [
            "2024-01-02T12:00:60Z",
            "2024-01-02T24:00:00Z",
            "2024-01-02t12:00:00Z",
            "2024-01-02T12Z",
            "2024-01-02T12:00:00+5",
            "2024-01-02T12:00:00+19:00",
            "2024-01-02T12:00:00.Z",
            "2024-01-02Z",
            "1704196800",
        ] {
            assert!(micros(text, Zone::With).is_err(), "{text}");
        }
    }

    #[test]
    fn digits_beyond_the_precision_must_be_zeros() {
        assert_eq!(micros("1970-01-01T00:00:00.123456000000", Zone::Without), Ok(Some(123_456)));
        assert_eq!(micros("1970-01-01T00:00:00.1234567", Zone::Without), Ok(None));
        assert_eq!(timestamp("1970-01-01T00:00:00.0000000001", Zone::Without), Err(FRACTION_RULE));
        let moment = timestamp("1969-12-31T23:59:59.999999999Z", Zone::With).expect("a moment");
        assert_eq!(moment.nanos(), Some(-1));
        assert_eq!(timestamp("2300-01-01", Zone::With).map(Moment::nanos), Ok(None));
        assert_eq!(micros("1969-12-31T23:59:59.999999Z", Zone::With), Ok(Some(-1)));
        assert_eq!(time("23:59:59.5"), Ok(86_399_500_000_000));
    }
}
