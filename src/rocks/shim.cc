// The part of the plugin that must be C++: RocksDB's C API has no custom memtable, filter policy
// or table-properties collector, and no reader of raw SST keys.
//
// It makes no decisions. Each class forwards to RocksDB's own object and reports each call to the
// Rust side, through the table of functions in `lsm_sieve_hooks`. The Rust functions never unwind.
// No exception leaves this file for Rust either: if a container cannot be allocated, the process
// aborts, as it does in RocksDB.

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

// RocksDB's private structures behind its C API (db/c.cc). `lsm_sieve_layout_matches` checks the
// first; the self-check of the hooks uses the second, and the tests use the others.
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

// The Rust functions that are called on events. `cf_filter` is the filters of one column family,
// `listener` receives the events of the whole database.
struct lsm_sieve_hooks {
  void (*column_release)(void* cf_filter);
  void (*memtable_created)(void* cf_filter, uint32_t cf);
  void* (*memtable_bind)(void* cf_filter);
  uint64_t (*memtable_prepare)(void* target, const char* key, size_t size);
  void (*memtable_insert)(void* target, uint64_t hash);
  void (*memtable_sealed)(void* target);
  void (*memtable_release)(void* target);
  void* (*table_begin)(void* cf_filter);
  void (*table_add)(void* table, const char* key, size_t size);
  void (*table_id)(void* table, uint8_t id[16]);
  // Seals the filter of an SST with this many point entries. If false, the SST gets no id.
  bool (*table_finish)(void* table, uint64_t entries);
  void (*table_release)(void* table);
  void* (*segment_open)(void* cf_filter, const uint8_t id[16]);
  bool (*segment_may_contain)(void* segment, const char* key, size_t size);
  void (*segment_may_contain_many)(void* segment, size_t count, const char* const* keys,
                                   const size_t* sizes, bool* answers);
  void (*segment_release)(void* segment);
  void (*listener_release)(void* listener);
  void (*engine_changed)(void* listener);
  void (*keys_ingested)(void* listener, const char* cf, size_t size);
};

struct lsm_sieve_table {
  const char* path;
  size_t path_size;
  const uint8_t* segment;  // 16 bytes, or null: the SST was built without the plugin
  const uint8_t* unique;   // 16 bytes, or null: the SST is older than RocksDB 6.24
  uint64_t entries;  // point entries: old versions, merge operands and tombstones included
  int level;             // -1: unknown
  const char* smallest;  // null: key range unknown
  size_t smallest_size;
  const char* largest;
  size_t largest_size;
};
}

namespace {

// Whether this fault is injected in this process; see crates/support/src/planted.rs.
#ifdef LSM_SIEVE_PLANTED
bool Fault(const char* fault) {
  static const char* const named = std::getenv("LSM_SIEVE_PLANT");
  return named != nullptr && std::strcmp(named, fault) == 0;
}
#else
constexpr bool Fault(const char*) { return false; }
#endif

constexpr char kSegmentProperty[] = "lsm-sieve.segment";

// A filter block of ours: the segment's id, then a trailer as long as RocksDB's own. Its marker
// byte is none of RocksDB's, so a RocksDB without the plugin answers "may match".
constexpr size_t kIdSize = 16;
constexpr char kTrailer[] = {static_cast<char>(0xFB), 'S', 'I', 'V', '1'};
constexpr size_t kBlockSize = kIdSize + sizeof(kTrailer);

// One reference on a column family's filters. It is released with the last factory that holds it.
class CfFilter {
 public:
  CfFilter(void* front, const lsm_sieve_hooks* hooks) : front_(front), hooks_(hooks) {}
  ~CfFilter() { hooks_->column_release(front_); }
  CfFilter(const CfFilter&) = delete;
  CfFilter& operator=(const CfFilter&) = delete;
  void* front() const { return front_; }
  const lsm_sieve_hooks* hooks() const { return hooks_; }

