// Each virtual function of rocksdb::DB does the same with filters as without: on a closed database,
// and of no column family on an open one. RocksDB says in a status what is wrong, or ends the process.
// So each call is made in a process of its own, whose end is compared as well.
//
//   closed FOLDER         an empty folder
//
// A call on a closed database with filters used the handle of the default column family that the
// engine had freed, and ended the process where RocksDB returns a status.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "rocksdb/attribute_groups.h"
#include "rocksdb/block_cache_trace_writer.h"
#include "rocksdb/comparator.h"
#include "rocksdb/iterator.h"
#include "rocksdb/multi_scan.h"
#include "rocksdb/options.h"
#include "rocksdb/stats_history.h"
#include "rocksdb/table_properties.h"
#include "rocksdb/trace_reader_writer.h"
#include "rocksdb/transaction_log.h"
#include "rocksdb/types.h"
#include "rocksdb/utilities/replayer.h"
#include "rocksdb/utilities/write_batch_with_index.h"
#include "rocksdb/wide_columns.h"
#include "support.hpp"

namespace {

using rocksdb::ColumnFamilyDescriptor;
using rocksdb::ColumnFamilyHandle;
using rocksdb::DB;
using rocksdb::PinnableSlice;
using rocksdb::Slice;
using rocksdb::Status;

// ---------------------------------------------------------------- what a call says

std::string Said(const Status& status) { return status.ToString(); }
std::string Said(bool answer) { return answer ? "true" : "false"; }
std::string Said(int number) { return std::to_string(number); }
std::string Said(uint64_t number) { return std::to_string(number); }
std::string Said(const std::vector<Status>& statuses) {
  std::string all;
  for (const Status& status : statuses) all += status.ToString() + "; ";
  return all;
}
template <typename Entries>
std::string SaidBy(Entries* entries) {
  std::unique_ptr<Entries> owned(entries);
  if (owned == nullptr) return "none";
  owned->Seek("ada");
  return Said(owned->Valid()) + " " + Said(owned->status());
}

struct Quiet : DB::AsyncCallback {
  void OnComplete(const rocksdb::PerfContext*, const rocksdb::IOStatsContext*) override {}
};

// ---------------------------------------------------------------- the calls

const rocksdb::ReadOptions kRead;
const rocksdb::WriteOptions kWrite;
const std::unordered_map<std::string, std::string> kChange{{"disable_auto_compactions", "true"}};

struct Target {
  DB* db;
  // Of the calls that take one: null, or what a closed database says is its default.
  ColumnFamilyHandle* cf;
  std::string folder;
};

struct Call {
  const char* name;
  std::function<std::string(const Target&)> make;
};

#define CALL(name, ...) \
  Call { #name, [](const Target& to) -> std::string { \
    [[maybe_unused]] DB* const db = to.db; \
    [[maybe_unused]] ColumnFamilyHandle* const cf = to.cf; \
    __VA_ARGS__ } \
  }

std::vector<Status> Statuses(const std::function<void(ColumnFamilyHandle**, const Slice*,
                                                      PinnableSlice*, Status*)>& read,
                             ColumnFamilyHandle* cf) {
  ColumnFamilyHandle* cfs[2] = {cf, cf};
  const Slice keys[2] = {"ada", "bob"};
  PinnableSlice values[2];
  std::vector<Status> statuses(2);
  read(cfs, keys, values, statuses.data());
  return statuses;
}

std::string Entities(const std::function<void(ColumnFamilyHandle**, const Slice*,
                                              rocksdb::PinnableWideColumns*, Status*)>& read,
                     ColumnFamilyHandle* cf) {
  ColumnFamilyHandle* cfs[2] = {cf, cf};
  const Slice keys[2] = {"ada", "bob"};
  rocksdb::PinnableWideColumns columns[2];
  std::vector<Status> statuses(2);
  read(cfs, keys, columns, statuses.data());
  return Said(statuses);
}

