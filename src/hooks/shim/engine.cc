// Calls to a running engine that the C API lacks, or that must bypass the filters.

#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "db/column_family.h"
#include "db/db_impl/db_impl.h"
#include "db/version_edit_handler.h"
#include "db/version_set.h"
#include "rocksdb/comparator.h"
#include "test_util/sync_point.h"

#include "shim.h"

namespace lsm_sieve {
namespace {

// A member that is not public: an explicit instantiation may name any.
template <typename Tag, typename Tag::Member member>
struct Private {
  friend typename Tag::Member MemberOf(Tag) { return member; }
};

// What a secondary reads the manifest with.
struct TailerTag {
  using Member = std::unique_ptr<ManifestTailer> ReactiveVersionSet::*;
  friend Member MemberOf(TailerTag);
};
template struct Private<TailerTag, &ReactiveVersionSet::manifest_tailer_>;

// Read options for the latest time. Where keys have timestamps, RocksDB reads as of one.
class AtLatestTime {
 public:
  explicit AtLatestTime(ColumnFamilyHandle* cf)
      : latest_(cf->GetComparator()->timestamp_size(), '\xff'), timestamp_(latest_) {
    if (!latest_.empty()) options_.timestamp = &timestamp_;
  }
  AtLatestTime(const AtLatestTime&) = delete;
  AtLatestTime& operator=(const AtLatestTime&) = delete;
  ReadOptions& options() { return options_; }

