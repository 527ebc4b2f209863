// The part of the plugin that must be C++: RocksDB's C API has no custom memtable, filter policy
// or table-properties collector, and no reader of raw SST keys.
//
// It makes no decisions. Each class forwards to RocksDB's own object and reports each call to the
// Rust side, through the table of functions in `lsm_sieve_hooks`. The Rust functions never unwind.
// No exception leaves the shim for Rust either: if a container cannot be allocated, the process
// aborts, as it does in RocksDB.
//
//   memtables.cc        each key that a memtable takes
//   segment_filters.cc  each key that an SST is built from; probes of its segment filter
//   events.cc           flushes, compactions, ingestion
//   options.cc          refused options; installs the hooks of the files above
//   tables.cc           the live SSTs and their raw entries, and those of the memtables
//   transactions.cc     transactions on an engine that was opened without them
//   engine.cc           the engine past its filters: flushes, properties, single keys
//   handle.cc           the database behind the C handle, whose reads ask the filters first
//   errors.cc           text for the Rust side
//
// This header has what several of them use.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/memtablerep.h"
#include "rocksdb/options.h"
#include "rocksdb/table_properties.h"

// RocksDB's private structures behind its C API (db/c.cc). `lsm_sieve_layout_matches` checks the
// first; the self-check of the hooks uses the second.
struct rocksdb_options_t {
  ROCKSDB_NAMESPACE::Options rep;
};
struct rocksdb_column_family_handle_t {
  ROCKSDB_NAMESPACE::ColumnFamilyHandle* rep;
  bool immortal;
};
// `lsm_sieve_find_handle` proves it for each database.
struct rocksdb_t {
  ROCKSDB_NAMESPACE::DB* rep;
};

extern "C" {

// The insertion of a key into a memtable that is under way.
struct lsm_sieve_insertion {
  uint64_t hash;
  uint64_t side;
};

// The Rust functions that are called on events. `cf_filter` is the filters of one column family,
// `table` the segment filter of an SST under
// construction, `segment` a segment filter that is probed. `listener` receives the events of the
// whole database. `sieve` is what a database's handle asks; `context` belongs to the function that
// is passed with it, which is called before the hook returns.
struct lsm_sieve_hooks {
  void (*column_release)(void* cf_filter);
  void (*memtable_created)(void* cf_filter, uint32_t cf);
  // Before the memtable takes a key, and after.
  lsm_sieve_insertion (*memtable_prepare)(void* cf_filter, const char* key, size_t size);
  void (*memtable_insert)(void* cf_filter, lsm_sieve_insertion insertion, const char* key,
                          size_t size);
  // `origin`: what the keys of the SST come from.
  void* (*table_begin)(void* cf_filter, uint8_t origin, bool is_in_last_level);
  void (*table_add)(void* table, const char* key, size_t size);
  // The same with the prefix that RocksDB's extractor gives the key. False if it is not the one that
  // the filter takes.
  bool (*table_add_with_prefix)(void* table, const char* key, size_t size, const char* prefix,
                                size_t prefix_size);
  // Calls `take` with the id of the extractor whose prefixes the filter has, unless there is none.
  void (*table_extractor)(void* table, void* context,
                          void (*take)(void* context, const char* name, size_t size,
                                       uint32_t version));
  void (*table_id)(void* table, uint8_t id[16]);
  // Seals the filter of an SST with this many point entries. If false, the SST gets no id.
  bool (*table_finish)(void* table, uint64_t entries);
  void (*table_release)(void* table);
  // With a name: RocksDB also probes for the prefixes by this extractor, which is set.
  void* (*segment_open)(void* cf_filter, const uint8_t id[16], const char* name, size_t size,
                        uint32_t version, void** extractor);
  bool (*segment_may_contain)(void* segment, void* extractor, const char* key, size_t size);
  void (*segment_may_contain_many)(void* segment, void* extractor, size_t count,
                                   const char* const* keys, const size_t* sizes, bool* answers);
  void (*segment_release)(void* segment, void* extractor);
  void (*listener_release)(void* listener);
  void (*engine_changed)(void* listener);
  void (*keys_ingested)(void* listener, const char* cf, size_t size);
  void (*sieve_release)(void* sieve);
  // The database closes: its engine is not used from here on.
  void (*sieve_close)(void* sieve);
  // Whether a key is absent. Otherwise `read` was called, which returns what the engine found; or it
  // was not, and is to be called.
  bool (*sieve_read)(void* sieve, uint32_t cf, const char* key, size_t size, void* context,
                     int8_t (*read)(void* context));
  bool (*sieve_rules_out)(void* sieve, uint32_t cf, const char* key, size_t size);
  // Calls `read` with the indexes of the keys that the engine must read, perhaps twice. If it
  // returns false, the engine is to be read for all keys.
  bool (*sieve_read_many)(void* sieve, size_t count, const uint32_t* cfs,
                          const ROCKSDB_NAMESPACE::Slice* keys, void* context,
                          void (*read)(void* context, const size_t* at, size_t count,
                                       int8_t* found));
  // Whether filters may answer for prefixes of this column family. Sets the edition of its view, and
  // after how many seeks in a row that find something an iterator no longer asks them.
  bool (*sieve_prefixes)(void* sieve, uint32_t cf, uint64_t* edition, uint32_t* most_found);
  // Whether no key of a span existed since that edition; see `Span` in handle.cc.
  bool (*sieve_is_empty)(void* sieve, uint32_t cf, uint64_t edition, uint8_t span,
                         const char* first, size_t first_size, const char* last, size_t last_size);
  // A column family gets another prefix extractor.
  void (*sieve_extractor_changes)(void* sieve);
  void (*sieve_external_writes)(void* sieve, uint32_t cf, void* context, void (*run)(void* context));
  // Calls `refuse` with the reason; or installs the hooks in the options and calls `create`, which
  // sets the new ids. All are -1 when it is called.
  void (*sieve_create_cfs)(void* sieve, size_t count, const ROCKSDB_NAMESPACE::Slice* names,
                           rocksdb_options_t* const* options, void* context,
                           void (*refuse)(void* context, const char* reason, size_t size),
                           void (*create)(void* context, int64_t* ids));
  // Calls `drop`, which says of each whether it was dropped. All are false when it is called.
  void (*sieve_drop_cfs)(void* sieve, size_t count, const uint32_t* cfs, void* context,
                         void (*drop)(void* context, bool* dropped));
};

}  // extern "C"

