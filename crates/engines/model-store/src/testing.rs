//! Writes small ZIP files, so that tests need no foreign tool.

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;

/// An archive of members, every second one stored. `large` puts sizes and offsets where
/// those beyond four gigabytes go.
pub(crate) fn zip(members: &[(&str, &[u8])], large: bool) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (index, &(name, bytes)) in members.iter().enumerate() {
        let method: u16 = if index % 2 == 0 { 8 } else { 0 };
        let packed = if method == 0 {
            bytes.to_vec()
        } else {
            let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        };
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        let at = file.len() as u64;
        let sizes = [packed.len() as u64, bytes.len() as u64];
        let shown = |number: u64| (if large { u32::MAX } else { number as u32 }).to_le_bytes();
        let name_bytes = (name.len() as u16).to_le_bytes();

        let mut common = [0, 0].to_vec();
        common.extend(method.to_le_bytes());
        common.extend([0; 4]);
        common.extend(crc.sum().to_le_bytes());
        common.extend(shown(sizes[0]));
        common.extend(shown(sizes[1]));
        common.extend(name_bytes);

        file.extend(b"PK\x03\x04\x14\0");
        file.extend(&common);
        file.extend([0, 0]);
        file.extend(name.as_bytes());
        file.extend(packed);

        let mut extra = Vec::new();
        if large {
            // Something else first: fields come in any order.
            extra.extend([0x99, 0x99, 2, 0, 7, 7, 1, 0, 24, 0]);
            for number in [sizes[1], sizes[0], at] {
                extra.extend(number.to_le_bytes());
            }
        }
        directory.extend(b"PK\x01\x02\x14\0\x14\0");
        directory.extend(&common);
        directory.extend((extra.len() as u16).to_le_bytes());
        directory.extend([0; 10]);
        directory.extend(shown(at));
        directory.extend(name.as_bytes());
        directory.extend(extra);
    }
    end(&mut file, &directory, large);
    file
}

fn end(file: &mut Vec<u8>, directory: &[u8], large: bool) {
    let at = file.len() as u64;
    let bytes = directory.len() as u64;
    file.extend(directory);
    if large {
        let end_at = file.len() as u64;
        file.extend(b"PK\x06\x06");
        file.extend([0; 36]);
        file.extend(bytes.to_le_bytes());
        file.extend(at.to_le_bytes());
        file.extend(b"PK\x06\x07\0\0\0\0");
        file.extend(end_at.to_le_bytes());
        file.extend([1, 0, 0, 0]);
    }
    let shown = |number: u64| (if large { u32::MAX } else { number as u32 }).to_le_bytes();
    file.extend(b"PK\x05\x06");
    file.extend([0; 8]);
    file.extend(shown(bytes));
    file.extend(shown(at));
    file.extend([3, 0]);
    file.extend(b"end");
}
