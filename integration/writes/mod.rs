//! Every way in which a key reaches the engine: by memtables, by ingestion, past the handle.

mod bare_engine;
mod ingestion;
mod memtables;
