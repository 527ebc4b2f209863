// The database behind the C handle. The C API calls `handle->rep->Get(...)`, a virtual function. So
// an object of ours in that place sees each call, whichever language it comes from.
//
//   rocksdb_t::rep --> FilteredDB --> [DBWithTTL] --> DBImpl

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "db/db_impl/db_impl.h"
#include "rocksdb/utilities/db_ttl.h"
#include "rocksdb/utilities/transaction_db.h"

#include "sieve.h"
#include "versions.h"

namespace lsm_sieve {
namespace {

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

}  // namespace

// A `DBWithTTL`, because the C API takes what is behind a handle for one when it creates a column
// family with a time to live.
class FilteredDB final : public DBWithTTL {
 public:
  FilteredDB(std::unique_ptr<DB>&& base, bool has_ttl, bool reads_only, const Sieve& sieve)
      : DBWithTTL(ToOwner(std::move(base))),
        has_ttl_(has_ttl),
        reads_only_(reads_only),
        writer_(db_),
        sieve_(sieve) {}

  // Maintenance ends first: it uses the engine.
  ~FilteredDB() override {
    sieve_.Close();
    locks_.reset();
    sieve_.Release();
  }
  FilteredDB(const FilteredDB&) = delete;
  FilteredDB& operator=(const FilteredDB&) = delete;

  Status Close() override {
    sieve_.Close();
    return db_->Close();
  }

  const Sieve& sieve() const { return sieve_; }

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
    if (!IsPlain(options, cf, Env::IOActivity::kGet)) return read();
    return sieve_.Read(cf, key, read, [&] {
      value->Reset();
      if (timestamp != nullptr) timestamp->clear();
    });
  }

  using DBWithTTL::GetEntity;
  Status GetEntity(const ReadOptions& options, ColumnFamilyHandle* cf, const Slice& key,
                   PinnableWideColumns* columns) override {
    const auto read = [&] {
      const ExactRead exact;
      return db_->GetEntity(options, cf, key, columns);
    };
    if (columns == nullptr || !IsPlain(options, cf, Env::IOActivity::kGetEntity)) return read();
    return sieve_.Read(cf, key, read, [&] { columns->Reset(); });
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
    return sieve_.Read(cf, key, read, [&] { std::for_each(operands, operands + most, Reset); });
  }

  using DBWithTTL::MultiGet;
  void MultiGet(const ReadOptions& options, const size_t count, ColumnFamilyHandle** cfs,
                const Slice* keys, PinnableSlice* values, std::string* timestamps,
                Status* statuses, const bool sorted) override {
    const auto read = [&](size_t n, ColumnFamilyHandle** cfs, const Slice* keys,
                          PinnableSlice* values, std::string* timestamps, Status* statuses) {
      db_->MultiGet(options, n, cfs, keys, values, timestamps, statuses, sorted);
    };
    if (!ArePlain(options, count, cfs, Env::IOActivity::kMultiGet)) {
      return read(count, cfs, keys, values, timestamps, statuses);
    }
    sieve_.ReadMany(count, cfs, keys, values, timestamps, statuses, read);
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
    std::string* const no_timestamps = nullptr;
    const auto read = [&](size_t n, ColumnFamilyHandle** cfs, const Slice* keys,
                          PinnableWideColumns* columns, std::string*, Status* statuses) {
      db_->MultiGetEntity(options, n, cfs, keys, columns, statuses, sorted);
    };
    if (cfs == nullptr || keys == nullptr || columns == nullptr ||
        !ArePlain(options, count, cfs, Env::IOActivity::kMultiGetEntity)) {
      return read(count, cfs, keys, columns, no_timestamps, statuses);
    }
    sieve_.ReadMany(count, cfs, keys, columns, no_timestamps, statuses, read);
  }

