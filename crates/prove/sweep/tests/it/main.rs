//! The laboratory from outside: what it says about the shipped router.

#[cfg(test)]
mod claims;
#[cfg(test)]
mod folder;