// A test counts them against `rocksdb/db.h`: each name comes as often as it is overloaded there.
const std::vector<Call> kCalls{
    CALL(Resume, return Said(db->Resume());),
    CALL(Close, return Said(db->Close());),
    CALL(CreateColumnFamily, ColumnFamilyHandle* made = nullptr;
         return Said(db->CreateColumnFamily({}, "made", &made));),
    CALL(CreateColumnFamilies, std::vector<ColumnFamilyHandle*> made;
         return Said(db->CreateColumnFamilies({}, {"made"}, &made));),
    CALL(CreateColumnFamilies, std::vector<ColumnFamilyHandle*> made;
         return Said(db->CreateColumnFamilies({{"made", {}}}, &made));),
    CALL(DropColumnFamily, return Said(db->DropColumnFamily(cf));),
    CALL(DropColumnFamilies, return Said(db->DropColumnFamilies({cf}));),
    CALL(DestroyColumnFamilyHandle, return Said(db->DestroyColumnFamilyHandle(cf));),
    CALL(Put, return Said(db->Put(kWrite, cf, "ada", "value"));),
    CALL(Put, return Said(db->Put(kWrite, cf, "ada", "12345678", "value"));),
    CALL(Put, return Said(db->Put(kWrite, "ada", "value"));),
    CALL(Put, return Said(db->Put(kWrite, Slice("ada"), "12345678", "value"));),
    CALL(PutEntity, return Said(db->PutEntity(kWrite, cf, "ada", {{"column", "value"}}));),
    CALL(PutEntity, rocksdb::AttributeGroups groups;
         groups.emplace_back(cf, rocksdb::WideColumns{{"column", "value"}});
         return Said(db->PutEntity(kWrite, "ada", groups));),
    CALL(Delete, return Said(db->Delete(kWrite, cf, "ada"));),
    CALL(Delete, return Said(db->Delete(kWrite, cf, "ada", "12345678"));),
    CALL(Delete, return Said(db->Delete(kWrite, "ada"));),
    CALL(Delete, return Said(db->Delete(kWrite, Slice("ada"), Slice("12345678")));),
    CALL(SingleDelete, return Said(db->SingleDelete(kWrite, cf, "ada"));),
    CALL(SingleDelete, return Said(db->SingleDelete(kWrite, cf, "ada", "12345678"));),
    CALL(SingleDelete, return Said(db->SingleDelete(kWrite, "ada"));),
    CALL(SingleDelete, return Said(db->SingleDelete(kWrite, Slice("ada"), Slice("12345678")));),
    CALL(DeleteRange, return Said(db->DeleteRange(kWrite, cf, "ada", "bob"));),
    CALL(DeleteRange, return Said(db->DeleteRange(kWrite, cf, "ada", "bob", "12345678"));),
    CALL(DeleteRange, return Said(db->DeleteRange(kWrite, Slice("ada"), Slice("bob")));),
    CALL(DeleteRange,
         return Said(db->DeleteRange(kWrite, Slice("ada"), Slice("bob"), Slice("12345678")));),
    CALL(Merge, return Said(db->Merge(kWrite, cf, "ada", "value"));),
    CALL(Merge, return Said(db->Merge(kWrite, "ada", "value"));),
    CALL(Merge, return Said(db->Merge(kWrite, cf, "ada", "12345678", "value"));),
    CALL(Write, rocksdb::WriteBatch batch; batch.Put(cf, "ada", "value").PermitUncheckedError();
         return Said(db->Write(kWrite, &batch));),
    CALL(WriteWithCallback, rocksdb::WriteBatch batch;
         return Said(db->WriteWithCallback(kWrite, &batch, nullptr));),
    CALL(IngestWriteBatchWithIndex,
         return Said(db->IngestWriteBatchWithIndex(
             kWrite, std::make_shared<rocksdb::WriteBatchWithIndex>()));),
    CALL(Get, PinnableSlice value; return Said(db->Get(kRead, cf, "ada", &value, nullptr));),
    CALL(GetEntity, rocksdb::PinnableWideColumns columns;
         return Said(db->GetEntity(kRead, cf, "ada", &columns));),
    CALL(GetEntity, rocksdb::PinnableAttributeGroups groups; groups.emplace_back(cf);
         return Said(db->GetEntity(kRead, "ada", &groups));),
    CALL(GetMergeOperands, PinnableSlice operands[4]; int count = 0;
         rocksdb::GetMergeOperandsOptions options; options.expected_max_number_of_operands = 4;
         return Said(db->GetMergeOperands(kRead, cf, "ada", operands, &options, &count));),
    CALL(MultiGet, return Said(Statuses(
                       [&](auto** cfs, auto* keys, auto* values, auto* statuses) {
                         db->MultiGet(kRead, 2, cfs, keys, values, nullptr, statuses, false);
                       },
                       cf));),
    CALL(MultiGetEntity, return Entities(
                             [&](auto** cfs, auto* keys, auto* columns, auto* statuses) {
                               db->MultiGetEntity(kRead, cfs[0], 2, keys, columns, statuses, false);
                             },
                             cf);),
    CALL(MultiGetEntity, return Entities(
                             [&](auto** cfs, auto* keys, auto* columns, auto* statuses) {
                               db->MultiGetEntity(kRead, 2, cfs, keys, columns, statuses, false);
                             },
                             cf);),
    CALL(MultiGetEntity, rocksdb::PinnableAttributeGroups groups; groups.emplace_back(cf);
         const Slice key = "ada"; db->MultiGetEntity(kRead, 1, &key, &groups);
         return Said(groups[0].status());),
    CALL(KeyMayExist, std::string value; std::string timestamp; bool found = false;
         return Said(db->KeyMayExist(kRead, cf, "ada", &value, &timestamp, &found));),
    CALL(KeyMayExist, std::string value; bool found = false;
         return Said(db->KeyMayExist(kRead, cf, "ada", &value, &found));),
    CALL(KeyMayExist, std::string value; bool found = false;
         return Said(db->KeyMayExist(kRead, Slice("ada"), &value, &found));),
    CALL(KeyMayExist, std::string value; std::string timestamp; bool found = false;
         return Said(db->KeyMayExist(kRead, Slice("ada"), &value, &timestamp, &found));),
    CALL(NewIterator, return SaidBy(db->NewIterator(kRead, cf));),
    CALL(NewIterator, return SaidBy(db->NewIterator(kRead));),
    CALL(NewIterators, std::vector<rocksdb::Iterator*> iterators;
         return Said(db->NewIterators(kRead, {cf}, &iterators));),
    CALL(NewCoalescingIterator, return SaidBy(db->NewCoalescingIterator(kRead, {cf}).release());),
    CALL(NewAttributeGroupIterator,
         return SaidBy(db->NewAttributeGroupIterator(kRead, {cf}).release());),
    CALL(NewMultiScan, rocksdb::MultiScanArgs scans(rocksdb::BytewiseComparator());
         scans.insert("ada", "bob");
         return Said(db->NewMultiScan(kRead, cf, scans) != nullptr);),
    CALL(GetAsync, PinnableSlice value; Status status; Quiet quiet;
         db->GetAsync(kRead, cf, "ada", &value, nullptr, status, quiet); return Said(status);),
    CALL(GetAsync, std::string value; Status status; Quiet quiet;
         db->GetAsync(kRead, cf, "ada", &value, nullptr, status, quiet); return Said(status);),
    CALL(GetAsync, PinnableSlice value; Status status; Quiet quiet;
         db->GetAsync(kRead, cf, "ada", &value, status, quiet); return Said(status);),
    CALL(GetAsync, std::string value; Status status; Quiet quiet;
         db->GetAsync(kRead, cf, "ada", &value, status, quiet); return Said(status);),
    CALL(GetAsync, std::string value; Status status; Quiet quiet;
         db->GetAsync(kRead, "ada", &value, status, quiet); return Said(status);),
    CALL(GetAsync, std::string value; Status status; Quiet quiet;
         db->GetAsync(kRead, "ada", &value, nullptr, status, quiet); return Said(status);),
    CALL(MultiGetAsync, Quiet quiet; return Said(Statuses(
                            [&](auto** cfs, auto* keys, auto* values, auto* statuses) {
                              db->MultiGetAsync(kRead, 2, cfs, keys, values, nullptr, statuses,
                                                false, quiet);
                            },
                            cf));),
    CALL(MultiGetAsync, Quiet quiet;
         return Said(Statuses(
             [&](auto** cfs, auto* keys, auto* values, auto* statuses) {
               db->MultiGetAsync(kRead, 2, cfs, keys, values, statuses, false, quiet);
             },
             cf));),
    CALL(MultiGetAsync, Quiet quiet; std::string* const no_timestamps = nullptr;
         return Said(Statuses(
             [&](auto** cfs, auto* keys, auto* values, auto* statuses) {
               db->MultiGetAsync(kRead, 2, cfs, keys, values, no_timestamps, statuses, quiet);
             },
             cf));),
    CALL(MultiGetAsync, Quiet quiet;
         return Said(Statuses(
             [&](auto** cfs, auto* keys, auto* values, auto* statuses) {
               db->MultiGetAsync(kRead, 2, cfs, keys, values, statuses, quiet);
             },
             cf));),
    CALL(GetSnapshot, return Said(db->GetSnapshot() != nullptr);),
    CALL(ReleaseSnapshot, db->ReleaseSnapshot(nullptr); return "released";),
    CALL(GetProperty, std::string value;
         return Said(db->GetProperty(cf, "rocksdb.num-files-at-level1", &value));),
    CALL(GetProperty, std::string value;
         return Said(db->GetProperty("rocksdb.num-files-at-level1", &value));),
    CALL(GetMapProperty, std::map<std::string, std::string> value;
         return Said(db->GetMapProperty(cf, "rocksdb.cfstats", &value));),
    CALL(GetMapProperty, std::map<std::string, std::string> value;
         return Said(db->GetMapProperty("rocksdb.cfstats", &value));),
    CALL(GetIntProperty, uint64_t value = 0;
         return Said(db->GetIntProperty(cf, "rocksdb.num-snapshots", &value));),
    CALL(GetIntProperty, uint64_t value = 0;
         return Said(db->GetIntProperty("rocksdb.num-snapshots", &value));),
    CALL(ResetStats, return Said(db->ResetStats());),
    CALL(GetAggregatedIntProperty, uint64_t value = 0;
         return Said(db->GetAggregatedIntProperty("rocksdb.estimate-num-keys", &value));),
    CALL(GetApproximateSizes, const rocksdb::Range range("a", "b"); uint64_t size = 0;
         return Said(db->GetApproximateSizes(rocksdb::SizeApproximationOptions(), cf, &range, 1,
                                             &size));),
    CALL(GetApproximateSizes, const rocksdb::Range range("a", "b"); uint64_t size = 0;
         return Said(db->GetApproximateSizes(cf, &range, 1, &size));),
    CALL(GetApproximateSizes, const rocksdb::Range range("a", "b"); uint64_t size = 0;
         return Said(db->GetApproximateSizes(&range, 1, &size));),
    CALL(GetApproximateMemTableStats, uint64_t count = 0; uint64_t size = 0;
         db->GetApproximateMemTableStats(cf, {"a", "b"}, &count, &size); return "answered";),
    CALL(GetApproximateMemTableStats, uint64_t count = 0; uint64_t size = 0;
         db->GetApproximateMemTableStats({"a", "b"}, &count, &size); return "answered";),
    CALL(CompactRange, return Said(db->CompactRange({}, cf, nullptr, nullptr));),
    CALL(CompactRange, return Said(db->CompactRange({}, nullptr, nullptr));),
    CALL(SetOptions, return Said(db->SetOptions(cf, kChange));),
    CALL(SetOptions, return Said(db->SetOptions(kChange));),
    CALL(SetOptions, return Said(db->SetOptions(std::vector<ColumnFamilyHandle*>{cf}, kChange));),
    CALL(SetOptions, std::unordered_map<ColumnFamilyHandle*,
                                        std::unordered_map<std::string, std::string>> changes;
         changes[cf] = kChange; return Said(db->SetOptions(changes));),
    CALL(SetDBOptions, return Said(db->SetDBOptions({{"max_background_jobs", "3"}}));),
    CALL(CompactFiles, return Said(db->CompactFiles({}, cf, {"000001.sst"}, 1));),
    CALL(CompactFiles, return Said(db->CompactFiles({}, {"000001.sst"}, 1));),
    CALL(PauseBackgroundWork, return Said(db->PauseBackgroundWork());),
    CALL(ContinueBackgroundWork, return Said(db->ContinueBackgroundWork());),
    CALL(EnableAutoCompaction, return Said(db->EnableAutoCompaction({cf}));),
    CALL(DisableManualCompaction, db->DisableManualCompaction(); return "done";),
    CALL(EnableManualCompaction, db->DisableManualCompaction(); db->EnableManualCompaction();
         return "done";),
    CALL(AbortAllCompactions, db->AbortAllCompactions(); return "done";),
    CALL(ResumeAllCompactions, db->AbortAllCompactions(); db->ResumeAllCompactions();
         return "done";),
    CALL(WaitForCompact, rocksdb::WaitForCompactOptions options; options.close_db = true;
         return Said(db->WaitForCompact(options));),
    CALL(NumberLevels, return Said(db->NumberLevels(cf));),
    CALL(NumberLevels, return Said(db->NumberLevels());),
    CALL(Level0StopWriteTrigger, return Said(db->Level0StopWriteTrigger(cf));),
    CALL(Level0StopWriteTrigger, return Said(db->Level0StopWriteTrigger());),
    CALL(GetName, return db->GetName() == to.folder ? "its folder" : db->GetName();),
    CALL(GetEnv, return Said(db->GetEnv() == rocksdb::Env::Default());),
    CALL(GetFileSystem, return Said(db->GetFileSystem() != nullptr);),
    CALL(GetOptions, return Said(db->GetOptions(cf).create_if_missing);),
    CALL(GetOptions, return Said(db->GetOptions().create_if_missing);),
    CALL(GetDBOptions, return Said(db->GetDBOptions().create_if_missing);),
    CALL(Flush, return Said(db->Flush({}, cf));),
    CALL(Flush, return Said(db->Flush(rocksdb::FlushOptions()));),
    CALL(Flush, return Said(db->Flush({}, std::vector<ColumnFamilyHandle*>{cf}));),
    CALL(FlushWAL, return Said(db->FlushWAL(true));),
    CALL(FlushWAL, return Said(db->FlushWAL(rocksdb::FlushWALOptions()));),
    CALL(SyncWAL, return Said(db->SyncWAL());),
    CALL(LockWAL, return Said(db->LockWAL());),
    CALL(UnlockWAL, return Said(db->UnlockWAL());),
    CALL(GetLatestSequenceNumber, return Said(db->GetLatestSequenceNumber() > 0);),
    CALL(IncreaseFullHistoryTsLow, return Said(db->IncreaseFullHistoryTsLow(cf, "12345678"));),
    CALL(GetFullHistoryTsLow, std::string low; return Said(db->GetFullHistoryTsLow(cf, &low));),
    CALL(GetNewestUserDefinedTimestamp, std::string newest;
         return Said(db->GetNewestUserDefinedTimestamp(cf, &newest));),
    CALL(DisableFileDeletions, return Said(db->DisableFileDeletions());),
    CALL(EnableFileDeletions, return Said(db->EnableFileDeletions());),
    CALL(GetCreationTimeOfOldestFile, uint64_t time = 0;
         return Said(db->GetCreationTimeOfOldestFile(&time));),
    CALL(GetUpdatesSince, std::unique_ptr<rocksdb::TransactionLogIterator> updates;
         return Said(db->GetUpdatesSince(0, &updates));),
    CALL(GetLiveFilesMetaData, std::vector<rocksdb::LiveFileMetaData> files;
         db->GetLiveFilesMetaData(&files); return "listed";),
    CALL(GetLiveFilesChecksumInfo,
         std::unique_ptr<rocksdb::FileChecksumList> sums(rocksdb::NewFileChecksumList());
         return Said(db->GetLiveFilesChecksumInfo(sums.get()));),
    CALL(GetLiveFilesStorageInfo, std::vector<rocksdb::LiveFileStorageInfo> files;
         return Said(db->GetLiveFilesStorageInfo({}, &files));),
    CALL(GetPreparedFileInfoForExternalSstIngestion,
         std::shared_ptr<const rocksdb::PreparedFileInfo> info;
         return Said(db->GetPreparedFileInfoForExternalSstIngestion("/no/such.sst", &info));),
    CALL(GetColumnFamilyMetaData, rocksdb::ColumnFamilyMetaData metadata;
         db->GetColumnFamilyMetaData(cf, &metadata); return metadata.name;),
    CALL(GetColumnFamilyMetaData, rocksdb::ColumnFamilyMetaData metadata;
         db->GetColumnFamilyMetaData(cf, rocksdb::GetColumnFamilyMetaDataOptions(), &metadata);
         return metadata.name;),
    CALL(GetAllColumnFamilyMetaData, std::vector<rocksdb::ColumnFamilyMetaData> metadata;
         db->GetAllColumnFamilyMetaData(&metadata); return Said(metadata.size());),
    CALL(GetLiveFiles, std::vector<std::string> files; uint64_t size = 0;
         return Said(db->GetLiveFiles(files, &size, true));),
    CALL(GetSortedWalFiles, rocksdb::VectorWalPtr files;
         return Said(db->GetSortedWalFiles(files));),
    CALL(GetCurrentWalFile, std::unique_ptr<rocksdb::WalFile> file;
         return Said(db->GetCurrentWalFile(&file));),
    CALL(IngestExternalFile, return Said(db->IngestExternalFile(cf, {"/no/such.sst"}, {}));),
    CALL(IngestExternalFile, return Said(db->IngestExternalFile({"/no/such.sst"}, {}));),
    CALL(IngestExternalFiles, rocksdb::IngestExternalFileArg arg; arg.column_family = cf;
         arg.external_files = {"/no/such.sst"}; return Said(db->IngestExternalFiles({arg}));),
    CALL(PrepareFileIngestion, rocksdb::IngestExternalFileArg arg; arg.column_family = cf;
         arg.external_files = {"/no/such.sst"};
         std::unique_ptr<rocksdb::FileIngestionHandle> handle;
         return Said(db->PrepareFileIngestion({arg}, &handle));),
    CALL(PrepareFileIngestion, std::unique_ptr<rocksdb::FileIngestionHandle> handle;
         return Said(db->PrepareFileIngestion(cf, {"/no/such.sst"}, {}, &handle));),
    CALL(CommitFileIngestionHandles, return Said(db->CommitFileIngestionHandles({}));),
    CALL(CommitFileIngestionHandle, return Said(db->CommitFileIngestionHandle(nullptr));),
    CALL(CreateColumnFamilyWithImport, ColumnFamilyHandle* made = nullptr;
         rocksdb::ExportImportFilesMetaData files;
         files.db_comparator_name = rocksdb::BytewiseComparator()->Name();
         return Said(db->CreateColumnFamilyWithImport({}, "made", {}, files, &made));),
    CALL(CreateColumnFamilyWithImport, ColumnFamilyHandle* made = nullptr;
         std::vector<const rocksdb::ExportImportFilesMetaData*> none;
         return Said(db->CreateColumnFamilyWithImport({}, "made", {}, none, &made));),
    CALL(ClipColumnFamily, return Said(db->ClipColumnFamily(cf, "a", "b"));),
    CALL(VerifyFileChecksums, return Said(db->VerifyFileChecksums(kRead));),
    CALL(VerifyChecksum, return Said(db->VerifyChecksum(kRead));),
    CALL(VerifyChecksum, return Said(db->VerifyChecksum());),
    CALL(GetDbIdentity, std::string id; return Said(db->GetDbIdentity(id));),
    CALL(GetDbSessionId, std::string id; return Said(db->GetDbSessionId(id));),
    CALL(DefaultColumnFamily, return Said(db->DefaultColumnFamily() == nullptr);),
    CALL(GetPropertiesOfAllTables, rocksdb::TablePropertiesCollection tables;
         return Said(db->GetPropertiesOfAllTables(cf, &tables));),
    CALL(GetPropertiesOfAllTables, rocksdb::TablePropertiesCollection tables;
         return Said(db->GetPropertiesOfAllTables(&tables));),
    CALL(GetPropertiesOfTablesInRange, rocksdb::TablePropertiesCollection tables;
         const rocksdb::Range range("a", "b");
         return Said(db->GetPropertiesOfTablesInRange(cf, &range, 1, &tables));),
    CALL(GetPropertiesOfTablesByLevel,
         std::vector<std::unique_ptr<rocksdb::TablePropertiesCollection>> tables;
         return Said(db->GetPropertiesOfTablesByLevel(cf, &tables));),
    CALL(SuggestCompactRange, return Said(db->SuggestCompactRange(cf, nullptr, nullptr));),
    CALL(PromoteL0, return Said(db->PromoteL0(cf, 1));),
    CALL(StartTrace, return Said(db->StartTrace({}, nullptr));),
    CALL(EndTrace, return Said(db->EndTrace());),
    CALL(StartIOTrace, return Said(db->StartIOTrace({}, nullptr));),
    CALL(EndIOTrace, return Said(db->EndIOTrace());),
    CALL(StartBlockCacheTrace, return Said(db->StartBlockCacheTrace(
                                   rocksdb::TraceOptions(),
                                   std::unique_ptr<rocksdb::TraceWriter>()));),
    CALL(StartBlockCacheTrace, return Said(db->StartBlockCacheTrace(
                                   rocksdb::BlockCacheTraceOptions(),
                                   std::unique_ptr<rocksdb::BlockCacheTraceWriter>()));),
    CALL(EndBlockCacheTrace, return Said(db->EndBlockCacheTrace());),
    CALL(NewDefaultReplayer, std::unique_ptr<rocksdb::Replayer> replayer;
         return Said(db->NewDefaultReplayer({cf}, nullptr, &replayer));),
    CALL(GetRootDB, return Said(db->GetRootDB() != nullptr);),
    CALL(GetStatsHistory, std::unique_ptr<rocksdb::StatsHistoryIterator> history;
         return Said(db->GetStatsHistory(0, 1, &history));),
    CALL(TryCatchUpWithPrimary, return Said(db->TryCatchUpWithPrimary());),
};

