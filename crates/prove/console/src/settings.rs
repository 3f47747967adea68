//! Changing some settings of the load generator and keeping the others.
//!
//! Settings are checked by their own type; what is added here is the name of the field that
//! is to blame, so that a page can mark it.

use loadgen::Settings;
use loadgen::settings::SettingsError;
use serde_json::{Map, Value};

use crate::system::Refusal;

/// `current` with the fields of `change`, or why not.
pub(crate) fn merge(current: &Settings, change: Map<String, Value>) -> Result<Settings, Refusal> {
    let mut merged = current.clone();
    // One field at a time: whatever is wrong then is this field.
    for (field, value) in change {
        merged = with_field(&merged, &field, value).map_err(|error| Refusal {
            message: error.to_string(),
            field: Some(field),
        })?;
    }
    Ok(merged)
}

/// Why a field cannot have a value.
#[derive(Debug, thiserror::Error)]
enum FieldError {
    #[error("there is no setting `{0}`")]
    Unknown(String),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Value(#[from] serde_path_to_error::Error<serde_json::Error>),
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

fn with_field(current: &Settings, field: &str, value: Value) -> Result<Settings, FieldError> {
    let mut fields = serde_json::to_value(current)?;
    let Some(place) = fields.get_mut(field) else {
        return Err(FieldError::Unknown(field.to_owned()));
    };
    *place = value;
    let changed: Settings = serde_path_to_error::deserialize(fields)?;
    changed.check()?;
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn changed(change: Value) -> Result<Settings, Refusal> {
        let Value::Object(change) = change else {
            panic!("no object");
        };
        merge(&Settings::default(), change)
    }

    #[test]
    fn what_is_not_named_keeps_its_value() {
        let settings = changed(json!({
            "concurrency": 180,
            "turns": { "start": 2, "end": 2 },
            "max_requests_per_second": 4.5,
        }));
        let expected = Settings {
            concurrency: 180,
            turns: 2..=2,
            max_requests_per_second: Some(4.5),
            ..Settings::default()
        };
        assert_eq!(settings, Ok(expected.clone()));
        let back = json!({ "max_requests_per_second": null });
        let Value::Object(back) = back else {
            unreachable!()
        };
        let settings = merge(&expected, back).unwrap();
        assert_eq!(settings.max_requests_per_second, None);
        assert_eq!(settings.concurrency, 180);
    }

    #[test]
    fn the_field_to_blame_is_named() {
        for (change, field) in [
            (json!({ "max_tokens": 5, "concurrency": -1 }), "concurrency"),
            (json!({ "concurrency": 4_000_000 }), "concurrency"),
            (json!({ "concurrency": null }), "concurrency"),
            (json!({ "turns": { "start": 4, "end": 2 } }), "turns"),
            (json!({ "turns": { "start": 4 } }), "turns"),
            (json!({ "think_time_s": "long" }), "think_time_s"),
            (json!({ "arrivals_per_second": 0 }), "arrivals_per_second"),
            (json!({ "starts_per_second": -1 }), "starts_per_second"),
            (json!({ "concurency": 5 }), "concurency"),
        ] {
            let refusal = changed(change.clone()).unwrap_err();
            assert_eq!(refusal.field.as_deref(), Some(field), "{change}");
            assert!(!refusal.message.is_empty());
        }
    }
}
