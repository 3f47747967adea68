//! Parses levels, times and speeds as users write them.

use std::time::{Duration, TryFromFloatSecsError};

/// Why a text is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotationError {
    #[error("`{0}` is not a number of conversations")]
    Level(String),
    #[error("`{0}` has no step; write it as in 60..180:20")]
    NoStep(String),
    #[error("`{0}` is a reversed range")]
    Reversed(String),
    #[error("`{0}` is not one of ms, s, m, h")]
    Unit(String),
    #[error("`{0}` is not a time such as 90s")]
    Time(String),
    #[error(transparent)]
    Duration(#[from] TryFromFloatSecsError),
    #[error("expected a number above 0")]
    Speed,
}

/// Load levels in the order in which they were given. A type of its own, because clap takes
/// a plain vector for an option that may be repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Levels(pub Vec<u32>);

/// Single levels and ranges: `60,80`, `60..180:20`.
pub fn levels(text: &str) -> Result<Levels, NotationError> {
    let mut levels = Vec::new();
    for part in text.split(',') {
        let number = |text: &str| match text.trim().parse::<u32>() {
            Ok(number) if number > 0 => Ok(number),
            Ok(_) | Err(_) => Err(NotationError::Level(text.to_owned())),
        };
        let Some((first, rest)) = part.split_once("..") else {
            levels.push(number(part)?);
            continue;
        };
        let Some((last, step)) = rest.split_once(':') else {
            return Err(NotationError::NoStep(part.to_owned()));
        };
        let (first, last, step) = (number(first)?, number(last)?, number(step)?);
        if first > last {
            return Err(NotationError::Reversed(part.to_owned()));
        }
        levels.extend((first..=last).step_by(step as usize));
    }
    Ok(Levels(levels))
}

/// `90`, `90s`, `1.5m`, `250ms`, `2h`.
pub fn duration(text: &str) -> Result<Duration, NotationError> {
    let end = text
        .find(|character: char| character.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let seconds = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(NotationError::Unit(unit.to_owned())),
    };
    let number: f64 = number
        .trim()
        .parse()
        .map_err(|_| NotationError::Time(text.to_owned()))?;
    Ok(Duration::try_from_secs_f64(number * seconds)?)
}

/// A factor by which time runs faster.
pub fn speed(text: &str) -> Result<f64, NotationError> {
    match text.parse::<f64>() {
        Ok(speed) if speed.is_finite() && speed > 0.0 => Ok(speed),
        Ok(_) | Err(_) => Err(NotationError::Speed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_lists_and_ranges() {
        for (text, expected) in [
            ("60,180", vec![60, 180]),
            ("60..180:20", vec![60, 80, 100, 120, 140, 160, 180]),
            ("10..30:15,99", vec![10, 25, 99]),
        ] {
            assert_eq!(levels(text), Ok(Levels(expected)), "{text}");
        }
        for (text, part) in [
            ("", "not a number"),
            ("0", "not a number"),
            ("60..180", "no step"),
            ("80..60:10", "reversed"),
            ("60..180:0", "not a number"),
        ] {
            assert!(
                levels(text).unwrap_err().to_string().contains(part),
                "{text}"
            );
        }
    }

    #[test]
    fn times_have_units() {
        for (text, millis) in [
            ("60s", 60_000),
            ("90", 90_000),
            ("1.5m", 90_000),
            ("250ms", 250),
            ("2h", 7_200_000),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "5 days", "-3s", "1e400s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_replay_runs_forward() {
        assert_eq!(speed("2.0"), Ok(2.0));
        for text in ["0", "-1", "inf", "fast"] {
            assert!(speed(text).is_err(), "{text}");
        }
    }
}
