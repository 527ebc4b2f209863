// Each read of rocksdb::DB is counted once by its outcome, leaves in its results what RocksDB leaves,
// and iterators with bounds find the rows that RocksDB finds: the list of integration/reads/counters,
// through C++ and with what only C++ has.
//
//   reads FOLDER          an empty folder
#include <functional>
#include <numeric>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "rocksdb/attribute_groups.h"
#include "rocksdb/iostats_context.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/statistics.h"
#include "rocksdb/wide_columns.h"
#include "support.hpp"

namespace {

using rocksdb::ColumnFamilyDescriptor;
using rocksdb::ColumnFamilyHandle;
using rocksdb::DB;
using rocksdb::PinnableSlice;
using rocksdb::PinnableWideColumns;
using rocksdb::ReadOptions;
using rocksdb::Slice;
using rocksdb::Status;

using Cfs = std::vector<ColumnFamilyHandle*>;
using Keys = std::vector<std::string>;

std::unique_ptr<DB> Open(bool filtered, const std::string& folder, const rocksdb::Options& options,
                         const lsm_sieve_options_t* settings, Cfs* handles) {
  const std::vector<ColumnFamilyDescriptor> cfs{{"default", options}, {"other", options}};
  rocksdb::DBOptions of_db(options);
  of_db.create_if_missing = true;
  of_db.create_missing_column_families = true;
  std::unique_ptr<DB> db;
  EXPECT((filtered ? lsm_sieve::Open(of_db, settings, folder, cfs, handles, &db)
                   : DB::Open(of_db, folder, cfs, handles, &db))
             .ok());
  return db;
}

// ---------------------------------------------------------------- the reads

// Results that are used again by each read.
struct Results {
  explicit Results(size_t n) : values(n), entities(n), statuses(n), texts(n), operands(4) {}