// Arguments that are missing or empty, of an open database. `cf` is its default.
const std::vector<Call> kWithoutArguments{
    CALL(Get, PinnableSlice value; return Said(db->Get(kRead, nullptr, "ada", &value, nullptr));),
    CALL(GetEntity, rocksdb::PinnableWideColumns* const none = nullptr;
         return Said(db->GetEntity(kRead, cf, "bob", none));),
    CALL(GetEntity, rocksdb::PinnableWideColumns* const none = nullptr;
         return Said(db->GetEntity(kRead, cf, "ada", none));),
    CALL(GetEntity, rocksdb::PinnableAttributeGroups* const none = nullptr;
         return Said(db->GetEntity(kRead, "bob", none));),
    CALL(GetEntity, rocksdb::PinnableAttributeGroups none;
         return Said(db->GetEntity(kRead, "bob", &none));),
    CALL(GetMergeOperands, int count = 0; rocksdb::GetMergeOperandsOptions options;
         return Said(db->GetMergeOperands(kRead, cf, "bob", nullptr, &options, &count));),
    CALL(MultiGet, db->MultiGet(kRead, 0, nullptr, nullptr, nullptr, nullptr, nullptr, false);
         return "done";),
    CALL(MultiGet, ColumnFamilyHandle* cfs[2] = {cf, nullptr}; const Slice keys[2] = {"bob", "bob"};
         PinnableSlice values[2]; std::vector<Status> statuses(2);
         db->MultiGet(kRead, 2, cfs, keys, values, nullptr, statuses.data(), false);
         return Said(statuses);),
    CALL(MultiGetEntity, std::vector<Status> statuses(1);
         db->MultiGetEntity(kRead, cf, 1, nullptr, nullptr, statuses.data(), false);
         return Said(statuses);),
    CALL(MultiGetEntity, std::vector<Status> statuses(1); const Slice key = "bob";
         db->MultiGetEntity(kRead, cf, 1, &key, nullptr, statuses.data(), false);
         return Said(statuses);),
    CALL(MultiGetEntity, std::vector<Status> statuses(1); const Slice key = "bob";
         rocksdb::PinnableWideColumns columns; ColumnFamilyHandle** const none = nullptr;
         db->MultiGetEntity(kRead, 1, none, &key, &columns, statuses.data(), false);
         return Said(statuses);),
    CALL(MultiGetEntity, std::vector<Status> statuses(1); ColumnFamilyHandle* cfs[1] = {cf};
         rocksdb::PinnableWideColumns columns; const Slice* const none = nullptr;
         db->MultiGetEntity(kRead, 1, cfs, none, &columns, statuses.data(), false);
         return Said(statuses);),
    CALL(MultiGetEntity, rocksdb::PinnableAttributeGroups groups; groups.emplace_back(cf);
         db->MultiGetEntity(kRead, 1, nullptr, &groups); return Said(groups[0].status());),
    CALL(KeyMayExist, std::string* const none = nullptr; bool* const unasked = nullptr;
         return Said(db->KeyMayExist(kRead, cf, "bob", none, unasked));),
    CALL(KeyMayExist, std::string* const none = nullptr; bool* const unasked = nullptr;
         return Said(db->KeyMayExist(kRead, cf, "ada", none, unasked));),
    CALL(NewIterators, std::vector<rocksdb::Iterator*> iterators;
         return Said(db->NewIterators(kRead, {}, &iterators));),
    CALL(NewCoalescingIterator, return SaidBy(db->NewCoalescingIterator(kRead, {}).release());),
    CALL(Write, return Said(db->Write(kWrite, nullptr));),
    CALL(WriteWithCallback, return Said(db->WriteWithCallback(kWrite, nullptr, nullptr));),
    CALL(PutEntity, return Said(db->PutEntity(kWrite, "ada", rocksdb::AttributeGroups()));),
    CALL(CreateColumnFamily, ColumnFamilyHandle* made = nullptr;
         return Said(db->CreateColumnFamily({}, "default", &made));),
    CALL(CreateColumnFamily, ColumnFamilyHandle* made = nullptr;
         return Said(db->CreateColumnFamily({}, "", &made));),
    CALL(CreateColumnFamilies, std::vector<ColumnFamilyHandle*> made(1, cf);
         const Status status = db->CreateColumnFamilies({}, {}, &made);
         return Said(status) + Said(made.size());),
    CALL(DropColumnFamily, return Said(db->DropColumnFamily(cf));),
    CALL(DropColumnFamilies, return Said(db->DropColumnFamilies({}));),
    CALL(DropColumnFamilies, return Said(db->DropColumnFamilies({cf}));),
    CALL(DestroyColumnFamilyHandle, return Said(db->DestroyColumnFamilyHandle(cf));),
    CALL(IngestExternalFile, return Said(db->IngestExternalFile(cf, {}, {}));),
    CALL(IngestExternalFiles, return Said(db->IngestExternalFiles({}));),
    CALL(IngestExternalFiles, rocksdb::IngestExternalFileArg arg; arg.column_family = cf;
         arg.external_files = {"/no/such.sst"}; return Said(db->IngestExternalFiles({arg, arg}));),
    CALL(PrepareFileIngestion, return Said(db->PrepareFileIngestion({}, nullptr));),
    CALL(PrepareFileIngestion, std::unique_ptr<rocksdb::FileIngestionHandle> handle;
         return Said(db->PrepareFileIngestion({}, &handle));),
    CALL(SetOptions, return Said(db->SetOptions(cf, {}));),
    CALL(SetOptions, return Said(db->SetOptions(cf, {{"no such option", "1"}}));),
    CALL(Flush, return Said(db->Flush({}, std::vector<ColumnFamilyHandle*>()));),
    CALL(CompactFiles, return Said(db->CompactFiles({}, cf, {}, 1));),
    CALL(GetStatsHistory, return Said(db->GetStatsHistory(0, 1, nullptr));),
    CALL(EnableAutoCompaction, return Said(db->EnableAutoCompaction({}));),
};

