//! A moment as people write it. Everything else counts seconds.

/// Unix milliseconds as `2026-01-31T23:59:59Z`.
pub(crate) fn utc(unix_ms: u64) -> String {
    let seconds = unix_ms / 1000;
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Counts the days down, year by year and month by month.
fn date(mut days: u64) -> (u64, u64, u64) {
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let mut month = 1;
    while days >= month_length(year, month) {
        days -= month_length(year, month);
        month += 1;
    }
    (year, month, days + 1)
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400)
}

fn month_length(year: u64, month: u64) -> u64 {
    match month {
        2 => 28 + u64::from(is_leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_in_their_months() {
        for (unix_ms, expected) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399_999, "2000-02-28T23:59:59Z"),
            (951_782_400_000, "2000-02-29T00:00:00Z"),
            (1_709_251_199_000, "2024-02-29T23:59:59Z"),
            (1_767_225_599_000, "2025-12-31T23:59:59Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(utc(unix_ms), expected);
        }
    }
}
