//! An input as a list of small decisions.
//!
//! Mostly one byte each, so that a change of one byte changes one decision, and an input can be
//! written by hand. An input that has ended goes on with zeros; whoever loops asks
//! [`Input::is_empty`].

/// What is left of an input.
#[derive(Debug)]
pub struct Input<'a>(pub &'a [u8]);

impl Input<'_> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    /// Below 240 itself, then the fifteen largest numbers, and 255 for any number, which
    /// follows in eight bytes.
    pub fn number(&mut self) -> u64 {
        match self.byte() {
            small @ 0..=0xef => u64::from(small),
            large @ 0xf0..=0xfe => u64::MAX - u64::from(0xfe - large),
            0xff => {
                let mut bytes = [0; 8];
                bytes.fill_with(|| self.byte());
                u64::from_be_bytes(bytes)
            }
        }
    }

    /// The same, for fields of 32 bits: what is too large is the largest.
    pub fn small_number(&mut self) -> u32 {
        u32::try_from(self.number()).unwrap_or(u32::MAX)
    }
}
