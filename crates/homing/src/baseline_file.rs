//! Reads a baseline that a sweep wrote.

use std::path::Path;

use anyhow::Context as _;
use loadgen::baseline::Baseline;

pub(crate) fn read(path: &Path) -> anyhow::Result<Baseline> {
    let name = path.display();
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("--baseline: cannot read {name}"))?;
    let baseline = Baseline::parse(&text).with_context(|| format!("--baseline: {name}"))?;
    Ok(Baseline {
        source: format!("{} ({})", name, baseline.source),
        ..baseline
    })
}