  using DBWithTTL::KeyMayExist;
  bool KeyMayExist(const ReadOptions& options, ColumnFamilyHandle* cf, const Slice& key,
                   std::string* value, bool* value_found) override {
    return KeyMayExist(options, cf, key, value, nullptr, value_found);
  }
  // `StackableDB` does not pass this one on.
  bool KeyMayExist(const ReadOptions& options, ColumnFamilyHandle* cf, const Slice& key,
                   std::string* value, std::string* timestamp, bool* value_found) override {
    if (!IsPlain(options, cf, Env::IOActivity::kGet) || !sieve_.RulesOut(cf, key)) {
      const ExactRead exact;
      return timestamp == nullptr
                 ? db_->KeyMayExist(options, cf, key, value, value_found)
                 : db_->KeyMayExist(options, cf, key, value, timestamp, value_found);
    }
    // As the engine leaves them: what it found is an empty value.
    FAULT(OldValueKept, return false);
    if (value_found != nullptr) {
      *value_found = true;
      if (value != nullptr) value->clear();
    }
    if (timestamp != nullptr) timestamp->clear();
    return false;
  }

  using DBWithTTL::NewIterator;
  Iterator* NewIterator(const ReadOptions& options, ColumnFamilyHandle* cf) override {
    // In another order, the keys between two bounds need not have a prefix in common.
    const bool is_bounded =
        (options.iterate_lower_bound != nullptr || options.iterate_upper_bound != nullptr) &&
        cf != nullptr && OrderOf(cf->GetComparator()) != KeyOrder::kOther;
    // Iterators that follow later writes, or write themselves, or show what is deleted, are the
    // engine's own.
    const bool is_plain = IsPlain(options, cf, Env::IOActivity::kDBIterator) && !options.tailing &&
                          options.iter_start_ts == nullptr;
    uint64_t edition = 0;
    uint32_t most_found = 0;
    if (!is_plain || !(options.prefix_same_as_start || is_bounded) ||
        !sieve_.Prefixes(cf->GetID(), &edition, &most_found)) {
      return db_->NewIterator(options, cf);
    }
    std::unique_ptr<Iterator> inner(db_->NewIterator(options, cf));
    FAULT(CreatedBeforeItsView, sieve_.Prefixes(cf->GetID(), &edition, &most_found));
    if (!inner->status().ok()) return inner.release();
    return NewFilteredIterator(std::move(inner), options, is_bounded, has_extractor_changed_,
                               cf->GetID(), edition, most_found, sieve_);
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
    return cf == nullptr ? ingest() : sieve_.External(cf->GetID(), ingest);
  }
  Status IngestExternalFiles(const std::vector<IngestExternalFileArg>& args) override {
    FAULT(ManyIngestedUnannounced, return db_->IngestExternalFiles(args));
    return sieve_.External(Sieve::kAllCfs, [&] { return db_->IngestExternalFiles(args); });
  }
#if SIEVE_INGESTS_IN_STEPS
  Status CommitFileIngestionHandles(
      std::vector<std::unique_ptr<FileIngestionHandle>> handles) override {
    FAULT(CommitUnannounced, return db_->CommitFileIngestionHandles(std::move(handles)));
    return sieve_.External(Sieve::kAllCfs, [&] { return db_->CommitFileIngestionHandles(std::move(handles)); });
  }
#endif
  // A secondary drops memtables here before their SSTs can be listed.
  Status TryCatchUpWithPrimary() override {
    FAULT(CatchUpUnannounced, return db_->TryCatchUpWithPrimary());
    if (!reads_only_) return db_->TryCatchUpWithPrimary();
    return sieve_.External(Sieve::kAllCfs, [&] { return db_->TryCatchUpWithPrimary(); });
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
    *value = reinterpret_cast<uintptr_t>(sieve_.raw());
    return true;
  }

  // ---------------------------------------------------------------- refused