 private:
  void* const front_;
  const lsm_sieve_hooks* const hooks_;
};
using ColumnPtr = std::shared_ptr<const CfFilter>;

// ---------------------------------------------------------------- memtable capture

bool IsDeletion(uint8_t type) {
  return type == kTypeDeletion || type == kTypeSingleDeletion ||
         type == kTypeDeletionWithTimestamp || type == kTypeRangeDeletion;
}

// Adds each key to the filters before the sequence number that makes it visible is published.
// RocksDB publishes it after the memtable has taken the key.
//
// The set of filters is chosen when the *first* key arrives and stays the same until the memtable
// is flushed. So after a flush no memtable feeds an older set of filters any more.
class CapturedRep : public MemTableRep {
 public:
  CapturedRep(MemTableRep* inner, Allocator* allocator, ColumnPtr cf_filter)
      : MemTableRep(allocator), inner_(inner), column_(std::move(cf_filter)) {}

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
    const Capture capture(*this, handle, Fault("PrefixHintUnseen"));
    return inner_->InsertKeyWithHint(handle, hint);
  }
  void InsertWithHintConcurrently(KeyHandle handle, void** hint) override {
    const Capture capture(*this, handle);
    inner_->InsertWithHintConcurrently(handle, hint);
  }
  bool InsertKeyWithHintConcurrently(KeyHandle handle, void** hint) override {
    const Capture capture(*this, handle, Fault("BatchHintUnseen"));
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
  // Insertions may continue: the switch to the next memtable may still fail.
  void MarkReadOnly() override { inner_->MarkReadOnly(); }
  // RocksDB may keep the memtable long after this, for transactions to check for conflicts. The
  // filters are released.
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
  // Spans one insertion. The filters' cache lines are prefetched before the memtable searches for
  // the position, and written after it: an atomic write to a line that is not in the cache would
  // stall the processor for as long as the search takes.
  //
  // With the supported memtables the handle is the entry itself: a length-prefixed internal key,
  // whose last eight bytes are sequence number and value type, the type lowest.
  class Capture {
   public:
    // `unseen`: a fault point.
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
    if (!Fault("LostBindUnsealed")) column_->hooks()->memtable_sealed(fresh);
    column_->hooks()->memtable_release(fresh);
    return target;
  }

  // No more keys arrive. Those that arrived are in an SST, in another memtable, or gone with this
  // one.
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

// Has the wrapped factory's name and id, so that the OPTIONS file loads without the plugin.
class CapturedRepFactory : public MemTableRepFactory {
 public:
  CapturedRepFactory(std::shared_ptr<MemTableRepFactory> inner, ColumnPtr cf_filter)
      : inner_(std::move(inner)), column_(std::move(cf_filter)) {}

  const char* Name() const override { return inner_->Name(); }
  std::string GetId() const override { return inner_->GetId(); }
  bool IsInstanceOf(const std::string&) const override { return false; }
  const Customizable* Inner() const override { return inner_.get(); }
  bool IsInsertConcurrentlySupported() const override {
    return inner_->IsInsertConcurrentlySupported();
  }
  bool CanHandleDuplicatedKey() const override { return inner_->CanHandleDuplicatedKey(); }

  // RocksDB does not call this overload; it does not say which column family the memtable is for.
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

// ---------------------------------------------------------------- SST capture and filter policy

// The filter of an SST under construction. It is shared by the two objects that RocksDB creates for
// the SST: the filter builder sees each key and writes the block that names the segment; the
// collector counts the entries and writes the segment's id into the SST's properties.
class SegmentFilterBuild {
 public:
  explicit SegmentFilterBuild(ColumnPtr cf_filter)
      : column_(std::move(cf_filter)), table_(column_->hooks()->table_begin(column_->front())) {}
  ~SegmentFilterBuild() {
    if (table_ != nullptr) column_->hooks()->table_release(table_);
  }
  SegmentFilterBuild(const SegmentFilterBuild&) = delete;
  SegmentFilterBuild& operator=(const SegmentFilterBuild&) = delete;

  const CfFilter* cf_filter() const { return column_.get(); }
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
  void* const table_;  // null: no segment filter is configured, or a hook failed
};

// The build whose collector is not created yet. The constructor of a table builder creates its
// filter builder and then its collectors, on one thread, with no other SST in between.
thread_local std::shared_ptr<SegmentFilterBuild> pending_build;

class SegmentBuilder : public FilterBitsBuilder {
 public:
  explicit SegmentBuilder(std::shared_ptr<SegmentFilterBuild> build) : build_(std::move(build)) {}

  void AddKey(const Slice& key) override {
    ++added_;
    build_->Add(key);
  }
  // Prefix extractors are refused at install. If one is set on the running engine, lookups pass
  // prefixes to the filter; so the block names no segment.
  void AddKeyAndAlt(const Slice& key, const Slice&) override {
    nameless_ = !Fault("PrefixBlockNamed");
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
  const std::shared_ptr<SegmentFilterBuild> build_;
  size_t added_ = 0;
  bool nameless_ = false;
};

class SegmentReader : public FilterBitsReader {
 public:
  SegmentReader(ColumnPtr cf_filter, void* segment) : column_(std::move(cf_filter)), segment_(segment) {}
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
  void* const segment_;  // null: nothing is known of this SST, every key is maybe
};

bool IsSegmentBlock(const Slice& contents) {
  return contents.size() == kBlockSize &&
         std::memcmp(contents.data() + kIdSize, kTrailer, sizeof(kTrailer)) == 0;
}

bool IsNull(const char* id) {
  static constexpr char kNull[kIdSize] = {};
  return std::memcmp(id, kNull, kIdSize) == 0;
}

// Names the segment in each SST that is built, and calls the Rust side when it is probed. RocksDB's
// own filter blocks are read by RocksDB's own reader.
class SegmentPolicy : public FilterPolicy {
 public:
  SegmentPolicy(std::shared_ptr<const FilterPolicy> inner, ColumnPtr cf_filter)
      : inner_(std::move(inner)), column_(std::move(cf_filter)) {}

  // The names are as without the plugin, so that the OPTIONS file loads anywhere.
  const char* Name() const override { return inner_ ? inner_->Name() : BuiltinName(); }
  std::string GetId() const override { return inner_ ? inner_->GetId() : BuiltinName(); }
  bool IsInstanceOf(const std::string&) const override { return false; }
  const Customizable* Inner() const override { return inner_.get(); }
  const char* CompatibilityName() const override { return BuiltinName(); }

  FilterBitsBuilder* GetBuilderWithContext(const FilterBuildingContext& context) const override {
    const auto theirs = [&] { return inner_ ? inner_->GetBuilderWithContext(context) : nullptr; };
    // Changed on the running engine. A filter of ours would be built from prefixes and probed with
    // them.
    if (!context.table_options.whole_key_filtering) return theirs();
    auto build = std::make_shared<SegmentFilterBuild>(column_);
    // No segment filter of ours is configured: RocksDB builds its own.
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
  // `feeds`: no filter builder sees this SST's keys, so the collector adds them.
  Collector(std::shared_ptr<SegmentFilterBuild> build, bool feeds)
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
  const std::shared_ptr<SegmentFilterBuild> build_;
  const bool feeds_;
  uint64_t entries_ = 0;
};

class CollectorFactory : public TablePropertiesCollectorFactory {
 public:
  explicit CollectorFactory(ColumnPtr cf_filter) : column_(std::move(cf_filter)) {}

  const char* Name() const override { return "lsm-sieve"; }
  TablePropertiesCollector* CreateTablePropertiesCollector(Context) override {
    std::shared_ptr<SegmentFilterBuild> build = std::move(pending_build);
    pending_build.reset();
    if (build != nullptr && build->cf_filter() == column_.get()) {
      return new Collector(std::move(build), false);
    }
    return new Collector(std::make_shared<SegmentFilterBuild>(column_), true);
  }

 private:
  const ColumnPtr column_;
};

// ---------------------------------------------------------------- events

// Callbacks may come late, out of order or never: they only wake maintenance. One listener serves
// all column families: RocksDB copies the list of listeners into each, and accepts none for a
// column family that is created later.
class Waker : public EventListener {
 public:
  Waker(void* listener, const lsm_sieve_hooks* hooks) : listener_(listener), hooks_(hooks) {}
  ~Waker() override { hooks_->listener_release(listener_); }
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

  const char* Name() const override { return "lsm-sieve"; }
  void OnFlushCompleted(DB*, const FlushJobInfo&) override {
    if (!Fault("NoWakeAfterFlush")) hooks_->engine_changed(listener_);
  }
  void OnCompactionCompleted(DB*, const CompactionJobInfo&) override {
    if (!Fault("NoWakeAfterCompaction")) hooks_->engine_changed(listener_);
  }
  void OnExternalFileIngested(DB*, const ExternalFileIngestionInfo& info) override {
    hooks_->keys_ingested(listener_, info.cf_name.data(), info.cf_name.size());
  }

 private:
  void* const listener_;
  const lsm_sieve_hooks* const hooks_;
};

// ---------------------------------------------------------------- helpers

// Returned if the text cannot be allocated: a null text would mean success.
char kNoMemoryForText[] = "an error; no memory for its text";

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

// Why these options are not supported; empty if they are. An allow-list.
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
  if (options.experimental_mempurge_threshold > 0.0 && !Fault("MempurgeTaken")) {
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

// RocksDB probes our filters only with whole keys, and only with one filter block per SST.
bool CanServeFilters(const Options& options, const BlockBasedTableOptions& table) {
  return options.prefix_extractor == nullptr && table.whole_key_filtering &&
         !table.partition_filters;
}

DB* EngineOf(rocksdb_column_family_handle_t* cf_filter) {
  return static_cast_with_check<ColumnFamilyHandleImpl>(cf_filter->rep)->db();
}

// A pointer for owners that must not free the engine.
std::shared_ptr<DB> Borrowed(DB* engine) {
  return std::shared_ptr<DB>(engine, [](DB*) {});
}

// Begins transactions on an engine that it does not own. RocksDB's class owns what it is
// constructed with, and a transaction takes that for the engine itself. So no wrapper can stand
// between the two.
class BorrowedTransactions final : public OptimisticTransactionDBImpl {
 public:
  explicit BorrowedTransactions(DB* engine)
      : OptimisticTransactionDBImpl(std::unique_ptr<DB>(), Serial()) {
    db_ = engine;
    shared_db_ptr_ = Borrowed(engine);
  }

 private:
  // Commits are validated serially, in their turn among the writers. RocksDB's default validates
  // beside them. It checks column families that may be dropped meanwhile, and misses a plain write
  // between the check and the commit's own write.
  static OptimisticTransactionDBOptions Serial() {
    OptimisticTransactionDBOptions options;
    options.validate_policy = Fault("CommitLooksBeside") ? OccValidationPolicy::kValidateParallel
                                                           : OccValidationPolicy::kValidateSerial;
    return options;
  }
};

// Stands for a column family that is created later.
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

// Begins transactions with locks on an engine that it does not own. Locks are keyed by column
// family id. They are created before the column family, because other threads may find it before
// the call that creates it returns. The locks of a dropped column family stay, some kilobytes:
// RocksDB 11.8.1 would free structures with them that other threads use.
class BorrowedLocks final : public WriteCommittedTxnDB {
 public:
  BorrowedLocks(DB* engine, const TransactionDBOptions& options)
      : WriteCommittedTxnDB(new StackableDB(Borrowed(engine)), Committed(options)) {}

  // For an engine with these column families and no others.
  Status Start(const std::vector<ColumnFamilyHandle*>& cfs) {
    // RocksDB 11.8.1 confuses recovered transactions that had the same name, and uses their column
    // families without checking that these still exist.
    if (!db_impl_->recovered_transactions().empty()) {
      return Status::InvalidArgument(
          "transactions were prepared, and neither committed nor rolled back; open the database as a "
          "`TransactionDB` and do one or the other, then try again");
    }
    next_ = Coming();
    const Status status = Initialize({}, cfs);
    if (status.ok()) Extend();
    return status;
  }

  // Creates locks for the column families created since, and for the next one.
  void Extend() {
    const std::lock_guard<std::mutex> turn(extending_);
    for (const uint32_t coming = Coming(); next_ <= coming; ++next_) {
      LaterFamily cf(next_);
      AddColumnFamily(&cf);
    }
  }

 private:
  // Uncommitted writes are only in the transaction.
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
  // The first column family id without locks.
  uint32_t next_ = 0;
};

// The member with which a secondary reads the manifest. It is private, but an explicit
// instantiation may name any member.
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

// Whether the linked library has the version of these headers, and the options object has the
// layout that this file assumes: values set through the C API must be read back here.
bool lsm_sieve_layout_matches(const rocksdb_options_t* options, size_t write_buffer_size,
                              int num_levels, int max_background_jobs) noexcept {
  const std::string version = std::to_string(ROCKSDB_MAJOR) + "." +
                              std::to_string(ROCKSDB_MINOR) + "." +
                              std::to_string(ROCKSDB_PATCH);
  return Fault("LayoutUnchecked") ||
         (GetRocksVersionAsString() == version &&
          options->rep.write_buffer_size == write_buffer_size &&
          options->rep.num_levels == num_levels &&
          options->rep.max_background_jobs == max_background_jobs);
}

// Reads the options that the database at this path was last opened with into `options`, except for
// the environment. Those of its column families go into the objects that `each` returns, with the
// block cache that was in `options`. Returns an error to free, or null.
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
  std::vector<ColumnFamilyDescriptor> cfs;
  const Status status = LoadLatestOptions(config, std::string(path, path_size), &database,
                                          &cfs, cache == nullptr ? nullptr : &cache);
  if (!status.ok()) return ErrorOf(status);
  database.env = env;
  options->rep = Options(database, ColumnFamilyOptions());
  for (const ColumnFamilyDescriptor& cf : cfs) {
    rocksdb_options_t* const filled = each(context, cf.name.data(), cf.name.size());
    if (filled == nullptr) return CopyString("the options of a column family could not be taken");
    if (!Fault("FamilyOptionsUnread")) filled->rep = Options(DBOptions(), cf.options);
  }
  return nullptr;
}

// Why transactions are not supported with these options of a database or column family; null if
// they are.
char* lsm_sieve_transactions_refusal(const rocksdb_options_t* options) noexcept {
  if (options->rep.unordered_write) {
    return CopyString("unordered_write does not work with transactions; switch one of them off");
  }
  // When RocksDB 11.8.1 refuses a commit, it may roll back values of other writes as well.
  if (options->rep.enable_blob_direct_write) {
    return CopyString("enable_blob_direct_write does not work with transactions; switch one off");
  }
  return nullptr;
}

char* lsm_sieve_refusal(const rocksdb_options_t* options) noexcept {
  const std::string reason = Refusal(options->rep);
  return reason.empty() ? nullptr : CopyString(reason);
}

// Whether entries may be dropped or changed on their way to another SST, or dropped with their SST.
bool lsm_sieve_drops_entries(const rocksdb_options_t* options) noexcept {
  return options->rep.compaction_filter != nullptr ||
         options->rep.compaction_filter_factory != nullptr ||
         options->rep.compaction_style == kCompactionStyleFIFO;
}

// Whether a write's sequence number is published before its memtable has taken it.
bool lsm_sieve_publishes_first(const rocksdb_options_t* options) noexcept {
  return options->rep.unordered_write;
}

// Takes over one reference on `front`. Returns whether RocksDB will probe the segment filters.
bool lsm_sieve_install(rocksdb_options_t* options, void* front,
                       const lsm_sieve_hooks* hooks) noexcept {
  auto cf_filter = std::make_shared<const CfFilter>(front, hooks);
  Options& rep = options->rep;
  rep.memtable_factory = std::make_shared<CapturedRepFactory>(rep.memtable_factory, cf_filter);
  rep.table_properties_collector_factories.push_back(std::make_shared<CollectorFactory>(cf_filter));
  const auto* table = rep.table_factory->GetOptions<BlockBasedTableOptions>();
  if (table == nullptr || !CanServeFilters(rep, *table)) return false;
  // A clone. A newly created factory would correct options that RocksDB refuses without us.
  std::unique_ptr<TableFactory> fronted = rep.table_factory->Clone();
  if (Fault("TablesMadeAnew")) fronted.reset(NewBlockBasedTableFactory(*table));
  fronted->GetOptions<BlockBasedTableOptions>()->filter_policy =
      std::make_shared<SegmentPolicy>(table->filter_policy, cf_filter);
  rep.table_factory = std::move(fronted);
  return true;
}

// Takes over `listener`, which receives the events of the database that is opened with these
// options.
void lsm_sieve_listen(rocksdb_options_t* options, void* listener,
                      const lsm_sieve_hooks* hooks) noexcept {
  options->rep.listeners.push_back(std::make_shared<Waker>(listener, hooks));
}

// Calls `each` for every live SST of the column family: of the newest version, or of the one that
// readers use. Returns an error to free, or null.
//
// A flush may be done before readers have its SST, so callers that waited for a flush list the
// newest version. A secondary creates a version of each column family at each catch-up, and passes
// it to readers only if something changed and all succeeded; it waits for no flush.
char* lsm_sieve_live_tables(rocksdb_column_family_handle_t* cf_filter, bool of_readers, void* context,
                            void (*each)(void* context, const lsm_sieve_table* table)) noexcept {
  DB* db = EngineOf(cf_filter);
  TablePropertiesCollection tables;
  ColumnFamilyMetaData metadata;
  Status status;
  if (of_readers) {
    auto* handle = static_cast_with_check<ColumnFamilyHandleImpl>(cf_filter->rep);
    auto* engine = static_cast_with_check<DBImpl>(handle->db());
    SuperVersion* readers = handle->cfd()->GetReferencedSuperVersion(engine);
    status = readers->current->GetPropertiesOfAllTables(ReadOptions(), &tables);
    {
      InstrumentedMutexLock lock(engine->mutex());
      readers->current->GetColumnFamilyMetaData(&metadata);
    }
    engine->CleanupSuperVersion(readers);
  } else {
    status = db->GetPropertiesOfAllTables(cf_filter->rep, &tables);
    db->GetColumnFamilyMetaData(cf_filter->rep, &metadata);
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
// of RocksDB's DBImpl::WaitUntilFlushWouldNotStallWrites.
bool lsm_sieve_flush_would_wait(rocksdb_column_family_handle_t* cf_filter) noexcept {
  auto* handle = static_cast_with_check<ColumnFamilyHandleImpl>(cf_filter->rep);
  auto* engine = static_cast_with_check<DBImpl>(handle->db());
  ColumnFamilyData* cf = handle->cfd();
  InstrumentedMutexLock lock(engine->mutex());
  const auto& options = cf->GetLatestMutableCFOptions();
  const auto* storage = cf->current()->storage_info();
  const int tables = storage->l0_delay_trigger_count();
  if (cf->imm()->NumNotFlushed() < cf->ioptions().min_write_buffer_number_to_merge &&
      tables < options.level0_file_num_compaction_trigger) {
    return false;
  }
  const auto stall = ColumnFamilyData::GetWriteStallConditionAndCause(
      cf->GetUnflushedMemTableCountForWriteStallCheck(), tables + 1,
      storage->estimated_compaction_needed_bytes(), options, cf->ioptions());
  return stall.first != WriteStallCondition::kNormal;
}

// For a secondary that was just opened. RocksDB 11.8.1 records each column family that changed in
// the manifest, also those that it freed when it reached their drop. Its first catch-up reads all
// that are recorded. Forgets those that are freed; returns how many.
size_t lsm_sieve_forget_freed_families(rocksdb_column_family_handle_t* cf_filter) noexcept {
  auto* engine = static_cast_with_check<DBImpl>(EngineOf(cf_filter));
  InstrumentedMutexLock lock(engine->mutex());
  auto* versions = static_cast_with_check<ReactiveVersionSet>(engine->GetVersionSet());
  const std::unordered_set<ColumnFamilyData*> live(versions->GetColumnFamilySet()->begin(),
                                                   versions->GetColumnFamilySet()->end());
  auto& changed = (versions->*MemberOf(Tailer()))->GetUpdatedColumnFamilies();
  const size_t before = changed.size();
  if (Fault("FreedFamiliesKept")) return 0;
  for (auto cf = changed.begin(); cf != changed.end();) {
    cf = live.count(*cf) > 0 ? std::next(cf) : changed.erase(cf);
  }
  return before - changed.size();
}

// Flushes the column family's memtables to an SST without waiting for compactions. If a flush takes
// several memtables it does not wait for the flush either, since RocksDB may drop the request.
// Returns an error to free, or null.
char* lsm_sieve_flush(rocksdb_column_family_handle_t* cf_filter) noexcept {
  auto* handle = static_cast_with_check<ColumnFamilyHandleImpl>(cf_filter->rep);
  FlushOptions options;
  options.wait = handle->cfd()->ioptions().min_write_buffer_number_to_merge <= 1;
  options.allow_write_stall = !Fault("FlushWaitsForCompactions");
  const Status status = EngineOf(cf_filter)->Flush(options, cf_filter->rep);
  return ErrorOf(status);
}

// Calls `each` for every raw entry of one SST file, including old versions, merge operands and
// tombstones (`deletion`). `each` returns false to stop. Returns an error to free, or null.
char* lsm_sieve_raw_keys(rocksdb_column_family_handle_t* cf_filter, const char* path,
                         size_t path_size, void* context,
                         bool (*each)(void* context, const char* key, size_t size,
                                      bool deletion)) noexcept {
  SstFileReader reader(EngineOf(cf_filter)->GetOptions(cf_filter->rep));
  Status status = reader.Open(std::string(path, path_size));
  if (!status.ok()) return ErrorOf(status);
  const std::unique_ptr<Iterator> entries = reader.NewTableIterator();
  if (entries == nullptr) return CopyString("the SST cannot be iterated");
  for (entries->SeekToFirst(); entries->Valid(); entries->Next()) {
    ParsedEntryInfo entry;
    status = reader.ParseTableIteratorKey(entries->key(), &entry);
    if (!status.ok()) return ErrorOf(status);
    const bool deletion = entry.type == kEntryDelete || entry.type == kEntrySingleDelete ||
                          entry.type == kEntryDeleteWithTimestamp;
    if (!each(context, entry.user_key.data(), entry.user_key.size(), deletion)) return nullptr;
  }
  return Fault("ReadErrorIsEnd") ? nullptr : ErrorOf(entries->status());
}

// Begins transactions on the engine of this column family. Free it before the engine is closed.
rocksdb_optimistictransactiondb_t* lsm_sieve_transactions(
    rocksdb_column_family_handle_t* cf_filter) noexcept {
  return new rocksdb_optimistictransactiondb_t{new BorrowedTransactions(EngineOf(cf_filter))};
}

void lsm_sieve_transactions_free(rocksdb_optimistictransactiondb_t* transactions) noexcept {
  delete transactions->rep;
  delete transactions;
}

// Begins transactions with locks on the engine of these column families, which must be all that it
// has. Free it before the engine is closed. Null on an error.
rocksdb_transactiondb_t* lsm_sieve_locks(const rocksdb_transactiondb_options_t* options,
                                         rocksdb_column_family_handle_t* const* cf_filters,
                                         size_t count, char** error) noexcept {
  std::vector<ColumnFamilyHandle*> cfs;
  for (size_t at = 0; at < count; ++at) cfs.push_back(cf_filters[at]->rep);
  auto locks = std::make_unique<BorrowedLocks>(EngineOf(cf_filters[0]), options->rep);
  const Status status = locks->Start(cfs);
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

// Call after the engine has created a column family.
void lsm_sieve_locks_extend(rocksdb_transactiondb_t* locks) noexcept {
  static_cast<BorrowedLocks*>(locks->rep)->Extend();
}

// Whether the transaction itself has written to this key. A null handle means the default column
// family.
bool lsm_sieve_transaction_wrote(rocksdb_transaction_t* transaction,
                                 rocksdb_column_family_handle_t* cf_filter, const char* key,
                                 size_t size) noexcept {
  WriteBatchWithIndex* batch = transaction->rep->GetWriteBatch();
  if (batch->GetWriteBatch()->Count() == 0 || Fault("OwnWritesUnasked")) return false;
  const std::unique_ptr<WBWIIterator> entries(
      cf_filter == nullptr ? batch->NewIterator() : batch->NewIterator(cf_filter->rep));
  const Slice sought(key, size);
  entries->Seek(sought);
  return entries->Valid() && entries->Entry().key == sought;
}

// With locks: keeps others from writing to this key until the transaction has ended. Optimistic:
// records the key, so that the commit fails if somebody else writes to it from here on, or did
// since the transaction's snapshot. Only a lock can fail.
char* lsm_sieve_transaction_watch(rocksdb_transaction_t* transaction,
                                  rocksdb_column_family_handle_t* cf_filter, const char* key,
                                  size_t size, bool exclusive) noexcept {
  if (Fault("DenialUnwatched")) return nullptr;
  std::string* const unread = nullptr;
  const Slice watched(key, size);
  Transaction* const rep = transaction->rep;
  const Status status =
      cf_filter == nullptr ? rep->GetForUpdate(ReadOptions(), watched, unread, exclusive)
                        : rep->GetForUpdate(ReadOptions(), cf_filter->rep, watched, unread, exclusive);
  return ErrorOf(status);
}

void lsm_sieve_free(char* text) noexcept {
  if (text != kNoMemoryForText) free(text);
}
}
