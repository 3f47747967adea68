//! Writes small ZIP files.

use std::io::{Cursor, Write as _};

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// An archive of members, every second one stored. `large` puts sizes and offsets where
/// those beyond four gigabytes go.
pub(crate) fn zip(members: &[(&str, &[u8])], large: bool) -> Vec<u8> {
    let mut file = ZipWriter::new(Cursor::new(Vec::new()));
    let methods = [CompressionMethod::Deflated, CompressionMethod::Stored];
    for (&(name, bytes), method) in members.iter().zip(methods.into_iter().cycle()) {
        let options = SimpleFileOptions::default().compression_method(method);
        file.start_file(name, options.large_file(large)).unwrap();
        file.write_all(bytes).unwrap();
    }
    file.finish().unwrap().into_inner()
}
