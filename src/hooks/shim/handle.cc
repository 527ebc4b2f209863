// The database behind the C handle. The C API calls `handle->rep->Get(...)`, a virtual function. So
// an object of ours in that place sees each call, whichever language it comes from.
//
//   rocksdb_t::rep --> FilteredDB --> [DBWithTTL] --> DBImpl
//
// A read asks the Rust side first. It answers "absent", or calls back to have the engine read and
// learns what that found. Operations after which the filters would not be right without notice are
// run by the Rust side, between what it does before and after them. The engine is asked whenever
// the Rust side does not answer, as after a panic.

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "db/db_impl/db_impl.h"
#include "rocksdb/utilities/db_ttl.h"
#include "rocksdb/utilities/transaction_db.h"
#include "test_util/sync_point.h"

#include "shim.h"
#include "versions.h"

namespace lsm_sieve {
namespace {

// What the engine found, for the Rust side.
enum Found : int8_t { kFailed = -1, kNotFound = 0, kFound = 1 };

Found FoundBy(const Status& status) {
  if (status.ok()) return kFound;
  return status.IsNotFound() ? kNotFound : kFailed;
}

bool IsDropped(ColumnFamilyHandle* cf) {
  return static_cast_with_check<ColumnFamilyHandleImpl>(cf)->cfd()->IsDropped();
}

// Calls `hook` with a context and a function that calls `act` with it.
template <typename Hook, typename Act>
auto WithCallback(Hook hook, Act act) {
  return hook(&act, [](void* context) noexcept { return (*static_cast<Act*>(context))(); });
}

// With memory of its own, unless the engine pinned the value: so a value that is copied arrives in
// the string that the caller has named for it.
void MoveTo(PinnableSlice* to, PinnableSlice&& from) {
  to->Reset();
  if (from.IsPinned()) {
    *to = std::move(from);
  } else {
    to->PinSelf(from);
  }
}
void MoveTo(PinnableWideColumns* to, PinnableWideColumns&& from) { *to = std::move(from); }

void Reset(PinnableSlice& value) { value.Reset(); }

// With this option RocksDB 11.8.1 loses keys, also if it is set at the open.
constexpr char kMempurge[] = "experimental_mempurge_threshold";

// A property that no database of RocksDB's has, by which `lsm_sieve_behind` knows ours.
constexpr char kSieveProperty[] = "lsm-sieve.sieve";

// With another extractor, an iterator's `prefix_same_as_start` means other prefixes.
constexpr char kExtractor[] = "prefix_extractor";

bool IsSwitchedOn(const std::string& value) {
  char* end = nullptr;
  const double threshold = std::strtod(value.c_str(), &end);
  return end == value.c_str() || !(threshold <= 0.0);
}

// Which keys an iterator asks for, for the Rust side.
enum class Span : uint8_t { kSamePrefix = 0, kClosed = 1, kHalfOpen = 2 };

// An iterator that asks the filters at each seek within one prefix. If no key has the prefix, it is
// not valid at once. Otherwise it seeks RocksDB's own iterator, which builds the tree of iterators
// below it at the first seek.
//
// An iterator shows the moment at which it was created. The filters say what is absent now. If
// their view is still the one of before the creation, it was absent all along.
class FilteredIterator final : public Iterator {
 public:
  FilteredIterator(Iterator* inner, const ReadOptions& options,
                   const std::atomic<bool>& has_extractor_changed, uint32_t cf, uint64_t edition,
                   uint32_t most_found, void* sieve, const lsm_sieve_hooks* hooks)
      : inner_(inner),
        lower_(options.iterate_lower_bound),
        upper_(options.iterate_upper_bound),
        same_prefix_(options.prefix_same_as_start),
        has_extractor_changed_(has_extractor_changed),
        cf_(cf),
        edition_(edition),
        most_found_(most_found),
        sieve_(sieve),
        hooks_(hooks) {}

  void Seek(const Slice& target) override {
    is_empty_ = IsEmptyFrom(target);
    if (!is_empty_) inner_->Seek(target);
    Count();
  }
  void SeekForPrev(const Slice& target) override {
    is_empty_ = IsEmptyUpTo(target);
    if (!is_empty_) inner_->SeekForPrev(target);
    Count();
  }
  void SeekToFirst() override {
    is_empty_ = IsEmptyWithinBounds();
    if (!is_empty_) inner_->SeekToFirst();
  }
  void SeekToLast() override {
    is_empty_ = IsEmptyWithinBounds();
    if (!is_empty_) inner_->SeekToLast();
  }
  void Next() override {
    if (!is_empty_) inner_->Next();
  }
  void Prev() override {
    if (!is_empty_) inner_->Prev();
  }
  bool Valid() const override { return !is_empty_ && inner_->Valid(); }
  Status status() const override {
    FAULT(OldErrorKept, return inner_->status());
    return is_empty_ ? Status::OK() : inner_->status();
  }
  Slice key() const override { return inner_->key(); }
  Slice value() const override { return inner_->value(); }
  const WideColumns& columns() const override { return inner_->columns(); }
  Slice timestamp() const override { return inner_->timestamp(); }
  bool PrepareValue() override { return is_empty_ || inner_->PrepareValue(); }
  Status GetProperty(std::string name, std::string* value) override {
    return inner_->GetProperty(std::move(name), value);
  }
  using Iterator::Refresh;
  Status Refresh(const Snapshot* snapshot) override {
    uint64_t edition = 0;
    const bool has_prefixes = hooks_->sieve_prefixes(sieve_, cf_, &edition, &most_found_);
    const Status status = inner_->Refresh(snapshot);
    FAULT(RefreshedBeforeItsView, hooks_->sieve_prefixes(sieve_, cf_, &edition, &most_found_));
    FAULT(RefusedRefreshCounts, edition_ = edition);
    // As of a database with a time to live. The inner iterator is still where a seek before left it,
    // at the moment of before.
    if (!status.ok()) return status;
    is_usable_ = is_usable_ && has_prefixes;
    FAULT(RefreshedIteratorAsksNothing, is_usable_ = false);
    edition_ = edition;
    is_empty_ = false;
    return status;
  }
  void Prepare(const ScanRanges& scans) override {
    is_usable_ = false;
    FAULT(PreparedScanAnswered, is_usable_ = true);
    inner_->Prepare(scans);
  }

