// The part of the plugin that must be C++: RocksDB's C API has no custom memtable, filter policy
// or table-properties collector, and no reader of raw SST keys.
//
// Nothing here decides anything. Each class forwards to RocksDB's own object and tells the Rust
// side, through the table of functions in `lsm_sieve_hooks`, what passes by. The Rust functions
// never unwind. Nor does an exception leave this file for Rust: where there is no memory for a
// container, the process ends, as it does in RocksDB.

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "db/column_family.h"
#include "db/db_impl/db_impl.h"
#include "db/version_edit_handler.h"
#include "db/version_set.h"
#include "rocksdb/comparator.h"
#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/listener.h"
#include "rocksdb/memtablerep.h"
#include "rocksdb/metadata.h"
#include "rocksdb/options.h"
#include "rocksdb/sst_file_reader.h"
#include "rocksdb/table.h"
#include "rocksdb/table_properties.h"
#include "rocksdb/unique_id.h"
#include "rocksdb/utilities/options_util.h"
#include "rocksdb/utilities/transaction.h"
#include "rocksdb/utilities/write_batch_with_index.h"
#include "table/block_based/filter_policy_internal.h"
#include "util/coding.h"
#include "utilities/transactions/optimistic_transaction_db_impl.h"
#include "utilities/transactions/pessimistic_transaction_db.h"

using namespace ROCKSDB_NAMESPACE;

// RocksDB's private structures behind its C API (db/c.cc). `lsm_sieve_layout_matches` looks into the
// first; the self-check of the hooks goes through the second, and the tests through the others.
struct rocksdb_options_t {
  Options rep;
};
struct rocksdb_column_family_handle_t {
  ColumnFamilyHandle* rep;
  bool immortal;
};
struct rocksdb_transactiondb_options_t {
  TransactionDBOptions rep;
};
struct rocksdb_transactiondb_t {
  TransactionDB* rep;
};
struct rocksdb_optimistictransactiondb_t {
  OptimisticTransactionDB* rep;
};
struct rocksdb_transaction_t {
  Transaction* rep;
};

extern "C" {

// What the Rust side does when something passes by. `column` is one column family's front, `listener` what
// hears of the events of the whole database.
struct lsm_sieve_hooks {
  void (*column_release)(void* column);
  void (*memtable_created)(void* column, uint32_t family);
  void* (*memtable_bind)(void* column);
  uint64_t (*memtable_prepare)(void* target, const char* key, size_t size);
  void (*memtable_insert)(void* target, uint64_t hash);
  void (*memtable_sealed)(void* target);
  void (*memtable_release)(void* target);
  void* (*table_begin)(void* column);
  void (*table_add)(void* table, const char* key, size_t size);
  void (*table_id)(void* table, uint8_t id[16]);
  // Seals the filter of a table with this many point entries; false: bind nothing to it.
  bool (*table_finish)(void* table, uint64_t entries);
  void (*table_release)(void* table);
  void* (*segment_open)(void* column, const uint8_t id[16]);
  bool (*segment_may_contain)(void* segment, const char* key, size_t size);
  void (*segment_may_contain_many)(void* segment, size_t count, const char* const* keys,
                                   const size_t* sizes, bool* answers);
  void (*segment_release)(void* segment);
  void (*listener_release)(void* listener);
  void (*engine_changed)(void* listener);
  void (*keys_ingested)(void* listener, const char* family, size_t size);
};

struct lsm_sieve_table {
  const char* path;
  size_t path_size;
  const uint8_t* segment;  // 16 bytes, or null: the table was built without the plugin
  const uint8_t* unique;   // 16 bytes, or null: older than RocksDB 6.24
  uint64_t entries;  // point entries: old versions, merge operands and tombstones included
  int level;             // -1: unknown
  const char* smallest;  // null: key range unknown
  size_t smallest_size;
  const char* largest;
  size_t largest_size;
};
}

namespace {

// Whether this fault is planted in this process; see crates/support/src/planted.rs.
#ifdef LSM_SIEVE_PLANTED
bool Planted(const char* fault) {
  static const char* const named = std::getenv("LSM_SIEVE_PLANT");
  return named != nullptr && std::strcmp(named, fault) == 0;
}
#else
constexpr bool Planted(const char*) { return false; }
#endif

constexpr char kSegmentProperty[] = "lsm-sieve.segment";

// A filter block of ours: the segment's id, then a trailer as long as RocksDB's own whose marker
// byte is none of RocksDB's, so that a RocksDB without the plugin answers "may match".
constexpr size_t kIdSize = 16;
constexpr char kTrailer[] = {static_cast<char>(0xFB), 'S', 'I', 'V', '1'};
constexpr size_t kBlockSize = kIdSize + sizeof(kTrailer);

// One reference on a column's front, released with the last factory that holds it.
class Column {
 public:
  Column(void* front, const lsm_sieve_hooks* hooks) : front_(front), hooks_(hooks) {}
  ~Column() { hooks_->column_release(front_); }
  Column(const Column&) = delete;
  Column& operator=(const Column&) = delete;
  void* front() const { return front_; }
  const lsm_sieve_hooks* hooks() const { return hooks_; }

 private:
  void* const front_;
  const lsm_sieve_hooks* const hooks_;
};
using ColumnPtr = std::shared_ptr<const Column>;

// ---------------------------------------------------------------- memtable capture

bool IsDeletion(uint8_t type) {
  return type == kTypeDeletion || type == kTypeSingleDeletion ||
         type == kTypeDeletionWithTimestamp || type == kTypeRangeDeletion;
}

// Adds each key to the front's filters before the sequence number that makes it visible is
// published, which is after the memtable has taken it.
//
// The filters are those that the front names when the *first* key arrives; they stay the same until
// the memtable is flushed. So a flush is all it takes to know that no memtable feeds an older set of
// filters any more.
class CapturedRep : public MemTableRep {
 public:
  CapturedRep(MemTableRep* inner, Allocator* allocator, ColumnPtr column)
      : MemTableRep(allocator), inner_(inner), column_(std::move(column)) {}

