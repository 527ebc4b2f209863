// Databases with transactions, over one with filters. The database's own reads go through the filters
// as all do. The transactions are RocksDB's, but for the read of a key that they have not written:
//
//   rocksdb_transactiondb_t::rep --> LockingDB --> FilteredDB --> DBImpl
//                                       |                            ^
//                                       '-- Filtered: filters, then -'
//
// A read for update watches or locks its key first, and then reads it the same way. So a key that the
// filters deny is guarded as RocksDB guards it; src/db/transaction.rs says why the order matters.

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "rocksdb/c.h"
#include "rocksdb/env.h"
#include "utilities/transactions/optimistic_transaction.h"
#include "utilities/transactions/optimistic_transaction_db_impl.h"
#include "utilities/transactions/pessimistic_transaction.h"
#include "utilities/transactions/pessimistic_transaction_db.h"

#include "sieve.h"
#include "transactions.h"
#include "versions.h"

namespace lsm_sieve {
namespace {

// RocksDB's transaction, of either kind. All its reads of single values call `GetImpl`. A read for
// update calls it after it has locked or watched its key.
template <typename Base>
class Filtered final : public Base {
 public:
  template <typename... Arguments>
  explicit Filtered(const Sieve& sieve, Arguments&&... arguments)
      : Base(std::forward<Arguments>(arguments)...), sieve_(sieve) {}

  Status GetEntity(const ReadOptions& options, ColumnFamilyHandle* cf, const Slice& key,
                   PinnableWideColumns* columns) override {
    const auto read = [&] {
      const ExactRead exact;
      return Base::GetEntity(options, cf, key, columns);
    };
    if (columns == nullptr || !IsPlain(options, cf, Env::IOActivity::kGetEntity)) return read();
    return Read(cf, key, columns, read);
  }
  // RocksDB's own, but for the read.
  Status GetEntityForUpdate(const ReadOptions& options, ColumnFamilyHandle* cf, const Slice& key,
                            PinnableWideColumns* columns, bool exclusive, bool validates) override {
    if (cf == nullptr || (!validates && options.snapshot != nullptr)) {
      return Base::GetEntityForUpdate(options, cf, key, columns, exclusive, validates);
    }
    const auto lock = [&] {
      return this->TryLock(cf, key, /* read_only */ true, exclusive, validates);
    };
    FAULT(EntityReadBeforeLock, const Status found = GetEntity(options, cf, key, columns);
          const Status late = lock(); return late.ok() ? found : late);
    const Status locked = lock();
    return locked.ok() ? GetEntity(options, cf, key, columns) : locked;
  }

  using Base::MultiGet;
  void MultiGet(const ReadOptions& options, ColumnFamilyHandle* cf, const size_t count,
                const Slice* keys, PinnableSlice* values, Status* statuses,
                const bool sorted) override {
    const auto read = [&](size_t n, ColumnFamilyHandle**, const Slice* keys, PinnableSlice* values,
                          std::string*, Status* statuses) {
      Base::MultiGet(options, cf, n, keys, values, statuses, sorted);
    };
    ReadMany(IsPlain(options, cf, Env::IOActivity::kMultiGet), cf, count, keys, values, statuses,
             read);
  }
  void MultiGetEntity(const ReadOptions& options, ColumnFamilyHandle* cf, size_t count,
                      const Slice* keys, PinnableWideColumns* columns, Status* statuses,
                      bool sorted) override {
    const auto read = [&](size_t n, ColumnFamilyHandle**, const Slice* keys,
                          PinnableWideColumns* columns, std::string*, Status* statuses) {
      Base::MultiGetEntity(options, cf, n, keys, columns, statuses, sorted);
    };
    const bool is_plain = keys != nullptr && columns != nullptr &&
                          IsPlain(options, cf, Env::IOActivity::kMultiGetEntity);
    ReadMany(is_plain, cf, count, keys, columns, statuses, read);
  }

 protected:
  using Base::GetImpl;
  // RocksDB has checked the activity.
  Status GetImpl(const ReadOptions& options, ColumnFamilyHandle* cf, const Slice& key,
                 PinnableSlice* value) override {
    const auto read = [&] {
      const ExactRead exact;
      return Base::GetImpl(options, cf, key, value);
    };
    if (!IsPlain(options, cf, options.io_activity)) return read();
    return Read(cf, key, value, read);
  }

 private:
  // Whether RocksDB itself would not refuse the read.
  static bool IsPlain(const ReadOptions& options, ColumnFamilyHandle* cf,
                      Env::IOActivity activity) {
    return cf != nullptr && options.timestamp == nullptr &&
           (options.io_activity == Env::IOActivity::kUnknown || options.io_activity == activity);
  }

  template <typename Value, typename Engine>
  Status Read(ColumnFamilyHandle* cf, const Slice& key, Value* value, const Engine& read) {
    if (HasWritten(this->GetWriteBatch(), cf, key)) return read();
    return sieve_.Read(cf, key, read, [&] { value->Reset(); });
  }

