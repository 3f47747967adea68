//! A file appears in its place whole, or not at all.

use super::*;

/// Of "abc", from the standard's own examples.
const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

#[test]
fn is_renamed_when_it_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("file");
    let mut partial = Partial::create(&place).unwrap();
    partial.write(b"ab").unwrap();
    drop(partial);
    assert!(!place.exists());

    let mut partial = Partial::resume(&place).unwrap();
    assert_eq!(partial.written(), 2);
    partial.write(b"c").unwrap();
    partial.finish(Some(3), Some(ABC)).unwrap();
    assert_eq!(fs::read(&place).unwrap(), b"abc");
    assert!(!partial_path(&place).exists());
}

#[test]
fn a_wrong_one_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("file");
    let mut partial = Partial::create(&place).unwrap();
    partial.write(b"abd").unwrap();
    let error = partial.finish(Some(3), Some(ABC)).unwrap_err();
    assert!(matches!(error, PullError::Checksum { .. }));
    assert!(error.to_string().contains(ABC), "{error}");

    let mut partial = Partial::create(&place).unwrap();
    partial.write(b"x").unwrap();
    partial.restart().unwrap();
    partial.write(b"ab").unwrap();
    let error = partial.finish(Some(3), None).unwrap_err();
    assert!(matches!(
        error,
        PullError::Size {
            wanted: 3,
            found: 2,
            ..
        }
    ));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}
