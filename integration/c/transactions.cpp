// Databases with transactions, and those with a time to live: each read of a transaction answers what it
// answers in RocksDB alone, and those that the list says so ask the filters for the keys that the
// transaction has not written.
//
//   transactions FOLDER          an empty folder
#include <functional>
#include <vector>

#include "rocksdb/merge_operator.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/utilities/stackable_db.h"
#include "rocksdb/wide_columns.h"
#include "support.hpp"

namespace {

using rocksdb::ColumnFamilyDescriptor;
using rocksdb::ColumnFamilyHandle;
using rocksdb::DB;
using rocksdb::PinnableSlice;
using rocksdb::PinnableWideColumns;
using rocksdb::ReadOptions;
using rocksdb::Slice;
using rocksdb::Status;
using rocksdb::Transaction;

using Cfs = std::vector<ColumnFamilyHandle*>;

// Operands are appended.
class Appends : public rocksdb::AssociativeMergeOperator {
 public:
  const char* Name() const override { return "transactions.appends"; }
  bool Merge(const Slice&, const Slice* existing, const Slice& operand, std::string* merged,
             rocksdb::Logger*) const override {
    *merged = (existing == nullptr ? "" : existing->ToString() + " ") + operand.ToString();
    return true;
  }
};

rocksdb::Options OptionsOfAll() {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  options.merge_operator = std::make_shared<Appends>();
  return options;
}

std::vector<ColumnFamilyDescriptor> TwoFamilies() {
  return {{"default", OptionsOfAll()}, {"other", OptionsOfAll()}};
}

// A database with transactions of one kind or the other, with filters or without.
struct Database {
  Database(bool filtered, bool locks, const std::string& folder) {
    const auto opened = locks ? OpenLocking(filtered, folder) : OpenOptimistic(filtered, folder);
    EXPECT(opened.ok());
    EXPECT((lsm_sieve::Of(db.get()) != nullptr) == filtered && cfs.size() == 2);
  }
  ~Database() {
    transaction.reset();
    for (ColumnFamilyHandle* cf : cfs) delete cf;
  }

  Status OpenLocking(bool filtered, const std::string& folder) {
    rocksdb::TransactionDB* opened = nullptr;
    const Status status =
        filtered ? lsm_sieve::OpenTransactionDB(OptionsOfAll(), {}, settings.raw, folder,
                                                TwoFamilies(), &cfs, &opened)
                 : rocksdb::TransactionDB::Open(OptionsOfAll(), {}, folder, TwoFamilies(), &cfs,
                                                &opened);
    db.reset(opened);
    begin = [opened] { return opened->BeginTransaction({}); };
    return status;
  }
  Status OpenOptimistic(bool filtered, const std::string& folder) {
    rocksdb::OptimisticTransactionDB* opened = nullptr;
    const Status status =
        filtered ? lsm_sieve::OpenOptimisticTransactionDB(OptionsOfAll(), {}, settings.raw, folder,
                                                          TwoFamilies(), &cfs, &opened)
                 : rocksdb::OptimisticTransactionDB::Open(OptionsOfAll(), folder, TwoFamilies(), &cfs,
                                                          &opened);
    db.reset(opened);
    begin = [opened] { return opened->BeginTransaction({}); };
    return status;
  }

