// Transactions on an engine that was opened without them.

#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "db/db_impl/db_impl.h"
#include "db/version_set.h"
#include "utilities/transactions/optimistic_transaction_db_impl.h"
#include "utilities/transactions/pessimistic_transaction_db.h"

#include "transactions.h"
#include "versions.h"

namespace lsm_sieve {
namespace {

// A pointer for owners that must not free the engine.
std::shared_ptr<DB> Borrowed(DB* engine) {
  return std::shared_ptr<DB>(engine, [](DB*) {});
}

// Begins transactions on an engine that it does not own. RocksDB's class owns what it is
// constructed with, and a transaction takes that for the engine itself. So no wrapper can stand
// between the two.
class BorrowedOptimisticTransactionDB final : public OptimisticTransactionDBImpl {
 public:
  BorrowedOptimisticTransactionDB(DB* engine, const OptimisticTransactionDBOptions& options)
#if SIEVE_OPTIMISTS_BORROW
      : OptimisticTransactionDBImpl(engine, options, false) {}
#else
      : OptimisticTransactionDBImpl(std::unique_ptr<DB>(), options) {
    db_ = engine;
    shared_db_ptr_ = Borrowed(engine);
  }
#endif
};

// Commits are validated serially, in their turn among the writers. RocksDB's default validates
// beside them. It checks column families that may be dropped meanwhile, and misses a plain write
// between the check and the commit's own write.
OptimisticTransactionDBOptions SerialValidation() {
  OptimisticTransactionDBOptions options;
  options.validate_policy = OccValidationPolicy::kValidateSerial;
  FAULT(CommitValidatedInParallel, options.validate_policy = OccValidationPolicy::kValidateParallel);
  return options;
}

// Stands for a column family that is created later.
class PlaceholderHandle final : public ColumnFamilyHandle {
 public:
  explicit PlaceholderHandle(uint32_t id) : id_(id) {}

  uint32_t GetID() const override { return id_; }
  const std::string& GetName() const override { return name_; }
  Status GetDescriptor(ColumnFamilyDescriptor*) override { return Status::NotSupported(); }
  const Comparator* GetComparator() const override { return nullptr; }

 private:
  const uint32_t id_;
  const std::string name_;
};

// Begins transactions with locks on an engine that it does not own. Locks are keyed by column
// family id. They are created before the column family, because other threads may find it before
// the call that creates it returns. The locks of a dropped column family stay, some kilobytes:
// RocksDB 11.8.1 would free structures with them that other threads use.
class BorrowedTransactionDB final : public WriteCommittedTxnDB {
 public:
  BorrowedTransactionDB(DB* engine, const TransactionDBOptions& options)
      : WriteCommittedTxnDB(new StackableDB(Borrowed(engine)), WriteCommitted(options)) {}

  // For all column families that the engine has.
  Status Start() {
    // RocksDB 11.8.1 confuses recovered transactions that had the same name, and uses their column
    // families without checking that these still exist.
    if (HasPrepared(db_impl_)) {
      return Status::InvalidArgument(
          "transactions were prepared, and neither committed nor rolled back; open the database as "
          "a `TransactionDB` and do one or the other, then try again");
    }
    first_without_locks_ = NextCfId();
    std::vector<std::unique_ptr<ColumnFamilyHandle>> handles;
    std::vector<ColumnFamilyHandle*> cfs;
    for (uint32_t id = 0; id < first_without_locks_; ++id) {
      handles.push_back(db_impl_->GetColumnFamilyHandleUnlocked(id));
      if (handles.back() != nullptr) cfs.push_back(handles.back().get());
    }
    const Status status = Initialize({}, cfs);
    if (status.ok()) AddLocks(0);
    return status;
  }

  // Creates locks for the column families created since, for the next `number`, and for one more.
  void AddLocks(size_t number) {
    const std::lock_guard<std::mutex> lock(adding_locks_);
    FAULT(OneCfLocked, number = 1);
    const size_t last = NextCfId() + number;
    for (; first_without_locks_ <= last; ++first_without_locks_) {
      PlaceholderHandle cf(first_without_locks_);
      AddColumnFamily(&cf);
    }
  }

