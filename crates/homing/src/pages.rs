//! The web console's pages, as the build script left them, and the dashboards that one of them
//! draws.

use ::console::{Asset, Assets, Dashboard};
use anyhow::Context as _;
use rust_embed::RustEmbed;

use crate::dashboards::lines::Lines;

#[derive(RustEmbed)]
#[folder = "$OUT_DIR/ui"]
struct Built;

/// All files, or none if they could not be built.
pub(crate) fn built() -> Assets {
    let names = Built::iter();
    let files = names.filter_map(|name| {
        let file = Built::get(&name)?;
        Some(Asset {
            name: name.into_owned(),
            content: file.data,
            sha256: file.metadata.sha256_hash(),
        })
    });
    Assets::new(files)
}

/// The dashboards that Grafana is given, for a page to draw.
pub(crate) fn dashboards(lines: Option<&Lines>) -> anyhow::Result<Vec<Dashboard>> {
    let texts = crate::dashboards::texts(lines)?;
    let parsed = texts.map(|(name, text)| Dashboard::parse(text).context(name));
    parsed.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashboards_are_read() {
        assert_eq!(dashboards(None).unwrap().len(), 2);
    }
}
