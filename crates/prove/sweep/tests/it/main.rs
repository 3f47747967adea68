//! Sweeps from outside: what they leave in a folder.

#[cfg(test)]
mod folder;
