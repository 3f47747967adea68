//! An allocator that counts the bytes that are in use.
//!
//! Counts what was asked for. What the system's allocator adds to each piece is left out,
//! which favours structures made of many small pieces.

#![expect(unsafe_code, reason = "an allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

static IN_USE: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes that have been allocated and not given back.
pub(crate) fn bytes_in_use() -> usize {
    IN_USE.load(Ordering::Relaxed)
}

struct Counting;

// SAFETY: every call is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract, which is the same one.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, piece: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(piece, layout) }
    }
}
