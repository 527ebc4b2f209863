// What differs between the RocksDB versions that the shim is compiled against: 10.4, 10.10, 11.1,
// 11.8 and 11.12. No other file asks for a version.

#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/iterator.h"
#include "rocksdb/memtablerep.h"
#include "rocksdb/options.h"
#include "rocksdb/version.h"

#define SIEVE_SINCE(major, minor) \
  (ROCKSDB_MAJOR > (major) || (ROCKSDB_MAJOR == (major) && ROCKSDB_MINOR >= (minor)))

// `MemTableRep::GetAndValidate` checks the order of keys and their checksums.
#define SIEVE_VALIDATES_KEYS SIEVE_SINCE(10, 10)
// `DB::FlushWAL(FlushWALOptions)` and `DBWithTTL::GetTtl`.
#define SIEVE_HAS_FLUSH_WAL_OPTIONS SIEVE_SINCE(10, 10)
#define SIEVE_HAS_GET_TTL SIEVE_SINCE(10, 10)
// `FilterBitsBuilder` declares `CalculateSpace` and `EstimatedFpRate`; before, a class of the
// built-in filters alone does.
#define SIEVE_FILTERS_ESTIMATE SIEVE_SINCE(10, 10)
// `DB::SetOptions` of several column families, and `MemTableRep::MultiGet`.
#define SIEVE_SETS_OPTIONS_OF_MANY SIEVE_SINCE(11, 1)
#define SIEVE_MEMTABLES_READ_MANY SIEVE_SINCE(11, 1)
// `OptimisticTransactionDBImpl` can leave its database to another owner.
#define SIEVE_OPTIMISTS_BORROW (!SIEVE_SINCE(11, 1))
// `DB::CommitFileIngestionHandles`: ingestion in two steps.
#define SIEVE_INGESTS_IN_STEPS SIEVE_SINCE(11, 8)

namespace lsm_sieve {

// What `Iterator::Prepare` takes.
#if SIEVE_SINCE(10, 10)
using ScanRanges = ROCKSDB_NAMESPACE::MultiScanArgs;
#else
using ScanRanges = std::vector<ROCKSDB_NAMESPACE::ScanOptions>;
#endif

// What a database that owns another one is constructed with.
#if SIEVE_SINCE(11, 1)
inline std::unique_ptr<ROCKSDB_NAMESPACE::DB>&& ToOwner(
    std::unique_ptr<ROCKSDB_NAMESPACE::DB>&& db) {
  return std::move(db);
}
#else
inline ROCKSDB_NAMESPACE::DB* ToOwner(std::unique_ptr<ROCKSDB_NAMESPACE::DB>&& db) {
  return db.release();
}
#endif

// Before, all SSTs are open when a database is.
inline void OpenSstsFirst(ROCKSDB_NAMESPACE::Options* options) {
#if SIEVE_SINCE(11, 1)
  options->open_files_async = false;
#else
  (void)options;
#endif
}
inline bool WritesBlobsDirectly(const ROCKSDB_NAMESPACE::Options& options) {
#if SIEVE_SINCE(11, 8)
  return options.enable_blob_direct_write;
#else
  (void)options;
  return false;
#endif
}

}  // namespace lsm_sieve