  ExactSettings settings;
  Cfs cfs;
  std::unique_ptr<DB> db;
  std::function<Transaction*()> begin;
  std::unique_ptr<Transaction> transaction;
};

// ---------------------------------------------------------------- the reads

constexpr size_t kKeys = 120;

std::string Key(size_t i) { return "key " + std::to_string(1000 + i); }

// Each third key is there. A transaction writes each fourth: absent ones too, also by merges and
// deletions.
bool IsThere(size_t i) { return i % 3 == 0; }
bool IsWritten(size_t i) { return i % 4 == 0; }

void Fill(Database& database) {
  for (ColumnFamilyHandle* cf : database.cfs) {
    for (size_t i = 0; i < kKeys; ++i) {
      if (i == kKeys / 2) EXPECT(database.db->Flush({}, cf).ok());
      if (IsThere(i)) EXPECT(database.db->Put({}, cf, Key(i), "value " + Key(i)).ok());
    }
  }
  database.transaction.reset(database.begin());
  Transaction& transaction = *database.transaction;
  for (ColumnFamilyHandle* cf : database.cfs) {
    for (size_t i = 0; i < kKeys; ++i) {
      if (!IsWritten(i)) continue;
      const rocksdb::WideColumns columns{{rocksdb::kDefaultWideColumnName, "wide"}, {"more", "column"}};
      EXPECT((i % 16 == 0   ? transaction.Put(cf, Key(i), "own")
              : i % 16 == 4 ? transaction.Merge(cf, Key(i), "merged")
              : i % 16 == 8 ? transaction.PutEntity(cf, Key(i), columns)
                            : transaction.Delete(cf, Key(i)))
                 .ok());
    }
  }
}

using Texts = std::vector<std::string>;

std::string Text(const Status& status, const Slice& value) {
  return status.ToString() + (status.ok() ? " " + value.ToString() : "");
}

std::string Text(const Status& status, const PinnableSlice& value) {
  return status.ToString() + " " + value.ToString();
}

std::string Text(const Status& status, const PinnableWideColumns& columns) {
  std::string text = status.ToString();
  for (const auto& column : columns.columns()) {
    text += " " + column.name().ToString() + "=" + column.value().ToString();
  }
  return text;
}

template <typename Value>
Texts All(const std::vector<Status>& statuses, const std::vector<Value>& values) {
  Texts texts;
  for (size_t i = 0; i < values.size(); ++i) texts.push_back(Text(statuses[i], values[i]));
  return texts;
}

// Reads all keys of a column family.
using Read = std::function<Texts(Transaction&, const ReadOptions&, ColumnFamilyHandle*, const std::vector<Slice>&)>;

template <typename Value, typename One>
Read Each(One one) {
  return [one](Transaction& transaction, const ReadOptions& options, ColumnFamilyHandle* cf,
               const std::vector<Slice>& keys) {
    Texts texts;
    // One object for all keys: what an earlier one left in it must go.
    Value value;
    for (const Slice& key : keys) {
      const Status status = one(transaction, options, cf, key, &value);
      texts.push_back(Text(status, value));
    }
    return texts;
  };
}

template <typename Value, typename Many>
Read AtOnce(Many many) {
  return [many](Transaction& transaction, const ReadOptions& options, ColumnFamilyHandle* cf,
                const std::vector<Slice>& keys) {
    std::vector<Value> values(keys.size());
    std::vector<Status> statuses(keys.size());
    many(transaction, options, cf, keys, values, statuses);
    return All(statuses, values);
  };
}

// RocksDB reads the default family into a string, which it may leave as it was.
PinnableSlice* Emptied(PinnableSlice* value) {
  value->GetSelf()->clear();
  return value;
}

struct NamedRead {
  const char* name;
  bool asks;
  Read read;
  // If it does not take a column family, it reads the default one.
  bool takes_cf = true;
};

#define ONE(Value)                                                                            \
  Each<Value>([](Transaction & transaction, const ReadOptions& options, ColumnFamilyHandle* cf, \
                 const Slice& key, Value* value)
#define MANY(Value)                                                                             \
  AtOnce<Value>([](Transaction & transaction, const ReadOptions& options, ColumnFamilyHandle* cf, \
                   const std::vector<Slice>& keys, std::vector<Value>& values,                   \
                   std::vector<Status>& statuses)

const std::vector<NamedRead> kReads{
    {"Get", true, ONE(std::string) { return transaction.Get(options, cf, key, value); })},
    {"Get of the default", true,
     ONE(std::string) { return transaction.Get(options, key, value); }), false},
    {"Get, pinned", true, ONE(PinnableSlice) { return transaction.Get(options, cf, key, value); })},
    {"Get of the default, pinned", true,
     ONE(PinnableSlice) { return transaction.Get(options, key, Emptied(value)); }), false},
    {"GetEntity", true,
     ONE(PinnableWideColumns) { return transaction.GetEntity(options, cf, key, value); })},
    {"GetForUpdate", true,
     ONE(std::string) { return transaction.GetForUpdate(options, cf, key, value); })},
    {"GetForUpdate of the default", true,
     ONE(std::string) { return transaction.GetForUpdate(options, key, value); }), false},
    {"GetForUpdate, pinned", true,
     ONE(PinnableSlice) { return transaction.GetForUpdate(options, cf, key, value, false); })},
    {"GetForUpdate of the default, pinned", true,
     ONE(PinnableSlice) { return transaction.GetForUpdate(options, key, Emptied(value)); }), false},
    {"GetForUpdate without a value", false,
     ONE(std::string) {
       return transaction.GetForUpdate(options, cf, key, static_cast<std::string*>(nullptr));
     })},
    {"GetEntityForUpdate", true,
     ONE(PinnableWideColumns) { return transaction.GetEntityForUpdate(options, cf, key, value); })},
    {"MultiGet", true,
     MANY(PinnableSlice) {
       transaction.MultiGet(options, cf, keys.size(), keys.data(), values.data(), statuses.data());
     })},
    {"MultiGet of sorted keys", true,
     MANY(PinnableSlice) {
       transaction.MultiGet(options, cf, keys.size(), keys.data(), values.data(), statuses.data(),
                            true);
     })},
    {"MultiGet of vectors", true,
     MANY(std::string) {
       statuses = transaction.MultiGet(options, Cfs(keys.size(), cf), keys, &values);
     })},
    {"MultiGet of vectors of the default", true,
     MANY(std::string) { statuses = transaction.MultiGet(options, keys, &values); }), false},
    {"MultiGetEntity", true,
     MANY(PinnableWideColumns) {
       transaction.MultiGetEntity(options, cf, keys.size(), keys.data(), values.data(),
                                  statuses.data());
     })},
    {"MultiGetForUpdate", true,
     MANY(std::string) {
       statuses = transaction.MultiGetForUpdate(options, Cfs(keys.size(), cf), keys, &values);
     })},
    {"MultiGetForUpdate of the default", true,
     MANY(std::string) { statuses = transaction.MultiGetForUpdate(options, keys, &values); }), false},
    {"GetIterator", false,
     ONE(std::string) {
       const std::unique_ptr<rocksdb::Iterator> entries(transaction.GetIterator(options, cf));
       entries->Seek(key);
       const bool found = entries->Valid() && entries->key() == key;
       if (found) *value = entries->value().ToString();
       return found ? Status::OK() : Status::NotFound(entries->status().ToString());
     })},
    {"GetCoalescingIterator", false,
     ONE(std::string) {
       const auto entries = transaction.GetCoalescingIterator(options, {cf});
       entries->Seek(key);
       const bool found = entries->Valid() && entries->key() == key;
       if (found) *value = entries->value().ToString();
       return found ? Status::OK() : Status::NotFound(entries->status().ToString());
     })},
};