  std::vector<PinnableSlice> values;
  std::vector<PinnableWideColumns> entities;
  std::vector<Status> statuses;
  std::vector<std::string> texts;
  std::vector<PinnableSlice> operands;
  int operand_count = 0;
  PinnableSlice value;
  std::string text;
  PinnableWideColumns columns;
};

struct Quiet : DB::AsyncCallback {
  void OnComplete(const rocksdb::PerfContext*, const rocksdb::IOStatsContext*) override {}
};

// Reads all keys of a column family, into `statuses` and others of the results.
using Read = std::function<void(DB*, ColumnFamilyHandle*, const Keys&, Results*)>;

template <typename One>
Read Each(One one) {
  return [one](DB* db, ColumnFamilyHandle* cf, const Keys& keys, Results* to) {
    for (size_t i = 0; i < keys.size(); ++i) to->statuses[i] = one(db, cf, keys[i], to);
  };
}

template <typename Many>
Read AtOnce(Many many) {
  return [many](DB* db, ColumnFamilyHandle* cf, const Keys& keys, Results* to) {
    Cfs cfs(keys.size(), cf);
    std::vector<Slice> slices(keys.begin(), keys.end());
    many(db, cfs, slices, to);
  };
}

// Those without a column family in their arguments are only made of the default one.
struct NamedRead {
  const char* name;
  Read read;
  bool takes_cf = true;
};

const std::vector<NamedRead> kReads{
    {"Get", Each([](DB* db, ColumnFamilyHandle* cf, const Slice& key, Results* to) {
       return db->Get({}, cf, key, &to->value);
     })},
    {"Get into a string", Each([](DB* db, ColumnFamilyHandle* cf, const Slice& key, Results* to) {
       return db->Get({}, cf, key, &to->text);
     })},
    {"Get of the default", Each([](DB* db, ColumnFamilyHandle*, const Slice& key, Results* to) {
       return db->Get({}, key, &to->text);
     }),
     false},
    {"GetEntity", Each([](DB* db, ColumnFamilyHandle* cf, const Slice& key, Results* to) {
       return db->GetEntity({}, cf, key, &to->columns);
     })},
    {"GetMergeOperands", Each([](DB* db, ColumnFamilyHandle* cf, const Slice& key, Results* to) {
       rocksdb::GetMergeOperandsOptions options;
       options.expected_max_number_of_operands = 4;
       return db->GetMergeOperands({}, cf, key, to->operands.data(), &options, &to->operand_count);
     })},
    {"GetAsync", Each([](DB* db, ColumnFamilyHandle* cf, const Slice& key, Results* to) {
       Quiet quiet;
       Status status;
       db->GetAsync({}, cf, key, &to->value, status, quiet);
       return status;
     })},
    {"GetAsync into a string",
     Each([](DB* db, ColumnFamilyHandle* cf, const Slice& key, Results* to) {
       Quiet quiet;
       Status status;
       db->GetAsync({}, cf, key, &to->text, status, quiet);
       return status;
     })},
    {"MultiGet", AtOnce([](DB* db, Cfs& cfs, std::vector<Slice>& keys, Results* to) {
       db->MultiGet({}, keys.size(), cfs.data(), keys.data(), to->values.data(),
                    to->statuses.data());
     })},
    {"MultiGet of sorted keys", AtOnce([](DB* db, Cfs& cfs, std::vector<Slice>& keys, Results* to) {
       db->MultiGet({}, keys.size(), cfs.data(), keys.data(), to->values.data(), nullptr,
                    to->statuses.data(), true);
     })},
    {"MultiGet of a family", AtOnce([](DB* db, Cfs& cfs, std::vector<Slice>& keys, Results* to) {
       db->MultiGet({}, cfs[0], keys.size(), keys.data(), to->values.data(), to->statuses.data());
     })},
    {"MultiGet of vectors", AtOnce([](DB* db, Cfs& cfs, std::vector<Slice>& keys, Results* to) {
       to->statuses = db->MultiGet({}, cfs, keys, &to->texts);
     })},
    {"MultiGetAsync", AtOnce([](DB* db, Cfs& cfs, std::vector<Slice>& keys, Results* to) {
       Quiet quiet;
       db->MultiGetAsync({}, keys.size(), cfs.data(), keys.data(), to->values.data(),
                         to->statuses.data(), quiet);
     })},
    {"MultiGetEntity", AtOnce([](DB* db, Cfs& cfs, std::vector<Slice>& keys, Results* to) {
       db->MultiGetEntity({}, keys.size(), cfs.data(), keys.data(), to->entities.data(),
                          to->statuses.data(), false);
     })},
    {"MultiGetEntity of a family", AtOnce([](DB* db, Cfs& cfs, std::vector<Slice>& keys,
                                             Results* to) {
       db->MultiGetEntity({}, cfs[0], keys.size(), keys.data(), to->entities.data(),
                          to->statuses.data(), false);
     })},
};

std::string Said(const Results& results) {
  std::ostringstream said;
  const auto columns = [&](const PinnableWideColumns& entity) {
    for (const auto& column : entity.columns()) {
      said << column.name().ToString() << "=" << column.value().ToString() << ",";
    }
    said << entity.serialized_size() << ";";
  };
  for (const Status& status : results.statuses) said << status.ToString() << ";";
  for (const PinnableSlice& value : results.values) said << value.ToString() << ";";
  for (const std::string& text : results.texts) said << text << ";";
  for (const PinnableWideColumns& entity : results.entities) columns(entity);
  said << results.value.ToString() << ";" << results.text << ";";
  columns(results.columns);
  for (int i = 0; i < results.operand_count; ++i) said << results.operands[i].ToString() << ";";
  return said.str();
}

// ---------------------------------------------------------------- counters and results

Keys Named(const std::string& name, int n) {
  Keys keys;
  for (int i = 0; i < n; ++i) keys.push_back(name + std::to_string(100 + i));
  return keys;
}

constexpr int kKeys = 40;

// Half of them in an SST, half in a memtable. Each column family has one more of its own.
void Fill(DB* db, const Cfs& cfs) {
  for (ColumnFamilyHandle* cf : cfs) {
    EXPECT(db->Put({}, cf, "only in " + cf->GetName(), "value").ok());
    const Keys keys = Named("there ", kKeys);
    for (int i = 0; i < kKeys; ++i) {
      if (i == kKeys / 2) EXPECT(db->Flush({}, cf).ok());
      EXPECT(i % 2 == 0 ? db->Put({}, cf, keys[i], "value of " + keys[i]).ok()
                        : db->PutEntity({}, cf, keys[i], {{"column", keys[i]}}).ok());
    }
  }
}

uint64_t Misses(const lsm_sieve_stats_t& stats) {
  return stats.absent + stats.false_positives + stats.uncovered + stats.not_consulted;
}

void EachReadIsCountedByItsOutcome(const std::string& folder, uint32_t audit) {
  Settings settings;
  lsm_sieve_options_set_audit(settings.raw, audit);
  lsm_sieve_options_set_adaptive_hits(settings.raw, 0);
  Cfs cfs;
  const std::unique_ptr<DB> db = Open(true, folder, {}, settings.raw, &cfs);
  Fill(db.get(), cfs);
  EXPECT(IsComplete(db.get()));
  for (const NamedRead& each : kReads) {
    for (ColumnFamilyHandle* cf : cfs) {
      if (!each.takes_cf && cf->GetID() != 0) continue;
      for (const bool are_there : {true, false}) {
        Results results(kKeys);
        const auto before = Stats(db.get());
        each.read(db.get(), cf, Named(are_there ? "there " : "absent ", kKeys), &results);
        const auto after = Stats(db.get());
        for (const Status& status : results.statuses) {
          EXPECT(are_there ? status.ok() : status.IsNotFound());
        }
        const uint64_t found = after.found - before.found;
        const uint64_t absent = after.absent - before.absent;
        if (found != (are_there ? kKeys : 0) ||
            Misses(after) - Misses(before) != (are_there ? 0 : kKeys)) {
          std::cerr << each.name << " of keys that are " << (are_there ? "there" : "absent")
                    << ": found " << found << ", absent " << absent << std::endl;
          EXPECT(!"each read is counted once");
        }
        EXPECT(are_there || absent >= kKeys * 8 / 10);
        EXPECT(after.audited - before.audited == (audit == 1 ? absent : 0));
        EXPECT(after.false_negatives == 0);
      }
    }
  }
  // One call over both column families.
  Cfs of_each;
  std::vector<Slice> keys;
  for (ColumnFamilyHandle* cf : cfs) {
    for (const char* key : {"there 100", "absent 100", "there 139"}) {
      of_each.push_back(cf);
      keys.emplace_back(key);
    }
  }
  Results results(keys.size());
  const auto before = Stats(db.get());
  db->MultiGet({}, keys.size(), of_each.data(), keys.data(), results.values.data(),
               results.statuses.data());
  db->MultiGetEntity({}, keys.size(), of_each.data(), keys.data(), results.entities.data(),
                     results.statuses.data(), false);
  const auto after = Stats(db.get());
  EXPECT(after.found - before.found == 8 && Misses(after) - Misses(before) == 4);
  // Each key is asked of its own column family.
  std::vector<std::string> only;
  for (ColumnFamilyHandle* of : cfs) only.push_back("only in " + of->GetName());
  Cfs crossed{cfs[0], cfs[0], cfs[1], cfs[1]};
  const std::vector<Slice> alone{only[0], only[1], only[0], only[1]};
  const std::vector<bool> there{true, false, false, true};
  const auto are_there = [&] {
    for (size_t i = 0; i < 4; ++i) EXPECT(results.statuses[i].ok() == there[i]);
  };
  db->MultiGet({}, 4, crossed.data(), alone.data(), results.values.data(), results.statuses.data());
  are_there();
  db->MultiGetEntity({}, 4, crossed.data(), alone.data(), results.entities.data(),
                     results.statuses.data(), false);
  are_there();
  const auto last = Stats(db.get());
  EXPECT(last.found - after.found == 4 && Misses(last) - Misses(after) == 4);
  // What fails is no lookup.
  ReadOptions refused;
  const Slice timestamp("12345678");
  refused.timestamp = &timestamp;
  EXPECT(db->Get(refused, cfs[0], "there 100", &results.value).IsInvalidArgument());
  EXPECT(db->GetEntity(refused, cfs[0], "absent 100", &results.columns).IsInvalidArgument());
  EXPECT(Stats(db.get()).found == last.found && Misses(Stats(db.get())) == Misses(last));
  for (ColumnFamilyHandle* cf : cfs) delete cf;
}

// A read leaves in its results what RocksDB leaves there: nothing of the read before, if the key is
// absent and RocksDB clears them.
void ResultsAreLeftAsRocksDBLeavesThem(const std::string& folder) {
  std::vector<std::string> said[2];
  for (const bool filtered : {false, true}) {
    ExactSettings settings;
    Cfs cfs;
    const std::string path = folder + (filtered ? " filtered" : " plain");
    const std::unique_ptr<DB> db = Open(filtered, path, {}, settings.raw, &cfs);
    Fill(db.get(), cfs);
    if (filtered) EXPECT(IsComplete(db.get()));
    const Keys there = Named("there ", kKeys);
    const Keys absent = Named("absent ", kKeys);
    Keys mixed = there;
    for (int i = 0; i < kKeys; i += 3) mixed[i] = absent[i];
    for (const NamedRead& each : kReads) {
      for (ColumnFamilyHandle* cf : cfs) {
        Results results(kKeys);
        for (const Keys* keys : {&there, &absent, &there, const_cast<const Keys*>(&mixed), &absent}) {
          each.read(db.get(), cf, *keys, &results);
          said[filtered].push_back(each.name + std::string(": ") + Said(results));
        }
      }
    }
    for (ColumnFamilyHandle* cf : cfs) delete cf;
  }
  EXPECT(said[0].size() == said[1].size());
  for (size_t i = 0; i < said[0].size(); ++i) {
    if (said[0][i] == said[1][i]) continue;
    std::cerr << "plain: " << said[0][i] << "\nfiltered: " << said[1][i] << std::endl;
    EXPECT(!"results are left as RocksDB leaves them");
  }
}

// ---------------------------------------------------------------- iterators

rocksdb::Options WithPrefixes() {
  rocksdb::Options options;
  options.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(3));
  return options;
}

