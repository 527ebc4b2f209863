//! The database type of `rocksdb`, and the options of instances that only read.

/// `rocksdb`'s database, whose column families may be created and dropped while it is shared. It has
/// filters behind its handle if [`SieveDb`](crate::SieveDb) opened it.
pub type RocksDb = rocksdb::DBWithThreadMode<rocksdb::MultiThreaded>;

/// These options, changed for an engine that is opened to read only.
///
/// If the manifest tracks WALs and the options do not, RocksDB 11.8.1 removes them from the
/// manifest. Its read-only instance cannot, and dereferences a null pointer.
pub fn read_only(options: &rocksdb::Options) -> rocksdb::Options {
    let mut options = options.clone();
    options.set_track_and_verify_wals_in_manifest(true);
    options
}

/// These options, changed for an engine that is opened as a secondary.
///
/// RocksDB 11.8.1 identifies an SST by its file number, and the number may come back as another SST
/// unless all files are kept open. Its secondary archives and deletes the writer's WALs by the
/// settings below. It crashes when it flushes a WAL of its own manually.
pub(crate) fn secondary(options: &rocksdb::Options) -> rocksdb::Options {
    const NEVER: u64 = 1 << 62;
    let mut options = options.clone();
    options.set_max_open_files(-1);
    options.set_wal_ttl_seconds(0);
    options.set_wal_size_limit_mb(0);
    options.set_delete_obsolete_files_period_micros(NEVER);
    options.set_manual_wal_flush(false);
    options
}
