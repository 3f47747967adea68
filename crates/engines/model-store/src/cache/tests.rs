//! Which folder is meant, and that only one pull at a time may use it.

use super::*;

fn models(variables: &[(&str, &str)]) -> Option<PathBuf> {
    let lookup = |name: &str| {
        let found = variables.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| OsString::from(value))
    };
    let cache = Cache::from_environment(&lookup).ok()?;
    Some(cache.models().to_owned())
}

#[test]
fn the_strongest_variable_names_the_folder() {
    let home = ("HOME", "/home/ann");
    let shared = ("XDG_CACHE_HOME", "/caches");
    let own = ("HOMING_CACHE", "/big");
    assert_eq!(models(&[home, shared, own]), Some("/big/models".into()));
    assert_eq!(
        models(&[home, shared]),
        Some("/caches/homing/models".into())
    );
    let expected = if cfg!(target_os = "macos") {
        "/home/ann/Library/Caches/homing/models"
    } else {
        "/home/ann/.cache/homing/models"
    };
    assert_eq!(models(&[home]), Some(expected.into()));
    assert_eq!(
        models(&[home, ("HOMING_CACHE", ""), ("XDG_CACHE_HOME", "relative")]),
        Some(expected.into())
    );
    assert_eq!(models(&[]), None);
}

#[test]
fn a_second_pull_is_kept_out() {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache {
        models: folder.path().join("models"),
    };
    let first = cache.lock("one").unwrap();
    assert!(matches!(cache.lock("one"), Err(PullError::Busy { .. })));
    cache.lock("two").unwrap();
    drop(first);
    cache.lock("one").unwrap();
}

#[test]
fn an_error_names_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let cache = Cache {
        models: file.join("models"),
    };
    let error = cache.lock("one").unwrap_err().to_string();
    assert!(error.contains("file/models"), "{error}");
}
