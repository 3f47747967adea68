//! Programs that are not Rust's and that some steps need.
//!
//! Missing ones are installed when that is possible without asking anybody (root, with
//! apt), and named when it is not.

use std::process::Command;

use anyhow::{Context, bail};

use super::{answers, execute};

/// What the UI's tools need: Node 20.19 or later.
const NEW_ENOUGH: &str = "const [major, minor] = process.versions.node.split('.').map(Number);
    process.exit(major > 20 || (major === 20 && minor >= 19) ? 0 : 1)";

#[derive(Clone, Copy, Debug)]
pub(super) enum Tool {
    Prometheus,
    Python,
    Node,
    Chromium,
    Etcd,
    Nats,
    Iproute,
}

impl Tool {
    fn is_present(self) -> bool {
        match self {
            Self::Prometheus => ["prometheus", "promtool"]
                .iter()
                .all(|program| answers(program, &["--version"])),
            // Debian splits off the part that fills a new environment with pip.
            Self::Python => answers("python3", &["-c", "import venv, ensurepip"]),
            Self::Node => answers("node", &["-e", NEW_ENOUGH]) && answers("npm", &["--version"]),
            Self::Chromium => answers("chromium-headless-shell", &["--version"]),
            Self::Etcd => answers("etcd", &["--version"]),
            Self::Nats => answers("nats-server", &["--version"]),
            Self::Iproute => answers("ip", &["-Version"]) && answers("unshare", &["--version"]),
        }
    }

    fn debian_packages(self) -> &'static [&'static str] {
        match self {
            Self::Prometheus => &["prometheus"],
            Self::Python => &["python3", "python3-venv"],
            Self::Node => &["nodejs", "npm"],
            Self::Chromium => &["chromium-headless-shell"],
            Self::Etcd => &["etcd-server"],
            Self::Nats => &["nats-server"],
            Self::Iproute => &["iproute2", "util-linux"],
        }
    }
}

pub(super) fn ensure(tool: Tool) -> anyhow::Result<()> {
    if tool.is_present() {
        return Ok(());
    }
    let packages = tool.debian_packages();
    let wanted = packages.join(" ");
    if !(is_root() && answers("apt-get", &["--version"])) {
        bail!("{tool:?} is missing; install what Debian calls `{wanted}`");
    }
    println!("==> {tool:?} is missing: installing {wanted}");
    execute(Command::new("apt-get").args(["update", "--quiet"]))?;
    execute(
        Command::new("apt-get")
            .args(["install", "--quiet", "--yes", "--no-install-recommends"])
            .args(packages)
            .env("DEBIAN_FRONTEND", "noninteractive"),
    )
    .with_context(|| format!("could not install `{wanted}`"))?;
    if !tool.is_present() {
        bail!("{tool:?} is still missing after installing `{wanted}`");
    }
    Ok(())
}

pub(super) fn is_root() -> bool {
    Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| output.stdout == b"0\n")
}