// How many of these keys the filters are asked for, and can deny.
size_t Absent(bool with_own) {
  size_t absent = 0;
  for (size_t i = 0; i < kKeys; ++i) absent += !IsThere(i) && !(with_own && IsWritten(i));
  return absent;
}

void EachReadAnswersAsRocksDB(bool locks, const std::string& folder) {
  Database plain(false, locks, folder + " plain"), filtered(true, locks, folder);
  Fill(plain);
  Fill(filtered);
  EXPECT(IsComplete(filtered.db.get()));
  Texts keys;
  for (size_t i = 0; i < kKeys; ++i) keys.push_back(Key(i));
  const std::vector<Slice> slices(keys.begin(), keys.end());
  const rocksdb::Snapshot* const snapshots[]{plain.db->GetSnapshot(), filtered.db->GetSnapshot()};
  const Slice timestamp("12345678", 8);
  for (const NamedRead& named : kReads) {
    for (size_t cf = 0; cf < (named.takes_cf ? 2 : 1); ++cf) {
      // What a transaction refuses, and what it takes.
      for (int variant = 0; variant < 5; ++variant) {
        Texts texts[2];
        uint64_t asked = 0;
        for (Database* database : {&plain, &filtered}) {
          const bool is_filtered = database == &filtered;
          ReadOptions options;
          if (variant == 1) options.snapshot = snapshots[is_filtered];
          if (variant == 2) options.io_activity = rocksdb::Env::IOActivity::kFlush;
          if (variant == 3) options.timestamp = &timestamp;
          if (variant == 4) options.read_tier = rocksdb::kMemtableTier;
          const uint64_t before = is_filtered ? Stats(database->db.get()).absent : 0;
          texts[is_filtered] =
              named.read(*database->transaction, options, database->cfs[cf], slices);
          if (is_filtered) asked = Stats(database->db.get()).absent - before;
        }
        for (size_t i = 0; i < kKeys; ++i) {
          if (texts[0][i] == texts[1][i]) continue;
          std::cerr << named.name << " " << variant << " of " << keys[i] << ": " << texts[0][i]
                    << "; with filters: " << texts[1][i] << std::endl;
          std::_Exit(1);
        }
        if (variant == 0) {
          std::cerr << (locks ? "locks, " : "optimistic, ") << named.name << ": " << asked
                    << " answered" << std::endl;
        }
        // All but false positives.
        if (variant < 2) EXPECT(named.asks ? asked <= Absent(true) && asked + 8 > Absent(true) : asked == 0);
        if (variant == 2 || variant == 3) EXPECT(asked == 0);
      }
    }
  }
  // Nothing that it has not written: it asks for all.
  for (Database* database : {&plain, &filtered}) EXPECT(database->transaction->Rollback().ok());
  const uint64_t before = Stats(filtered.db.get()).absent;
  for (const NamedRead& named : kReads) {
    const Texts expected = named.read(*plain.transaction, {}, plain.cfs[0], slices);
    EXPECT(named.read(*filtered.transaction, {}, filtered.cfs[0], slices) == expected);
  }
  const uint64_t asked = Stats(filtered.db.get()).absent - before;
  size_t asking = 0;
  for (const NamedRead& named : kReads) asking += named.asks;
  EXPECT(asked <= asking * Absent(false) && asked * 10 > asking * Absent(false) * 9);
  plain.db->ReleaseSnapshot(snapshots[0]);
  filtered.db->ReleaseSnapshot(snapshots[1]);
}

