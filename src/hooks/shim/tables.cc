// The live SSTs of a column family, and the raw entries of one, and of the memtables.

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "db/column_family.h"
#include "db/db_impl/db_impl.h"
#include "db/memtable.h"
#include "db/memtable_list.h"
#include "db/version_set.h"
#include "memory/arena.h"
#include "rocksdb/metadata.h"
#include "rocksdb/sst_file_reader.h"
#include "rocksdb/table_properties.h"
#include "rocksdb/unique_id.h"
#include "rocksdb/utilities/types_util.h"

#include "shim.h"

namespace lsm_sieve {
namespace {

struct FileInLevel {
  int level;
  const SstFileMetaData* file;
};

std::unordered_map<std::string, FileInLevel> LevelsByPath(const ColumnFamilyMetaData& metadata) {
  std::unordered_map<std::string, FileInLevel> levels;
  for (const auto& level : metadata.levels) {
    for (const auto& file : level.files) {
      levels[file.db_path + file.name] = FileInLevel{level.level, &file};
    }
  }
  return levels;
}

// The last level that has SSTs, if compaction is leveled and it is not level 0; otherwise -1.
int LastLevel(rocksdb_column_family_handle_t* cf, const ColumnFamilyMetaData& metadata) {
  auto* handle = static_cast_with_check<ColumnFamilyHandleImpl>(cf->rep);
  if (handle->cfd()->ioptions().compaction_style != kCompactionStyleLevel) return -1;
  int last = -1;
  for (const auto& level : metadata.levels) {
    if (level.level > 0 && !level.files.empty()) last = level.level;
  }
  return last;
}

}  // namespace

extern "C" {

// Calls `each` for every live SST of the column family: of the newest version, or of the one that
// readers use. Returns an error to free, or null.
//
// A flush may be done before readers have its SST, so callers that have read the memtables list the
// newest version. A secondary creates a version of each column family at each catch-up, and passes
// it to readers only if something changed and all succeeded; it waits for no flush.
char* lsm_sieve_live_tables(rocksdb_column_family_handle_t* cf, bool of_readers, void* context,
                            EachTable each) noexcept {
  DB* db = EngineOf(cf);
  TablePropertiesCollection tables;
  ColumnFamilyMetaData metadata;
  Status status;
  if (of_readers) {
    auto* handle = static_cast_with_check<ColumnFamilyHandleImpl>(cf->rep);
    auto* engine = static_cast_with_check<DBImpl>(handle->db());
    SuperVersion* super_version = handle->cfd()->GetReferencedSuperVersion(engine);
    status = super_version->current->GetPropertiesOfAllTables(ReadOptions(), &tables);
    {
      InstrumentedMutexLock lock(engine->mutex());
      super_version->current->GetColumnFamilyMetaData(&metadata);
    }
    engine->CleanupSuperVersion(super_version);
  } else {
    status = db->GetPropertiesOfAllTables(cf->rep, &tables);
    db->GetColumnFamilyMetaData(cf->rep, &metadata);
  }
  if (!status.ok()) return ErrorOf(status);
  const auto levels = LevelsByPath(metadata);
  const Comparator* const comparator = cf->rep->GetComparator();
  // With timestamps, an end that is that of a deleted range may have none.
  bool is_ordered = OrderOf(comparator) != KeyOrder::kOther && comparator->timestamp_size() == 0;
  FAULT(TimestampInKeyRange, is_ordered = true);
  const int last_level = LastLevel(cf, metadata);
  for (const auto& [path, properties] : tables) {
    Table table = {};
    table.path = path;
    const auto& collected = properties->user_collected_properties;
    const auto found = collected.find(kSegmentIdProperty);
    if (found != collected.end() && found->second.size() == kIdSize) {
      table.segment = reinterpret_cast<const uint8_t*>(found->second.data());
    }
    std::string unique;
    if (GetUniqueIdFromTableProperties(*properties, &unique).ok() &&
        unique.size() >= kIdSize) {
      table.unique = reinterpret_cast<const uint8_t*>(unique.data());
    }
    table.entries = properties->num_entries - properties->num_range_deletions;
    table.level = -1;
    const auto in_level = levels.find(path);
    if (in_level != levels.end()) {
      const SstFileMetaData& file = *in_level->second.file;
      table.level = in_level->second.level;
      table.is_in_last_level = table.level == last_level;
      table.is_placed = is_ordered;
      table.smallest = file.smallestkey;
      table.largest = file.largestkey;
    }
    each(context, &table);
  }
  return nullptr;
}

// Calls `each` for every raw entry of one SST file, including old versions, merge operands and
// tombstones (`deletion`). `each` returns false to stop. Returns an error to free, or null.
char* lsm_sieve_raw_keys(rocksdb_column_family_handle_t* cf, Slice path, void* context,
                         EachKey each) noexcept {
  const Options options = EngineOf(cf)->GetOptions(cf->rep);
  SstFileReader reader(options);
  Status status = reader.Open(path.ToString());
  if (!status.ok()) return ErrorOf(status);
  const std::unique_ptr<Iterator> entries = reader.NewTableIterator();
  if (entries == nullptr) return CopyString("the SST cannot be iterated");
  for (entries->SeekToFirst(); entries->Valid(); entries->Next()) {
    ParsedEntryInfo entry;
    status = ParseEntry(entries->key(), options.comparator, &entry);
    if (!status.ok()) return ErrorOf(status);
    bool deletion = entry.timestamp.empty() &&
                    (entry.type == kEntryDelete || entry.type == kEntrySingleDelete);
    FAULT(RawEntityIsDeletion, deletion |= entry.type == kEntryWideColumnEntity);
    if (!each(context, entry.user_key, deletion)) return nullptr;
  }
  FAULT(ReadErrorIsEnd, return nullptr);
  return ErrorOf(entries->status());
}

// Calls `each` for every raw entry of the memtables that are in no SST yet, until it returns false.
// Returns an error to free, or null.
//
// It reads them as RocksDB's own iterators do: the super version keeps the memtables, and the kinds of
// memtables that are supported can be iterated while they are written. A value that is updated in place
// is not read. A memtable that is not among them was flushed, and its SST is in the newest version by
// now.
char* lsm_sieve_memtable_keys(rocksdb_column_family_handle_t* cf, void* context,
                              EachKey each) noexcept {
  auto* handle = static_cast_with_check<ColumnFamilyHandleImpl>(cf->rep);
  auto* engine = static_cast_with_check<DBImpl>(handle->db());
  SuperVersion* super_version = handle->cfd()->GetReferencedSuperVersion(engine);
  const size_t timestamp_size = handle->cfd()->user_comparator()->timestamp_size();
  ReadOptions options;
  options.total_order_seek = true;
  const auto seqno_to_time = super_version->GetSeqnoToTimeMapping();
  Arena arena;
  std::vector<InternalIterator*> memtables;
  super_version->imm->AddIterators(options, seqno_to_time, nullptr, &memtables, &arena);
  FAULT(ImmutableMemtablesUnread, memtables.clear());
  memtables.push_back(
      super_version->mem->NewIterator(options, seqno_to_time, &arena, nullptr, false));
  Status status;
  bool goes_on = true;
  for (InternalIterator* const memtable : memtables) {
    const ScopedArenaPtr<InternalIterator> entries(memtable);
    if (goes_on && status.ok()) entries->SeekToFirst();
    for (; goes_on && entries->Valid(); entries->Next()) {
      const Slice internal = entries->key();
      const Slice stored = ExtractUserKey(internal);
      Slice key = WithoutTimestamp(stored, timestamp_size);
      FAULT(TimestampReadWithMemtableKey, key = stored);
      const auto type = static_cast<uint8_t>(ExtractValueType(internal));
      const bool deletion = IsDeletion(type, timestamp_size > 0);
      goes_on = each(context, key, deletion);
    }
    if (status.ok()) status = entries->status();
  }
  engine->CleanupSuperVersion(super_version);
  return ErrorOf(status);
}

}  // extern "C"
}  // namespace lsm_sieve