  ~CapturedRep() override { Release(); }

  KeyHandle Allocate(const size_t len, char** buf) override { return inner_->Allocate(len, buf); }
  void Insert(KeyHandle handle) override {
    const Capture capture(*this, handle);
    inner_->Insert(handle);
  }
  bool InsertKey(KeyHandle handle) override {
    const Capture capture(*this, handle);
    return inner_->InsertKey(handle);
  }
  void InsertWithHint(KeyHandle handle, void** hint) override {
    const Capture capture(*this, handle);
    inner_->InsertWithHint(handle, hint);
  }
  bool InsertKeyWithHint(KeyHandle handle, void** hint) override {
    const Capture capture(*this, handle, Planted("PrefixHintUnseen"));
    return inner_->InsertKeyWithHint(handle, hint);
  }
  void InsertWithHintConcurrently(KeyHandle handle, void** hint) override {
    const Capture capture(*this, handle);
    inner_->InsertWithHintConcurrently(handle, hint);
  }
  bool InsertKeyWithHintConcurrently(KeyHandle handle, void** hint) override {
    const Capture capture(*this, handle, Planted("BatchHintUnseen"));
    return inner_->InsertKeyWithHintConcurrently(handle, hint);
  }
  void InsertConcurrently(KeyHandle handle) override {
    const Capture capture(*this, handle);
    inner_->InsertConcurrently(handle);
  }
  bool InsertKeyConcurrently(KeyHandle handle) override {
    const Capture capture(*this, handle);
    return inner_->InsertKeyConcurrently(handle);
  }
  void BatchPostProcess() override { inner_->BatchPostProcess(); }
  bool Contains(const char* key) const override { return inner_->Contains(key); }
  // Not the end of its insertions: the switch to the next memtable may still fail.
  void MarkReadOnly() override { inner_->MarkReadOnly(); }
  // RocksDB may keep the memtable for long after this, for transactions to look in; not the filters.
  void MarkFlushed() override {
    Release();
    inner_->MarkFlushed();
  }
  void Get(const LookupKey& k, void* callback_args,
           bool (*callback_func)(void* arg, const char* entry)) override {
    inner_->Get(k, callback_args, callback_func);
  }
  Status GetAndValidate(
      const LookupKey& k, void* callback_args,
      bool (*callback_func)(void* arg, const char* entry), bool allow_data_in_error,
      bool detect_key_out_of_order,
      const std::function<Status(const char*, bool)>& key_validation_callback) override {
    return inner_->GetAndValidate(k, callback_args, callback_func, allow_data_in_error,
                                  detect_key_out_of_order, key_validation_callback);
  }
  Status MultiGet(
      size_t num_keys, const char* const* keys, void** callback_args,
      bool (*callback_func)(void* arg, const char* entry), bool allow_data_in_errors,
      bool detect_key_out_of_order,
      const std::function<Status(const char*, bool)>& key_validation_callback) override {
    return inner_->MultiGet(num_keys, keys, callback_args, callback_func, allow_data_in_errors,
                            detect_key_out_of_order, key_validation_callback);
  }
  uint64_t ApproximateNumEntries(const Slice& start, const Slice& end) override {
    return inner_->ApproximateNumEntries(start, end);
  }
  void UniqueRandomSample(const uint64_t num_entries, const uint64_t target_sample_size,
                          std::unordered_set<const char*>* entries) override {
    inner_->UniqueRandomSample(num_entries, target_sample_size, entries);
  }
  size_t ApproximateMemoryUsage() override { return inner_->ApproximateMemoryUsage(); }
  Iterator* GetIterator(Arena* arena) override { return inner_->GetIterator(arena); }
  Iterator* GetDynamicPrefixIterator(Arena* arena) override {
    return inner_->GetDynamicPrefixIterator(arena);
  }
  bool IsMergeOperatorSupported() const override { return inner_->IsMergeOperatorSupported(); }
  bool IsSnapshotSupported() const override { return inner_->IsSnapshotSupported(); }

 private:
  // Spans one insertion. The filters' cache lines are asked for before the memtable searches its
  // place, and written after it: an atomic write to a line that is not there yet would stop the
  // processor for as long as the search itself takes.
  //
  // The handle of the memtables that are let in is the entry itself: a length-prefixed internal
  // key, whose last eight bytes are sequence number and value type, the type lowest.
  class Capture {
   public:
    // `unseen`: a planted fault.
    Capture(CapturedRep& rep, KeyHandle handle, bool unseen = false)
        : hooks_(rep.column_->hooks()) {
      const Slice internal = GetLengthPrefixedSlice(static_cast<const char*>(handle));
      const Slice key(internal.data(), internal.size() - 8);
      if (!unseen && !IsDeletion(static_cast<uint8_t>(internal.data()[key.size()]))) {
        target_ = rep.Target();
        hash_ = hooks_->memtable_prepare(target_, key.data(), key.size());
      }
    }
    ~Capture() {
      if (target_ != nullptr) hooks_->memtable_insert(target_, hash_);
    }
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;

   private:
    const lsm_sieve_hooks* const hooks_;
    void* target_ = nullptr;
    uint64_t hash_ = 0;
  };