// A read for update that is denied guards its key, whichever read it is.
void DeniedKeysAreGuarded(bool locks, const std::string& folder) {
  Database database(true, locks, folder);
  EXPECT(IsComplete(database.db.get()));
  ColumnFamilyHandle* const cf = database.cfs[1];
  std::vector<std::function<Status(Transaction&, const Slice&)>> reads{
      [&](Transaction& transaction, const Slice& key) {
        std::string value;
        return transaction.GetForUpdate({}, cf, key, &value);
      },
      [&](Transaction& transaction, const Slice& key) {
        PinnableWideColumns columns;
        return transaction.GetEntityForUpdate({}, cf, key, &columns);
      },
      [&](Transaction& transaction, const Slice& key) {
        std::vector<std::string> values;
        return transaction.MultiGetForUpdate({}, {cf}, {key}, &values)[0];
      },
  };
  // Optimistic transactions do not support it.
  if (locks) {
    reads.push_back([&](Transaction& transaction, const Slice& key) {
      return transaction.CollapseKey({}, key, cf);
    });
  }
  size_t number = 0;
  for (const auto& read : reads) {
    const std::string key = Key(number++);
    const uint64_t before = Stats(database.db.get()).absent;
    const std::unique_ptr<Transaction> first(database.begin()), second(database.begin());
    second->SetLockTimeout(1);
    EXPECT(read(*first, key).IsNotFound() && Stats(database.db.get()).absent == before + 1);
    const Status written = second->Put(cf, key, "second");
    if (locks) {
      EXPECT(written.IsTimedOut() && first->Put(cf, key, "first").ok() && first->Commit().ok());
    } else {
      EXPECT(written.ok() && second->Commit().ok() && first->Put(cf, key, "first").ok());
      EXPECT(first->Commit().IsBusy());
    }
    std::string value;
    EXPECT(database.db->Get({}, cf, key, &value).ok() && value == (locks ? "first" : "second"));
  }
}

// Reads of one key for update, with all that they may be asked for.
using ReadForUpdate = Status (*)(Transaction&, ColumnFamilyHandle*, const Slice& key, bool exclusive,
                                 bool validates);
