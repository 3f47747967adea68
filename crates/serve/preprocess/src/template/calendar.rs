//! The date, for templates that print it. UTC, and only what templates use of `strftime`.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS_PER_DAY: u64 = 86_400;
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// The first of January 1970 was a Thursday.
const WEEKDAYS: [&str; 7] = [
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
];

/// Formats `time` as Python's `strftime` does in the C locale. Directives that are not
/// known stay as they are.
pub fn strftime(format: &str, time: SystemTime) -> String {
    let seconds = time
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / SECONDS_PER_DAY, seconds % SECONDS_PER_DAY);
    let (year, month, day) = civil_date(days);
    let month_name = MONTHS[month as usize - 1];
    let weekday = WEEKDAYS[(days % 7) as usize];
    let mut text = String::new();
    let mut rest = format.chars();
    while let Some(character) = rest.next() {
        if character != '%' {
            text.push(character);
            continue;
        }
        let written = match rest.next() {
            Some('Y') => write!(text, "{year}"),
            Some('y') => write!(text, "{:02}", year % 100),
            Some('m') => write!(text, "{month:02}"),
            Some('B') => write!(text, "{month_name}"),
            Some('b' | 'h') => write!(text, "{}", &month_name[..3]),
            Some('d') => write!(text, "{day:02}"),
            Some('e') => write!(text, "{day:2}"),
            Some('A') => write!(text, "{weekday}"),
            Some('a') => write!(text, "{}", &weekday[..3]),
            Some('H') => write!(text, "{:02}", second / 3600),
            Some('M') => write!(text, "{:02}", second / 60 % 60),
            Some('S') => write!(text, "{:02}", second % 60),
            Some('F') => write!(text, "{year}-{month:02}-{day:02}"),
            Some('%') => write!(text, "%"),
            Some(other) => write!(text, "%{other}"),
            None => write!(text, "%"),
        };
        written.expect("a string takes everything");
    }
    text
}

/// Year, month and day of a day since 1970, by whole years and months from there: some
/// sixty steps today, next to rendering a template.
fn civil_date(days: u64) -> (u64, u64, u64) {
    // Whole cycles of 400 years (146,097 days) first, so that the loop stays short.
    let (mut year, mut left) = (1970 + days / 146_097 * 400, days % 146_097);
    while left >= days_of_year(year) {
        left -= days_of_year(year);
        year += 1;
    }
    let mut month = 1;
    while left >= days_of_month(year, month) {
        left -= days_of_month(year, month);
        month += 1;
    }
    (year, month, left + 1)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400)
}

fn days_of_year(year: u64) -> u64 {
    365 + u64::from(is_leap(year))
}

fn days_of_month(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_those_of_python() {
        for (seconds, expected) in [
            (0, "Thu Thursday 01 Jan January 70 1970-01-01 00:00:00"),
            (
                951_782_400,
                "Tue Tuesday 29 Feb February 00 2000-02-29 00:00:00",
            ),
            (
                1_721_952_000,
                "Fri Friday 26 Jul July 24 2024-07-26 00:00:00",
            ),
            (
                1_735_689_599,
                "Tue Tuesday 31 Dec December 24 2024-12-31 23:59:59",
            ),
            (
                4_107_542_400,
                "Mon Monday 01 Mar March 00 2100-03-01 00:00:00",
            ),
            (
                13_601_088_000,
                "Mon Monday 01 Jan January 01 2401-01-01 00:00:00",
            ),
        ] {
            let time = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(strftime("%a %A %d %b %B %y %F %H:%M:%S", time), expected);
        }
    }

    #[test]
    fn unknown_directives_stay() {
        assert_eq!(strftime("%Q 100%% %e%", UNIX_EPOCH), "%Q 100%  1%");
    }
}