std::string Rows(rocksdb::Iterator* entries, bool forward) {
  std::string rows;
  for (int i = 0; i < 3 && entries->Valid(); ++i) {
    rows += entries->key().ToString() + ",";
    if (forward) {
      entries->Next();
    } else {
      entries->Prev();
    }
  }
  return rows + entries->status().ToString() + ";";
}

// Every seek between every two bounds, on a bound, beside it and past it.
std::string AllSeeks(DB* db, const Keys& points) {
  std::string rows;
  for (size_t low = 0; low <= points.size(); ++low) {
    for (size_t high = low; high <= points.size(); ++high) {
      ReadOptions options;
      options.total_order_seek = true;
      Slice lower, upper;
      if (low < points.size()) {
        lower = points[low];
        options.iterate_lower_bound = &lower;
      }
      if (high < points.size()) {
        upper = points[high];
        options.iterate_upper_bound = &upper;
      }
      const std::unique_ptr<rocksdb::Iterator> entries(db->NewIterator(options));
      for (const std::string& target : points) {
        // Beyond the bounds, RocksDB defines nothing.
        if (low < points.size() && target < points[low]) continue;
        if (high < points.size() && target > points[high]) continue;
        entries->SeekForPrev(target);
        rows += Rows(entries.get(), false);
        entries->Seek(target);
        rows += Rows(entries.get(), true);
      }
      entries->SeekToFirst();
      rows += Rows(entries.get(), true);
      entries->SeekToLast();
      rows += Rows(entries.get(), false) + "\n";
    }
  }
  return rows;
}

