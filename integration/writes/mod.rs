//! Every way in which a key reaches the engine: by memtables, by ingestion, by the bare engine.

mod bare_engine;
mod ingestion;
mod memtables;