 private:
  // Where nearly every seek finds something, the question is wasted time.
  void Count() { found_ = Valid() ? found_ + (found_ < most_found_) : 0; }
  bool Asks(Span span, const Slice& first, const Slice& last) const {
    return is_usable_ && found_ < most_found_ &&
           hooks_->sieve_is_empty(sieve_, cf_, edition_, static_cast<uint8_t>(span), first.data(),
                                  first.size(), last.data(), last.size());
  }
  // If no change of the extractor has begun, the inner iterator uses that of the open.
  bool IsOfAbsentPrefix(const Slice& target) const {
    return same_prefix_ && !has_extractor_changed_.load(std::memory_order_acquire) &&
           Asks(Span::kSamePrefix, target, target);
  }
  bool IsEmptyFrom(const Slice& target) const {
    return IsOfAbsentPrefix(target) ||
           (upper_ != nullptr && Asks(Span::kHalfOpen, target, *upper_));
  }
  bool IsEmptyUpTo(const Slice& target) const {
    Span span = Span::kClosed;
    FAULT(LastOfSpanLeftOut, span = Span::kHalfOpen);
    return IsOfAbsentPrefix(target) || (lower_ != nullptr && Asks(span, *lower_, target));
  }
  bool IsEmptyWithinBounds() const {
    return lower_ != nullptr && upper_ != nullptr && Asks(Span::kHalfOpen, *lower_, *upper_);
  }

  const std::unique_ptr<Iterator> inner_;
  const Slice* const lower_;
  const Slice* const upper_;
  const bool same_prefix_;
  const std::atomic<bool>& has_extractor_changed_;
  const uint32_t cf_;
  uint64_t edition_;
  uint32_t most_found_;
  uint32_t found_ = 0;  // seeks in a row
  void* const sieve_;
  const lsm_sieve_hooks* const hooks_;
  bool is_usable_ = true;
  bool is_empty_ = false;
};

}  // namespace

// A `DBWithTTL`, because the C API takes what is behind a handle for one when it creates a column
// family with a time to live.
class FilteredDB final : public DBWithTTL {
 public:
  FilteredDB(std::unique_ptr<DB>&& base, bool has_ttl, bool reads_only, void* sieve,
             const lsm_sieve_hooks* hooks)
      : DBWithTTL(ToOwner(std::move(base))),
        has_ttl_(has_ttl),
        reads_only_(reads_only),
        writer_(db_),
        sieve_(sieve),
        hooks_(hooks) {}

  // Maintenance ends first: it uses the engine.
  ~FilteredDB() override {
    hooks_->sieve_close(sieve_);
    locks_.reset();
    hooks_->sieve_release(sieve_);
  }
  FilteredDB(const FilteredDB&) = delete;
  FilteredDB& operator=(const FilteredDB&) = delete;

  Status Close() override {
    hooks_->sieve_close(sieve_);
    return db_->Close();
  }

  // Takes over transactions with locks: from here on each write locks its keys.
  void LockWrites(std::unique_ptr<DB> locks) {
    locks_ = std::move(locks);
    writer_ = locks_.get();
  }

  // Asked each time: the engine deletes the handle when it closes, and says that there is none.
  ColumnFamilyHandle* DefaultColumnFamily() const override {
    FAULT(DefaultHandleKept, static const auto kept = db_->DefaultColumnFamily(); return kept);
    return db_->DefaultColumnFamily();
  }

  // ---------------------------------------------------------------- reads

  using DBWithTTL::Get;
  Status Get(const ReadOptions& options, ColumnFamilyHandle* cf, const Slice& key,
             PinnableSlice* value, std::string* timestamp) override {
    const auto read = [&] {
      const ExactRead exact;
      return db_->Get(options, cf, key, value, timestamp);
    };
    if (timestamp != nullptr || !IsPlain(options, cf, Env::IOActivity::kGet)) return read();
    return Read(cf, key, read, [&] { value->Reset(); });
  }