void SeeksFindWhatRocksDBFinds(const std::string& folder) {
  // Two are prefixes themselves, the one behind a prefix that has no key.
  const Keys there{"aab1", "aab3", "aac2", "aae", "aaf", "aah12"};
  const Keys points{"aab",  "aab1", "aab2", "aab3", "aab4", "aac1", "aac2", "aac3", "aad1",
                    "aad5", "aae",  "aae1", "aae2", "aaf",  "aaf1", "aag3", "aah1", "aah12"};
  std::string rows[2];
  uint64_t asked = 0;
  for (const bool filtered : {false, true}) {
    ExactSettings settings;
    Cfs cfs;
    const std::string path = folder + (filtered ? " filtered" : " plain");
    const std::unique_ptr<DB> db = Open(filtered, path, WithPrefixes(), settings.raw, &cfs);
    for (size_t i = 0; i < there.size(); ++i) {
      if (i == there.size() / 2) EXPECT(db->Flush(rocksdb::FlushOptions()).ok());
      EXPECT(db->Put({}, there[i], "value").ok());
    }
    if (filtered) EXPECT(IsComplete(db.get()));
    rows[filtered] = AllSeeks(db.get(), points);
    if (filtered) asked = Stats(db.get()).prefixes_absent;
    for (ColumnFamilyHandle* cf : cfs) delete cf;
  }
  EXPECT(asked > 0);
  if (rows[0] == rows[1]) return;
  std::istringstream plain(rows[0]), with_filters(rows[1]);
  for (std::string one, other; std::getline(plain, one) && std::getline(with_filters, other);) {
    if (one != other) std::cerr << "plain: " << one << "\nfiltered: " << other << std::endl;
  }
  EXPECT(!"seeks find what RocksDB finds");
}