  void* Target() {
    void* target = target_.load(std::memory_order_acquire);
    if (target != nullptr) {
      return target;
    }
    void* fresh = column_->hooks()->memtable_bind(column_->front());
    if (target_.compare_exchange_strong(target, fresh, std::memory_order_acq_rel)) {
      return fresh;
    }
    if (!Planted("LostBindUnsealed")) column_->hooks()->memtable_sealed(fresh);
    column_->hooks()->memtable_release(fresh);
    return target;
  }

  // No more keys come, and those that came are in a table or another memtable, or gone with this one.
  void Release() {
    if (void* target = target_.exchange(nullptr, std::memory_order_acq_rel)) {
      column_->hooks()->memtable_sealed(target);
      column_->hooks()->memtable_release(target);
    }
  }

  const std::unique_ptr<MemTableRep> inner_;
  const ColumnPtr column_;
  std::atomic<void*> target_{nullptr};
};

// Keeps the wrapped factory's name and id, so that the OPTIONS file loads without the plugin.
class CapturedRepFactory : public MemTableRepFactory {
 public:
  CapturedRepFactory(std::shared_ptr<MemTableRepFactory> inner, ColumnPtr column)
      : inner_(std::move(inner)), column_(std::move(column)) {}

  const char* Name() const override { return inner_->Name(); }
  std::string GetId() const override { return inner_->GetId(); }
  bool IsInstanceOf(const std::string&) const override { return false; }
  const Customizable* Inner() const override { return inner_.get(); }
  bool IsInsertConcurrentlySupported() const override {
    return inner_->IsInsertConcurrentlySupported();
  }
  bool CanHandleDuplicatedKey() const override { return inner_->CanHandleDuplicatedKey(); }

  // RocksDB does not call this one, which does not say whose memtable it is.
  MemTableRep* CreateMemTableRep(const MemTableRep::KeyComparator& comparator,
                                 Allocator* allocator, const SliceTransform* transform,
                                 Logger* logger) override {
    return new CapturedRep(inner_->CreateMemTableRep(comparator, allocator, transform, logger),
                           allocator, column_);
  }
  MemTableRep* CreateMemTableRep(const MemTableRep::KeyComparator& comparator,
                                 Allocator* allocator, const SliceTransform* transform,
                                 Logger* logger, uint32_t column_family_id) override {
    column_->hooks()->memtable_created(column_->front(), column_family_id);
    return new CapturedRep(
        inner_->CreateMemTableRep(comparator, allocator, transform, logger, column_family_id),
        allocator, column_);
  }

 private:
  const std::shared_ptr<MemTableRepFactory> inner_;
  const ColumnPtr column_;
};

// ---------------------------------------------------------------- table capture and filter policy

// The filter of a table under construction, shared by the two objects that RocksDB makes for it:
// the filter builder, which sees each key and writes the block that names the segment, and the
// collector, which counts the entries and binds the segment to the table's properties.
class TableBuild {
 public:
  explicit TableBuild(ColumnPtr column)
      : column_(std::move(column)), table_(column_->hooks()->table_begin(column_->front())) {}
  ~TableBuild() {
    if (table_ != nullptr) column_->hooks()->table_release(table_);
  }
  TableBuild(const TableBuild&) = delete;
  TableBuild& operator=(const TableBuild&) = delete;

  const Column* column() const { return column_.get(); }
  bool wanted() const { return table_ != nullptr; }
  void Add(const Slice& key) {
    if (table_ != nullptr) column_->hooks()->table_add(table_, key.data(), key.size());
  }
  bool Id(uint8_t id[kIdSize]) const {
    if (table_ == nullptr) return false;
    column_->hooks()->table_id(table_, id);
    return true;
  }
  bool Finish(uint64_t entries) {
    return table_ != nullptr && column_->hooks()->table_finish(table_, entries);
  }

 private:
  const ColumnPtr column_;
  void* const table_;  // null: the Rust side had nothing to give
};

// The build whose collector is still to come. A table builder's constructor makes its filter
// builder and then its collectors, on one thread, with no other table in between.
thread_local std::shared_ptr<TableBuild> pending_build;

class SegmentBuilder : public FilterBitsBuilder {
 public:
  explicit SegmentBuilder(std::shared_ptr<TableBuild> build) : build_(std::move(build)) {}

  void AddKey(const Slice& key) override {
    ++added_;
    build_->Add(key);
  }
  // Prefixes are refused at install; where an extractor is set on the running engine, which then
  // asks for prefixes, the block names no segment.
  void AddKeyAndAlt(const Slice& key, const Slice&) override {
    nameless_ = !Planted("PrefixBlockNamed");
    AddKey(key);
  }
  size_t EstimateEntriesAdded() override { return added_; }
  Slice Finish(std::unique_ptr<const char[]>* buf) override {
    auto block = std::make_unique<char[]>(kBlockSize);
    std::memset(block.get(), 0, kIdSize);
    if (!nameless_) build_->Id(reinterpret_cast<uint8_t*>(block.get()));
    std::memcpy(block.get() + kIdSize, kTrailer, sizeof(kTrailer));
    *buf = std::move(block);
    return Slice(buf->get(), kBlockSize);
  }
  using FilterBitsBuilder::Finish;
  size_t ApproximateNumEntries(size_t) override { return std::numeric_limits<uint32_t>::max(); }
  size_t CalculateSpace(size_t) override { return kBlockSize; }
  double EstimatedFpRate(size_t, size_t) override { return 0.01; }