const ReadForUpdate kReadsForUpdate[]{
    [](Transaction& transaction, ColumnFamilyHandle* cf, const Slice& key, bool exclusive,
       bool validates) {
      std::string value;
      return transaction.GetForUpdate({}, cf, key, &value, exclusive, validates);
    },
    [](Transaction& transaction, ColumnFamilyHandle* cf, const Slice& key, bool exclusive,
       bool validates) {
      PinnableSlice value;
      return transaction.GetForUpdate({}, cf, key, &value, exclusive, validates);
    },
    [](Transaction& transaction, ColumnFamilyHandle* cf, const Slice& key, bool exclusive,
       bool validates) {
      PinnableWideColumns columns;
      return transaction.GetEntityForUpdate({}, cf, key, &columns, exclusive, validates);
    },
};

// A read for update takes the lock that it is asked for. Optimistic transactions watch the key either
// way.
void LocksAreThoseAskedFor(bool locks, const std::string& folder) {
  Database database(true, locks, folder);
  EXPECT(IsComplete(database.db.get()));
  ColumnFamilyHandle* const cf = database.cfs[1];
  size_t number = 0;
  for (const ReadForUpdate read : kReadsForUpdate) {
    for (const bool exclusive : {false, true}) {
      const std::string key = "locked " + std::to_string(number++);
      const std::unique_ptr<Transaction> first(database.begin()), second(database.begin()),
          third(database.begin());
      for (Transaction* transaction : {second.get(), third.get()}) transaction->SetLockTimeout(1);
      EXPECT(read(*first, cf, key, exclusive, true).IsNotFound());
      if (locks) {
        const Status shared = read(*second, cf, key, exclusive, true);
        EXPECT(exclusive ? shared.IsTimedOut() : shared.IsNotFound());
        EXPECT(third->Put(cf, key, "third").IsTimedOut());
      } else {
        EXPECT(third->Put(cf, key, "third").ok() && third->Commit().ok());
        EXPECT(first->Put(cf, "other " + key, "first").ok() && first->Commit().IsBusy());
      }
    }
  }
}

// A read for update may be asked not to compare with the transaction's snapshot: it then reads what was
// written since, and a commit does not fail for it.
void WhatIsNotValidatedIsRead(bool locks, const std::string& folder) {
  std::vector<Status> answers[2];
  for (const bool filtered : {false, true}) {
    Database database(filtered, locks, folder + (filtered ? "" : " plain"));
    EXPECT(!filtered || IsComplete(database.db.get()));
    ColumnFamilyHandle* const cf = database.cfs[1];
    size_t number = 0;
    for (const ReadForUpdate read : kReadsForUpdate) {
      for (const bool validates : {false, true}) {
        for (const bool is_written : {false, true}) {
          const std::string key = Key(number++);
          const std::unique_ptr<Transaction> transaction(database.begin());
          transaction->SetSnapshot();
          if (is_written) EXPECT(database.db->Put({}, cf, key, "other").ok());
          answers[filtered].push_back(read(*transaction, cf, key, true, validates));
          EXPECT(!locks || answers[filtered].back().IsBusy() == (validates && is_written));
          EXPECT(transaction->Put(cf, "own " + key, "value").ok());
          answers[filtered].push_back(transaction->Commit());
        }
      }
    }
  }
  EXPECT(answers[0] == answers[1]);
}

// A flush takes the memtable in which a commit looks for the writes of others; it is kept for that.
void CommitsAfterAFlush(bool locks, const std::string& folder) {
  Database database(true, locks, folder);
  ColumnFamilyHandle* const cf = database.cfs[1];
  const std::unique_ptr<Transaction> transaction(database.begin());
  std::string value;
  EXPECT(transaction->GetForUpdate({}, cf, "key", &value).IsNotFound());
  EXPECT(transaction->Put(cf, "key", "value").ok());
  EXPECT(database.db->Put({}, cf, "other", "value").ok() && database.db->Flush({}, cf).ok());
  EXPECT(database.db->Put({}, cf, "other", "newer").ok());
  EXPECT(transaction->Commit().ok());
  EXPECT(database.db->Get({}, cf, "key", &value).ok() && value == "value");
}

