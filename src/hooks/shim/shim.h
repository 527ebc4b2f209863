// The part of the plugin that must be C++: RocksDB's C API has no custom memtable, filter policy
// or table-properties collector, and no reader of raw SST keys.
//
// It makes no decisions. Each class forwards to RocksDB's own object and reports each call to the
// Rust side, through the table of functions in `abi.h`. No exception leaves the shim for Rust: if a
// container cannot be allocated, the process aborts, as it does in RocksDB.
//
//   memtables.cc        each key that a memtable takes
//   segment_filters.cc  each key that an SST is built from; probes of its segment filter
//   events.cc           flushes, compactions, ingestion
//   options.cc          refused options; installs the hooks of the files above
//   tables.cc           the live SSTs and their raw entries, and those of the memtables
//   transactions.cc     transactions on an engine that was opened without them; transactions.h
//   engine.cc           the engine past its filters: flushes, properties, single keys
//   find_handle.cc      the C handle of a database that `rocksdb` opened
//   database.cc         the database behind the C handle, whose reads check the filters first
//   iterator.cc         its iterators
//   sieve.h             what both ask the Rust side
//   errors.cc           text for the Rust side
//
// This header has what several of them use.

#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/memtablerep.h"
#include "rocksdb/options.h"
#include "rocksdb/table_properties.h"

#include "abi.h"

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

// The filters know a key without its timestamp, as RocksDB's own do: absent is what has no version at
// any time.
inline Slice WithoutTimestamp(const Slice& key, size_t timestamp_size) {
  return Slice(key.data(), key.size() - timestamp_size);
}

// How keys without their timestamps are ordered.
enum class KeyOrder { kBytewise, kReverse, kOther };
// options.cc: only RocksDB's own comparators have an order that the filters know.
KeyOrder OrderOf(const Comparator* comparator);

// One reference on the Rust side's filters of a column family. It is released with the last factory
// that holds it.
class CfFilter {
 public:
  CfFilter(rust::CfFilter* raw, const Hooks* hooks, size_t timestamp_size)
      : raw_(raw), hooks_(hooks), timestamp_size_(timestamp_size) {}
  ~CfFilter() { hooks_->cf_filter_release(raw_); }
  CfFilter(const CfFilter&) = delete;
  CfFilter& operator=(const CfFilter&) = delete;
  rust::CfFilter* raw() const { return raw_; }
  const Hooks* hooks() const { return hooks_; }
  // 0: its keys have no timestamps.
  size_t timestamp_size() const { return timestamp_size_; }

 private:
  rust::CfFilter* const raw_;
  const Hooks* const hooks_;
  const size_t timestamp_size_;
};
using CfFilterPtr = std::shared_ptr<const CfFilter>;

// memtables.cc: adds each key that a memtable of `inner` takes to the filters.
std::shared_ptr<MemTableRepFactory> CaptureMemtables(std::shared_ptr<MemTableRepFactory> inner,
                                                     CfFilterPtr cf_filter);

// memtables.cc: whether an entry of this type is no key that a lookup finds. The older entries of a
// deleted key were added to the filters themselves.
bool IsDeletion(uint8_t type, bool has_timestamp);

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

// database.cc: writes through this handle lock their keys from here on. The filters must be behind it.
void LockWrites(rocksdb_t* handle, std::unique_ptr<DB> locks);

// transactions.cc: call before the engine creates `number` column families; `locks` as for
// `LockWrites`.
void ExtendLocks(DB* locks, size_t number);

}  // namespace lsm_sieve
