//! The laboratory from outside: what it says about the shipped router.

#[cfg(test)]
mod baseline;
#[cfg(test)]
mod claims;
