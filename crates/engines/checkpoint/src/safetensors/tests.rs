//! Headers of safetensors, good and bad.

use super::*;
use crate::tests::build::{safetensors, tensors, with_header};

fn refused(header: &str, data: &[u8]) -> String {
    let said = SafeTensors::parse("m", with_header(header, data)).expect_err(header);
    said.to_string()
}

#[test]
fn tensors_of_any_type_are_read() {
    let header = r#"{"__metadata__":{"format":"pt"},
        "d2t":{"dtype":"I64","shape":[2],"data_offsets":[3,19]},
        "t2d":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]},
        "none":{"dtype":"F16","shape":[0,7],"data_offsets":[19,19]},
        "one":{"dtype":"BF16","shape":[],"data_offsets":[19,21]}}   "#;
    let data: Vec<u8> = (0..21).collect();
    let file = SafeTensors::parse("m", with_header(header, &data)).unwrap();
    let names: Vec<_> = file.tensors().map(|(name, _)| name).collect();
    assert_eq!(names, ["d2t", "none", "one", "t2d"]);
    let mut bytes = vec![9];
    let tensor = file.read("d2t", &mut bytes).unwrap();
    assert_eq!((tensor.dtype, &*tensor.shape), (Dtype::I64, &[2][..]));
    assert_eq!(bytes, data[3..19]);
    file.read("t2d", &mut bytes).unwrap();
    assert_eq!(bytes, data[..3]);
    file.read("none", &mut bytes).unwrap();
    assert!(bytes.is_empty());
    assert!(file.read("other", &mut bytes).is_err());
    assert!(file.tensor("d2t").unwrap().info().is_err());
    assert!(file.tensor("one").unwrap().info().is_err());
    let matrix = file.tensor("none").unwrap().info().unwrap();
    assert_eq!(
        (matrix.format, matrix.rows, matrix.columns),
        (Format::F16, 0, 7)
    );
}

#[test]
fn places_that_make_no_sense_are_refused() {
    let one = |dtype: &str, shape: &str, from: u64, to: u64| {
        format!(r#"{{"t":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{from},{to}]}}}}"#)
    };
    assert!(SafeTensors::parse("m", with_header(&one("F32", "[2]", 0, 8), &[0; 8])).is_ok());
    for (header, said) in [
        (
            one("F32", "[2]", 0, 4),
            "tensor t of F32 and shape [2] cannot lie",
        ),
        (one("F32", "[2]", 8, 0), "cannot lie"),
        (one("F32", "[18446744073709551615,2]", 0, 8), "cannot lie"),
        (one("F32", "[2]", u64::MAX - 8, u64::MAX), "cannot lie"),
        (one("F32", "[1]", 4, 8), "tensor t begins at"),
        (one("F32", "[1]", 0, 4), "its tensors end at"),
        (one("F32", "[4]", 0, 16), "its tensors end at"),
        (one("F4", "[4]", 0, 2), "tensor t: unknown variant `F4`"),
        (one("F32", "[-1]", 0, 8), "tensor t: "),
        ("{}".to_owned(), "its tensors end at"),
        ("[]".to_owned(), "its header"),
        ("{\"t\":".to_owned(), "its header"),
        (r#"{"__metadata__":{"a":1}}"#.to_owned(), "its header"),
    ] {
        let found = refused(&header, &[0; 8]);
        assert!(found.contains(said), "{found}");
    }
    let entry = r#""t":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}"#;
    let twice = format!("{{{entry},{entry}}}");
    assert!(refused(&twice, &[0; 4]).contains("tensor t appears twice"));
    let overlap = format!(r#"{{{entry},"u":{{"dtype":"U8","shape":[2],"data_offsets":[3,5]}}}}"#);
    assert!(refused(&overlap, &[0; 5]).contains("tensor u begins at"));
}

#[test]
fn a_header_is_not_longer_than_its_file() {
    for bytes in [
        vec![],
        vec![0; 7],
        vec![255; 8],
        vec![9, 0, 0, 0, 0, 0, 0, 0, b'{', b'}'],
    ] {
        let said = SafeTensors::parse("m", bytes)
            .expect_err("too short")
            .to_string();
        assert!(said.contains("not a safetensors file"), "{said}");
    }
    let mut bytes = safetensors(&tensors(true, true));
    SafeTensors::parse("m", bytes.clone()).unwrap();
    bytes.pop();
    assert!(SafeTensors::parse("m", bytes).is_err());
}