// ---------------------------------------------------------------- ends

// What a call says, or by which signal it ended its process.
std::string EndOf(const std::function<std::string()>& call) {
  int ends[2];
  EXPECT(pipe(ends) == 0);
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    // Where RocksDB itself waits without end.
    alarm(60);
    const std::string said = call();
    EXPECT(write(ends[1], said.data(), said.size()) == static_cast<ssize_t>(said.size()));
    std::_Exit(0);
  }
  close(ends[1]);
  std::string said;
  char bytes[512];
  for (ssize_t size = 0; (size = read(ends[0], bytes, sizeof(bytes))) > 0;) said.append(bytes, size);
  close(ends[0]);
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  if (WIFSIGNALED(status)) return "signal " + std::to_string(WTERMSIG(status));
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return said;
}

bool IsSignal(const std::string& end) { return end.rfind("signal ", 0) == 0; }

// Runs in a process of its own: it has no threads of RocksDB yet.
std::vector<std::string> InAProcess(const std::function<std::vector<std::string>()>& list) {
  int ends[2];
  EXPECT(pipe(ends) == 0);
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    for (const std::string& line : list()) {
      const std::string ended = line + '\0';
      EXPECT(write(ends[1], ended.data(), ended.size()) == static_cast<ssize_t>(ended.size()));
    }
    std::_Exit(0);
  }
  close(ends[1]);
  std::string all;
  char bytes[4096];
  for (ssize_t size = 0; (size = read(ends[0], bytes, sizeof(bytes))) > 0;) all.append(bytes, size);
  close(ends[0]);
  int status = 0;
  EXPECT(waitpid(child, &status, 0) == child);
  EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  std::vector<std::string> lines;
  for (size_t at = 0; at < all.size(); at += lines.back().size() + 1) {
    lines.emplace_back(all.c_str() + at);
  }
  return lines;
}

