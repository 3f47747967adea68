//! The answer of Prometheus to an instant query, read.

use std::collections::BTreeMap;

use serde::Deserialize;

/// One series of an instant query.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    pub labels: BTreeMap<String, String>,
    pub value: f64,
}

/// Why there are no series.
#[derive(Debug, thiserror::Error)]
pub enum SeriesError {
    #[error("not an answer of Prometheus: {0}")]
    Answer(#[from] serde_json::Error),
    #[error("Prometheus error: {0}")]
    Prometheus(String),
}

/// As far as it matters here.
#[derive(Deserialize)]
#[serde(tag = "status", rename_all = "lowercase")]
enum Answer {
    Success { data: Data },
    Error { error: String },
}

#[derive(Deserialize)]
struct Data {
    result: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    metric: BTreeMap<String, String>,
    /// A time, and a number as text.
    value: (f64, String),
}

/// The series that have a number: a GPU that is away is reported as none.
pub fn parse_series(body: &[u8]) -> Result<Vec<Series>, SeriesError> {
    match serde_json::from_slice(body)? {
        Answer::Error { error } => Err(SeriesError::Prometheus(error)),
        Answer::Success { data } => {
            let series = data.result.into_iter().filter_map(|row| {
                let value = row.value.1.parse::<f64>().ok()?;
                value.is_finite().then_some(Series {
                    labels: row.metric,
                    value,
                })
            });
            Ok(series.collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_read() {
        let row = |value: &str| json!({ "metric": { "gpu": "0" }, "value": [1.5, value] });
        let answer = |rows: &[serde_json::Value]| {
            let data = json!({ "resultType": "vector", "result": rows });
            let answer = json!({ "status": "success", "data": data });
            parse_series(answer.to_string().as_bytes())
        };
        let series = Series {
            labels: [("gpu".to_owned(), "0".to_owned())].into(),
            value: 42.0,
        };
        assert_eq!(answer(&[row("42")]).unwrap(), [series]);
        assert_eq!(answer(&[row("NaN")]).unwrap(), []);
        let refused = br#"{ "status": "error", "errorType": "timeout", "error": "too slow" }"#;
        let refused = parse_series(refused).unwrap_err().to_string();
        assert_eq!(refused, "Prometheus error: too slow");
        let page = parse_series(b"<html>").unwrap_err().to_string();
        assert!(page.starts_with("not an answer of Prometheus"), "{page}");
    }
}
