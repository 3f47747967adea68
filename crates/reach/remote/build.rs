//! Turns `proto/homing.proto` into Rust. The compiler is a Rust library, so building needs no
//! `protoc` on the machine.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto/homing.proto");
    let files = protox::compile(["proto/homing.proto"], ["proto"])?;
    tonic_prost_build::configure()
        .bytes(".homing.v1.Packet")
        .compile_fds(files)?;
    Ok(())
}