// ---------------------------------------------------------------- databases

enum class As { kWriter, kReader, kSecondary };

std::unique_ptr<DB> Open(As as, bool filtered, const std::string& folder) {
  rocksdb::Options options;
  options.create_if_missing = true;
  // A log that nobody closes keeps the space that it reserved for a memtable.
  options.write_buffer_size = 64 << 10;
  std::unique_ptr<DB> db;
  std::vector<ColumnFamilyHandle*> handles;
  const std::vector<ColumnFamilyDescriptor> cfs{{"default", {}}};
  const std::string messages = folder + " messages";
  if (as != As::kWriter) {
    // It has something to read.
    EXPECT(DB::Open(options, folder, &db).ok() && db->Put({}, "ada", "1815").ok());
    EXPECT(db->Close().ok());
    db.reset();
  }
  Status status;
  switch (as) {
    case As::kWriter:
      status = filtered ? lsm_sieve::Open(options, nullptr, folder, cfs, &handles, &db)
                        : DB::Open(options, folder, cfs, &handles, &db);
      break;
    case As::kReader:
      status = filtered ? lsm_sieve::OpenForReadOnly(options, nullptr, folder, cfs, &handles, &db)
                        : DB::OpenForReadOnly(options, folder, cfs, &handles, &db);
      break;
    case As::kSecondary:
      status = filtered ? lsm_sieve::OpenAsSecondary(options, nullptr, folder, messages, cfs,
                                                     &handles, &db)
                        : DB::OpenAsSecondary(options, folder, messages, cfs, &handles, &db);
      break;
  }
  if (!status.ok()) std::cerr << status.ToString() << std::endl;
  EXPECT(status.ok());
  for (ColumnFamilyHandle* handle : handles) delete handle;
  if (as == As::kWriter) EXPECT(db->Put({}, "ada", "1815").ok());
  if (filtered) EXPECT(IsComplete(db.get()));
  return db;
}

