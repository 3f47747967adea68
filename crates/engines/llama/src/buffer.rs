//! Rows of numbers that the members of a team fill together.

#![expect(
    unsafe_code,
    reason = "members of a team write rows of one buffer at the same time"
)]

use std::cell::UnsafeCell;

use crate::kernels::LANES;

/// Memory that could not be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes of memory cannot be had")]
pub struct OutOfMemory {
    pub bytes: usize,
}

/// `count` zeros, or an error instead of an abort.
pub(crate) fn zeros(count: usize) -> Result<Vec<f32>, OutOfMemory> {
    let mut numbers: Vec<f32> = Vec::new();
    numbers.try_reserve_exact(count).map_err(|_| OutOfMemory {
        bytes: count.saturating_mul(size_of::<f32>()),
    })?;
    numbers.resize(count, 0.0);
    Ok(numbers)
}

/// Rows of one width, filled up to whole lanes or blocks.
#[derive(Debug)]
pub(crate) struct Rows {
    numbers: UnsafeCell<Vec<f32>>,
    stride: usize,
}

// Who writes a row is settled by the phases of a step: see `row_mut`.
unsafe impl Sync for Rows {}

impl Rows {
    pub(crate) fn new(rows: usize, width: usize) -> Result<Self, OutOfMemory> {
        let stride = width.next_multiple_of(2 * LANES);
        Ok(Self {
            numbers: UnsafeCell::new(zeros(rows * stride)?),
            stride,
        })
    }

    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// Row `index`, with its filling.
    pub(crate) fn row(&self, index: usize) -> &[f32] {
        let numbers = unsafe { &*self.numbers.get() };
        &numbers[index * self.stride..(index + 1) * self.stride]
    }

    /// # Safety
    ///
    /// Nobody else reads or writes the row meanwhile.
    #[expect(clippy::mut_from_ref, reason = "the caller answers for it")]
    pub(crate) unsafe fn row_mut(&self, index: usize) -> &mut [f32] {
        let (start, end) = (index * self.stride, (index + 1) * self.stride);
        let numbers = unsafe { &mut *self.numbers.get() };
        assert!(end <= numbers.len(), "row {index} is there");
        unsafe { std::slice::from_raw_parts_mut(numbers.as_mut_ptr().add(start), self.stride) }
    }

    /// Fills a row.
    pub(crate) fn set(&mut self, index: usize, row: &[f32]) {
        // Nobody else has it.
        unsafe { self.row_mut(index) }.copy_from_slice(row);
    }

    pub(crate) fn from(&self, row: usize) -> *const f32 {
        self.row(row).as_ptr()
    }

    /// As [`Self::row_mut`] for everything from `row` on.
    pub(crate) fn to(&self, row: usize) -> *mut f32 {
        unsafe { (*self.numbers.get()).as_mut_ptr().add(row * self.stride) }
    }
}