  // Keys that the transaction has written are read with those that pass the filters.
  template <typename Value, typename Engine>
  void ReadMany(bool is_plain, ColumnFamilyHandle* cf, size_t count, const Slice* keys,
                Value* values, Status* statuses, const Engine& read) {
    if (!is_plain || count == 0) return read(count, nullptr, keys, values, nullptr, statuses);
    std::vector<ColumnFamilyHandle*> cfs(count, cf);
    sieve_.ReadMany(count, cfs.data(), keys, values, nullptr, statuses, read, [&](size_t i) {
      return HasWritten(this->GetWriteBatch(), cf, keys[i]);
    });
  }

  const Sieve& sieve_;
};

class OptimisticDB final : public OptimisticTransactionDBImpl {
 public:
  OptimisticDB(std::unique_ptr<DB> filtered, const OptimisticTransactionDBOptions& options)
      : OptimisticTransactionDBImpl(ToOwner(std::move(filtered)), options),
        sieve_(SieveOf(GetBaseDB())),
        begins_(BeginsOn(GetRootDB(), options)) {}

  // A transaction takes the base of what begins it for the engine.
  Transaction* BeginTransaction(const WriteOptions& writing,
                                const OptimisticTransactionOptions& options,
                                Transaction* old) override {
    if (old != nullptr) return begins_->BeginTransaction(writing, options, old);
    return new Filtered<OptimisticTransaction>(sieve_, begins_.get(), writing, options);
  }

 private:
  const Sieve& sieve_;
  const std::unique_ptr<OptimisticTransactionDB> begins_;
};

class LockingDB final : public WriteCommittedTxnDB {
 public:
  LockingDB(StackableDB* filtered, const TransactionDBOptions& options)
      : WriteCommittedTxnDB(filtered, ValidateTxnDBOptions(options)), sieve_(SieveOf(filtered)) {}

  Transaction* BeginTransaction(const WriteOptions& writing, const TransactionOptions& options,
                                Transaction* old) override {
    const TransactionOptions hooked = ThroughMemtables(options);
    if (old != nullptr) return WriteCommittedTxnDB::BeginTransaction(writing, hooked, old);
    return new Filtered<WriteCommittedTxn>(sieve_, this, writing, hooked);
  }

 private:
  // A commit that does not go through a memtable would reach no filter.
  static TransactionOptions ThroughMemtables(const TransactionOptions& options) {
    FAULT(CommitPassesMemtables, return options);
    TransactionOptions through = options;
    through.commit_bypass_memtable = false;
    through.large_txn_commit_optimize_threshold = 0;
    through.large_txn_commit_optimize_byte_threshold = 0;
    return through;
  }

  const Sieve& sieve_;
};

// A text of RocksDB's for a caller in C.
void Save(const Status& status, char** errptr) { *errptr = strdup(status.ToString().c_str()); }

}  // namespace

extern "C" {

// Why a database with these options of transactions has no filters; null if it can have them.
const char* lsm_sieve_locks_refusal(const rocksdb_transactiondb_options_t* options) noexcept {
  const TransactionDBOptions& rep = options->rep;
  FAULT(UncommittedWritesFiltered, return nullptr);
  if (rep.write_policy != WRITE_COMMITTED) {
    return "the write policy writes what is not committed; filters need WRITE_COMMITTED";
  }
  if (rep.lock_mgr_handle != nullptr || !rep.secondary_indices.empty()) {
    return "a lock manager of one's own and secondary indices are not proved with filters";
  }
  return nullptr;
}

bool lsm_sieve_has_prepared(rocksdb_t* db) noexcept { return HasPrepared(db->rep->GetRootDB()); }

// Puts transactions over a database with filters. Takes over its handle, and on an error those of
// the column families too; then it returns null.
rocksdb_transactiondb_t* lsm_sieve_with_locks(rocksdb_t* db,
                                              const rocksdb_transactiondb_options_t* options,
                                              rocksdb_column_family_handle_t* const* cfs, size_t n,
                                              char** errptr) noexcept {
  auto locking = std::make_unique<LockingDB>(static_cast<StackableDB*>(db->rep), options->rep);
  delete db;
  std::vector<ColumnFamilyHandle*> handles;
  for (size_t i = 0; i < n; ++i) handles.push_back(cfs[i]->rep);
  const Status status = locking->Initialize({}, handles);
  if (status.ok()) return new rocksdb_transactiondb_t{locking.release()};
  for (size_t i = 0; i < n; ++i) rocksdb_column_family_handle_destroy(cfs[i]);
  Save(status, errptr);
  return nullptr;
}

// The same for optimistic transactions. `options` may be null.
rocksdb_optimistictransactiondb_t* lsm_sieve_with_optimism(
    rocksdb_t* db, const rocksdb_optimistictransactiondb_options_t* options) noexcept {
  std::unique_ptr<DB> filtered(db->rep);
  delete db;
  const OptimisticTransactionDBOptions defaults;
  return new rocksdb_optimistictransactiondb_t{
      new OptimisticDB(std::move(filtered), options == nullptr ? defaults : options->rep)};
}

// A line in the database's own log.
void lsm_sieve_warn(rocksdb_t* db, const char* text) noexcept {
  Warn(db->rep->GetDBOptions().info_log, "lsm-sieve: %s", text);
}

}  // extern "C"
}  // namespace lsm_sieve
