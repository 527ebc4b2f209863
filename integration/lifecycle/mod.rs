//! Open, close, and what is found after a close, a crash, a restored copy.

mod closing;
mod copies;
mod opening;
mod recovery;