enum class Closing { kClose, kWait, kPastTheFilters };

void CloseBy(Closing closing, DB* db) {
  rocksdb::WaitForCompactOptions waiting;
  waiting.close_db = true;
  switch (closing) {
    case Closing::kClose:
      EXPECT(db->Close().ok());
      break;
    case Closing::kWait:
      EXPECT(db->WaitForCompact(waiting).ok());
      break;
    case Closing::kPastTheFilters:
      EXPECT(db->GetRootDB()->Close().ok());
      break;
  }
}

std::vector<std::string> EndsWhenClosed(As as, bool filtered, Closing closing,
                                        const std::string& folder) {
  return InAProcess([&] {
    const std::unique_ptr<DB> db = Open(as, filtered, folder);
    CloseBy(closing, db.get());
    std::vector<std::string> ends;
    for (const Call& call : kCalls) {
      ends.push_back(EndOf([&] { return call.make({db.get(), db->DefaultColumnFamily(), folder}); }));
    }
    return ends;
  });
}

// Of an open database, each call needs one of its own: a fork has none of its threads.
std::vector<std::string> EndsWhenOpen(const std::vector<Call>& calls, bool has_cf, bool filtered,
                                      const std::string& folder) {
  std::vector<std::string> ends;
  for (const Call& call : calls) {
    const std::string own = folder + std::to_string(ends.size());
    ends.push_back(EndOf([&] {
      DB* const db = Open(As::kWriter, filtered, own).release();
      return call.make({db, has_cf ? db->DefaultColumnFamily() : nullptr, own});
    }));
    std::filesystem::remove_all(own);
  }
  return ends;
}

