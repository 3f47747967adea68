//! The web console's pages, as the build script left them, and the dashboards that one of them
//! draws.

use ::console::{Asset, Assets, Dashboard};
use rust_embed::RustEmbed;

/// The same files that Grafana is given.
const DASHBOARDS: [&str; 2] = [
    include_str!("../../../dashboards/grafana/gtc-demo.json"),
    include_str!("../../../dashboards/grafana/homing-router.json"),
];

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

/// The dashboards as they are shipped.
pub(crate) fn dashboards() -> Vec<Dashboard> {
    let parsed = DASHBOARDS.map(|text| Dashboard::parse(text).expect("a test reads them"));
    parsed.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dashboards_are_read() {
        assert_eq!(dashboards().len(), DASHBOARDS.len());
    }
}