// An iterator checks the filters once more after each `Refresh`, of the state that it then shows.
void RefreshedIteratorAsksAgain(const std::string& folder) {
  ExactSettings settings;
  Cfs cfs;
  const std::unique_ptr<DB> db = Open(true, folder, WithPrefixes(), settings.raw, &cfs);
  EXPECT(db->Put({}, "aab1", "value").ok() && IsComplete(db.get()));
  ReadOptions options;
  options.prefix_same_as_start = true;
  const std::unique_ptr<rocksdb::Iterator> entries(db->NewIterator(options));
  const auto is_answered = [&](const char* target) {
    const uint64_t before = Stats(db.get()).prefixes_absent;
    entries->Seek(target);
    EXPECT(!entries->Valid() && entries->status().ok());
    return Stats(db.get()).prefixes_absent > before;
  };
  const auto is_found = [&](const char* target) {
    entries->Seek(target);
    return entries->Valid() && entries->key() == Slice(target);
  };
  EXPECT(is_answered("aax") && is_answered("aay") && is_found("aab1"));
  for (int round = 0; round < 3; ++round) {
    EXPECT(entries->Refresh().ok());
    EXPECT(is_answered("aax") && is_found("aab1"));
    // With other filters it is not answered, until it shows what they know.
    lsm_sieve_set_false_positive_rate(lsm_sieve::Of(db.get()), 0.001 * (round + 1), nullptr);
    lsm_sieve_consolidate(lsm_sieve::Of(db.get()), nullptr);
    EXPECT(IsComplete(db.get()) && !is_answered("aax"));
    EXPECT(entries->Refresh().ok() && is_answered("aax"));
    const std::string late = "lat" + std::to_string(round);
    EXPECT(db->Put({}, late, "value").ok());
    // It shows the moment before this key.
    entries->Seek(late);
    EXPECT(!entries->Valid());
    EXPECT(entries->Refresh().ok() && is_found(late.c_str()) && is_answered("aax"));
    EXPECT(entries->Refresh(nullptr).ok() && is_found(late.c_str()) && is_answered("aay"));
  }
  // An older moment, in which a key was there that no filter needs to have any more.
  const rocksdb::Snapshot* const snapshot = db->GetSnapshot();
  EXPECT(db->Delete({}, "aab1").ok());
  EXPECT(db->CompactRange({}, nullptr, nullptr).ok());
  lsm_sieve_consolidate(lsm_sieve::Of(db.get()), nullptr);
  EXPECT(IsComplete(db.get()) && entries->Refresh(snapshot).ok() && is_found("aab1"));
  EXPECT(entries->Refresh().ok());
  entries->Seek("aab1");
  EXPECT(!entries->Valid());
  db->ReleaseSnapshot(snapshot);
  for (ColumnFamilyHandle* cf : cfs) delete cf;
}