  using DBWithTTL::GetEntity;
  Status GetEntity(const ReadOptions& options, ColumnFamilyHandle* cf, const Slice& key,
                   PinnableWideColumns* columns) override {
    const auto read = [&] {
      const ExactRead exact;
      return db_->GetEntity(options, cf, key, columns);
    };
    if (columns == nullptr || !IsPlain(options, cf, Env::IOActivity::kGetEntity)) return read();
    return Read(cf, key, read, [&] { columns->Reset(); });
  }

  using DBWithTTL::GetMergeOperands;
  Status GetMergeOperands(const ReadOptions& options, ColumnFamilyHandle* cf, const Slice& key,
                          PinnableSlice* operands, GetMergeOperandsOptions* operand_options,
                          int* count) override {
    const auto read = [&] {
      const ExactRead exact;
      return db_->GetMergeOperands(options, cf, key, operands, operand_options, count);
    };
    if (!IsPlain(options, cf, Env::IOActivity::kUnknown)) return read();
    const int most = operand_options == nullptr ? 0 : operand_options->expected_max_number_of_operands;
    return Read(cf, key, read, [&] { std::for_each(operands, operands + most, Reset); });
  }

  using DBWithTTL::MultiGet;
  void MultiGet(const ReadOptions& options, const size_t count, ColumnFamilyHandle** cfs,
                const Slice* keys, PinnableSlice* values, std::string* timestamps,
                Status* statuses, const bool sorted) override {
    const auto read = [&](size_t n, ColumnFamilyHandle** cfs, const Slice* keys,
                          PinnableSlice* values, Status* statuses) {
      db_->MultiGet(options, n, cfs, keys, values, timestamps, statuses, sorted);
    };
    if (timestamps != nullptr || !ArePlain(options, count, cfs, Env::IOActivity::kMultiGet)) {
      return read(count, cfs, keys, values, statuses);
    }
    ReadMany(count, cfs, keys, values, statuses, read);
  }

  using DBWithTTL::MultiGetEntity;
  void MultiGetEntity(const ReadOptions& options, ColumnFamilyHandle* cf, size_t count,
                      const Slice* keys, PinnableWideColumns* columns, Status* statuses,
                      bool sorted) override {
    if (cf == nullptr) {
      return db_->MultiGetEntity(options, cf, count, keys, columns, statuses, sorted);
    }
    std::vector<ColumnFamilyHandle*> cfs(count, cf);
    MultiGetEntity(options, count, cfs.data(), keys, columns, statuses, sorted);
  }
  void MultiGetEntity(const ReadOptions& options, size_t count, ColumnFamilyHandle** cfs,
                      const Slice* keys, PinnableWideColumns* columns, Status* statuses,
                      bool sorted) override {
    const auto read = [&](size_t n, ColumnFamilyHandle** cfs, const Slice* keys,
                          PinnableWideColumns* columns, Status* statuses) {
      db_->MultiGetEntity(options, n, cfs, keys, columns, statuses, sorted);
    };
    if (cfs == nullptr || keys == nullptr || columns == nullptr ||
        !ArePlain(options, count, cfs, Env::IOActivity::kMultiGetEntity)) {
      return read(count, cfs, keys, columns, statuses);
    }
    ReadMany(count, cfs, keys, columns, statuses, read);
  }

  using DBWithTTL::KeyMayExist;
  bool KeyMayExist(const ReadOptions& options, ColumnFamilyHandle* cf, const Slice& key,
                   std::string* value, bool* value_found) override {
    if (!RulesOut(options, cf, key)) {
      const ExactRead exact;
      return db_->KeyMayExist(options, cf, key, value, value_found);
    }
    // As the engine leaves them: what it found is an empty value.
    FAULT(OldValueKept, return false);
    if (value_found != nullptr) {
      *value_found = true;
      if (value != nullptr) value->clear();
    }
    return false;
  }
  // `StackableDB` does not pass this one on.
  bool KeyMayExist(const ReadOptions& options, ColumnFamilyHandle* cf, const Slice& key,
                   std::string* value, std::string* timestamp, bool* value_found) override {
    if (timestamp == nullptr) return KeyMayExist(options, cf, key, value, value_found);
    const ExactRead exact;
    return db_->KeyMayExist(options, cf, key, value, timestamp, value_found);
  }

  using DBWithTTL::NewIterator;
  Iterator* NewIterator(const ReadOptions& options, ColumnFamilyHandle* cf) override {
    const bool is_bounded =
        options.iterate_lower_bound != nullptr || options.iterate_upper_bound != nullptr;
    // Iterators that follow later writes, or write themselves, or show what is deleted, are the
    // engine's own.
    const bool is_plain = IsPlain(options, cf, Env::IOActivity::kDBIterator) && !options.tailing &&
                          options.iter_start_ts == nullptr;
    uint64_t edition = 0;
    uint32_t most_found = 0;
    if (!is_plain || !(options.prefix_same_as_start || is_bounded) ||
        !hooks_->sieve_prefixes(sieve_, IdOf(cf), &edition, &most_found)) {
      return db_->NewIterator(options, cf);
    }
    std::unique_ptr<Iterator> inner(db_->NewIterator(options, cf));
    FAULT(CreatedBeforeItsView, hooks_->sieve_prefixes(sieve_, IdOf(cf), &edition, &most_found));
    if (!inner->status().ok()) return inner.release();
    return new FilteredIterator(inner.release(), options, has_extractor_changed_, IdOf(cf),
                                edition, most_found, sieve_, hooks_);
  }

