// What transactions.cc has for other code that begins transactions over filters, and RocksDB's private
// structures behind the C API of transactions, as in `shim.h`; the tests of transactions check them.

#pragma once

#include <memory>

#include "rocksdb/utilities/optimistic_transaction_db.h"
#include "rocksdb/utilities/transaction.h"
#include "rocksdb/utilities/transaction_db.h"
#include "rocksdb/utilities/write_batch_with_index.h"

#include "shim.h"

struct rocksdb_transactiondb_options_t {
  ROCKSDB_NAMESPACE::TransactionDBOptions rep;
};
struct rocksdb_transactiondb_t {
  ROCKSDB_NAMESPACE::TransactionDB* rep;
};
struct rocksdb_optimistictransactiondb_options_t {
  ROCKSDB_NAMESPACE::OptimisticTransactionDBOptions rep;
};
struct rocksdb_optimistictransactiondb_t {
  ROCKSDB_NAMESPACE::OptimisticTransactionDB* rep;
};
struct rocksdb_transaction_t {
  ROCKSDB_NAMESPACE::Transaction* rep;
};

namespace lsm_sieve {

// Begins transactions on an engine that it does not own, and that lives longer.
std::unique_ptr<OptimisticTransactionDB> BeginsOn(DB* engine,
                                                  const OptimisticTransactionDBOptions& options);

// Whether a transaction with these writes has itself written to this key. A null handle means the
// default column family.
bool HasWritten(WriteBatchWithIndex* writes, ColumnFamilyHandle* cf, const Slice& key);

// Whether transactions were prepared that are neither committed nor rolled back, when the engine was
// opened.
bool HasPrepared(DB* engine);

}  // namespace lsm_sieve
