//! The web console's pages, as the build script left them.

use ::console::{Asset, Assets};
use rust_embed::RustEmbed;

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
