//! Names: which are paths, which are models, and what is said of the others.

use std::fs;

use super::*;

fn models(folder: &Path) -> Models {
    let cache = folder.to_owned();
    Models::from_environment(&move |name| {
        (name == "HOMING_CACHE").then(|| cache.clone().into_os_string())
    })
    .unwrap()
}

#[test]
fn a_path_is_taken_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let models = models(folder.path());
    let path = folder.path().join("own.gguf");
    fs::write(&path, "").unwrap();
    for path in [path.as_path(), folder.path()] {
        let found = models.resolve(path.to_str().unwrap()).unwrap();
        assert_eq!((found.path.as_path(), found.origin), (path, Origin::Path));
    }
}

#[test]
fn what_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let models = models(folder.path());
    let said = |name: &str| models.resolve(name).unwrap_err().to_string();
    assert!(said("smollm2").contains("`homing model pull smollm2`"));
    assert!(said("some/model@v1").contains("`homing model pull some/model@v1`"));
    assert!(said("smollm3").contains("known are smollm2, qwen2.5-coder-0.5b"));
    assert!(said("./no/such.gguf").contains("nor a model of that name"));
    assert!(said("some/mod--el").contains("is not part of a repository name"));
    assert!(said("").contains("nor a model of that name"));
}

#[test]
fn a_catalogue_model_is_found_when_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let models = models(folder.path());
    let entry = catalog::find("smollm2").unwrap();
    let file = folder.path().join("models/smollm2").join(entry.file);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let whole = fs::File::create(&file).unwrap();
    whole.set_len(entry.bytes - 1).unwrap();
    assert!(models.resolve("smollm2").is_err());
    assert_eq!(models.list()[0].path, None);
    whole.set_len(entry.bytes).unwrap();
    assert_eq!(models.resolve("smollm2").unwrap().path, file);
    assert_eq!(models.list()[0].path, Some(file));
    assert_eq!(models.list().len(), CATALOG.len());
}

#[tokio::test]
async fn what_nobody_knows_is_not_pulled() {
    let folder = tempfile::tempdir().unwrap();
    let models = models(folder.path());
    let error = models.pull("smollm3", &mut |_| {}).await.unwrap_err();
    assert!(matches!(error, PullError::Unknown { .. }), "{error}");
    let error = models.pull("a/b@", &mut |_| {}).await.unwrap_err();
    assert!(matches!(error, PullError::BadName { .. }), "{error}");
}

#[test]
fn what_was_pulled_from_the_hub_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let models = models(folder.path());
    let record = Record {
        name: "some/model@v1".to_owned(),
        commit: "0123".to_owned(),
        licence: Some("mit".to_owned()),
        entry: None,
    };
    // The second is one that is not finished.
    for name in ["some--model@v1", "some--model@v1.partial"] {
        let folder = models.folder().join(name);
        fs::create_dir_all(&folder).unwrap();
        record.write(&folder).unwrap();
        fs::write(folder.join("model.safetensors"), [0; 5000]).unwrap();
    }
    let path = models.folder().join("some--model@v1");
    let found = models.resolve("some/model@v1").unwrap();
    assert_eq!((found.path, found.origin), (path.clone(), Origin::Hub));
    assert!(models.resolve("some/model").is_err());
    let listed = &models.list()[CATALOG.len()..];
    let [listed] = listed else {
        panic!("{listed:?}");
    };
    assert_eq!(listed.name, "some/model@v1");
    assert_eq!(listed.path, Some(path));
    assert!(listed.bytes > 5000);

    // A record that points out of its folder is none.
    let outside = Record {
        entry: Some("../other".to_owned()),
        ..record
    };
    outside
        .write(&models.folder().join("some--model@v1"))
        .unwrap();
    assert!(models.resolve("some/model@v1").is_err());
}