 private:
  // Uncommitted writes are only in the transaction.
  static TransactionDBOptions WriteCommitted(const TransactionDBOptions& options) {
    TransactionDBOptions write_committed = ValidateTxnDBOptions(options);
    write_committed.write_policy = WRITE_COMMITTED;
    return write_committed;
  }

  uint32_t NextCfId() {
    InstrumentedMutexLock lock(db_impl_->mutex());
    return db_impl_->GetVersionSet()->GetColumnFamilySet()->GetMaxColumnFamily() + 1;
  }

  std::mutex adding_locks_;
  // The first column family id without locks.
  uint32_t first_without_locks_ = 0;
};

}  // namespace

void ExtendLocks(DB* locks, size_t number) {
  static_cast<BorrowedTransactionDB*>(locks)->AddLocks(number);
}

std::unique_ptr<OptimisticTransactionDB> BeginsOn(DB* engine,
                                                  const OptimisticTransactionDBOptions& options) {
  return std::make_unique<BorrowedOptimisticTransactionDB>(engine, options);
}

bool HasWritten(WriteBatchWithIndex* writes, ColumnFamilyHandle* cf, const Slice& key) {
  FAULT(OwnWritesIgnored, return false);
  if (writes->GetWriteBatch()->Count() == 0) return false;
  const std::unique_ptr<WBWIIterator> entries(cf == nullptr ? writes->NewIterator()
                                                            : writes->NewIterator(cf));
  entries->Seek(key);
  return entries->Valid() && entries->Entry().key == key;
}

bool HasPrepared(DB* engine) {
  return !static_cast<DBImpl*>(engine)->recovered_transactions().empty();
}

extern "C" {

// Begins transactions on the engine behind this handle. Free it before the engine is closed.
//
// RocksDB's transactions read from `GetRootDB()`, so these bypass the filters.
rocksdb_optimistictransactiondb_t* lsm_sieve_transactions(rocksdb_t* handle) noexcept {
  DB* const engine = handle->rep->GetRootDB();
  return new rocksdb_optimistictransactiondb_t{BeginsOn(engine, SerialValidation()).release()};
}

void lsm_sieve_transactions_free(rocksdb_optimistictransactiondb_t* transactions) noexcept {
  delete transactions->rep;
  delete transactions;
}

// Begins transactions with locks on the engine behind this handle, and makes all writes through it
// lock their keys. The handle owns the locks; free what is returned before it is closed. Null on an
// error.
rocksdb_transactiondb_t* lsm_sieve_locks(const rocksdb_transactiondb_options_t* options,
                                         rocksdb_t* handle, char** error) noexcept {
  DB* const engine = handle->rep->GetRootDB();
  auto locks = std::make_unique<BorrowedTransactionDB>(engine, options->rep);
  const Status status = locks->Start();
  if (!status.ok()) {
    *error = ErrorOf(status);
    return nullptr;
  }
  TransactionDB* const rep = locks.get();
  LockWrites(handle, std::move(locks));
  return new rocksdb_transactiondb_t{rep};
}

void lsm_sieve_locks_free(rocksdb_transactiondb_t* locks) noexcept { delete locks; }

// Whether the transaction itself has written to this key. A null handle means the default column
// family.
bool lsm_sieve_transaction_wrote(rocksdb_transaction_t* transaction,
                                 rocksdb_column_family_handle_t* cf, Slice key) noexcept {
  return HasWritten(transaction->rep->GetWriteBatch(), cf == nullptr ? nullptr : cf->rep, key);
}

// With locks: keeps others from writing to this key until the transaction has ended. Optimistic:
// records the key, so that the commit fails if somebody else writes to it from here on, or did
// since the transaction's snapshot. Only a lock can fail.
char* lsm_sieve_transaction_watch(rocksdb_transaction_t* transaction,
                                  rocksdb_column_family_handle_t* cf, Slice key,
                                  bool exclusive) noexcept {
  FAULT(AbsentKeyNotWatched, return nullptr);
  std::string* const no_value = nullptr;
  Transaction* const rep = transaction->rep;
  const ExactRead exact;
  const Status status =
      cf == nullptr
          ? rep->GetForUpdate(ReadOptions(), key, no_value, exclusive)
          : rep->GetForUpdate(ReadOptions(), cf->rep, key, no_value, exclusive);
  return ErrorOf(status);
}

}  // extern "C"
}  // namespace lsm_sieve
