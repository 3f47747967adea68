//! Lists of numbers on the device.

use cuda::ops::{Ops, OpsError};

pub(crate) fn indices<O: Ops>(ops: &mut O, indices: &[u32]) -> Result<O::Buffer, OpsError> {
    let buffer = ops.allocate(indices.len() * 4)?;
    put_indices(ops, &buffer, indices)?;
    Ok(buffer)
}

pub(crate) fn put_indices<O: Ops>(
    ops: &mut O,
    to: &O::Buffer,
    indices: &[u32],
) -> Result<(), OpsError> {
    let bytes: Vec<u8> = indices
        .iter()
        .flat_map(|index| index.to_le_bytes())
        .collect();
    ops.write(to, 0, &bytes)
}