// Commits that RocksDB would write past the memtables, by new transactions and by reused ones.
void NoCommitPassesMemtables(const std::string& folder) {
  ExactSettings settings;
  rocksdb::TransactionDB* opened = nullptr;
  EXPECT(lsm_sieve::OpenTransactionDB(OptionsOfAll(), {}, settings.raw, folder, &opened).ok());
  const std::unique_ptr<rocksdb::TransactionDB> db(opened);
  EXPECT(IsComplete(db.get()));
  std::vector<rocksdb::TransactionOptions> ways(3);
  ways[0].commit_bypass_memtable = true;
  ways[1].large_txn_commit_optimize_threshold = 1;
  ways[2].large_txn_commit_optimize_byte_threshold = 1;
  Transaction* reused = db->BeginTransaction({});
  for (size_t way = 0; way < ways.size(); ++way) {
    reused = db->BeginTransaction({}, ways[way], reused);
    const std::unique_ptr<Transaction> begun(db->BeginTransaction({}, ways[way]));
    for (Transaction* transaction : {begun.get(), reused}) {
      const std::string name = (transaction == reused ? "reused " : "begun ") + std::to_string(way);
      EXPECT(transaction->SetName(name).ok());
      for (size_t i = 0; i < 100; ++i) EXPECT(transaction->Put(name + Key(i), "value").ok());
      EXPECT(transaction->Prepare().ok() && transaction->Commit().ok());
      std::string value;
      for (size_t i = 0; i < 100; ++i) EXPECT(db->Get({}, name + Key(i), &value).ok());
    }
  }
  delete reused;
}

// ---------------------------------------------------------------- the opens

template <typename Opened>
void HasFilters(Opened* db) {
  const std::unique_ptr<DB> owned(db);
  EXPECT(IsComplete(db));
  std::string value;
  EXPECT(db->Put({}, "ada", "1815").ok() && db->Get({}, "ada", &value).ok() && value == "1815");
  const uint64_t before = Stats(db).absent;
  EXPECT(db->Get({}, "charles", &value).IsNotFound() && Stats(db).absent == before + 1);
}

void EachOpenHasFilters(const std::string& folder) {
  ExactSettings settings;
  rocksdb::TransactionDB* locks = nullptr;
  EXPECT(lsm_sieve::OpenTransactionDB(OptionsOfAll(), {}, settings.raw, folder + " a", &locks).ok());
  rocksdb::TransactionDB* again = nullptr;
  EXPECT(lsm_sieve::OpenTransactionDB(OptionsOfAll(), {}, nullptr, folder + " a", &again).IsIOError());
  EXPECT(again == nullptr);
  EXPECT(lsm_sieve::Of(locks->GetBaseDB()) == lsm_sieve::Of(locks));
  HasFilters(locks);

  rocksdb::OptimisticTransactionDB* optimistic = nullptr;
  EXPECT(lsm_sieve::OpenOptimisticTransactionDB(OptionsOfAll(), settings.raw, folder + " b",
                                                &optimistic)
             .ok());
  HasFilters(optimistic);

  rocksdb::DBWithTTL* with_ttl = nullptr;
  Cfs cfs;
  EXPECT(lsm_sieve::OpenWithTTL(OptionsOfAll(), settings.raw, folder + " c", TwoFamilies(), &cfs,
                                &with_ttl, {3600, 7200})
             .ok());
  int32_t ttl = 0;
  EXPECT(with_ttl->GetTtl(cfs[1], &ttl).ok() && ttl == 7200);
  with_ttl->SetTtl(cfs[1], 7);
  EXPECT(with_ttl->GetTtl(cfs[1], &ttl).ok() && ttl == 7);
  EXPECT(with_ttl->GetTtl(cfs[0], &ttl).ok() && ttl == 3600);
  with_ttl->SetTtl(8);
  EXPECT(with_ttl->GetTtl(cfs[0], &ttl).ok() && ttl == 8);
  for (ColumnFamilyHandle* cf : cfs) delete cf;
  HasFilters(with_ttl);

  // What the commits of a database share is that of what begins its transactions.
  rocksdb::OptimisticTransactionDBOptions parallel;
  parallel.shared_lock_buckets = rocksdb::MakeSharedOccLockBuckets(16);
  std::vector<ColumnFamilyHandle*> handles;
  EXPECT(lsm_sieve::OpenOptimisticTransactionDB(OptionsOfAll(), parallel, settings.raw, folder + " b",
                                                TwoFamilies(), &handles, &optimistic)
             .ok());
  EXPECT(parallel.shared_lock_buckets.use_count() == 3);
  for (ColumnFamilyHandle* handle : handles) delete handle;
  delete optimistic;
}

