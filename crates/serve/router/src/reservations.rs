//! Reserved slots, by a key that cannot be used twice.
//!
//! Positions are reused, so each key carries a generation: the key of a removed entry finds
//! nothing, not even the entry that took its position. A slab and not a map, because every
//! request is looked up three times and the keys are ours to choose.

/// The key of one entry; valid until the entry is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    position: u32,
    generation: u32,
}

#[derive(Debug)]
pub(crate) struct Reservations<T> {
    entries: Vec<Entry<T>>,
    vacant: Vec<u32>,
}

#[derive(Debug)]
struct Entry<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Reservations<T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            vacant: Vec::new(),
        }
    }
}

impl<T> Reservations<T> {
    pub(crate) fn insert(&mut self, value: T) -> Key {
        if let Some(position) = self.vacant.pop() {
            let entry = &mut self.entries[position as usize];
            entry.value = Some(value);
            return Key {
                position,
                generation: entry.generation,
            };
        }
        let position = u32::try_from(self.entries.len()).expect("fewer than 2^32 requests");
        self.entries.push(Entry {
            generation: 0,
            value: Some(value),
        });
        Key {
            position,
            generation: 0,
        }
    }

    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        self.entry(key)?.value.as_mut()
    }

    pub(crate) fn take(&mut self, key: Key) -> Option<T> {
        let entry = self.entry(key)?;
        let value = entry.value.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.vacant.push(key.position);
        Some(value)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len() - self.vacant.len()
    }

    fn entry(&mut self, key: Key) -> Option<&mut Entry<T>> {
        let entry = self.entries.get_mut(key.position as usize)?;
        (entry.generation == key.generation).then_some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_key_opens_nothing_even_after_its_place_is_let_again() {
        let mut reservations = Reservations::default();
        let first = reservations.insert('a');
        assert_eq!(reservations.take(first), Some('a'));
        assert_eq!(reservations.take(first), None);
        let second = reservations.insert('b');
        assert_eq!(reservations.entries.len(), 1, "the place is reused");
        assert_eq!(reservations.get_mut(first), None);
        assert_eq!(reservations.take(first), None);
        assert_eq!(reservations.len(), 1);
        assert_eq!(reservations.take(second), Some('b'));
        assert_eq!(reservations.len(), 0);
    }
}