 private:
  const std::shared_ptr<TableBuild> build_;
  size_t added_ = 0;
  bool nameless_ = false;
};

class SegmentReader : public FilterBitsReader {
 public:
  SegmentReader(ColumnPtr column, void* segment) : column_(std::move(column)), segment_(segment) {}
  ~SegmentReader() override {
    if (segment_ != nullptr) column_->hooks()->segment_release(segment_);
  }
  bool MayMatch(const Slice& key) override {
    return segment_ == nullptr ||
           column_->hooks()->segment_may_contain(segment_, key.data(), key.size());
  }
  void MayMatch(int num_keys, Slice** keys, bool* may_match) override {
    constexpr int kBatch = 32;
    const char* starts[kBatch];
    size_t sizes[kBatch];
    for (int begin = 0; begin < num_keys; begin += kBatch) {
      const int count = std::min(kBatch, num_keys - begin);
      for (int i = 0; i < count; ++i) {
        starts[i] = keys[begin + i]->data();
        sizes[i] = keys[begin + i]->size();
        may_match[begin + i] = true;
      }
      if (segment_ != nullptr) {
        column_->hooks()->segment_may_contain_many(segment_, static_cast<size_t>(count), starts,
                                                   sizes, may_match + begin);
      }
    }
  }

 private:
  const ColumnPtr column_;
  void* const segment_;  // null: nothing is known of this table, every key may be there
};

bool IsSegmentBlock(const Slice& contents) {
  return contents.size() == kBlockSize &&
         std::memcmp(contents.data() + kIdSize, kTrailer, sizeof(kTrailer)) == 0;
}

bool IsNull(const char* id) {
  static constexpr char kNull[kIdSize] = {};
  return std::memcmp(id, kNull, kIdSize) == 0;
}

// Names segments in the tables that are built and asks the Rust side when they are read; RocksDB's
// own filter blocks are read by RocksDB's own reader.
class SegmentPolicy : public FilterPolicy {
 public:
  SegmentPolicy(std::shared_ptr<const FilterPolicy> inner, ColumnPtr column)
      : inner_(std::move(inner)), column_(std::move(column)) {}

  // As if the plugin were not there: the OPTIONS file then loads anywhere.
  const char* Name() const override { return inner_ ? inner_->Name() : BuiltinName(); }
  std::string GetId() const override { return inner_ ? inner_->GetId() : BuiltinName(); }
  bool IsInstanceOf(const std::string&) const override { return false; }
  const Customizable* Inner() const override { return inner_.get(); }
  const char* CompatibilityName() const override { return BuiltinName(); }

  FilterBitsBuilder* GetBuilderWithContext(const FilterBuildingContext& context) const override {
    const auto theirs = [&] { return inner_ ? inner_->GetBuilderWithContext(context) : nullptr; };
    // Set on the running engine: it would be fed prefixes, and asked for them, for ever.
    if (!context.table_options.whole_key_filtering) return theirs();
    auto build = std::make_shared<TableBuild>(column_);
    // No filter of ours is wanted: RocksDB's own keeps its place.
    if (!build->wanted()) return theirs();
    pending_build = std::move(build);
    return new SegmentBuilder(pending_build);
  }

  FilterBitsReader* GetFilterBitsReader(const Slice& contents) const override {
    if (!IsSegmentBlock(contents)) {
      return BuiltinFilterPolicy::GetBuiltinFilterBitsReader(contents);
    }
    void* segment = nullptr;
    if (!IsNull(contents.data())) {
      const auto* id = reinterpret_cast<const uint8_t*>(contents.data());
      segment = column_->hooks()->segment_open(column_->front(), id);
    }
    return new SegmentReader(column_, segment);
  }

 private:
  static const char* BuiltinName() { return ReadOnlyBuiltinFilterPolicy::kClassName(); }

  const std::shared_ptr<const FilterPolicy> inner_;
  const ColumnPtr column_;
};

class Collector : public TablePropertiesCollector {
 public:
  // `feeds`: no filter builder sees this table's keys, so the collector hands them over.
  Collector(std::shared_ptr<TableBuild> build, bool feeds)
      : build_(std::move(build)), feeds_(feeds) {}

  const char* Name() const override { return "lsm-sieve"; }
  Status AddUserKey(const Slice& key, const Slice&, EntryType type, SequenceNumber,
                    uint64_t) override {
    if (type != kEntryRangeDeletion) {
      ++entries_;
      if (feeds_) build_->Add(key);
    }
    return Status::OK();
  }
  Status Finish(UserCollectedProperties* properties) override {
    uint8_t id[kIdSize];
    if (build_->Finish(entries_) && build_->Id(id)) {
      properties->insert({kSegmentProperty, std::string(reinterpret_cast<char*>(id), kIdSize)});
    }
    return Status::OK();
  }
  UserCollectedProperties GetReadableProperties() const override { return {}; }

 private:
  const std::shared_ptr<TableBuild> build_;
  const bool feeds_;
  uint64_t entries_ = 0;
};

class CollectorFactory : public TablePropertiesCollectorFactory {
 public:
  explicit CollectorFactory(ColumnPtr column) : column_(std::move(column)) {}

  const char* Name() const override { return "lsm-sieve"; }
  TablePropertiesCollector* CreateTablePropertiesCollector(Context) override {
    std::shared_ptr<TableBuild> build = std::move(pending_build);
    pending_build.reset();
    if (build != nullptr && build->column() == column_.get()) {
      return new Collector(std::move(build), false);
    }
    return new Collector(std::make_shared<TableBuild>(column_), true);
  }

 private:
  const ColumnPtr column_;
};

// ---------------------------------------------------------------- events

// Callbacks come late, out of order or never: they only wake the upkeep. One listener hears of all column
// families: RocksDB copies the list of them into each, and takes none for a family that is created later.
class Waker : public EventListener {
 public:
  Waker(void* listener, const lsm_sieve_hooks* hooks) : listener_(listener), hooks_(hooks) {}
  ~Waker() override { hooks_->listener_release(listener_); }
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

