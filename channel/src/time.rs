//! Times, to the second, as RFC 3339 in UTC.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// Seconds since 1970-01-01T00:00:00Z; written `2026-12-06T04:41:53Z`, and read in exactly that form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

/// The last second that four digits of a year can say.
const LAST: u64 = 253_402_300_799;
const DAY: u64 = 86_400;

impl Time {
    /// So much later.
    pub fn after(self, seconds: u64) -> Self {
        Self(self.0.saturating_add(seconds).min(LAST))
    }

    /// Seconds from `earlier` to here; none if it is later.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A text that is not a time in the one form we read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a time like 2026-12-06T04:41:53Z")]
pub struct NotATime;

/// Year, month and day of a count of days since 1970, by the proleptic Gregorian calendar.
///
/// Years begin in March here, so that a leap day is the last of its year: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms".
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

/// The count of days since 1970 of a date from 1970 on.
fn days(year: u64, month: u64, day: u64) -> Option<u64> {
    let year = year - u64::from(month <= 2);
    let (era, year_of_era) = (year / 400, year % 400);
    let day_of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * 146_097 + day_of_era).checked_sub(719_468)
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.min(LAST);
        let ((year, month, day), rest) = (date(seconds / DAY), seconds % DAY);
        let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

impl FromStr for Time {
    type Err = NotATime;

    fn from_str(text: &str) -> Result<Self, NotATime> {
        let number = |range: std::ops::Range<usize>| {
            let digits = text.get(range).filter(|digits| digits.bytes().all(|digit| digit.is_ascii_digit()));
            digits.and_then(|digits| digits.parse::<u64>().ok()).ok_or(NotATime)
        };
        let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
        let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
        if year < 1970 || !(1..=12).contains(&month) || day == 0 {
            return Err(NotATime);
        }
        let time = Self(days(year, month, day).ok_or(NotATime)? * DAY + hour * 3600 + minute * 60 + second);
        // A 30th of February, a 25th hour, a missing letter: written again it would read otherwise.
        if format!("{time}") == text { Ok(time) } else { Err(NotATime) }
    }
}

impl Serialize for Time {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times() {
        let known = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_796_532_113, "2026-12-06T04:41:53Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (LAST, "9999-12-31T23:59:59Z"),
        ];
        for (seconds, text) in known {
            assert_eq!(Time(seconds).to_string(), text);
            assert_eq!(text.parse(), Ok(Time(seconds)));
        }
    }

    #[test]
    fn every_day_reads_as_it_was_written() {
        for day in 0..200_000 {
            let time = Time(day * DAY + 12_345);
            assert_eq!(time.to_string().parse(), Ok(time));
        }
    }

    #[test]
    fn other_forms_are_refused() {
        for text in [
            "",
            "2026-12-06",
            "2026-12-06T04:41:53",
            "2026-12-06T04:41:53+00:00",
            "2026-12-06T04:41:53.5Z",
            "2026-02-30T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T23:60:00Z",
            "2026-01-01T23:59:60Z",
            "1969-12-31T23:59:59Z",
            "+026-01-01T00:00:00Z",
            "2026-12-06t04:41:53z",
            "２０２６-12-06T04:41:53Z",
        ] {
            assert_eq!(text.parse::<Time>(), Err(NotATime), "{text}");
        }
    }
}
