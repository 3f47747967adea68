//! Memory of the twin.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;

use super::super::Dtype;
use crate::numbers::{decode, encode};

/// In every format a number that is none; as an index, [`PADDING`](super::PADDING).
const POISON: u8 = 0xff;

/// An allocation, which counts against the device's memory while it lasts.
#[derive(Debug)]
pub(super) struct Memory {
    bytes: RwLock<Vec<u8>>,
    used: Arc<AtomicUsize>,
}

impl Memory {
    /// None where there is no room.
    pub(super) fn new(bytes: usize, total: usize, used: &Arc<AtomicUsize>) -> Option<Self> {
        let room = |used: usize| used.checked_add(bytes).filter(|used| *used <= total);
        used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room)
            .ok()?;
        Some(Self {
            bytes: RwLock::new(vec![POISON; bytes]),
            used: Arc::clone(used),
        })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let bytes = self.bytes.get_mut().len();
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// An allocation or a part of one.
pub struct HostBuffer {
    memory: Arc<Memory>,
    at: usize,
    bytes: usize,
}

/// Says which memory it is, and not what is in it: recorded steps are compared by it.
impl fmt::Debug for HostBuffer {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let memory = Arc::as_ptr(&self.memory);
        write!(to, "{memory:p}[{}..+{}]", self.at, self.bytes)
    }
}

impl HostBuffer {
    pub(super) fn whole(memory: Memory) -> Self {
        let bytes = memory.bytes.read().len();
        Self {
            memory: Arc::new(memory),
            at: 0,
            bytes,
        }
    }

    pub(super) fn part(&self, at: usize, bytes: usize) -> Self {
        self.check(at, bytes);
        Self {
            memory: Arc::clone(&self.memory),
            at: self.at + at,
            bytes,
        }
    }

    fn check(&self, at: usize, bytes: usize) {
        assert!(
            at.checked_add(bytes).is_some_and(|end| end <= self.bytes),
            "{bytes} bytes at {at} are not within {self:?}"
        );
    }

    /// Calls `see` with some of the bytes.
    pub(super) fn with<R>(&self, at: usize, bytes: usize, see: impl FnOnce(&[u8]) -> R) -> R {
        self.check(at, bytes);
        let memory = self.memory.bytes.read();
        see(&memory[self.at + at..][..bytes])
    }

    pub(super) fn read(&self, at: usize, bytes: &mut [u8]) {
        self.with(at, bytes.len(), |found| bytes.copy_from_slice(found));
    }

    pub(super) fn write(&self, at: usize, bytes: &[u8]) {
        self.check(at, bytes.len());
        let mut memory = self.memory.bytes.write();
        memory[self.at + at..][..bytes.len()].copy_from_slice(bytes);
    }

    /// `count` numbers from number `first` on.
    pub(super) fn numbers(&self, dtype: Dtype, first: usize, count: usize) -> Vec<f32> {
        let mut numbers = Vec::with_capacity(count);
        let size = dtype.bytes();
        self.with(first * size, count * size, |bytes| {
            decode(dtype, bytes, &mut numbers);
        });
        numbers
    }

    pub(super) fn indices(&self, first: usize, count: usize) -> Vec<u32> {
        self.with(first * 4, count * 4, |bytes| {
            let indices = bytes.as_chunks().0.iter().copied();
            indices.map(u32::from_le_bytes).collect()
        })
    }

    /// Rounds numbers and stores them from number `first` on.
    pub(super) fn store(&self, dtype: Dtype, first: usize, numbers: &[f32]) {
        let mut bytes = Vec::with_capacity(numbers.len() * dtype.bytes());
        encode(dtype, numbers, &mut bytes);
        self.write(first * dtype.bytes(), &bytes);
    }
}