// RocksDB counts an iterator once it knows the moment that it will show. There, this calls back, in
// its own thread.
class AtCreation : public rocksdb::Statistics {
 public:
  const char* Name() const override { return "at creation"; }
  uint64_t getTickerCount(uint32_t) const override { return 0; }
  void histogramData(uint32_t, rocksdb::HistogramData* const) const override {}
  void recordTick(uint32_t ticker, uint64_t) override {
    if (ticker != rocksdb::NO_ITERATOR_CREATED || std::this_thread::get_id() != own_) return;
    if (const auto act = std::exchange(act_, nullptr)) act();
  }
  void setTickerCount(uint32_t, uint64_t) override {}
  uint64_t getAndResetTickerCount(uint32_t) override { return 0; }
  void recordInHistogram(uint32_t, uint64_t) override {}

  void Next(std::function<void()> act) { act_ = std::move(act); }
  bool HasActed() const { return act_ == nullptr; }

 private:
  const std::thread::id own_ = std::this_thread::get_id();
  std::function<void()> act_;
};

// A key that is compacted away between the moment that an iterator shows and its first seek is in no
// filter then, and is shown. No filter is asked that is newer than the moment.
void IteratorAsksNoViewAfterItsMoment(const std::string& folder) {
  for (const bool refreshes : {false, true}) {
    ExactSettings settings;
    Cfs cfs;
    const auto creation = std::make_shared<AtCreation>();
    rocksdb::Options with = WithPrefixes();
    with.statistics = creation;
    const std::string path = folder + (refreshes ? " refreshed" : " created");
    const std::unique_ptr<DB> db = Open(true, path, with, settings.raw, &cfs);
    const auto settle = [&] {
      lsm_sieve_consolidate(lsm_sieve::Of(db.get()), nullptr);
      EXPECT(IsComplete(db.get()));
    };
    ReadOptions options;
    options.prefix_same_as_start = true;
    std::unique_ptr<rocksdb::Iterator> entries(db->NewIterator(options));
    entries->Seek("aab1");
    EXPECT(!entries->Valid());
    // With another SST, a refresh creates the iterator below anew.
    EXPECT(db->Put({}, "aab1", "value").ok() && db->Put({}, "zzz1", "value").ok());
    EXPECT(db->Flush({}).ok());
    settle();
    creation->Next([&] {
      EXPECT(db->Delete({}, "aab1").ok() && db->Flush({}).ok());
      rocksdb::CompactRangeOptions all;
      all.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
      EXPECT(db->CompactRange(all, nullptr, nullptr).ok());
      settle();
    });
    if (refreshes) {
      EXPECT(entries->Refresh().ok());
    } else {
      entries.reset(db->NewIterator(options));
    }
    EXPECT(creation->HasActed());
    entries->Seek("aab1");
    EXPECT(entries->Valid() && entries->key() == Slice("aab1"));
    // Of a later moment, the filters answer.
    EXPECT(entries->Refresh().ok());
    const uint64_t before = Stats(db.get()).prefixes_absent;
    entries->Seek("aab1");
    EXPECT(!entries->Valid() && Stats(db.get()).prefixes_absent == before + 1);
    entries.reset();
    for (ColumnFamilyHandle* cf : cfs) delete cf;
  }
}

// A seek that the filters answer has no error, whatever the one before it had.
void AnsweredSeekHasNoErrorOfAnEarlierOne(const std::string& folder) {
  ExactSettings settings;
  Cfs cfs;
  const std::unique_ptr<DB> db = Open(true, folder, WithPrefixes(), settings.raw, &cfs);
  for (const std::string& key : Named("aab", 10)) {
    EXPECT(db->Put({}, key, "value").ok() && db->Delete({}, key).ok());
  }
  EXPECT(db->Put({}, "aac1", "value").ok() && IsComplete(db.get()));
  ReadOptions options;
  options.prefix_same_as_start = true;
  options.max_skippable_internal_keys = 1;
  const std::unique_ptr<rocksdb::Iterator> entries(db->NewIterator(options));
  for (int round = 0; round < 2; ++round) {
    entries->Seek("aab");
    EXPECT(!entries->Valid() && entries->status().IsIncomplete());
    const uint64_t before = Stats(db.get()).prefixes_absent;
    entries->Seek("aax");
    EXPECT(Stats(db.get()).prefixes_absent == before + 1);
    EXPECT(!entries->Valid() && entries->status().ok());
    entries->Seek("aac");
    EXPECT(entries->Valid() && entries->status().ok());
  }
  for (ColumnFamilyHandle* cf : cfs) delete cf;
}