 private:
  const std::string latest_;
  const Slice timestamp_;
  ReadOptions options_;
};

// Whether there is a key that starts with these bytes: one seek within the bounds of these keys.
// `same_prefix`: the extractor of the column family gives them all one prefix, so that RocksDB may
// check the filters of its SSTs for it. Skips at most `most_skipped` entries, or all if that is 0.
Status ContainsPrefix(DB* db, ColumnFamilyHandle* cf, const Slice& prefix, bool same_prefix,
                      uint64_t most_skipped, bool* contains) {
  // The least key above all that start with it; none if it is empty.
  std::string end = prefix.ToString();
  while (!end.empty() && end.back() == '\xff') end.pop_back();
  if (!end.empty()) ++end.back();
  const Slice bound(end);
  const KeyOrder order = OrderOf(cf->GetComparator());
  if (order == KeyOrder::kOther) {
    return Status::NotSupported("the comparator does not keep the keys of a prefix together");
  }
  const bool is_bytewise = order == KeyOrder::kBytewise;
  AtLatestTime latest(cf);
  ReadOptions& options = latest.options();
  options.max_skippable_internal_keys = most_skipped;
  options.total_order_seek = !same_prefix;
  options.prefix_same_as_start = same_prefix;
  // Under the reverse comparator, these keys come before the prefix itself.
  if (is_bytewise && !end.empty()) options.iterate_upper_bound = &bound;
  const std::unique_ptr<Iterator> entries(db->NewIterator(options, cf));
  std::optional<ExactRead> exact;
  if (same_prefix) exact.emplace();
  if (is_bytewise) {
    entries->Seek(prefix);
  } else {
    entries->SeekForPrev(prefix);
  }
  *contains = entries->Valid() && entries->key().starts_with(prefix);
  return entries->status();
}

}  // namespace

DB* EngineOf(rocksdb_column_family_handle_t* cf) {
  return static_cast_with_check<ColumnFamilyHandleImpl>(cf->rep)->db();
}

extern "C" {

// A new handle of the column family with this id, or null if there is none. Destroy it with
// `rocksdb_column_family_handle_destroy` before the engine closes. An engine that was closed
// without its handle has none.
rocksdb_column_family_handle_t* lsm_sieve_cf(void* engine, uint32_t id) noexcept {
  auto* const impl = static_cast_with_check<DBImpl>(static_cast<DB*>(engine));
  ColumnFamilyHandle* const first = impl->DefaultColumnFamily();
  if (first == nullptr) return nullptr;
  if (id == 0) return new rocksdb_column_family_handle_t{first, true};
  std::unique_ptr<ColumnFamilyHandle> cf = impl->GetColumnFamilyHandleUnlocked(id);
  if (cf == nullptr) return nullptr;
  return new rocksdb_column_family_handle_t{cf.release(), false};
}

// The id of the column family that has this name now, or -1.
int64_t lsm_sieve_cf_id(void* engine, Slice name) noexcept {
  auto* const impl = static_cast_with_check<DBImpl>(static_cast<DB*>(engine));
  InstrumentedMutexLock lock(impl->mutex());
  if (impl->DefaultColumnFamily() == nullptr) return -1;
  auto* const cfs = impl->GetVersionSet()->GetColumnFamilySet();
  const ColumnFamilyData* const cfd = cfs->GetColumnFamily(name.ToString());
  return cfd == nullptr ? -1 : int64_t{cfd->GetID()};
}

// The engine that a column family belongs to, for `lsm_sieve_cf`.
void* lsm_sieve_engine(rocksdb_column_family_handle_t* cf) noexcept { return EngineOf(cf); }

// A property of the column family; 0 if there is none of this name.
uint64_t lsm_sieve_int_property(rocksdb_column_family_handle_t* cf, Slice name) noexcept {
  uint64_t value = 0;
  return EngineOf(cf)->GetIntProperty(cf->rep, name, &value) ? value : 0;
}

uint64_t lsm_sieve_latest_sequence_number(rocksdb_column_family_handle_t* cf) noexcept {
  return EngineOf(cf)->GetLatestSequenceNumber();
}

// Whether the engine has a key: 1 or 0, or -1 if that cannot be read. Reads by an iterator, since a
// point lookup would trust the segment filters; unless it skips more entries than `most_skipped`.
int lsm_sieve_contains(rocksdb_column_family_handle_t* cf, Slice key,
                       uint64_t most_skipped) noexcept {
  AtLatestTime latest(cf->rep);
  ReadOptions& options = latest.options();
  // With a prefix extractor of the user's, RocksDB would check the filters of its SSTs for the
  // prefix.
  options.total_order_seek = true;
  options.max_skippable_internal_keys = most_skipped;
  const std::unique_ptr<Iterator> entries(EngineOf(cf)->NewIterator(options, cf->rep));
  entries->Seek(key);
  if (entries->status().ok()) return entries->Valid() && entries->key() == key;
  // The lookup that is audited has its answer whatever an audit cannot read.
  IGNORE_STATUS_IF_ERROR(entries->status());
  // More tombstones follow the key's position than a read of one key is worth.
  PinnableSlice value;
  const Status status = EngineOf(cf)->Get(AtLatestTime(cf->rep).options(), cf->rep, key, &value);
  if (status.ok()) return 1;
  if (status.IsNotFound()) return 0;
  IGNORE_STATUS_IF_ERROR(status);
  return -1;
}

// Whether a column family has a key that starts with these bytes: see `ContainsPrefix`.
char* lsm_sieve_contains_prefix(rocksdb_column_family_handle_t* cf, Slice start, bool same_prefix,
                                uint64_t most_skipped, bool* contains) noexcept {
  return ErrorOf(
      ContainsPrefix(EngineOf(cf), cf->rep, start, same_prefix, most_skipped, contains));
}

// Whether a column family has a key from `from` on that is before `end`, in the order of its
// comparator. Skips at most `most_skipped` entries, or all if that is 0.
char* lsm_sieve_contains_range(rocksdb_column_family_handle_t* cf, Slice from, Slice end,
                               uint64_t most_skipped, bool* contains) noexcept {
  AtLatestTime latest(cf->rep);
  ReadOptions& options = latest.options();
  options.total_order_seek = true;
  options.max_skippable_internal_keys = most_skipped;
  options.iterate_upper_bound = &end;
  const std::unique_ptr<Iterator> entries(EngineOf(cf)->NewIterator(options, cf->rep));
  entries->Seek(from);
  *contains = entries->Valid();
  return ErrorOf(entries->status());
}

// For a secondary that was just opened. RocksDB 11.8.1 records each column family that changed in
// the manifest, also those that it freed when it reached their drop. Its first catch-up reads all
// that are recorded. Forgets those that are freed; returns how many.
size_t lsm_sieve_forget_freed_families(rocksdb_column_family_handle_t* cf) noexcept {
  auto* engine = static_cast_with_check<DBImpl>(EngineOf(cf));
  InstrumentedMutexLock lock(engine->mutex());
  auto* versions = static_cast_with_check<ReactiveVersionSet>(engine->GetVersionSet());
  const std::unordered_set<ColumnFamilyData*> live(versions->GetColumnFamilySet()->begin(),
                                                   versions->GetColumnFamilySet()->end());
  auto& changed = (versions->*MemberOf(TailerTag()))->GetUpdatedColumnFamilies();
  const size_t before = changed.size();
  FAULT(FreedCfsKept, return 0);
  for (auto cfd = changed.begin(); cfd != changed.end();) {
    cfd = live.count(*cfd) > 0 ? std::next(cfd) : changed.erase(cfd);
  }
  return before - changed.size();
}

// How many bytes of each key are its timestamp.
size_t lsm_sieve_timestamp_size(rocksdb_column_family_handle_t* cf) noexcept {
  return cf->rep->GetComparator()->timestamp_size();
}

// Whether the engine follows another one. A change of no option is refused by the others too, but
// as invalid.
bool lsm_sieve_is_secondary(rocksdb_column_family_handle_t* cf) noexcept {
  const std::unordered_map<std::string, std::string> none;
  return EngineOf(cf)->SetDBOptions(none).IsNotSupported();
}

// Begins to flush the column family's memtables, without waiting for a flush or a compaction. For an
// engine that writes. Returns an error to free, or null.
char* lsm_sieve_begin_flush(rocksdb_column_family_handle_t* cf) noexcept {
  FlushOptions options;
  options.wait = false;
  options.allow_write_stall = true;
  return ErrorOf(EngineOf(cf)->Flush(options, cf->rep));
}

// The refusal of an engine that only reads, to free.
char* lsm_sieve_refusal_of_reader(rocksdb_column_family_handle_t* cf) noexcept {
  return ErrorOf(EngineOf(cf)->Flush(FlushOptions(), cf->rep));
}

}  // extern "C"
}  // namespace lsm_sieve
