//! What a wheel may look like, and what a broken one may not do.

use super::*;
use crate::testing::zip;

fn open(bytes: &[u8]) -> Result<(Archive, tempfile::TempDir), PullError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.whl");
    std::fs::write(&path, bytes).unwrap();
    Archive::open(&path).map(|archive| (archive, folder))
}

fn unpack(bytes: &[u8], name: &str) -> Result<Vec<u8>, PullError> {
    let (mut archive, _folder) = open(bytes)?;
    let mut all = Vec::new();
    archive.unpack(name, &mut |piece| {
        all.extend_from_slice(piece);
        Ok(())
    })?;
    Ok(all)
}

fn long() -> Vec<u8> {
    (0..700_000_u32).map(|at| (at / 7 % 251) as u8).collect()
}

#[test]
fn members_are_unpacked() {
    let long = long();
    for large in [false, true] {
        let file = zip(
            &[("a/long", &long), ("stored", b"as it is"), ("empty", b"")],
            large,
        );
        assert_eq!(unpack(&file, "a/long").unwrap(), long);
        assert_eq!(unpack(&file, "stored").unwrap(), b"as it is");
        assert_eq!(unpack(&file, "empty").unwrap(), b"");
        let (mut archive, _folder) = open(&file).unwrap();
        assert_eq!(archive.member_bytes("a/long").unwrap(), 700_000);
        let error = unpack(&file, "other").unwrap_err().to_string();
        assert!(error.ends_with("has no member other"), "{error}");
    }
}

#[test]
fn a_cut_file_is_refused() {
    for large in [false, true] {
        let file = zip(&[("one", b"some text"), ("two", b"more of it")], large);
        for length in 0..file.len() {
            assert!(open(&file[..length]).is_err(), "{length}");
        }
    }
}

/// Any damaged byte gives an error or the same text, and never a panic.
#[test]
fn a_damaged_file_does_no_harm() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.whl");
    let text = b"some text, some more text";
    for large in [false, true] {
        let file = zip(&[("one", text), ("two", text)], large);
        for at in 0..file.len() {
            for change in [1, 0x80] {
                let mut damaged = file.clone();
                damaged[at] ^= change;
                std::fs::write(&path, &damaged).unwrap();
                let Ok(mut archive) = Archive::open(&path) else {
                    continue;
                };
                for name in ["one", "two"] {
                    let mut found = Vec::new();
                    let unpacked = archive.unpack(name, &mut |piece| {
                        found.extend_from_slice(piece);
                        Ok(())
                    });
                    assert!(unpacked.is_err() || found == text, "byte {at}");
                }
            }
        }
    }
}

#[test]
fn a_sink_may_give_up() {
    let file = zip(&[("long", &long())], false);
    let (mut archive, _folder) = open(&file).unwrap();
    let error = archive.unpack("long", &mut |_| Err(PullError::Stopped));
    assert!(matches!(error, Err(PullError::Stopped)));
}