// RocksDB wants the scans that it was told of, each in its turn.
void PreparedScansAreAllMade(const std::string& folder) {
  const std::vector<std::pair<Slice, Slice>> scans{
      {"aab", "aac"}, {"aad", "aae"}, {"aaf", "aag"}, {"aax", "aay"}};
  std::string rows[2];
  uint64_t answered = 0;
  for (const bool filtered : {false, true}) {
    ExactSettings settings;
    Cfs cfs;
    const std::string path = folder + (filtered ? " filtered" : " plain");
    const std::unique_ptr<DB> db = Open(filtered, path, WithPrefixes(), settings.raw, &cfs);
    for (const char* key : {"aab1", "aab2", "aac1", "aaf1", "aah1"}) {
      EXPECT(db->Put({}, key, "value").ok());
    }
    EXPECT(db->Flush({}).ok());
    if (filtered) EXPECT(IsComplete(db.get()));
    for (const bool is_prepared : {false, true}) {
      Slice upper;
      ReadOptions options;
      options.iterate_upper_bound = &upper;
      upper = scans[0].second;
      const std::unique_ptr<rocksdb::Iterator> entries(db->NewIterator(options));
      rocksdb::MultiScanArgs args(rocksdb::BytewiseComparator());
      for (const auto& [start, end] : scans) args.insert(start, end);
      if (is_prepared) entries->Prepare(args);
      for (const auto& [start, end] : scans) {
        upper = end;
        entries->Seek(start);
        rows[filtered] += Rows(entries.get(), true);
      }
    }
    if (filtered) answered = Stats(db.get()).prefixes_absent;
    for (ColumnFamilyHandle* cf : cfs) delete cf;
  }
  if (rows[0] != rows[1]) std::cerr << rows[0] << "\n" << rows[1] << std::endl;
  EXPECT(rows[0] == rows[1] && answered == 2);
}

// With another extractor, `prefix_same_as_start` means other prefixes than those of the filters.
void ChangedExtractorIsNotAskedFor(const std::string& folder) {
  for (const bool by_vector : {false, true}) {
    ExactSettings settings;
    Cfs cfs;
    const std::string path = folder + (by_vector ? " vector" : " one");
    const std::unique_ptr<DB> db = Open(true, path, WithPrefixes(), settings.raw, &cfs);
    EXPECT(db->Put({}, cfs[1], "aab1", "value").ok() && IsComplete(db.get()));
    ReadOptions options;
    options.prefix_same_as_start = true;
    const auto finds = [&](const char* target) {
      const std::unique_ptr<rocksdb::Iterator> entries(db->NewIterator(options, cfs[1]));
      entries->Seek(target);
      EXPECT(entries->status().ok());
      return entries->Valid() && entries->key() == Slice("aab1");
    };
    EXPECT(finds("aab") && !finds("aaa"));
    const std::unordered_map<std::string, std::string> change{
        {"prefix_extractor", "rocksdb.FixedPrefix.2"}};
    EXPECT((by_vector ? db->SetOptions({cfs[1], cfs[0]}, change) : db->SetOptions(cfs[1], change))
               .ok());
    // "aa" is the prefix now.
    EXPECT(finds("aab") && finds("aaa"));
    for (ColumnFamilyHandle* cf : cfs) delete cf;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  EachReadIsCountedByItsOutcome(folder + "/counted", 0);
  EachReadIsCountedByItsOutcome(folder + "/audited", 1);
  ResultsAreLeftAsRocksDBLeavesThem(folder + "/results");
  SeeksFindWhatRocksDBFinds(folder + "/seeks");
  RefreshedIteratorAsksAgain(folder + "/refreshed");
  IteratorAsksNoViewAfterItsMoment(folder + "/moment");
  AnsweredSeekHasNoErrorOfAnEarlierOne(folder + "/error");
  PreparedScansAreAllMade(folder + "/prepared");
  ChangedExtractorIsNotAskedFor(folder + "/extractor");
  std::cout << "all held\n";
}
