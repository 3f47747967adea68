//! `homing dashboards`: the Grafana dashboards out of this program, with their reference lines
//! filled in.
//!
//! The files are part of the program, so that they fit the metrics of its version. As shipped
//! they draw no reference lines; a baseline gives them heights. Here files are read and
//! written; what is written is decided in [`lines`].

pub(crate) mod lines;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use self::lines::{Choice, Lines};
use crate::args::DashboardsArgs;
use crate::baseline_file;
use crate::print;

/// The dashboard that has reference lines, which is the one to open first.
pub(crate) const HOME: &str = "gtc-demo.json";
const DEMO: &str = include_str!("../../../dashboards/grafana/gtc-demo.json");
const ROUTER: &str = include_str!("../../../dashboards/grafana/homing-router.json");

pub(crate) fn run(args: &DashboardsArgs) -> anyhow::Result<()> {
    let lines = match &args.baseline {
        None => None,
        Some(path) => {
            let baseline = baseline_file::read(path)?;
            let choice = Choice {
                level: args.level,
                modes: [
                    args.baseline_mode.clone(),
                    args.single_mode.clone(),
                    args.double_mode.clone(),
                ],
            };
            let lines = Lines::choose(&baseline, &choice);
            Some(lines.with_context(|| format!("--baseline: {}", path.display()))?)
        }
    };
    for path in write(&args.output, lines.as_ref())? {
        print::line(format_args!("written: {}", path.display()));
    }
    match lines {
        Some(lines) => print::line(format_args!("{lines}")),
        None => print::line(format_args!("no reference lines: --baseline is not set")),
    }
    Ok(())
}

/// All dashboards by their files' names, with lines where there are any.
pub(crate) fn texts(lines: Option<&Lines>) -> anyhow::Result<[(&'static str, String); 2]> {
    let demo = match lines {
        Some(lines) => lines::fill(DEMO, lines)?,
        None => DEMO.to_owned(),
    };
    Ok([(HOME, demo), ("homing-router.json", ROUTER.to_owned())])
}

/// Writes all dashboards into a folder, which is made if it is not there.
pub(crate) fn write(folder: &Path, lines: Option<&Lines>) -> anyhow::Result<Vec<PathBuf>> {
    let cannot = |path: &Path| format!("cannot write {}", path.display());
    fs::create_dir_all(folder).with_context(|| cannot(folder))?;
    let mut written = Vec::new();
    for (name, text) in texts(lines)? {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| cannot(&path))?;
        written.push(path);
    }
    Ok(written)
}
