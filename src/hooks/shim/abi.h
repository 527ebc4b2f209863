// What crosses between C++ and Rust: the functions of the Rust side that C++ calls, and the layouts
// and values of both. The build writes the Rust types from this file, and the Rust declarations of the
// shim's own functions from where they are defined (generate.rs). What does not fit does not compile.
//
// The Rust functions never unwind. What a pointer or a `Slice` points to is live and unchanged
// during the call, and an object is released once, when nobody uses it any more.

#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "rocksdb/slice.h"

struct rocksdb_options_t;

namespace lsm_sieve {

// Passed by value: two words.
using ROCKSDB_NAMESPACE::Slice;
static_assert(std::is_trivially_copyable_v<Slice> &&
              sizeof(Slice) == sizeof(const char*) + sizeof(size_t));

// ---- generate.rs reads from here on

// Objects of the Rust side.
namespace rust {
struct CfFilter;            // the filters of one column family
struct SegmentFilterBuild;  // the segment filter of an SST that is being written, by one thread
struct Segment;             // a segment filter that is probed
struct PrefixId;            // the extractor of its prefixes
struct Listener;            // receives the events of a whole database
struct Sieve;               // answers the reads of a database's handle
}  // namespace rust

// What the keys of an SST come from.
enum class TableOrigin : uint8_t { kUnknown, kMemtables, kTables };

// Which keys an iterator asks for: those with the prefix of `first`, or from `first` to `last`.
enum class Span : uint8_t { kSamePrefix, kClosed, kHalfOpen };

// What the engine found.
enum class Found : uint8_t { kNothing, kValue, kError };

// The insertion of a key into a memtable that is under way.
struct Insertion {
  uint64_t hash;
  uint64_t crowd_side;  // all ones: none
};

// A live SST.
struct Table {
  Slice path;
  const uint8_t* segment;  // 16 bytes, or null: the SST was built without the plugin
  const uint8_t* unique;   // 16 bytes, or null: the SST is older than RocksDB 6.24
  uint64_t entries;        // point entries: old versions, merge operands and tombstones included
  int level;               // -1: unknown
  bool is_in_last_level;   // of a leveled tree
  bool is_placed;          // its key range is known, and keys are ordered by all their bytes
  Slice smallest;
  Slice largest;
};

// Functions that a hook or another function of the two sides gets; each is called before that
// returns, with the `context` that comes with it.
typedef void (*Take)(void* context, Slice text);
typedef void (*TakeExtractor)(void* context, Slice name, uint32_t version);
typedef void (*EachTable)(void* context, const Table* table);
// Returns false to stop.
typedef bool (*EachKey)(void* context, Slice key, bool is_deletion);
// Returns the options to fill in for this column family; null if it cannot.
typedef rocksdb_options_t* (*EachCf)(void* context, Slice name);
typedef Found (*Read)(void* context);
// Reads the keys at these indexes.
typedef void (*ReadMany)(void* context, const size_t* at, size_t count, Found* found);
typedef void (*Run)(void* context);
// Sets the ids of the column families that were created. All are -1 when it is called.
typedef void (*CreateCfs)(void* context, int64_t* ids);
// Says of each column family whether it was dropped. All are false when it is called.
typedef void (*DropCfs)(void* context, bool* dropped);

// The Rust functions.
struct Hooks {
  void (*cf_filter_release)(rust::CfFilter* cf_filter);
  void (*memtable_created)(rust::CfFilter* cf_filter, uint32_t cf);
  // Before the memtable takes a key, and after.
  Insertion (*insertion_begin)(rust::CfFilter* cf_filter, Slice key);
  void (*insertion_end)(rust::CfFilter* cf_filter, Insertion insertion, Slice key);