// Where both end, RocksDB's own end decides. Where it ends the process itself, anything may.
void AreTheSame(const std::string& what, const std::vector<Call>& calls,
                const std::vector<std::string>& plain, const std::vector<std::string>& filtered,
                const std::set<std::string>& refused) {
  EXPECT(plain.size() == calls.size() && filtered.size() == calls.size());
  size_t wrong = 0;
  size_t fatal = 0;
  std::string by_itself;
  for (size_t i = 0; i < calls.size(); ++i) {
    const std::string name = calls[i].name;
    if (IsSignal(plain[i])) {
      ++fatal;
      by_itself += " " + name + (plain[i] == "signal 14" ? " (waits)" : "");
      continue;
    }
    const bool may_differ = refused.count(name) > 0 && !IsSignal(filtered[i]);
    if (filtered[i] == plain[i] || may_differ) continue;
    std::cerr << what << ", " << name << ": " << filtered[i] << "; plain: " << plain[i] << std::endl;
    ++wrong;
  }
  std::cerr << what << ": ends in plain RocksDB itself:" << by_itself << std::endl;
  EXPECT(wrong == 0);
  EXPECT(fatal < calls.size() / 2);
}

// Closed by whichever call, a database with filters is closed again, asked for its filters, and
// deleted.
void FiltersOfAClosedDatabase(const std::string& folder) {
  for (const Closing closing : {Closing::kClose, Closing::kWait, Closing::kPastTheFilters}) {
    const std::string own = folder + std::to_string(static_cast<int>(closing));
    EXPECT(EndOf([&] {
             std::unique_ptr<DB> db = Open(As::kWriter, true, own);
             CloseBy(closing, db.get());
             lsm_sieve_t* const filters = lsm_sieve::Of(db.get());
             EXPECT(filters != nullptr);
             lsm_sieve_stats(filters);
             EXPECT(lsm_sieve_health(filters).distrusted == 0);
             lsm_sieve_set_memory_budget(filters, 1 << 20, nullptr);
             lsm_sieve_set_false_positive_rate(filters, 0.1, nullptr);
             char* error = nullptr;
             lsm_sieve_consolidate(filters, &error);
             // Maintenance has ended, unless it was not told.
             EXPECT(error != nullptr || closing == Closing::kPastTheFilters);
             free(error);
             lsm_sieve_wait_for_maintenance(filters, 10);
             lsm_sieve_wait_until_complete(filters, 10);
             EXPECT(db->Close().ok() && db->Close().ok());
             db.reset();
             db = Open(As::kWriter, true, own);
             std::string value;
             EXPECT(db->Get({}, "ada", &value).ok() && value == "1815");
             return std::string("closed");
           }) == "closed");
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  // `lsm-sieve` refuses it: see `database.cc`.
  const std::set<std::string> of_writers{"IngestWriteBatchWithIndex"};
  // RocksDB's readers run these, or do a part of them, or wait without end; with filters they refuse.
  const std::set<std::string> of_readers{
      "IngestWriteBatchWithIndex", "FlushWAL",        "WaitForCompact",
      "GetLiveFilesStorageInfo",   "SetOptions",      "CreateColumnFamily",
      "CreateColumnFamilies",      "DropColumnFamily", "DropColumnFamilies",
      "CreateColumnFamilyWithImport", "Flush"};
  const auto compare = [&](const std::string& what, As as, Closing closing, const auto& refused) {
    AreTheSame(what, kCalls, EndsWhenClosed(as, false, closing, folder + "/" + what + " plain"),
               EndsWhenClosed(as, true, closing, folder + "/" + what + " filtered"), refused);
  };
  compare("closed", As::kWriter, Closing::kClose, of_writers);
  compare("closed by a wait", As::kWriter, Closing::kWait, of_writers);
  compare("closed past the filters", As::kWriter, Closing::kPastTheFilters, of_writers);
  compare("closed reader", As::kReader, Closing::kClose, of_readers);
  compare("closed secondary", As::kSecondary, Closing::kClose, of_readers);
  for (const auto& [what, calls] : {std::pair("no column family", &kCalls),
                                    std::pair("no arguments", &kWithoutArguments)}) {
    const bool has_cf = calls == &kWithoutArguments;
    const std::string own = folder + "/" + what;
    AreTheSame(what, *calls, EndsWhenOpen(*calls, has_cf, false, own + " plain "),
               EndsWhenOpen(*calls, has_cf, true, own + " filtered "), of_writers);
  }
  FiltersOfAClosedDatabase(folder + "/filters");
  std::cout << "all held\n";
}
