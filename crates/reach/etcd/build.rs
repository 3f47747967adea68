//! Turns `proto/etcd.proto` into Rust, with a compiler that is itself Rust: whoever builds
//! this needs no `protoc`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto/etcd.proto");
    let files = protox::compile(["proto/etcd.proto"], ["proto"])?;
    tonic_prost_build::configure()
        .build_server(false)
        .build_transport(false)
        .compile_fds(files)?;
    Ok(())
}