namespace lsm_sieve {

using namespace ROCKSDB_NAMESPACE;

// Whether this fault is injected in this process; see crates/support/src/fault.rs.
#ifdef LSM_SIEVE_FAULTS
inline bool IsInjected(const char* fault) {
  static const char* const named = std::getenv("LSM_SIEVE_FAULT");
  return named != nullptr && std::strcmp(named, fault) == 0;
}
#else
constexpr bool IsInjected(const char*) { return false; }
#endif

// FAULT(Name, statement) does the statement if the fault is injected. A line of its own, so that
// the lines around it read as if there were no fault.
#define FAULT(fault, ...)    \
  if (IsInjected(#fault)) {  \
    __VA_ARGS__;             \
  }

// The property of an SST that holds its segment's id, and the length of the id.
inline constexpr char kSegmentIdProperty[] = "lsm-sieve.segment";
inline constexpr size_t kIdSize = 16;

// One reference on the Rust side's filters of a column family. It is released with the last factory
// that holds it.
class CfFilter {
 public:
  CfFilter(void* raw, const lsm_sieve_hooks* hooks) : raw_(raw), hooks_(hooks) {}
  ~CfFilter() { hooks_->column_release(raw_); }
  CfFilter(const CfFilter&) = delete;
  CfFilter& operator=(const CfFilter&) = delete;
  void* raw() const { return raw_; }
  const lsm_sieve_hooks* hooks() const { return hooks_; }

 private:
  void* const raw_;
  const lsm_sieve_hooks* const hooks_;
};
using CfFilterPtr = std::shared_ptr<const CfFilter>;

// memtables.cc: adds each key that a memtable of `inner` takes to the filters.
std::shared_ptr<MemTableRepFactory> CaptureMemtables(std::shared_ptr<MemTableRepFactory> inner,
                                                     CfFilterPtr cf_filter);

// memtables.cc: whether an entry of this type is no key that a lookup finds. The older entries of a
// deleted key were added to the filters themselves.
bool IsDeletion(uint8_t type);

// segment_filters.cc: counts the entries of each SST and writes its segment's id into it.
std::shared_ptr<TablePropertiesCollectorFactory> CollectSegmentIds(CfFilterPtr cf_filter);

// segment_filters.cc: builds segment filters and probes them; `inner` builds where none is
// configured, and may be null. `has_extractor`: the column family has a prefix extractor.
std::shared_ptr<const FilterPolicy> UseSegmentFilters(std::shared_ptr<const FilterPolicy> inner,
                                                      CfFilterPtr cf_filter, bool has_extractor);

// segment_filters.cc: a column family is about to get another prefix extractor.
void ExtractorChanges();

// A read of single keys, or for one prefix, whose result depends on no filter. While one lives, this
// thread's reads through a handle enter the engine at once, and its probes of SSTs are answered also
// where RocksDB would have no filter. Scans there show what it would show: with filters, a seek skips
// SSTs without its prefix, and RocksDB leaves open which rows follow.
class ExactRead {
 public:
  ExactRead() { Begin(); }
  ~ExactRead() { End(); }
  ExactRead(const ExactRead&) = delete;
  ExactRead& operator=(const ExactRead&) = delete;

  static void Begin() { ++under_way_; }
  static void End() { --under_way_; }
  static bool IsUnderWay() { return under_way_ > 0; }

 private:
  constinit static inline thread_local int under_way_ = 0;
};

// errors.cc: a copy for `lsm_sieve_free`; never null.
char* CopyString(const std::string& text);
// errors.cc: null if the status is OK.
char* ErrorOf(const Status& status);

// engine.cc: the engine that the column family belongs to.
DB* EngineOf(rocksdb_column_family_handle_t* cf);

// handle.cc: writes through this handle lock their keys from here on. The filters must be behind it.
void LockWrites(rocksdb_t* handle, std::unique_ptr<DB> locks);

// transactions.cc: call before the engine creates `number` column families; `locks` as for
// `LockWrites`.
void ExtendLocks(DB* locks, size_t number);

}  // namespace lsm_sieve