  const char* Name() const override { return "lsm-sieve"; }
  void OnFlushCompleted(DB*, const FlushJobInfo&) override {
    if (!Planted("NoWakeAfterFlush")) hooks_->engine_changed(listener_);
  }
  void OnCompactionCompleted(DB*, const CompactionJobInfo&) override {
    if (!Planted("NoWakeAfterCompaction")) hooks_->engine_changed(listener_);
  }
  void OnExternalFileIngested(DB*, const ExternalFileIngestionInfo& info) override {
    hooks_->keys_ingested(listener_, info.cf_name.data(), info.cf_name.size());
  }

 private:
  void* const listener_;
  const lsm_sieve_hooks* const hooks_;
};

// ---------------------------------------------------------------- helpers

// What is said where there is no memory for the text: no text would mean that all is well.
char kNoMemoryForText[] = "an error whose text there was no memory for";

// For `lsm_sieve_free`; never null.
char* CopyString(const std::string& text) {
  char* copy = static_cast<char*>(malloc(text.size() + 1));
  if (copy == nullptr) return kNoMemoryForText;
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

char* ErrorOf(const Status& status) { return status.ok() ? nullptr : CopyString(status.ToString()); }

bool HasName(const Customizable* object, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (std::strcmp(object->Name(), name) == 0) return true;
  }
  return false;
}

// Why these options cannot be fronted; empty when they can. An allow-list.
std::string Refusal(const Options& options) {
  const Comparator* order = options.comparator;
  if (order != BytewiseComparator() && order != ReverseBytewiseComparator()) {
    return std::string("the comparator ") + order->Name() +
           " may call different bytes equal, which a filter over bytes would tell apart; "
           "only the bytewise comparator and its reverse are supported";
  }
  if (!HasName(options.memtable_factory.get(), {"SkipListFactory", "VectorRepFactory"})) {
    return std::string("the memtable ") + options.memtable_factory->Name() +
           " is not supported; use the skip list (the default) or the vector";
  }
  if (!HasName(options.table_factory.get(), {"BlockBasedTable"})) {
    return std::string("the table format ") + options.table_factory->Name() +
           " is not supported; use block-based tables (the default)";
  }
  if (options.inplace_update_support) {
    return "inplace_update_support is not supported; switch it off";
  }
  if (options.disallow_memtable_writes) {
    return "disallow_memtable_writes is not supported; switch it off";
  }
  if (options.allow_ingest_behind || options.cf_allow_ingest_behind) {
    return "allow_ingest_behind is not supported; switch it off";
  }
  if (options.experimental_mempurge_threshold > 0.0 && !Planted("MempurgeTaken")) {
    return "with experimental_mempurge_threshold RocksDB 11.8.1 itself loses keys and reads values "
           "that were overwritten; leave it at 0";
  }
  if (options.compaction_style != kCompactionStyleLevel &&
      options.compaction_style != kCompactionStyleUniversal &&
      options.compaction_style != kCompactionStyleFIFO) {
    return "the compaction style is not supported; use level (the default), universal or FIFO";
  }
  return "";
}

// RocksDB asks our filters only where it asks for whole keys and finds one block a table.
bool CanServeFilters(const Options& options, const BlockBasedTableOptions& table) {
  return options.prefix_extractor == nullptr && table.whole_key_filtering &&
         !table.partition_filters;
}

DB* EngineOf(rocksdb_column_family_handle_t* column) {
  return static_cast_with_check<ColumnFamilyHandleImpl>(column->rep)->db();
}

// An engine for whoever takes it for its own.
std::shared_ptr<DB> Borrowed(DB* engine) {
  return std::shared_ptr<DB>(engine, [](DB*) {});
}

// Begins transactions on an engine that is not its own. RocksDB's class takes what it is made with for its
// own, and a transaction takes what that is for the engine itself, so nothing can stand between the two.
class BorrowedTransactions final : public OptimisticTransactionDBImpl {
 public:
  explicit BorrowedTransactions(DB* engine)
      : OptimisticTransactionDBImpl(std::unique_ptr<DB>(), Serial()) {
    db_ = engine;
    shared_db_ptr_ = Borrowed(engine);
  }

 private:
  // Commits look for conflicts in their turn among the writers. RocksDB's default looks beside them, in
  // families that may be dropped meanwhile, and does not see a plain write that comes between the look
  // and its own.
  static OptimisticTransactionDBOptions Serial() {
    OptimisticTransactionDBOptions options;
    options.validate_policy = Planted("CommitLooksBeside") ? OccValidationPolicy::kValidateParallel
                                                           : OccValidationPolicy::kValidateSerial;
    return options;
  }
};

// Stands for a family that is made later.
class LaterFamily final : public ColumnFamilyHandle {
 public:
  explicit LaterFamily(uint32_t id) : id_(id) {}

  uint32_t GetID() const override { return id_; }
  const std::string& GetName() const override { return name_; }
  Status GetDescriptor(ColumnFamilyDescriptor*) override { return Status::NotSupported(); }
  const Comparator* GetComparator() const override { return nullptr; }

 private:
  const uint32_t id_;
  const std::string name_;
};

// Begins transactions with locks on an engine that is not its own. Locks go by the numbers of families, and
// are there before a family is, which others may find before the call that makes it returns. Those of a
// dropped family stay, some kilobytes: RocksDB 11.8.1 would free with them what other threads look in.
class BorrowedLocks final : public WriteCommittedTxnDB {
 public:
  BorrowedLocks(DB* engine, const TransactionDBOptions& options)
      : WriteCommittedTxnDB(new StackableDB(Borrowed(engine)), Committed(options)) {}