  // ---------------------------------------------------------------- writes

  using DBWithTTL::Put;
  Status Put(const WriteOptions& options, ColumnFamilyHandle* cf, const Slice& key,
             const Slice& value) override {
    return writer_->Put(options, cf, key, value);
  }
  using DBWithTTL::PutEntity;
  Status PutEntity(const WriteOptions& options, ColumnFamilyHandle* cf, const Slice& key,
                   const WideColumns& columns) override {
    return writer_->PutEntity(options, cf, key, columns);
  }
  using DBWithTTL::Merge;
  Status Merge(const WriteOptions& options, ColumnFamilyHandle* cf, const Slice& key,
               const Slice& operand) override {
    return writer_->Merge(options, cf, key, operand);
  }
  using DBWithTTL::Delete;
  Status Delete(const WriteOptions& options, ColumnFamilyHandle* cf, const Slice& key) override {
    return writer_->Delete(options, cf, key);
  }
  using DBWithTTL::SingleDelete;
  Status SingleDelete(const WriteOptions& options, ColumnFamilyHandle* cf,
                      const Slice& key) override {
    return writer_->SingleDelete(options, cf, key);
  }
  Status Write(const WriteOptions& options, WriteBatch* batch) override {
    FAULT(LocksPassedBy, return db_->Write(options, batch));
    return writer_->Write(options, batch);
  }

  // ---------------------------------------------------------------- column families

  Status CreateColumnFamily(const ColumnFamilyOptions& options, const std::string& name,
                            ColumnFamilyHandle** handle) override {
    return Create(options, name, handle, [&](const ColumnFamilyOptions& hooked) {
      return db_->CreateColumnFamily(hooked, name, handle);
    });
  }
  Status CreateColumnFamilies(const ColumnFamilyOptions& options,
                              const std::vector<std::string>& names,
                              std::vector<ColumnFamilyHandle*>* handles) override {
    std::vector<ColumnFamilyDescriptor> cfs;
    for (const std::string& name : names) cfs.emplace_back(name, options);
    return CreateColumnFamilies(cfs, handles);
  }
  Status CreateColumnFamilies(const std::vector<ColumnFamilyDescriptor>& cfs,
                              std::vector<ColumnFamilyHandle*>* handles) override {
    handles->clear();
    // RocksDB's bulk call would not wrap the merge operator and the compaction filter, which then get
    // values with their times.
    if (has_ttl_) {
      for (const ColumnFamilyDescriptor& cf : cfs) {
        ColumnFamilyHandle* handle = nullptr;
        const Status status = CreateColumnFamily(cf.options, cf.name, &handle);
        if (!status.ok()) return status;
        handles->push_back(handle);
      }
      return Status::OK();
    }
    return Create(cfs, [&](const std::vector<ColumnFamilyDescriptor>& hooked, int64_t* ids) {
      const Status status = db_->CreateColumnFamilies(hooked, handles);
      for (ColumnFamilyHandle* handle : *handles) *ids++ = handle->GetID();
      return status;
    });
  }
  Status CreateColumnFamilyWithTtl(const ColumnFamilyOptions& options, const std::string& name,
                                   ColumnFamilyHandle** handle, int ttl) override {
    if (!has_ttl_) return NoTtl();
    return Create(options, name, handle, [&](const ColumnFamilyOptions& hooked) {
      return WithTtl()->CreateColumnFamilyWithTtl(hooked, name, handle, ttl);
    });
  }
  Status CreateColumnFamilyWithImport(const ColumnFamilyOptions& options, const std::string& name,
                                      const ImportColumnFamilyOptions& import_options,
                                      const ExportImportFilesMetaData& metadata,
                                      ColumnFamilyHandle** handle) override {
    return Create(options, name, handle, [&](const ColumnFamilyOptions& hooked) {
      return db_->CreateColumnFamilyWithImport(hooked, name, import_options, metadata, handle);
    });
  }
  Status CreateColumnFamilyWithImport(
      const ColumnFamilyOptions& options, const std::string& name,
      const ImportColumnFamilyOptions& import_options,
      const std::vector<const ExportImportFilesMetaData*>& metadatas,
      ColumnFamilyHandle** handle) override {
    return Create(options, name, handle, [&](const ColumnFamilyOptions& hooked) {
      return db_->CreateColumnFamilyWithImport(hooked, name, import_options, metadatas, handle);
    });
  }

  Status DropColumnFamily(ColumnFamilyHandle* cf) override {
    return Drop({cf}, [&] { return db_->DropColumnFamily(cf); });
  }
  Status DropColumnFamilies(const std::vector<ColumnFamilyHandle*>& cfs) override {
    return Drop(cfs, [&] { return db_->DropColumnFamilies(cfs); });
  }

  void SetTtl(int32_t ttl) override {
    if (has_ttl_) WithTtl()->SetTtl(ttl);
  }
  void SetTtl(ColumnFamilyHandle* cf, int32_t ttl) override {
    if (has_ttl_) WithTtl()->SetTtl(cf, ttl);
  }
#if SIEVE_HAS_GET_TTL
  Status GetTtl(ColumnFamilyHandle* cf, int32_t* ttl) override {
    return has_ttl_ ? WithTtl()->GetTtl(cf, ttl) : NoTtl();
  }
#endif

