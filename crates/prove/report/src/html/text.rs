//! Text of a page: escaped, and numbers by one rule.
//!
//! A figure has three digits that count: two after the point below 10, one below 100, none
//! above. Percentages have one after the point. What does not exist is a dash, never 0. Thousands
//! are set apart from ten thousand on.

/// Of a figure that does not exist.
pub(super) const MISSING: &str = "–";
const MINUS: char = '−';
/// Narrow, and no place to break a line.
const THOUSANDS: char = '\u{202f}';

/// For text between tags and within quoted attributes.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

pub(super) fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    fixed(value, digits)
}

pub(super) fn optional(value: Option<f64>) -> String {
    value.map_or(MISSING.to_owned(), number)
}

pub(super) fn percent(value: Option<f64>) -> String {
    value.map_or(MISSING.to_owned(), |value| fixed(value, 1))
}

/// A change in hundredths, with its sign.
pub(super) fn change(value: Option<f64>) -> String {
    let percent = |value: f64| format!("{} %", with_sign(value, fixed(value, 1)));
    value.map_or(MISSING.to_owned(), percent)
}

/// A change of what is a percentage itself.
pub(super) fn points(value: f64) -> String {
    format!("{} points", with_sign(value, fixed(value, 1)))
}

pub(super) fn signed(value: f64) -> String {
    with_sign(value, number(value))
}

/// What is rounded to 0 has none.
fn with_sign(value: f64, text: String) -> String {
    let is_zero = !text.contains(|character| matches!(character, '1'..='9'));
    match value > 0.0 && !is_zero {
        true => format!("+{text}"),
        false => text,
    }
}

pub(super) fn count(value: u64) -> String {
    grouped(&value.to_string())
}

/// As short as the number allows: for ticks, objectives and lengths.
pub(super) fn short(value: f64) -> String {
    let text = fixed(value, 3);
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

pub(super) fn fixed(value: f64, digits: usize) -> String {
    if !value.is_finite() {
        return MISSING.to_owned();
    }
    let text = format!("{:.digits$}", value.abs());
    let is_zero = text.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    let text = match text.split_once('.') {
        Some((whole, rest)) => format!("{}.{rest}", grouped(whole)),
        None => grouped(&text),
    };
    match value < 0.0 && !is_zero {
        true => format!("{MINUS}{text}"),
        false => text,
    }
}

fn grouped(digits: &str) -> String {
    if digits.len() < 5 {
        return digits.to_owned();
    }
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(THOUSANDS);
        }
        text.push(digit);
    }
    text
}

/// `60, 80 and 100`.
pub(super) fn list(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// A figure's display name, with its unit.
pub(super) fn label(figure: &str) -> String {
    let (name, unit) = label_and_unit(figure);
    match unit {
        "" => name,
        unit => format!("{name}, {unit}"),
    }
}

pub(super) fn label_and_unit(figure: &str) -> (String, &'static str) {
    let (family, share) = figure.rsplit_once("_p").unwrap_or((figure, ""));
    let (name, unit) = match family {
        "ttft_ms" => ("TTFT", "ms"),
        "tpot_ms" => ("TPOT", "ms"),
        "itl_ms" => ("ITL", "ms"),
        "e2e_s" => ("E2E", "s"),
        _ => match figure {
            "tops" => return ("Throughput".to_owned(), "tokens/s"),
            "rps" => return ("Answers".to_owned(), "requests/s"),
            "kv_hit_pct" => return ("Cache hits".to_owned(), "% of prompt tokens"),
            other => return (other.to_owned(), ""),
        },
    };
    (format!("{name} p{share}"), unit)
}
