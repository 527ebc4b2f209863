//! Atomic bits in whole cache lines, and a count that does not disturb their readers.
//!
//! All accesses are relaxed. A bit says nothing about other memory: whoever publishes a key after
//! inserting it has already ordered the bits before the key, and a reader that sees the key
//! therefore sees its bits.

mod count;
mod packed;
mod pages;
mod words;

pub use count::Count;
pub use packed::Packed;
pub use words::{Line, WORDS_A_LINE, Words};