  // Of an engine with these families, and no others.
  Status Start(const std::vector<ColumnFamilyHandle*>& families) {
    // RocksDB 11.8.1 mistakes one for another where both had a name, and reads the families of what it
    // takes up without a look whether they are still there.
    if (!db_impl_->recovered_transactions().empty()) {
      return Status::InvalidArgument(
          "transactions were prepared, and neither committed nor rolled back; open the database as a "
          "`TransactionDB` and do one or the other, then try again");
    }
    next_ = Coming();
    const Status status = Initialize({}, families);
    if (status.ok()) Extend();
    return status;
  }

  // Makes locks for the families that came since, and for the one that comes next.
  void Extend() {
    const std::lock_guard<std::mutex> turn(extending_);
    for (const uint32_t coming = Coming(); next_ <= coming; ++next_) {
      LaterFamily family(next_);
      AddColumnFamily(&family);
    }
  }

 private:
  // What is not committed is in the transaction alone.
  static TransactionDBOptions Committed(const TransactionDBOptions& options) {
    TransactionDBOptions committed = ValidateTxnDBOptions(options);
    committed.write_policy = WRITE_COMMITTED;
    return committed;
  }

  uint32_t Coming() {
    InstrumentedMutexLock lock(db_impl_->mutex());
    return db_impl_->GetVersionSet()->GetColumnFamilySet()->GetMaxColumnFamily() + 1;
  }

  std::mutex extending_;
  // The first that has no locks.
  uint32_t next_ = 0;
};

// What a secondary reads the manifest with, which is private: in an explicit instantiation any member may
// be named.
struct Tailer {
  using Member = std::unique_ptr<ManifestTailer> ReactiveVersionSet::*;
  friend Member MemberOf(Tailer);
};
template <Tailer::Member member>
struct TailerIs {
  friend Tailer::Member MemberOf(Tailer) { return member; }
};
template struct TailerIs<&ReactiveVersionSet::manifest_tailer_>;

struct Placement {
  int level;
  const SstFileMetaData* file;
};

std::unordered_map<std::string, Placement> Placements(const ColumnFamilyMetaData& metadata) {
  std::unordered_map<std::string, Placement> placements;
  for (const auto& level : metadata.levels) {
    for (const auto& file : level.files) {
      placements[file.db_path + file.name] = Placement{level.level, &file};
    }
  }
  return placements;
}

}  // namespace