  // ---------------------------------------------------------------- external writes

  using DBWithTTL::IngestExternalFile;
  Status IngestExternalFile(ColumnFamilyHandle* cf, const std::vector<std::string>& files,
                            const IngestExternalFileOptions& options) override {
    const auto ingest = [&] { return db_->IngestExternalFile(cf, files, options); };
    return cf == nullptr ? ingest() : External(cf->GetID(), ingest);
  }
  Status IngestExternalFiles(const std::vector<IngestExternalFileArg>& args) override {
    FAULT(ManyIngestedUnannounced, return db_->IngestExternalFiles(args));
    return External(kAllCfs, [&] { return db_->IngestExternalFiles(args); });
  }
#if SIEVE_INGESTS_IN_STEPS
  Status CommitFileIngestionHandles(
      std::vector<std::unique_ptr<FileIngestionHandle>> handles) override {
    FAULT(CommitUnannounced, return db_->CommitFileIngestionHandles(std::move(handles)));
    return External(kAllCfs, [&] { return db_->CommitFileIngestionHandles(std::move(handles)); });
  }
#endif
  // A secondary drops memtables here before their SSTs can be listed.
  Status TryCatchUpWithPrimary() override {
    FAULT(CatchUpUnannounced, return db_->TryCatchUpWithPrimary());
    if (!reads_only_) return db_->TryCatchUpWithPrimary();
    return External(kAllCfs, [&] { return db_->TryCatchUpWithPrimary(); });
  }

  // ---------------------------------------------------------------- beside maintenance

  using DBWithTTL::Flush;
  Status Flush(const FlushOptions& options, ColumnFamilyHandle* cf) override {
    return db_->Flush(options, cf);
  }
  Status Flush(const FlushOptions& options,
               const std::vector<ColumnFamilyHandle*>& cfs) override {
    return reads_only_ ? ReadsOnly() : db_->Flush(options, cfs);
  }
  // Checkpoints and backups copy these files.
  Status GetLiveFilesStorageInfo(const LiveFilesStorageInfoOptions& options,
                                 std::vector<LiveFileStorageInfo>* files) override {
    return reads_only_ ? ReadsOnly() : db_->GetLiveFilesStorageInfo(options, files);
  }

  // ---------------------------------------------------------------- itself

  using DBWithTTL::GetIntProperty;
  bool GetIntProperty(ColumnFamilyHandle* cf, const Slice& property, uint64_t* value) override {
    if (property != kSieveProperty) return db_->GetIntProperty(cf, property, value);
    *value = reinterpret_cast<uintptr_t>(sieve_);
    return true;
  }

  // ---------------------------------------------------------------- refused

  // RocksDB's instances that only read run these all the same, or in part, or wait without end.
  using DBWithTTL::FlushWAL;
  Status FlushWAL(bool sync) override { return reads_only_ ? ReadsOnly() : db_->FlushWAL(sync); }
#if SIEVE_HAS_FLUSH_WAL_OPTIONS
  Status FlushWAL(const FlushWALOptions& options) override {
    return reads_only_ ? ReadsOnly() : db_->FlushWAL(options);
  }
#endif
  // It may close the database, before which maintenance ends.
  Status WaitForCompact(const WaitForCompactOptions& options) override {
    if (reads_only_) return ReadsOnly();
    FAULT(WaitClosesEngine, return db_->WaitForCompact(options));
    // A closed engine is not flushed.
    if (DefaultColumnFamily() == nullptr) return db_->WaitForCompact(options);
    WaitForCompactOptions waiting = options;
    waiting.flush |= options.close_db && !db_->GetDBOptions().avoid_flush_during_shutdown;
    waiting.close_db = false;
    Status status = db_->WaitForCompact(waiting);
    return status.ok() && options.close_db ? Close() : status;
  }

  using DBWithTTL::SetOptions;
  using OptionsByCf =
      std::unordered_map<ColumnFamilyHandle*, std::unordered_map<std::string, std::string>>;
#if SIEVE_SETS_OPTIONS_OF_MANY
  Status SetOptions(const OptionsByCf& options) override {
    const Status allowed = BeforeOptionsChange(options);
    return allowed.ok() ? db_->SetOptions(options) : allowed;
  }
#else
  Status SetOptions(ColumnFamilyHandle* cf, const OptionsByCf::mapped_type& options) override {
    const Status allowed = BeforeOptionsChange({{cf, options}});
    return allowed.ok() ? db_->SetOptions(cf, options) : allowed;
  }
#endif

  // ---------------------------------------------------------------- what StackableDB does not pass on

  // `IngestWriteBatchWithIndex` stays refused: its keys would be in no memtable that feeds a filter,
  // and in no SST yet.

