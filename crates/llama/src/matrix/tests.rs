//! Packed numbers are those of the file.