  // Null: no segment filter is configured.
  rust::SegmentFilterBuild* (*table_begin)(rust::CfFilter* cf_filter, TableOrigin origin,
                                           bool is_in_last_level);
  void (*table_add)(rust::SegmentFilterBuild* table, Slice key);
  // Whether the prefix that RocksDB's extractor gives the key is the one that the filter takes.
  bool (*table_takes_prefix)(rust::SegmentFilterBuild* table, Slice key, Slice prefix);
  // Calls `take` with the id of the extractor whose prefixes the filter has, unless there is none.
  void (*table_extractor)(rust::SegmentFilterBuild* table, void* context, TakeExtractor take);
  // Writes the 16 bytes of the segment's id.
  bool (*table_id)(rust::SegmentFilterBuild* table, uint8_t* id);
  // Seals the filter of an SST with this many point entries. If false, the SST gets no id.
  bool (*table_finish)(rust::SegmentFilterBuild* table, uint64_t entries);
  void (*table_release)(rust::SegmentFilterBuild* table);

  // The segment with this id of 16 bytes. With a name: RocksDB also probes for the prefixes by this
  // extractor, which is set. Null: nothing is known.
  rust::Segment* (*segment_open)(rust::CfFilter* cf_filter, const uint8_t* id, Slice name,
                                 uint32_t version, rust::PrefixId** extractor);
  bool (*segment_may_contain)(rust::Segment* segment, rust::PrefixId* extractor, Slice key);
  // All answers are true when it is called.
  void (*segment_may_contain_many)(rust::Segment* segment, rust::PrefixId* extractor, size_t count,
                                   const Slice* keys, bool* answers);
  void (*segment_release)(rust::Segment* segment, rust::PrefixId* extractor);

  void (*listener_release)(rust::Listener* listener);
  void (*engine_changed)(rust::Listener* listener);
  void (*keys_ingested)(rust::Listener* listener, Slice cf);

  void (*sieve_release)(rust::Sieve* sieve);
  // The database closes: its engine is not used from here on.
  void (*sieve_close)(rust::Sieve* sieve);
  // Whether a key is absent. Otherwise `read` was called; or it was not, and is to be called.
  bool (*sieve_read)(rust::Sieve* sieve, uint32_t cf, Slice key, void* context, Read read);
  bool (*sieve_rules_out)(rust::Sieve* sieve, uint32_t cf, Slice key);
  // Calls `read` with the indexes of the keys that the engine must read, perhaps twice. If it
  // returns false, the engine is to be read for all keys.
  bool (*sieve_read_many)(rust::Sieve* sieve, size_t count, const uint32_t* cfs, const Slice* keys,
                          void* context, ReadMany read);
  // Whether filters may answer for prefixes of this column family. Sets the edition of its view, and
  // after how many seeks in a row that find something an iterator no longer checks them.
  bool (*sieve_prefixes)(rust::Sieve* sieve, uint32_t cf, uint64_t* edition, uint32_t* most_found);
  // Whether no key of a span existed since that edition.
  bool (*sieve_is_empty)(rust::Sieve* sieve, uint32_t cf, uint64_t edition, Span span, Slice first,
                         Slice last);
  // A column family gets another prefix extractor.
  void (*sieve_extractor_changes)(rust::Sieve* sieve);
  // Announces external writes into the column family, all ones for any, and calls `run` at most
  // once; if it does not, `run` is to be called.
  void (*sieve_external_writes)(rust::Sieve* sieve, uint32_t cf, void* context, Run run);
  // Calls `refuse` with the reason; or installs the hooks in the options and calls `create`.
  void (*sieve_create_cfs)(rust::Sieve* sieve, size_t count, const Slice* names,
                           rocksdb_options_t* const* options, void* context, Take refuse,
                           CreateCfs create);
  // Calls `drop` at most once; if it does not, the column families are to be dropped all the same.
  void (*sieve_drop_cfs)(rust::Sieve* sieve, size_t count, const uint32_t* cfs, void* context,
                         DropCfs drop);
};

}  // namespace lsm_sieve