  using DBWithTTL::DeleteRange;
  Status DeleteRange(const WriteOptions& options, ColumnFamilyHandle* cf, const Slice& begin,
                     const Slice& end, const Slice& timestamp) override {
    return db_->DeleteRange(options, cf, begin, end, timestamp);
  }
  Status WriteWithCallback(const WriteOptions& options, WriteBatch* batch,
                           UserWriteCallback* callback) override {
    return db_->WriteWithCallback(options, batch, callback);
  }
  void GetAllColumnFamilyMetaData(std::vector<ColumnFamilyMetaData>* metadata) override {
    db_->GetAllColumnFamilyMetaData(metadata);
  }
  Status GetStatsHistory(uint64_t start, uint64_t end,
                         std::unique_ptr<StatsHistoryIterator>* history) override {
    return db_->GetStatsHistory(start, end, history);
  }

 private:
  // Whether these options may be set. Filters end that a new prefix extractor makes wrong.
  Status BeforeOptionsChange(const OptionsByCf& options) {
    if (reads_only_) return ReadsOnly();
    for (const auto& [cf, of_cf] : options) {
      const auto mempurge = of_cf.find(kMempurge);
      if (mempurge != of_cf.end() && IsSwitchedOn(mempurge->second)) {
        return Status::NotSupported(
            std::string("with ") + kMempurge +
            " RocksDB 11.8.1 itself loses keys and reads values that were overwritten; leave it at 0");
      }
      if (of_cf.count(kExtractor) > 0) {
        FAULT(ExtractorChangeUnnoticed, continue);
        ExtractorChanges();
        hooks_->sieve_extractor_changes(sieve_);
        has_extractor_changed_.store(true, std::memory_order_seq_cst);
      }
    }
    return Status::OK();
  }
  static constexpr uint32_t kAllCfs = UINT32_MAX;

  // RocksDB's own refusal.
  Status ReadsOnly() const { return db_->Flush(FlushOptions(), DefaultColumnFamily()); }

  static Status NoTtl() { return Status::NotSupported("the database has no time to live"); }

  DBWithTTL* WithTtl() const { return static_cast<DBWithTTL*>(db_); }

  static uint32_t IdOf(ColumnFamilyHandle* cf) { return cf->GetID(); }

  // Whether the filters are asked: nobody did so yet for this read, and RocksDB itself would not
  // refuse it. A snapshot makes no difference, since a filter has the keys of all versions; nor does
  // a read tier.
  static bool IsPlain(const ReadOptions& options, ColumnFamilyHandle* cf,
                      Env::IOActivity activity) {
    bool plain = options.timestamp == nullptr;
    FAULT(TimestampsIgnored, plain = true);
    return plain && cf != nullptr && !ExactRead::IsUnderWay() &&
           (options.io_activity == Env::IOActivity::kUnknown || options.io_activity == activity);
  }
  static bool ArePlain(const ReadOptions& options, size_t count, ColumnFamilyHandle** cfs,
                       Env::IOActivity activity) {
    return count > 0 && std::all_of(cfs, cfs + count, [&](ColumnFamilyHandle* cf) {
             return IsPlain(options, cf, activity);
           });
  }

  // NotFound after `clear`, if the filters prove the key absent. Otherwise what `read` returns,
  // which is called at most once.
  template <typename Engine, typename Clear>
  Status Read(ColumnFamilyHandle* cf, const Slice& key, const Engine& read, const Clear& clear) {
    struct Call {
      const Engine& read;
      std::optional<Status> status;
    };
    Call call{read, std::nullopt};
    const bool absent = hooks_->sieve_read(
        sieve_, IdOf(cf), key.data(), key.size(), &call, [](void* context) noexcept -> int8_t {
          auto* call = static_cast<Call*>(context);
          call->status = call->read();
          return FoundBy(*call->status);
        });
    if (call.status) return *std::move(call.status);
    if (!absent) return read();
    FAULT(ResultsNotCleared, return Status::NotFound());
    clear();
    return Status::NotFound();
  }

  bool RulesOut(const ReadOptions& options, ColumnFamilyHandle* cf, const Slice& key) {
    return IsPlain(options, cf, Env::IOActivity::kGet) &&
           hooks_->sieve_rules_out(sieve_, IdOf(cf), key.data(), key.size());
  }

  // The values of several keys, of one moment. `read` reads those that the Rust side asks for:
  // those that pass the filters, or all. What was not read is absent.
  template <typename Value, typename Engine>
  void ReadMany(size_t count, ColumnFamilyHandle** cfs, const Slice* keys, Value* values,
                Status* statuses, const Engine& read) {
    static_assert(sizeof(Slice) == sizeof(void*) + sizeof(size_t), "the Rust side's layout");
    struct Call {
      const Engine& read;
      size_t count;
      ColumnFamilyHandle** cfs;
      const Slice* keys;
      Value* values;
      Status* statuses;
      std::vector<bool> is_read;

      void Read(const size_t* at, size_t n, int8_t* found) {
        if (n == count) {
          for (size_t i = 0; i < count; ++i) {
            values[i].Reset();
            // This read is in place of the first, whose errors nobody gets.
            if (is_read[i] && !statuses[i].IsNotFound()) {
              IGNORE_STATUS_IF_ERROR(statuses[i]);
            }
          }
          read(count, cfs, keys, values, statuses);
        } else {
          std::vector<ColumnFamilyHandle*> some_cfs(n);
          std::vector<Slice> some_keys(n);
          for (size_t i = 0; i < n; ++i) {
            some_cfs[i] = cfs[at[i]];
            some_keys[i] = keys[at[i]];
          }
          std::vector<Value> some_values(n);
          std::vector<Status> some_statuses(n);
          read(n, some_cfs.data(), some_keys.data(), some_values.data(), some_statuses.data());
          for (size_t i = 0; i < n; ++i) {
            MoveTo(&values[at[i]], std::move(some_values[i]));
            statuses[at[i]] = std::move(some_statuses[i]);
          }
        }
        for (size_t i = 0; i < n; ++i) {
          is_read[at[i]] = true;
          found[i] = FoundBy(statuses[at[i]]);
        }
      }
    };
    std::vector<uint32_t> ids(count);
    for (size_t i = 0; i < count; ++i) ids[i] = IdOf(cfs[i]);
    Call call{read, count, cfs, keys, values, statuses, std::vector<bool>(count)};
    const bool answered = hooks_->sieve_read_many(
        sieve_, count, ids.data(), keys, &call,
        [](void* context, const size_t* at, size_t n, int8_t* found) noexcept {
          static_cast<Call*>(context)->Read(at, n, found);
        });
    if (!answered) return read(count, cfs, keys, values, statuses);
    for (size_t i = 0; i < count; ++i) {
      if (call.is_read[i]) continue;
      values[i].Reset();
      statuses[i] = Status::NotFound();
    }
  }