extern "C" {

// Whether the library that was linked is the one of these headers, and the options object has the
// layout that this file assumes: what the C API sets must be what is read here.
bool lsm_sieve_layout_matches(const rocksdb_options_t* options, size_t write_buffer_size,
                              int num_levels, int max_background_jobs) noexcept {
  const std::string version = std::to_string(ROCKSDB_MAJOR) + "." +
                              std::to_string(ROCKSDB_MINOR) + "." +
                              std::to_string(ROCKSDB_PATCH);
  return Planted("LayoutUnchecked") ||
         (GetRocksVersionAsString() == version &&
          options->rep.write_buffer_size == write_buffer_size &&
          options->rep.num_levels == num_levels &&
          options->rep.max_background_jobs == max_background_jobs);
}

// Reads the options that the database at this path was opened with last into `options`, but for the environment,
// and those of its families into what `each` returns, with the block cache that was in `options`. Returns an
// error to free, or null.
char* lsm_sieve_latest_options(rocksdb_options_t* options, const char* path, size_t path_size,
                               void* context,
                               rocksdb_options_t* (*each)(void* context, const char* name,
                                                          size_t size)) noexcept {
  Env* const env = options->rep.env;
  const auto* table = options->rep.table_factory->GetOptions<BlockBasedTableOptions>();
  std::shared_ptr<Cache> cache = table == nullptr ? nullptr : table->block_cache;
  ConfigOptions config;
  config.input_strings_escaped = true;
  config.ignore_unknown_options = false;
  config.env = env;
  DBOptions database;
  std::vector<ColumnFamilyDescriptor> families;
  const Status status = LoadLatestOptions(config, std::string(path, path_size), &database,
                                          &families, cache == nullptr ? nullptr : &cache);
  if (!status.ok()) return ErrorOf(status);
  database.env = env;
  options->rep = Options(database, ColumnFamilyOptions());
  for (const ColumnFamilyDescriptor& family : families) {
    rocksdb_options_t* const filled = each(context, family.name.data(), family.name.size());
    if (filled == nullptr) return CopyString("the options of a family could not be taken");
    if (!Planted("FamilyOptionsUnread")) filled->rep = Options(DBOptions(), family.options);
  }
  return nullptr;
}

// Why transactions do not go with these options of a database or a family, if they do not.
char* lsm_sieve_transactions_refusal(const rocksdb_options_t* options) noexcept {
  if (options->rep.unordered_write) {
    return CopyString("unordered_write does not go with transactions; switch one of them off");
  }
  // What RocksDB 11.8.1 takes back when it refuses a commit may be others' values as well.
  if (options->rep.enable_blob_direct_write) {
    return CopyString("enable_blob_direct_write does not go with transactions; switch one of them off");
  }
  return nullptr;
}

char* lsm_sieve_refusal(const rocksdb_options_t* options) noexcept {
  const std::string reason = Refusal(options->rep);
  return reason.empty() ? nullptr : CopyString(reason);
}

// Whether entries may be dropped or changed on their way to another table, or with their table.
bool lsm_sieve_drops_entries(const rocksdb_options_t* options) noexcept {
  return options->rep.compaction_filter != nullptr ||
         options->rep.compaction_filter_factory != nullptr ||
         options->rep.compaction_style == kCompactionStyleFIFO;
}

// Whether a write's sequence number is published before its memtable has taken it.
bool lsm_sieve_publishes_first(const rocksdb_options_t* options) noexcept {
  return options->rep.unordered_write;
}

// Takes over one reference on `front`. Returns whether RocksDB will ask the segment filters.
bool lsm_sieve_install(rocksdb_options_t* options, void* front,
                       const lsm_sieve_hooks* hooks) noexcept {
  auto column = std::make_shared<const Column>(front, hooks);
  Options& rep = options->rep;
  rep.memtable_factory = std::make_shared<CapturedRepFactory>(rep.memtable_factory, column);
  rep.table_properties_collector_factories.push_back(std::make_shared<CollectorFactory>(column));
  const auto* table = rep.table_factory->GetOptions<BlockBasedTableOptions>();
  if (table == nullptr || !CanServeFilters(rep, *table)) return false;
  // A copy, and none made anew, which would mend what RocksDB alone refuses.
  std::unique_ptr<TableFactory> fronted = rep.table_factory->Clone();
  if (Planted("TablesMadeAnew")) fronted.reset(NewBlockBasedTableFactory(*table));
  fronted->GetOptions<BlockBasedTableOptions>()->filter_policy =
      std::make_shared<SegmentPolicy>(table->filter_policy, column);
  rep.table_factory = std::move(fronted);
  return true;
}

// Takes over `listener`, which hears of the events of the database that is opened with these options.
void lsm_sieve_listen(rocksdb_options_t* options, void* listener,
                      const lsm_sieve_hooks* hooks) noexcept {
  options->rep.listeners.push_back(std::make_shared<Waker>(listener, hooks));
}

// Calls `each` for every live table of the column family: of the newest version, or of the one that
// readers have. Returns an error to free, or null.
//
// A flush may be over before readers have its table, so whoever waited for it asks for the newest. A
// secondary makes a version of each family at each catch-up, and hands it to readers only where
// something came and all went well; it waits for no flush.
char* lsm_sieve_live_tables(rocksdb_column_family_handle_t* column, bool of_readers, void* context,
                            void (*each)(void* context, const lsm_sieve_table* table)) noexcept {
  DB* db = EngineOf(column);
  TablePropertiesCollection tables;
  ColumnFamilyMetaData metadata;
  Status status;
  if (of_readers) {
    auto* handle = static_cast_with_check<ColumnFamilyHandleImpl>(column->rep);
    auto* engine = static_cast_with_check<DBImpl>(handle->db());
    SuperVersion* readers = handle->cfd()->GetReferencedSuperVersion(engine);
    status = readers->current->GetPropertiesOfAllTables(ReadOptions(), &tables);
    {
      InstrumentedMutexLock lock(engine->mutex());
      readers->current->GetColumnFamilyMetaData(&metadata);
    }
    engine->CleanupSuperVersion(readers);
  } else {
    status = db->GetPropertiesOfAllTables(column->rep, &tables);
    db->GetColumnFamilyMetaData(column->rep, &metadata);
  }
  if (!status.ok()) return ErrorOf(status);
  const auto placements = Placements(metadata);
  for (const auto& [path, properties] : tables) {
    lsm_sieve_table table = {};
    table.path = path.data();
    table.path_size = path.size();
    const auto& collected = properties->user_collected_properties;
    const auto found = collected.find(kSegmentProperty);
    if (found != collected.end() && found->second.size() == kIdSize) {
      table.segment = reinterpret_cast<const uint8_t*>(found->second.data());
    }
    std::string unique;
    if (GetUniqueIdFromTableProperties(*properties, &unique).ok() && unique.size() >= kIdSize) {
      table.unique = reinterpret_cast<const uint8_t*>(unique.data());
    }
    table.entries = properties->num_entries - properties->num_range_deletions;
    table.level = -1;
    const auto placed = placements.find(path);
    if (placed != placements.end()) {
      const SstFileMetaData& file = *placed->second.file;
      table.level = placed->second.level;
      table.smallest = file.smallestkey.data();
      table.smallest_size = file.smallestkey.size();
      table.largest = file.largestkey.data();
      table.largest_size = file.largestkey.size();
    }
    each(context, &table);
  }
  return nullptr;
}

// Whether a flush of the column family would have to wait until it slows no writer: the condition
// that RocksDB waits for (DBImpl::WaitUntilFlushWouldNotStallWrites).
bool lsm_sieve_flush_would_wait(rocksdb_column_family_handle_t* column) noexcept {
  auto* handle = static_cast_with_check<ColumnFamilyHandleImpl>(column->rep);
  auto* engine = static_cast_with_check<DBImpl>(handle->db());
  ColumnFamilyData* family = handle->cfd();
  InstrumentedMutexLock lock(engine->mutex());
  const auto& options = family->GetLatestMutableCFOptions();
  const auto* storage = family->current()->storage_info();
  const int tables = storage->l0_delay_trigger_count();
  if (family->imm()->NumNotFlushed() < family->ioptions().min_write_buffer_number_to_merge &&
      tables < options.level0_file_num_compaction_trigger) {
    return false;
  }
  const auto stall = ColumnFamilyData::GetWriteStallConditionAndCause(
      family->GetUnflushedMemTableCountForWriteStallCheck(), tables + 1,
      storage->estimated_compaction_needed_bytes(), options, family->ioptions());
  return stall.first != WriteStallCondition::kNormal;
}

// Of a secondary that was just opened: RocksDB 11.8.1 notes each family that it saw change in the manifest,
// those as well that it freed when it came to where they were dropped, and its first catch-up reads all that
// are noted. Forgets those that are freed; returns how many.
size_t lsm_sieve_forget_freed_families(rocksdb_column_family_handle_t* column) noexcept {
  auto* engine = static_cast_with_check<DBImpl>(EngineOf(column));
  InstrumentedMutexLock lock(engine->mutex());
  auto* versions = static_cast_with_check<ReactiveVersionSet>(engine->GetVersionSet());
  const std::unordered_set<ColumnFamilyData*> live(versions->GetColumnFamilySet()->begin(),
                                                   versions->GetColumnFamilySet()->end());
  auto& changed = (versions->*MemberOf(Tailer()))->GetUpdatedColumnFamilies();
  const size_t before = changed.size();
  if (Planted("FreedFamiliesKept")) return 0;
  for (auto family = changed.begin(); family != changed.end();) {
    family = live.count(*family) > 0 ? std::next(family) : changed.erase(family);
  }
  return before - changed.size();
}

// Writes the column family's memtables to a table, waiting for no compaction; nor for the flush where
// that takes several memtables, since RocksDB may drop the request. Returns an error to free, or null.
char* lsm_sieve_flush(rocksdb_column_family_handle_t* column) noexcept {
  auto* handle = static_cast_with_check<ColumnFamilyHandleImpl>(column->rep);
  FlushOptions options;
  options.wait = handle->cfd()->ioptions().min_write_buffer_number_to_merge <= 1;
  options.allow_write_stall = !Planted("FlushWaitsForCompactions");
  const Status status = EngineOf(column)->Flush(options, column->rep);
  return ErrorOf(status);
}

// Calls `each` for every raw entry of one table file: old versions, merge operands and tombstones
// (`deletion`) included; `each` returns false to stop. Returns an error to free, or null.
char* lsm_sieve_raw_keys(rocksdb_column_family_handle_t* column, const char* path,
                         size_t path_size, void* context,
                         bool (*each)(void* context, const char* key, size_t size,
                                      bool deletion)) noexcept {
  SstFileReader reader(EngineOf(column)->GetOptions(column->rep));
  Status status = reader.Open(std::string(path, path_size));
  if (!status.ok()) return ErrorOf(status);
  const std::unique_ptr<Iterator> entries = reader.NewTableIterator();
  if (entries == nullptr) return CopyString("the table cannot be iterated");
  for (entries->SeekToFirst(); entries->Valid(); entries->Next()) {
    ParsedEntryInfo entry;
    status = reader.ParseTableIteratorKey(entries->key(), &entry);
    if (!status.ok()) return ErrorOf(status);
    const bool deletion = entry.type == kEntryDelete || entry.type == kEntrySingleDelete ||
                          entry.type == kEntryDeleteWithTimestamp;
    if (!each(context, entry.user_key.data(), entry.user_key.size(), deletion)) return nullptr;
  }
  return Planted("ReadErrorIsEnd") ? nullptr : ErrorOf(entries->status());
}

// What begins transactions on the engine of this column family, and must be freed before that is closed.
rocksdb_optimistictransactiondb_t* lsm_sieve_transactions(
    rocksdb_column_family_handle_t* column) noexcept {
  return new rocksdb_optimistictransactiondb_t{new BorrowedTransactions(EngineOf(column))};
}

void lsm_sieve_transactions_free(rocksdb_optimistictransactiondb_t* transactions) noexcept {
  delete transactions->rep;
  delete transactions;
}

// What begins transactions with locks on the engine of these column families, which are all that it has;
// to be freed before that is closed. Null where there is an error.
rocksdb_transactiondb_t* lsm_sieve_locks(const rocksdb_transactiondb_options_t* options,
                                         rocksdb_column_family_handle_t* const* columns,
                                         size_t count, char** error) noexcept {
  std::vector<ColumnFamilyHandle*> families;
  for (size_t at = 0; at < count; ++at) families.push_back(columns[at]->rep);
  auto locks = std::make_unique<BorrowedLocks>(EngineOf(columns[0]), options->rep);
  const Status status = locks->Start(families);
  if (!status.ok()) {
    *error = ErrorOf(status);
    return nullptr;
  }
  return new rocksdb_transactiondb_t{locks.release()};
}

void lsm_sieve_locks_free(rocksdb_transactiondb_t* locks) noexcept {
  delete locks->rep;
  delete locks;
}

// To be called after the engine has made a family.
void lsm_sieve_locks_extend(rocksdb_transactiondb_t* locks) noexcept {
  static_cast<BorrowedLocks*>(locks->rep)->Extend();
}

// Whether the transaction itself has written to this key; the default column family's where that is null.
bool lsm_sieve_transaction_wrote(rocksdb_transaction_t* transaction,
                                 rocksdb_column_family_handle_t* column, const char* key,
                                 size_t size) noexcept {
  WriteBatchWithIndex* batch = transaction->rep->GetWriteBatch();
  if (batch->GetWriteBatch()->Count() == 0 || Planted("OwnWritesUnasked")) return false;
  const std::unique_ptr<WBWIIterator> entries(
      column == nullptr ? batch->NewIterator() : batch->NewIterator(column->rep));
  const Slice sought(key, size);
  entries->Seek(sought);
  return entries->Valid() && entries->Entry().key == sought;
}

// Keeps others from writing to this key until the transaction has ended, or notes it, so that its commit
// fails if somebody else writes to it from here on, or did since the transaction's snapshot: as the
// transaction is locking or optimistic. Only a lock can fail.
char* lsm_sieve_transaction_watch(rocksdb_transaction_t* transaction,
                                  rocksdb_column_family_handle_t* column, const char* key,
                                  size_t size, bool exclusive) noexcept {
  if (Planted("DenialUnwatched")) return nullptr;
  std::string* const unread = nullptr;
  const Slice watched(key, size);
  Transaction* const rep = transaction->rep;
  const Status status =
      column == nullptr ? rep->GetForUpdate(ReadOptions(), watched, unread, exclusive)
                        : rep->GetForUpdate(ReadOptions(), column->rep, watched, unread, exclusive);
  return ErrorOf(status);
}

void lsm_sieve_free(char* text) noexcept {
  if (text != kNoMemoryForText) free(text);
}
}
