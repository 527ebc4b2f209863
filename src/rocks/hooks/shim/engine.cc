// Calls to a running engine that the C API lacks.

#include <iterator>
#include <memory>
#include <unordered_set>

#include "db/column_family.h"
#include "db/db_impl/db_impl.h"
#include "db/version_edit_handler.h"
#include "db/version_set.h"

#include "shim.h"

namespace lsm_sieve {
namespace {

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

}  // namespace

DB* EngineOf(rocksdb_column_family_handle_t* cf_filter) {
  return static_cast_with_check<ColumnFamilyHandleImpl>(cf_filter->rep)->db();
}

extern "C" {

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

}  // extern "C"
}  // namespace lsm_sieve
