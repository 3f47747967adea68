//! The date, for templates that print it. UTC.

use std::time::SystemTime;

use jiff::Timestamp;
use jiff::fmt::strtime::{BrokenDownTime, Config};
use jiff::tz::TimeZone;

/// Formats `time` as Python's `strftime` does in the C locale. Directives that are not
/// known stay as they are.
pub fn strftime(format: &str, time: SystemTime) -> String {
    let time = Timestamp::try_from(time).unwrap_or_default();
    let time = BrokenDownTime::from(&time.to_zoned(TimeZone::UTC));
    let written = time.to_string_with_config(&Config::new().lenient(true), format);
    written.unwrap_or_else(|_| format.to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

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
        assert_eq!(strftime("%J 100%% %e%", UNIX_EPOCH), "%J 100%  1%");
    }
}
