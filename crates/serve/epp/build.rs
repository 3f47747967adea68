//! Turns `proto/` into Rust. The compiler is a Rust library, so building needs no `protoc` on the
//! machine.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = ["proto/ext_proc.proto", "proto/health.proto"];
    tonic_prost_build::configure()
        .bytes(".envoy.service.ext_proc.v3")
        .compile_fds(protox::compile(files, ["proto"])?)?;
    Ok(())
}