  template <typename Engine>
  Status Create(const ColumnFamilyOptions& options, const std::string& name,
                ColumnFamilyHandle** handle, const Engine& create) {
    return Create({{name, options}},
                  [&](const std::vector<ColumnFamilyDescriptor>& hooked, int64_t* ids) {
                    const Status status = create(hooked[0].options);
                    if (status.ok()) ids[0] = (*handle)->GetID();
                    return status;
                  });
  }

  // `create` gets these column families with hooks in their options, and sets their ids.
  template <typename Engine>
  Status Create(const std::vector<ColumnFamilyDescriptor>& cfs, const Engine& create) {
    if (reads_only_) return ReadsOnly();
    if (cfs.empty()) return Status::OK();
    struct Call {
      const Engine& create;
      const std::vector<ColumnFamilyDescriptor>& cfs;
      DB* locks;
      std::vector<rocksdb_options_t> hooked;
      Status status = Status::Aborted("the filters could not be created");
    };
    Call call{create, cfs, locks_.get(), {}};
    std::vector<Slice> names;
    for (const ColumnFamilyDescriptor& cf : cfs) {
      names.emplace_back(cf.name);
      call.hooked.push_back({Options(DBOptions(), cf.options)});
    }
    std::vector<rocksdb_options_t*> options;
    for (rocksdb_options_t& hooked : call.hooked) options.push_back(&hooked);
    hooks_->sieve_create_cfs(
        sieve_, cfs.size(), names.data(), options.data(), &call,
        [](void* context, const char* reason, size_t size) noexcept {
          static_cast<Call*>(context)->status = Status::NotSupported(Slice(reason, size));
        },
        [](void* context, int64_t* ids) noexcept {
          auto* call = static_cast<Call*>(context);
          std::vector<ColumnFamilyDescriptor> hooked;
          for (size_t i = 0; i < call->cfs.size(); ++i) {
            hooked.emplace_back(call->cfs[i].name, ColumnFamilyOptions(call->hooked[i].rep));
          }
          if (call->locks != nullptr) ExtendLocks(call->locks, hooked.size());
          call->status = call->create(hooked, ids);
        });
    return call.status;
  }

  template <typename Engine>
  Status Drop(const std::vector<ColumnFamilyHandle*>& cfs, const Engine& drop) {
    if (reads_only_) return ReadsOnly();
    if (cfs.empty()) return Status::OK();
    struct Call {
      const std::vector<ColumnFamilyHandle*>& cfs;
      const Engine& drop;
      Status status;
    };
    Call call{cfs, drop, Status::OK()};
    std::vector<uint32_t> ids;
    for (ColumnFamilyHandle* cf : cfs) ids.push_back(cf->GetID());
    hooks_->sieve_drop_cfs(sieve_, cfs.size(), ids.data(), &call,
                           [](void* context, bool* dropped) noexcept {
                             auto* call = static_cast<Call*>(context);
                             call->status = call->drop();
                             for (ColumnFamilyHandle* cf : call->cfs) *dropped++ = IsDropped(cf);
                           });
    return call.status;
  }

  template <typename Act>
  Status External(uint32_t cf, const Act& act) {
    return Between([&](void* context, void (*run)(void*)) {
      hooks_->sieve_external_writes(sieve_, cf, context, run);
    }, act);
  }

  // The Rust side runs `act` exactly once.
  template <typename Hook, typename Act>
  static Status Between(const Hook& hook, const Act& act) {
    Status status;
    WithCallback(hook, [&] { status = act(); });
    return status;
  }

