//! What fuzz targets share.
//!
//! | module | what it does |
//! |---|---|
//! | [`cache`] | plays an engine's events into its mirror and checks what must hold |
//! | [`input`] | takes small and extreme numbers off an input |

pub mod cache;
pub mod input;