  // Read-only instances refuse these here. RocksDB's own would run them, in whole or in part, or
  // wait without end.
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
  // Whether these options may be set. Iterators stop asking for prefixes that a new extractor changes.
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
        sieve_.ExtractorChanges();
        has_extractor_changed_.store(true, std::memory_order_seq_cst);
      }
    }
    return Status::OK();
  }

  // RocksDB's own refusal.
  Status ReadsOnly() const { return db_->Flush(FlushOptions(), DefaultColumnFamily()); }

  static Status NoTtl() { return Status::NotSupported("the database has no time to live"); }

  DBWithTTL* WithTtl() const { return static_cast<DBWithTTL*>(db_); }

  // Whether the filters are checked: no caller has checked them for this read, and RocksDB itself
  // would not refuse it. A snapshot or a time makes no difference, since a filter has the keys of all
  // versions; nor does a read tier.
  bool IsPlain(const ReadOptions& options, ColumnFamilyHandle* cf, Env::IOActivity activity) const {
    return cf != nullptr && HasItsTime(options, cf) && !ExactRead::IsUnderWay() &&
           (options.io_activity == Env::IOActivity::kUnknown || options.io_activity == activity);
  }
  // Whether a read of keys with timestamps says of which time, and no other does.
  bool HasItsTime(const ReadOptions& options, ColumnFamilyHandle* cf) const {
    FAULT(TimestampsIgnored, return true);
    auto* const cfd = static_cast_with_check<ColumnFamilyHandleImpl>(cf)->cfd();
    const size_t timestamp_size = cfd->user_comparator()->timestamp_size();
    if (options.timestamp == nullptr) return timestamp_size == 0;
    return timestamp_size > 0 && options.timestamp->size() == timestamp_size &&
           HasHistory(cfd, *options.timestamp);
  }
  // Whether the versions of this time are kept.
  bool HasHistory(ColumnFamilyData* cfd, const Slice& timestamp) const {
    FAULT(CollapsedHistoryRead, return true);
    auto* const engine = static_cast_with_check<DBImpl>(db_->GetRootDB());
    SuperVersion* const super_version = engine->GetAndRefSuperVersion(cfd);
    const std::string& low = super_version->full_history_ts_low;
    const bool is_kept =
        low.empty() || cfd->user_comparator()->CompareTimestamp(timestamp, low) >= 0;
    engine->ReturnAndCleanupSuperVersion(cfd, super_version);
    return is_kept;
  }
  bool ArePlain(const ReadOptions& options, size_t count, ColumnFamilyHandle** cfs,
                Env::IOActivity activity) const {
    return count > 0 && std::all_of(cfs, cfs + count, [&](ColumnFamilyHandle* cf) {
             return IsPlain(options, cf, activity);
           });
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
    return sieve_.Create(cfs, locks_.get(), create);
  }

  template <typename Engine>
  Status Drop(const std::vector<ColumnFamilyHandle*>& cfs, const Engine& drop) {
    if (reads_only_) return ReadsOnly();
    if (cfs.empty()) return Status::OK();
    return sieve_.Drop(cfs, drop);
  }

  const bool has_ttl_;
  const bool reads_only_;
  // Owned, unless it is `db_`.
  std::unique_ptr<DB> locks_;
  DB* writer_;
  // Whether any column family got another prefix extractor since the open.
  std::atomic<bool> has_extractor_changed_{false};
  const Sieve sieve_;
};

void LockWrites(rocksdb_t* handle, std::unique_ptr<DB> locks) {
  static_cast<FilteredDB*>(handle->rep)->LockWrites(std::move(locks));
}

const Sieve& SieveOf(DB* filtered) { return static_cast<FilteredDB*>(filtered)->sieve(); }

extern "C" {

// An exact read of the Rust side's begins or ends on this thread.
void lsm_sieve_exact_read(bool begins) noexcept {
  if (begins) {
    ExactRead::Begin();
  } else {
    ExactRead::End();
  }
}

// Puts the filters behind a handle. Takes over `sieve`.
void lsm_sieve_filter_handle(rocksdb_t* handle, bool reads_only, rust::Sieve* sieve,
                             const Hooks* hooks) noexcept {
  std::unique_ptr<DB> base(handle->rep);
  const bool has_ttl = base.get() != base->GetRootDB();
  handle->rep = new FilteredDB(std::move(base), has_ttl, reads_only, Sieve(sieve, hooks));
}

// The filters behind this handle, valid until the database closes; null if it has none.
const void* lsm_sieve_behind(rocksdb_t* handle) noexcept {
  uint64_t sieve = 0;
  DB* const db = handle->rep;
  if (!db->GetIntProperty(db->DefaultColumnFamily(), kSieveProperty, &sieve)) return nullptr;
  return reinterpret_cast<const void*>(static_cast<uintptr_t>(sieve));
}

}  // extern "C"
}  // namespace lsm_sieve