  const bool has_ttl_;
  const bool reads_only_;
  // Owned, unless it is `db_`.
  std::unique_ptr<DB> locks_;
  DB* writer_;
  // Whether any column family got another prefix extractor since the open.
  std::atomic<bool> has_extractor_changed_{false};
  void* const sieve_;
  const lsm_sieve_hooks* const hooks_;
};

void LockWrites(rocksdb_t* handle, std::unique_ptr<DB> locks) {
  static_cast<FilteredDB*>(handle->rep)->LockWrites(std::move(locks));
}

namespace {

// Reads memory that may not be mapped: the kernel copies it, and says so if it cannot.
class MemoryReader {
 public:
  MemoryReader() : is_open_(pipe(ends_) == 0), has_failed_(!is_open_) {}
  ~MemoryReader() {
    if (!is_open_) return;
    close(ends_[0]);
    close(ends_[1]);
  }
  MemoryReader(const MemoryReader&) = delete;
  MemoryReader& operator=(const MemoryReader&) = delete;

  bool ReadWord(uintptr_t address, uintptr_t* word) {
    return address % sizeof(*word) == 0 && Read(address, word, sizeof(*word));
  }

  bool Read(uintptr_t address, void* to, ssize_t size) {
    if (has_failed_) return false;
    const ssize_t written = write(ends_[1], reinterpret_cast<const void*>(address), size);
    if (written < 0 && errno == EFAULT) return false;
    // What stays in the pipe would be taken for the next value.
    has_failed_ = written != size || read(ends_[0], to, size) != size;
    return !has_failed_;
  }

  // Whether the kernel failed otherwise: nothing that was read counts.
  bool HasFailed() const { return has_failed_; }

 private:
  int ends_[2] = {-1, -1};
  const bool is_open_;
  bool has_failed_;
};

// Whether this is the engine, or one that passes its calls on: a `StackableDB` has what it wraps
// behind its table of virtual functions. The filters and a time to live are one each.
bool IsEngine(uintptr_t candidate, uintptr_t engine, MemoryReader& memory) {
  for (int wrappers = 0; candidate != engine; ++wrappers) {
    if (wrappers == 2 || !memory.ReadWord(candidate + sizeof(uintptr_t), &candidate)) return false;
  }
  return true;
}

}  // namespace

extern "C" {

// An exact read of the Rust side's begins or ends on this thread.
void lsm_sieve_exact_read(bool begins) noexcept {
  if (begins) {
    ExactRead::Begin();
  } else {
    ExactRead::End();
  }
}

// The handle of the engine that this column family belongs to. It is the one pointer among the
// words of a database object of `rocksdb` that points to a pointer to the engine. Null if there is
// none, or if there are several different ones.
rocksdb_t* lsm_sieve_find_handle(const void* object, size_t size,
                                 rocksdb_column_family_handle_t* cf) noexcept {
  const auto engine = reinterpret_cast<uintptr_t>(EngineOf(cf));
  MemoryReader memory;
  uintptr_t handle = 0;
  size_t matches = 0;
  for (size_t at = 0; at + sizeof(uintptr_t) <= size; at += sizeof(uintptr_t)) {
    uintptr_t word = 0;
    std::memcpy(&word, static_cast<const char*>(object) + at, sizeof(word));
    uintptr_t rep = 0;
    if (word != 0 && memory.ReadWord(word, &rep) && IsEngine(rep, engine, memory)) {
      handle = word;
      ++matches;
    }
  }
  FAULT(AnyHandleTaken, matches = 1);
  if (memory.HasFailed()) return nullptr;
  return matches == 1 ? reinterpret_cast<rocksdb_t*>(handle) : nullptr;
}

// Where an object of the binding has its pointer to options that allow this many background jobs: the
// place of the one word that points to such options. `size` if there is none, or several.
size_t lsm_sieve_find_options(const void* object, size_t size, int jobs) noexcept {
  const auto of_jobs = [](uintptr_t options) {
    return reinterpret_cast<uintptr_t>(
        &reinterpret_cast<const rocksdb_options_t*>(options)->rep.max_background_jobs);
  };
  MemoryReader memory;
  size_t found = size;
  size_t matches = 0;
  for (size_t at = 0; at + sizeof(uintptr_t) <= size; at += sizeof(uintptr_t)) {
    uintptr_t word = 0;
    std::memcpy(&word, static_cast<const char*>(object) + at, sizeof(word));
    int value = 0;
    if (word != 0 && memory.Read(of_jobs(word), &value, sizeof(value)) && value == jobs) {
      found = at;
      ++matches;
    }
  }
  FAULT(AnyOptionsTaken, matches = 1);
  return matches == 1 && !memory.HasFailed() ? found : size;
}

// Puts the filters behind a handle. Takes over `sieve`.
void lsm_sieve_filter_handle(rocksdb_t* handle, bool reads_only, void* sieve,
                             const lsm_sieve_hooks* hooks) noexcept {
  std::unique_ptr<DB> base(handle->rep);
  const bool has_ttl = base.get() != base->GetRootDB();
  handle->rep = new FilteredDB(std::move(base), has_ttl, reads_only, sieve, hooks);
}

// What reads of this handle ask, until the database closes; null if it has no filters.
const void* lsm_sieve_behind(rocksdb_t* handle) noexcept {
  uint64_t sieve = 0;
  DB* const db = handle->rep;
  if (!db->GetIntProperty(db->DefaultColumnFamily(), kSieveProperty, &sieve)) return nullptr;
  return reinterpret_cast<const void*>(static_cast<uintptr_t>(sieve));
}

}  // extern "C"
}  // namespace lsm_sieve