struct OwnLocks : rocksdb::LockManagerHandle {
  rocksdb::LockManager* getLockManager() override { return nullptr; }
};

bool Says(const Status& status, const std::string& text) {
  return status.IsInvalidArgument() && status.ToString().find(text) != std::string::npos;
}

// What cannot have filters is refused, and nothing is created.
void WhatIsNotProvedIsRefused(const std::string& folder) {
  rocksdb::TransactionDB* locking = nullptr;
  rocksdb::OptimisticTransactionDB* optimistic = nullptr;
  std::vector<rocksdb::TransactionDBOptions> of_locks(4);
  of_locks[0].write_policy = rocksdb::WRITE_PREPARED;
  of_locks[1].write_policy = rocksdb::WRITE_UNPREPARED;
  of_locks[2].lock_mgr_handle = std::make_shared<OwnLocks>();
  of_locks[3].secondary_indices.emplace_back();
  const std::string reasons[]{"need WRITE_COMMITTED", "need WRITE_COMMITTED", "lock manager",
                              "secondary indices"};
  for (size_t i = 0; i < of_locks.size(); ++i) {
    const Status status =
        lsm_sieve::OpenTransactionDB(OptionsOfAll(), of_locks[i], nullptr, folder, &locking);
    EXPECT(Says(status, "Invalid argument: lsm-sieve: ") && Says(status, reasons[i]));
    EXPECT(locking == nullptr);
  }
  rocksdb::Options unordered = OptionsOfAll(), timestamps = OptionsOfAll();
  unordered.unordered_write = true;
  timestamps.comparator = rocksdb::BytewiseComparatorWithU64Ts();
  for (const rocksdb::Options& options : {unordered, timestamps}) {
    const std::string reason = options.unordered_write ? "unordered_write" : "timestamp";
    EXPECT(Says(lsm_sieve::OpenTransactionDB(options, {}, nullptr, folder, &locking), reason));
    EXPECT(Says(lsm_sieve::OpenOptimisticTransactionDB(options, nullptr, folder, &optimistic), reason));
    EXPECT(locking == nullptr && optimistic == nullptr);
  }
  EXPECT(rocksdb::Env::Default()->FileExists(folder).IsNotFound());
}

// A transaction that was prepared and not ended is left to RocksDB.
void PreparedTransactionsAreRefused(const std::string& folder) {
  rocksdb::TransactionDB* db = nullptr;
  EXPECT(rocksdb::TransactionDB::Open(OptionsOfAll(), {}, folder, &db).ok());
  Transaction* const transaction = db->BeginTransaction({});
  EXPECT(transaction->SetName("prepared").ok() && transaction->Put("ada", "1815").ok());
  EXPECT(transaction->Prepare().ok());
  delete transaction;
  delete db;
  const Status status = lsm_sieve::OpenTransactionDB(OptionsOfAll(), {}, nullptr, folder, &db);
  EXPECT(status.IsInvalidArgument() && db == nullptr);
  EXPECT(status.ToString().find("transactions were prepared") != std::string::npos);
  EXPECT(rocksdb::TransactionDB::Open(OptionsOfAll(), {}, folder, &db).ok());
  std::vector<Transaction*> left;
  db->GetAllPreparedTransactions(&left);
  EXPECT(left.size() == 1 && left[0]->Commit().ok());
  delete left[0];
  delete db;
  EXPECT(lsm_sieve::OpenTransactionDB(OptionsOfAll(), {}, nullptr, folder, &db).ok());
  std::string value;
  EXPECT(db->Get({}, "ada", &value).ok());
  delete db;
}

// ---------------------------------------------------------------- C

struct InC {
  InC() : options(rocksdb_options_create()) {
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_create_missing_column_families(options, 1);
    for (auto& of_cf : of_cfs) of_cf = options;
  }
  ~InC() { rocksdb_options_destroy(options); }

