//! Numbers that the members of a team fill together.
//!
//! Members write different parts of one buffer at the same time, which no reference to the whole
//! allows. A buffer therefore keeps an address and a length, and makes references only to the part
//! that is asked for. Who may ask for what is settled by the phases of a step: in a phase a part is
//! either written by one member or read by any, and all members wait for each other between phases.

#![expect(
    unsafe_code,
    reason = "members of a team write parts of one buffer at the same time"
)]

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::ptr::NonNull;

use crate::layout::LANES;

/// The system gave no memory.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{bytes} bytes of memory are unavailable")]
pub struct OutOfMemory {
    pub bytes: usize,
}

/// Numbers at an address that does not change.
#[derive(Debug)]
pub(crate) struct Buffer {
    /// Owned: made by `Box::into_raw`, freed by `drop`.
    numbers: NonNull<[f32]>,
}

// SAFETY: a buffer owns its numbers, as a boxed slice does, and they have no thread of their own.
unsafe impl Send for Buffer {}
// SAFETY: through a shared reference there are only addresses and unsafe functions, whose callers
// guarantee that nobody writes what another uses.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// `count` zeros, or an error instead of an abort.
    pub(crate) fn zeros(count: usize) -> Result<Self, OutOfMemory> {
        let mut numbers: Vec<f32> = Vec::new();
        numbers.try_reserve_exact(count).map_err(|_| OutOfMemory {
            bytes: count.saturating_mul(size_of::<f32>()),
        })?;
        numbers.resize(count, 0.0);
        let numbers = Box::into_raw(numbers.into_boxed_slice());
        Ok(Self {
            numbers: NonNull::new(numbers).expect("a box is not null"),
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The address of number `at`, valid for reads and writes up to the end of the buffer. Whoever uses
    /// it guarantees that no other thread writes what is read or uses what is written.
    pub(crate) fn address(&self, at: usize) -> *mut f32 {
        assert!(at <= self.len(), "an address within the buffer");
        // SAFETY: the place is in the same allocation, or just behind it.
        unsafe { self.numbers.cast::<f32>().as_ptr().add(at) }
    }

    /// The numbers of `range`.
    ///
    /// # Safety
    ///
    /// Nobody writes any of them while the slice is in use.
    pub(crate) unsafe fn part(&self, range: Range<usize>) -> &[f32] {
        let length = self.check(&range);
        // SAFETY: the numbers are initialised and within the buffer, which lives as long as
        // `self`; the caller guarantees that nobody writes them.
        unsafe { std::slice::from_raw_parts(self.address(range.start), length) }
    }

    /// The numbers of `range`, for writing.
    ///
    /// # Safety
    ///
    /// Nobody else reads or writes any of them while the slice is in use.
    #[expect(
        clippy::mut_from_ref,
        reason = "the caller guarantees that nobody else has it"
    )]
    pub(crate) unsafe fn part_mut(&self, range: Range<usize>) -> &mut [f32] {
        let length = self.check(&range);
        // SAFETY: the numbers are initialised and within the buffer, which lives as long as
        // `self`; the caller guarantees that nobody else uses them.
        unsafe { std::slice::from_raw_parts_mut(self.address(range.start), length) }
    }

    /// The length of a range that is within the buffer.
    fn check(&self, range: &Range<usize>) -> usize {
        assert!(
            range.start <= range.end && range.end <= self.len(),
            "a part within the buffer"
        );
        range.end - range.start
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: `zeros` took it out of a box, and nobody has the buffer any more.
        drop(unsafe { Box::from_raw(self.numbers.as_ptr()) });
    }
}

/// Rows of one width, filled up to whole lanes or blocks.
#[derive(Debug)]
pub(crate) struct Rows {
    numbers: Buffer,
    stride: usize,
}

impl Rows {
    pub(crate) fn new(rows: usize, width: usize) -> Result<Self, OutOfMemory> {
        let stride = width.next_multiple_of(2 * LANES);
        Ok(Self {
            numbers: Buffer::zeros(rows * stride)?,
            stride,
        })
    }

    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    pub(crate) fn rows(&self) -> usize {
        self.numbers.len().checked_div(self.stride).unwrap_or(0)
    }

    fn range(&self, index: usize) -> Range<usize> {
        index * self.stride..(index + 1) * self.stride
    }

    /// Row `index`, with its filling.
    ///
    /// # Safety
    ///
    /// Nobody writes to the row while the slice is in use.
    pub(crate) unsafe fn row(&self, index: usize) -> &[f32] {
        // SAFETY: the caller's promise is the same.
        unsafe { self.numbers.part(self.range(index)) }
    }

    /// Row `index`, for writing.
    ///
    /// # Safety
    ///
    /// Nobody else reads or writes the row while the slice is in use.
    #[expect(
        clippy::mut_from_ref,
        reason = "the caller guarantees that nobody else has it"
    )]
    pub(crate) unsafe fn row_mut(&self, index: usize) -> &mut [f32] {
        // SAFETY: the caller's promise is the same.
        unsafe { self.numbers.part_mut(self.range(index)) }
    }

    /// Some columns of row `index`.
    ///
    /// # Safety
    ///
    /// Nobody writes to these columns of the row while the slice is in use.
    pub(crate) unsafe fn columns(&self, index: usize, columns: Range<usize>) -> &[f32] {
        assert!(columns.end <= self.stride, "columns of the row");
        let start = index * self.stride;
        // SAFETY: the caller's promise is the same.
        unsafe {
            self.numbers
                .part(start + columns.start..start + columns.end)
        }
    }

    /// Some columns of row `index`, for writing.
    ///
    /// # Safety
    ///
    /// Nobody else reads or writes these columns of the row while the slice is in use.
    #[expect(
        clippy::mut_from_ref,
        reason = "the caller guarantees that nobody else has it"
    )]
    pub(crate) unsafe fn columns_mut(&self, index: usize, columns: Range<usize>) -> &mut [f32] {
        assert!(columns.end <= self.stride, "columns of the row");
        let start = index * self.stride;
        // SAFETY: the caller's promise is the same.
        unsafe {
            self.numbers
                .part_mut(start + columns.start..start + columns.end)
        }
    }

    /// Fills a row.
    pub(crate) fn set(&mut self, index: usize, row: &[f32]) {
        // SAFETY: nobody else has the rows.
        unsafe { self.row_mut(index) }.copy_from_slice(row);
    }

    /// The address of row `index`, which must be there: see [`Buffer::address`].
    pub(crate) fn address(&self, index: usize) -> *mut f32 {
        assert!(index < self.rows(), "row {index} of {}", self.rows());
        self.numbers.address(index * self.stride)
    }
}
