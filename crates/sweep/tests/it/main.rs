//! The laboratory from outside: what it says about the shipped router.

#[cfg(test)]
mod claims;
mod folder;
