// Memtable capture: a wrapper around each memtable adds every key that the memtable takes to the
// filters.

#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

#include "db/dbformat.h"
#include "rocksdb/memtablerep.h"
#include "util/coding.h"

#include "shim.h"
#include "versions.h"

namespace lsm_sieve {

// Keys of deletions are not added. Invariant 2 is about keys that a lookup finds: one whose newest
// entry is a tombstone is absent, so *absent* is right of it, and each older entry that a snapshot or a
// merge may still show was added when it came. With timestamps they are added: a lookup may ask for
// the time at which its key was deleted.
bool IsDeletion(uint8_t type, bool has_timestamp) {
  FAULT(EntityIsDeletion, if (type == kTypeWideColumnEntity) return true);
  FAULT(DeletionTimeNotAdded, has_timestamp = false);
  return type == kTypeRangeDeletion ||
         (!has_timestamp && (type == kTypeDeletion || type == kTypeSingleDeletion ||
                             type == kTypeDeletionWithTimestamp));
}

namespace {

// Adds each key to the filters before the sequence number that makes it visible is published.
// RocksDB publishes it after the memtable has taken the key.
class CapturedRep : public MemTableRep {
 public:
  CapturedRep(MemTableRep* inner, Allocator* allocator, CfFilterPtr cf_filter)
      : MemTableRep(allocator), inner_(inner), cf_filter_(std::move(cf_filter)) {}

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
    FAULT(PrefixHintNotCaptured, return inner_->InsertKeyWithHint(handle, hint));
    const Capture capture(*this, handle);
    return inner_->InsertKeyWithHint(handle, hint);
  }
  void InsertWithHintConcurrently(KeyHandle handle, void** hint) override {
    const Capture capture(*this, handle);
    inner_->InsertWithHintConcurrently(handle, hint);
    ShowInserted();
  }
  bool InsertKeyWithHintConcurrently(KeyHandle handle, void** hint) override {
    FAULT(BatchHintNotCaptured, return inner_->InsertKeyWithHintConcurrently(handle, hint));
    const Capture capture(*this, handle);
    const bool inserted = inner_->InsertKeyWithHintConcurrently(handle, hint);
    ShowInserted();
    return inserted;
  }
  void InsertConcurrently(KeyHandle handle) override {
    const Capture capture(*this, handle);
    inner_->InsertConcurrently(handle);
    ShowInserted();
  }
  bool InsertKeyConcurrently(KeyHandle handle) override {
    const Capture capture(*this, handle);
    const bool inserted = inner_->InsertKeyConcurrently(handle);
    ShowInserted();
    return inserted;
  }
  void BatchPostProcess() override { inner_->BatchPostProcess(); }
  bool Contains(const char* key) const override { return inner_->Contains(key); }
  void MarkReadOnly() override { inner_->MarkReadOnly(); }
  void MarkFlushed() override { inner_->MarkFlushed(); }
  void Get(const LookupKey& k, void* callback_args,
           bool (*callback_func)(void* arg, const char* entry)) override {
    inner_->Get(k, callback_args, callback_func);
  }
#if SIEVE_VALIDATES_KEYS
  Status GetAndValidate(
      const LookupKey& k, void* callback_args,
      bool (*callback_func)(void* arg, const char* entry), bool allow_data_in_error,
      bool detect_key_out_of_order,
      const std::function<Status(const char*, bool)>& key_validation_callback) override {
    return inner_->GetAndValidate(k, callback_args, callback_func, allow_data_in_error,
                                  detect_key_out_of_order, key_validation_callback);
  }
#else
  Status GetAndValidate(const LookupKey& k, void* callback_args,
                        bool (*callback_func)(void* arg, const char* entry),
                        bool allow_data_in_error) override {
    return inner_->GetAndValidate(k, callback_args, callback_func, allow_data_in_error);
  }
#endif
#if SIEVE_MEMTABLES_READ_MANY
  Status MultiGet(
      size_t num_keys, const char* const* keys, void** callback_args,
      bool (*callback_func)(void* arg, const char* entry), bool allow_data_in_errors,
      bool detect_key_out_of_order,
      const std::function<Status(const char*, bool)>& key_validation_callback) override {
    return inner_->MultiGet(num_keys, keys, callback_args, callback_func, allow_data_in_errors,
                            detect_key_out_of_order, key_validation_callback);
  }
#endif
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
    Capture(const CapturedRep& rep, KeyHandle handle) : cf_filter_(*rep.cf_filter_) {
      const Slice internal = GetLengthPrefixedSlice(static_cast<const char*>(handle));
      const Slice stored(internal.data(), internal.size() - 8);
      const size_t timestamp_size = cf_filter_.timestamp_size();
      key_ = WithoutTimestamp(stored, timestamp_size);
      FAULT(TimestampAddedToMemtableKey, key_ = stored);
      const auto type = static_cast<uint8_t>(stored.data()[stored.size()]);
      is_deletion_ = IsDeletion(type, timestamp_size > 0);
      if (!is_deletion_) insertion_ = hooks().insertion_begin(raw(), key_);
    }
    ~Capture() {
      if (!is_deletion_) hooks().insertion_end(raw(), insertion_, key_);
    }
    Capture(const Capture&) = delete;
    Capture& operator=(const Capture&) = delete;

   private:
    const Hooks& hooks() const { return *cf_filter_.hooks(); }
    rust::CfFilter* raw() const { return cf_filter_.raw(); }

    const CfFilter& cf_filter_;
    Slice key_;
    bool is_deletion_;
    Insertion insertion_;
  };

  // A vector keeps the keys that a thread inserts beside others for itself until the end of the
  // batch. A reader of the memtable must see each when its insertion ends.
  void ShowInserted() {
    FAULT(ConcurrentInsertionsHidden, return);
    inner_->BatchPostProcess();
  }

  const std::unique_ptr<MemTableRep> inner_;
  const CfFilterPtr cf_filter_;
};

// Has the wrapped factory's name and id, so that the OPTIONS file loads without the plugin.
class CapturedRepFactory : public MemTableRepFactory {
 public:
  CapturedRepFactory(std::shared_ptr<MemTableRepFactory> inner, CfFilterPtr cf_filter)
      : inner_(std::move(inner)), cf_filter_(std::move(cf_filter)) {}

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
                           allocator, cf_filter_);
  }
  MemTableRep* CreateMemTableRep(const MemTableRep::KeyComparator& comparator,
                                 Allocator* allocator, const SliceTransform* transform,
                                 Logger* logger, uint32_t column_family_id) override {
    cf_filter_->hooks()->memtable_created(cf_filter_->raw(), column_family_id);
    return new CapturedRep(
        inner_->CreateMemTableRep(comparator, allocator, transform, logger, column_family_id),
        allocator, cf_filter_);
  }

 private:
  const std::shared_ptr<MemTableRepFactory> inner_;
  const CfFilterPtr cf_filter_;
};

}  // namespace

std::shared_ptr<MemTableRepFactory> CaptureMemtables(std::shared_ptr<MemTableRepFactory> inner,
                                                     CfFilterPtr cf_filter) {
  return std::make_shared<CapturedRepFactory>(std::move(inner), std::move(cf_filter));
}

}  // namespace lsm_sieve
