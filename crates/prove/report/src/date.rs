//! A moment as people write it. Everything else counts seconds.

use jiff::Timestamp;

/// Unix milliseconds as `2026-01-31T23:59:59Z`.
pub fn utc(unix_ms: u64) -> String {
    let seconds = i64::try_from(unix_ms / 1000).unwrap_or(i64::MAX);
    // A date beyond the last that can be written is that one.
    let moment = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
    moment.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
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
