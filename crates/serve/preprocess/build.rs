//! Packs o200k for the program to carry: the length of every token, one byte each, in the order
//! of the ids, then the bytes of all tokens.

use std::path::Path;
use std::{env, fs};

/// One more than the largest id of an ordinary token.
const TOKENS: u32 = 199_998;

#[expect(
    clippy::disallowed_methods,
    reason = "cargo names the folder for what is built only in the environment"
)]
fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let o200k = tiktoken_rs::o200k_base().expect("the crate carries the vocabulary");
    let tokens: Vec<Vec<u8>> = (0..TOKENS)
        .map(|id| o200k.decode_bytes(&[id]).expect("every id is a token"))
        .collect();
    let lengths = tokens
        .iter()
        .map(|bytes| u8::try_from(bytes.len()).expect("no token is longer than 128 bytes"));
    let packed: Vec<u8> = lengths.chain(tokens.iter().flatten().copied()).collect();
    let folder = env::var_os("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&folder).join("o200k.bin"), packed).expect("OUT_DIR can be written to");
}
