//! Sizes that matrices, buffers and kernels agree on.
//!
//! They are here, below all three, so that none of them has to import another for a constant.

/// Numbers that a kernel handles at once, and rows of a matrix that lie side by side.
pub(crate) const LANES: usize = 16;

/// Columns of a quantised matrix that share a scale. Columns are filled up to whole blocks.
pub(crate) const BLOCK: usize = 32;

/// The same for formats with finer scales.
pub(crate) const FINE_BLOCK: usize = 16;

// The kernels read blocks eight columns at a time, and rows of activations are filled up to two
// vectors, which must be whole blocks.
const _: () = assert!(BLOCK == 2 * LANES && FINE_BLOCK.is_multiple_of(8));
