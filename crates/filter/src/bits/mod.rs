//! Atomic bits in whole cache lines, and a counter that does not disturb their readers.
//!
//! All accesses are relaxed, because a bit implies nothing about other memory. A thread that
//! publishes a key after inserting it has already ordered the bits before the key, so a reader that
//! sees the key sees its bits.

mod count;
mod line;
mod packed;
mod pages;
mod words;

pub use count::Count;
pub use line::{Line, WORDS_A_LINE};
pub use packed::Packed;
pub use words::Words;