  // Looks for a key that is absent, through a handle.
  void IsAsked(rocksdb_t* db) {
    EXPECT(error == nullptr && db != nullptr);
    lsm_sieve_t* const filters = lsm_sieve_of(db);
    EXPECT(filters != nullptr && lsm_sieve_wait_until_complete(filters, kLimitMs) == 1);
    rocksdb_readoptions_t* const reading = rocksdb_readoptions_create();
    size_t size = 0;
    const uint64_t before = lsm_sieve_stats(filters).absent;
    EXPECT(rocksdb_get_cf(db, reading, cfs[1], "absent", 6, &size, &error) == nullptr);
    EXPECT(error == nullptr && lsm_sieve_stats(filters).absent == before + 1);
    rocksdb_readoptions_destroy(reading);
    for (auto* cf : cfs) rocksdb_column_family_handle_destroy(cf);
  }

  rocksdb_options_t* const options;
  ExactSettings settings;
  const char* const names[2]{"default", "other"};
  const rocksdb_options_t* of_cfs[2];
  rocksdb_column_family_handle_t* cfs[2];
  char* error = nullptr;
};

void EachOpenOfCHasFilters(const std::string& folder) {
  InC c;
  const std::string paths[]{folder + " a", folder + " b", folder + " c"};
  rocksdb_transactiondb_options_t* const of_locks = rocksdb_transactiondb_options_create();
  rocksdb_transactiondb_t* const locks = lsm_sieve_transactiondb_open_column_families(
      c.options, of_locks, c.settings.raw, paths[0].c_str(), 2, c.names, c.of_cfs, c.cfs, &c.error);
  EXPECT(locks != nullptr);
  rocksdb_t* base = rocksdb_transactiondb_get_base_db(locks);
  c.IsAsked(base);
  rocksdb_transactiondb_close_base_db(base);
  rocksdb_transactiondb_close(locks);
  rocksdb_transactiondb_options_destroy(of_locks);

  rocksdb_optimistictransactiondb_t* const optimistic =
      lsm_sieve_optimistictransactiondb_open_column_families(c.options, nullptr, c.settings.raw,
                                                             paths[1].c_str(), 2, c.names, c.of_cfs,
                                                             c.cfs, &c.error);
  EXPECT(optimistic != nullptr);
  base = rocksdb_optimistictransactiondb_get_base_db(optimistic);
  c.IsAsked(base);
  rocksdb_optimistictransactiondb_close_base_db(base);
  rocksdb_optimistictransactiondb_close(optimistic);

  const int ttls[2]{3600, 7200};
  rocksdb_t* const with_ttl = lsm_sieve_open_column_families_with_ttl(
      c.options, c.settings.raw, paths[2].c_str(), 2, c.names, c.of_cfs, c.cfs, ttls, &c.error);
  c.IsAsked(with_ttl);
  rocksdb_close(with_ttl);

  EXPECT(lsm_sieve_transactiondb_open_column_families(c.options, nullptr, nullptr, paths[0].c_str(), 2,
                                                      c.names, c.of_cfs, c.cfs, &c.error) == nullptr);
  EXPECT(std::string(c.error) == "Invalid argument: the options object of transactions is NULL");
  EXPECT(lsm_sieve_open_column_families_with_ttl(c.options, nullptr, paths[2].c_str(), 2, c.names,
                                                 c.of_cfs, c.cfs, nullptr, &c.error) == nullptr);
  EXPECT(std::string(c.error) == "Invalid argument: the array of times to live is NULL");
  rocksdb_free(c.error);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  for (const bool locks : {true, false}) {
    const std::string kind = locks ? "/locks" : "/optimistic";
    EachReadAnswersAsRocksDB(locks, folder + kind + " reads");
    DeniedKeysAreGuarded(locks, folder + kind + " guarded");
    LocksAreThoseAskedFor(locks, folder + kind + " locked");
    WhatIsNotValidatedIsRead(locks, folder + kind + " unvalidated");
    CommitsAfterAFlush(locks, folder + kind + " flushed");
  }
  NoCommitPassesMemtables(folder + "/passing");
  EachOpenHasFilters(folder + "/open");
  WhatIsNotProvedIsRefused(folder + "/refused");
  PreparedTransactionsAreRefused(folder + "/prepared");
  EachOpenOfCHasFilters(folder + "/c");
  std::cout << "all held\n";
}
