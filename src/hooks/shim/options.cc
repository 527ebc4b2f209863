// RocksDB's options objects: whether their layout is the expected one, what a database was last
// opened with, which options are refused, and the installation of the hooks.

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rocksdb/comparator.h"
#include "rocksdb/memtablerep.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/table.h"
#include "rocksdb/utilities/options_util.h"
#include "rocksdb/version.h"

#include "shim.h"
#include "versions.h"

namespace lsm_sieve {
namespace {

bool HasName(const Customizable* object, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (std::strcmp(object->Name(), name) == 0) return true;
  }
  return false;
}

// Whether it promises that keys whose bytes differ are unequal. RocksDB's comparator with timestamps
// leaves the promise to the one below it, which compares the keys without them.
bool IsInjective(const Comparator* comparator) {
  FAULT(AnyComparatorTaken, return true);
  return !comparator->CanKeysWithDifferentByteContentsBeEqual() ||
         !comparator->GetRootComparator()->CanKeysWithDifferentByteContentsBeEqual() ||
         // MyRocks' compare as `memcmp` does.
         HasName(comparator, {"RocksDB_SE_v3.10", "rev:RocksDB_SE_v3.10"});
}

bool MayMempurge(const Options& options) {
  FAULT(MempurgeAccepted, return false);
  return options.experimental_mempurge_threshold > 0.0;
}

// Why these options are not supported; empty if they are. An allow-list. `is_promised`: the user says
// that the comparator calls no two keys equal whose bytes differ.
std::string Refusal(const Options& options, bool is_promised) {
  if (!is_promised && !IsInjective(options.comparator)) {
    const std::string name = options.comparator->Name();
    return "the comparator " + name +
           " may call keys equal whose bytes differ, and filters would tell them apart; if it never "
           "does, say so with comparator_is_injective(\"" + name + "\")";
  }
  // An insertion into these is given the entry itself, and not a node of theirs.
  if (!HasName(options.memtable_factory.get(),
               {"SkipListFactory", "HashSkipListRepFactory", "VectorRepFactory"})) {
    return std::string("the memtable ") + options.memtable_factory->Name() +
           " is not supported; use the skip list (the default), the hash skip list or the vector";
  }
  if (!HasName(options.table_factory.get(), {"BlockBasedTable"})) {
    return std::string("the table format ") + options.table_factory->Name() +
           " is not supported; use block-based tables (the default)";
  }
  if (options.disallow_memtable_writes) {
    return "disallow_memtable_writes is not supported; switch it off";
  }
  if (MayMempurge(options)) {
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

using Extractor = std::shared_ptr<const SliceTransform>;

const SliceTransform& ExtractorOf(const void* extractor) {
  return **static_cast<const Extractor*>(extractor);
}

}  // namespace

KeyOrder OrderOf(const Comparator* comparator) {
  FAULT(AnyOrderIsBytewise, return KeyOrder::kBytewise);
  if (comparator == BytewiseComparator() || comparator == BytewiseComparatorWithU64Ts()) {
    return KeyOrder::kBytewise;
  }
  if (comparator == ReverseBytewiseComparator() ||
      comparator == ReverseBytewiseComparatorWithU64Ts()) {
    return KeyOrder::kReverse;
  }
  return KeyOrder::kOther;
}

extern "C" {

// Whether the linked library has the version of these headers, and the options object has the
// layout that the shim assumes: values set through the C API must be read back here.
bool lsm_sieve_layout_matches(const rocksdb_options_t* options, size_t write_buffer_size,
                              int num_levels, int max_background_jobs) noexcept {
  const std::string version = std::to_string(ROCKSDB_MAJOR) + "." +
                              std::to_string(ROCKSDB_MINOR) + "." +
                              std::to_string(ROCKSDB_PATCH);
  FAULT(LayoutUnchecked, return true);
  return GetRocksVersionAsString() == version &&
         options->rep.write_buffer_size == write_buffer_size &&
         options->rep.num_levels == num_levels &&
         options->rep.max_background_jobs == max_background_jobs;
}

// Reads the options that the database at this path was last opened with into `options`, except for
// the environment. Those of its column families go into the objects that `each` returns, with the
// block cache that was in `options`. Returns an error to free, or null.
char* lsm_sieve_latest_options(rocksdb_options_t* options, Slice path, void* context,
                               EachCf each) noexcept {
  Env* const env = options->rep.env;
  const auto* table = options->rep.table_factory->GetOptions<BlockBasedTableOptions>();
  std::shared_ptr<Cache> cache = table == nullptr ? nullptr : table->block_cache;
  ConfigOptions config;
  config.input_strings_escaped = true;
  config.ignore_unknown_options = false;
  config.env = env;
  DBOptions database;
  std::vector<ColumnFamilyDescriptor> cfs;
  const Status status = LoadLatestOptions(config, path.ToString(), &database,
                                          &cfs, cache == nullptr ? nullptr : &cache);
  if (!status.ok()) return ErrorOf(status);
  database.env = env;
  options->rep = Options(database, ColumnFamilyOptions());
  for (const ColumnFamilyDescriptor& cf : cfs) {
    rocksdb_options_t* const filled = each(context, cf.name);
    if (filled == nullptr) return CopyString("the options of a column family could not be taken");
    FAULT(CfOptionsNotLoaded, continue);
    filled->rep = Options(DBOptions(), cf.options);
  }
  return nullptr;
}

// Accepts what was committed in two phases, and keeps what was only prepared.
void lsm_sieve_allow_two_phases(rocksdb_options_t* options) noexcept { options->rep.allow_2pc = true; }

void lsm_sieve_open_ssts_first(rocksdb_options_t* options) noexcept { OpenSstsFirst(&options->rep); }

void lsm_sieve_copy_options(rocksdb_options_t* to, const rocksdb_options_t* from) noexcept {
  to->rep = from->rep;
}

// Why transactions are not supported with these options of a database or column family; null if
// they are.
char* lsm_sieve_transactions_refusal(const rocksdb_options_t* options) noexcept {
  // A transaction's own writes are looked up without their timestamps.
  if (options->rep.comparator->timestamp_size() > 0) {
    return CopyString("user-defined timestamps do not work with transactions; switch one of them off");
  }
  if (options->rep.unordered_write) {
    return CopyString("unordered_write does not work with transactions; switch one of them off");
  }
  // When RocksDB 11.8.1 refuses a commit, it may roll back values of other writes as well.
  if (WritesBlobsDirectly(options->rep)) {
    return CopyString("enable_blob_direct_write does not work with transactions; switch one off");
  }
  return nullptr;
}

// Why these options are not supported; null if they are. `injective`: the names of comparators that
// call no two keys equal whose bytes differ, as the user says.
char* lsm_sieve_refusal(const rocksdb_options_t* options, const Slice* injective,
                        size_t count) noexcept {
  const Slice name(options->rep.comparator->Name());
  const bool is_promised = std::find(injective, injective + count, name) != injective + count;
  const std::string reason = Refusal(options->rep, is_promised);
  return reason.empty() ? nullptr : CopyString(reason);
}

// Whether entries may be dropped or changed on their way to another SST, or dropped with their SST.
bool lsm_sieve_drops_entries(const rocksdb_options_t* options) noexcept {
  return options->rep.compaction_filter != nullptr ||
         options->rep.compaction_filter_factory != nullptr ||
         options->rep.compaction_style == kCompactionStyleFIFO;
}

// Whether a write's sequence number is published before its memtable has taken it.
bool lsm_sieve_writes_unordered(const rocksdb_options_t* options) noexcept {
  return options->rep.unordered_write;
}

// The prefix extractor of a column family, to be released, and its name; null if it has none.
void* lsm_sieve_extractor(const rocksdb_options_t* options, void* context,
                          Take take) noexcept {
  const Extractor& extractor = options->rep.prefix_extractor;
  if (extractor == nullptr) return nullptr;
  take(context, extractor->AsString());
  return new Extractor(extractor);
}

void lsm_sieve_extractor_release(void* extractor) noexcept {
  delete static_cast<Extractor*>(extractor);
}

// The length of a key's prefix; SIZE_MAX if it has none, or if the prefix is not how the key begins.
size_t lsm_sieve_prefix_length(const void* extractor, Slice key) noexcept {
  const SliceTransform& transform = ExtractorOf(extractor);
  if (!transform.InDomain(key)) return SIZE_MAX;
  const Slice prefix = transform.Transform(key);
  FAULT(AnyPartIsPrefix, return prefix.size());
  return key.starts_with(prefix) ? prefix.size() : SIZE_MAX;
}

// Whether it gives this prefix to each key that starts with it.
bool lsm_sieve_is_prefix_of_all(const void* extractor, Slice prefix) noexcept {
  return ExtractorOf(extractor).SameResultWhenAppended(prefix);
}

// Whether keys are ordered by their bytes, or in reverse.
bool lsm_sieve_orders_by_bytes(const rocksdb_options_t* options) noexcept {
  return OrderOf(options->rep.comparator) != KeyOrder::kOther;
}

// Takes over one reference on `cf_filter`. Returns whether RocksDB will probe the segment filters.
bool lsm_sieve_install(rocksdb_options_t* options, rust::CfFilter* cf_filter,
                       const Hooks* hooks) noexcept {
  Options& rep = options->rep;
  const auto shared =
      std::make_shared<const CfFilter>(cf_filter, hooks, rep.comparator->timestamp_size());
  // Without an extractor, RocksDB would put a skip list in the place of ours.
  if (rep.prefix_extractor == nullptr &&
      HasName(rep.memtable_factory.get(), {"HashSkipListRepFactory"})) {
    rep.memtable_factory = std::make_shared<SkipListFactory>();
  }
  rep.memtable_factory = CaptureMemtables(rep.memtable_factory, shared);
  rep.table_properties_collector_factories.push_back(CollectSegmentIds(shared));
  const auto* table = rep.table_factory->GetOptions<BlockBasedTableOptions>();
  // With prefixes alone, RocksDB probes no segment filter for a key.
  if (table == nullptr || !table->whole_key_filtering) return false;
  // A clone. A newly created factory would correct options that RocksDB refuses without us.
  std::unique_ptr<TableFactory> factory = rep.table_factory->Clone();
  FAULT(TableOptionsCorrected, factory.reset(NewBlockBasedTableFactory(*table)));
  factory->GetOptions<BlockBasedTableOptions>()->filter_policy =
      UseSegmentFilters(table->filter_policy, shared, rep.prefix_extractor != nullptr);
  rep.table_factory = std::move(factory);
  return true;
}

}  // extern "C"
}  // namespace lsm_sieve
