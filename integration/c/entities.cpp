// Wide-column entities are keys like any others: random operations on a database with filters and on
// one without, which must give the same answers at each stage of a key's life. Every read is made of
// every key, into results that still have the last answer.
//
//   entities FOLDER       an empty folder; LSM_SIEVE_SEED repeats a run
//
// No test wrote an entity. A filter that took them for deletions lost them all, and nothing failed.
#include <algorithm>
#include <filesystem>
#include <random>
#include <sstream>
#include <vector>

#include "rocksdb/attribute_groups.h"
#include "rocksdb/convenience.h"
#include "rocksdb/merge_operator.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/user_write_callback.h"
#include "rocksdb/utilities/write_batch_with_index.h"
#include "rocksdb/wide_columns.h"
#include "support.hpp"

namespace {

using rocksdb::ColumnFamilyDescriptor;
using rocksdb::ColumnFamilyHandle;
using rocksdb::DB;
using rocksdb::PinnableSlice;
using rocksdb::PinnableWideColumns;
using rocksdb::Slice;
using rocksdb::Status;
using rocksdb::WideColumns;
using rocksdb::WriteBatch;

constexpr int kPrefixes = 12;
constexpr int kKeysOfAPrefix = 6;
constexpr int kSteps = 120;

using Keys = std::vector<std::string>;
using Cfs = std::vector<ColumnFamilyHandle*>;

// Of each prefix, the last keys are rarely written.
std::string KeyOf(int prefix, int number) {
  const std::string digits = std::to_string(100 + prefix);
  return digits + " key " + std::to_string(number);
}

// ---------------------------------------------------------------- answers

void Say(std::ostream& to, const WideColumns& columns) {
  for (const auto& column : columns) {
    to << column.name().ToString() << "=" << column.value().ToString() << ",";
  }
}

// The answers of every read, of keys in two column families, in results that are used again.
class Reader {
 public:
  std::string All(DB* db, const Cfs& cfs, const Keys& keys, bool has_prefixes) {
    said_.str("");
    for (ColumnFamilyHandle* cf : cfs) {
      for (const std::string& key : keys) One(db, cf, key);
    }
    for (const std::string& key : keys) Groups(db, cfs, key);
    Many(db, cfs, keys);
    for (ColumnFamilyHandle* cf : cfs) Scans(db, cf, has_prefixes);
    ScansOfBoth(db, cfs);
    return said_.str();
  }

 private:
  void Say(const Status& status) { said_ << status.ToString() << " "; }
  void Say(const Slice& value) { said_ << value.ToString() << "\n"; }
  void Say(const WideColumns& columns) {
    ::Say(said_, columns);
    said_ << "\n";
  }
  // What RocksDB leaves in place of a value that is deleted depends on where the deletion is.
  template <typename Value>
  void Say(const Status& status, const Value& value) {
    Say(status);
    if (status.ok()) Say(value);
  }

  void One(DB* db, ColumnFamilyHandle* cf, const std::string& key) {
    said_ << cf->GetName() << "/" << key << ": ";
    Say(db->Get({}, cf, key, &value_), value_);
    const Status entity = db->GetEntity({}, cf, key, &columns_);
    Say(entity, columns_.columns());
    std::string text;
    const Status found = db->Get({}, cf, key, &text);
    Say(found, Slice(text));
    // It may say yes for any key.
    EXPECT(db->KeyMayExist({}, cf, key, &text) || found.IsNotFound());
    rocksdb::GetMergeOperandsOptions options;
    options.expected_max_number_of_operands = 200;
    std::vector<PinnableSlice> operands(200);
    int count = 0;
    Say(db->GetMergeOperands({}, cf, key, operands.data(), &options, &count));
    // A flush, which comes by itself, may have merged them.
    text.clear();
    for (int i = 0; i < count; ++i) text += (i == 0 ? "" : ",") + operands[i].ToString();
    Say(Slice(text));
    rocksdb::WriteBatchWithIndex batch(rocksdb::BytewiseComparator(), 0, true);
    Say(batch.GetFromBatchAndDB(db, {}, cf, key, &value_), value_);
    const Status in_batch = batch.GetEntityFromBatchAndDB(db, {}, cf, key, &columns_);
    Say(in_batch, columns_.columns());
  }

  void Groups(DB* db, const Cfs& cfs, const std::string& key) {
    rocksdb::PinnableAttributeGroups groups;
    for (ColumnFamilyHandle* cf : cfs) groups.emplace_back(cf);
    Say(db->GetEntity({}, key, &groups));
    for (const auto& group : groups) Say(group.status(), group.columns());
    for (auto& group : groups) group.Reset();
    const Slice slice(key);
    db->MultiGetEntity({}, 1, &slice, &groups);
    for (const auto& group : groups) Say(group.status(), group.columns());
  }

  void Many(DB* db, const Cfs& cfs, const Keys& keys) {
    std::vector<Slice> slices;
    Cfs of_each;
    for (ColumnFamilyHandle* cf : cfs) {
      for (const std::string& key : keys) {
        slices.emplace_back(key);
        of_each.push_back(cf);
      }
    }
    const size_t n = slices.size();
    values_.resize(n);
    entities_.resize(n);
    std::vector<Status> statuses(n);
    const auto say_values = [&](size_t count) {
      for (size_t i = 0; i < count; ++i) Say(statuses[i], values_[i]);
    };
    const auto say_entities = [&](size_t count) {
      for (size_t i = 0; i < count; ++i) Say(statuses[i], entities_[i].columns());
    };
    db->MultiGet({}, n, of_each.data(), slices.data(), values_.data(), statuses.data());
    say_values(n);
    db->MultiGetEntity({}, n, of_each.data(), slices.data(), entities_.data(), statuses.data(),
                       false);
    say_entities(n);
    // The keys of one column family come last.
    const size_t m = keys.size();
    const Slice* const last = slices.data() + (n - m);
    db->MultiGet({}, cfs.back(), m, last, values_.data(), statuses.data());
    say_values(m);
    db->MultiGetEntity({}, cfs.back(), m, last, entities_.data(), statuses.data(), false);
    say_entities(m);
  }

  void Scans(DB* db, ColumnFamilyHandle* cf, bool has_prefixes) {
    rocksdb::ReadOptions all;
    all.total_order_seek = true;
    const std::unique_ptr<rocksdb::Iterator> entries(db->NewIterator(all, cf));
    for (entries->SeekToFirst(); entries->Valid(); entries->Next()) {
      said_ << entries->key().ToString() << " ";
      Say(entries->value());
      Say(entries->columns());
    }
    Say(entries->status());
    if (!has_prefixes) return;
    rocksdb::ReadOptions within;
    within.prefix_same_as_start = true;
    const std::unique_ptr<rocksdb::Iterator> of_prefix(db->NewIterator(within, cf));
    for (int prefix = 0; prefix < kPrefixes; ++prefix) {
      for (of_prefix->Seek(KeyOf(prefix, 0)); of_prefix->Valid(); of_prefix->Next()) {
        said_ << of_prefix->key().ToString() << " ";
        Say(of_prefix->columns());
      }
      Say(of_prefix->status());
    }
  }

  void ScansOfBoth(DB* db, const Cfs& cfs) {
    rocksdb::ReadOptions all;
    all.total_order_seek = true;
    const auto entries = db->NewCoalescingIterator(all, cfs);
    for (entries->SeekToFirst(); entries->Valid(); entries->Next()) {
      said_ << entries->key().ToString() << " ";
      Say(entries->columns());
    }
    Say(entries->status());
    const auto groups = db->NewAttributeGroupIterator(all, cfs);
    for (groups->SeekToFirst(); groups->Valid(); groups->Next()) {
      said_ << groups->key().ToString() << " ";
      for (const auto& group : groups->attribute_groups()) Say(group.columns());
    }
    Say(groups->status());
  }

  std::ostringstream said_;
  PinnableSlice value_;
  PinnableWideColumns columns_;
  std::vector<PinnableSlice> values_;
  std::vector<PinnableWideColumns> entities_;
};

struct Quiet : rocksdb::UserWriteCallback {
  void OnWriteEnqueued() override {}
  void OnWalWriteFinish() override {}
};

// ---------------------------------------------------------------- twins

struct Twin {
  std::string folder;
  bool is_filtered = false;
  std::unique_ptr<DB> db;
  Cfs cfs;
  Reader reader;
};

class History {
 public:
  History(const std::string& folder, uint32_t seed) : folder_(folder), random_(seed) {
    EXPECT(rocksdb::Env::Default()->CreateDirIfMissing(folder).ok());
    has_prefixes_ = Draw(2) == 0;
    is_timed_ = Draw(3) == 0;
    has_blobs_ = Draw(3) == 0;
    for (int i = 0; i < 2; ++i) {
      twins_[i].folder = folder + (i == 0 ? "/plain" : "/filtered");
      twins_[i].is_filtered = i == 1;
      Open(&twins_[i]);
    }
    for (int prefix = 0; prefix < kPrefixes; ++prefix) {
      for (int number = 0; number < kKeysOfAPrefix; ++number) keys_.push_back(KeyOf(prefix, number));
    }
    // Keys and prefixes that nobody writes.
    for (int i = 0; i < 20; ++i) keys_.push_back("never " + std::to_string(i));
  }

  void Run() {
    for (int step = 0; step < kSteps; ++step) {
      Step();
      if (Draw(6) == 0) Compare();
    }
    Compare();
    EXPECT(IsComplete(twins_[1].db.get()));
    const uint64_t before = Stats(twins_[1].db.get()).absent;
    Compare();
    EXPECT(Stats(twins_[1].db.get()).absent > before);
    char* error = nullptr;
    const auto verified = lsm_sieve_verify(lsm_sieve::Of(twins_[1].db.get()), 1, &error);
    EXPECT(verified.lost == 0 && error == nullptr);
    for (Twin& twin : twins_) Close(&twin);
  }

 private:
  int Draw(int below) { return std::uniform_int_distribution<>(0, below - 1)(random_); }

  rocksdb::Options Options() const {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    options.avoid_flush_during_shutdown = true;
    EXPECT(rocksdb::MergeOperator::CreateFromString({}, "stringappend", &options.merge_operator)
               .ok());
    if (has_prefixes_) options.prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(3));
    options.enable_blob_files = has_blobs_;
    if (is_timed_) options.preserve_internal_time_seconds = 3'600;
    return options;
  }

  void Open(Twin* twin) {
    const rocksdb::Options options = Options();
    const std::vector<ColumnFamilyDescriptor> cfs{{"default", options}, {"other", options}};
    ExactSettings settings;
    const Status status =
        twin->is_filtered
            ? lsm_sieve::Open(options, settings.raw, twin->folder, cfs, &twin->cfs, &twin->db)
            : DB::Open(options, twin->folder, cfs, &twin->cfs, &twin->db);
    EXPECT(status.ok());
  }
  void Close(Twin* twin) {
    // Its results may be pinned in the engine.
    twin->reader = Reader();
    for (ColumnFamilyHandle* cf : twin->cfs) delete cf;
    EXPECT(twin->db->Close().ok());
    twin->db.reset();
  }

  // The same on both, with the same end.
  template <typename Act>
  void Do(const Act& act) {
    std::string said[2];
    for (int i = 0; i < 2; ++i) said[i] = act(&twins_[i]).ToString();
    if (said[0] != said[1]) std::cerr << said[0] << "; " << said[1] << std::endl;
    EXPECT(said[0] == said[1]);
  }

  void Compare() {
    std::string said[2];
    for (int i = 0; i < 2; ++i) {
      Twin& twin = twins_[i];
      said[i] = twin.reader.All(twin.db.get(), twin.cfs, keys_, has_prefixes_);
    }
    if (said[0] == said[1]) return;
    const auto differs = std::mismatch(said[0].begin(), said[0].end(), said[1].begin(), said[1].end());
    const size_t at = differs.first - said[0].begin();
    const size_t from = at < 100 ? 0 : at - 100;
    std::cerr << "plain: ..." << said[0].substr(from, 200) << "\nfiltered: ..."
              << said[1].substr(from, 200) << std::endl;
    EXPECT(!"the answers are the same");
  }

  std::string AnyKey() {
    // Some prefixes stay without keys for long.
    return KeyOf(std::min(Draw(kPrefixes), Draw(kPrefixes)), Draw(kKeysOfAPrefix));
  }
  std::string AnyText() { return "value " + std::to_string(Draw(1'000)); }

  // With the default column or without, with several or with none.
  WideColumns AnyColumns() {
    texts_ = {AnyText(), AnyText(), AnyText()};
    WideColumns columns;
    if (Draw(2) == 0) columns.emplace_back(rocksdb::kDefaultWideColumnName, texts_[0]);
    for (int i = Draw(3); i > 0; --i) columns.emplace_back(i == 1 ? "one" : "two", texts_[i]);
    std::sort(columns.begin(), columns.end(),
              [](const auto& a, const auto& b) { return a.name().compare(b.name()) < 0; });
    return columns;
  }

  void Add(WriteBatch* batch, ColumnFamilyHandle* cf, const std::string& key, int kind,
           const WideColumns& columns, const std::string& text) {
    switch (kind) {
      case 0:
        EXPECT(batch->Put(cf, key, text).ok());
        break;
      case 1:
        EXPECT(batch->Merge(cf, key, text).ok());
        break;
      case 2:
        EXPECT(batch->Delete(cf, key).ok());
        break;
      case 3:
        if (is_timed_) {
          EXPECT(batch->TimedPut(cf, key, text, 1'000).ok());
          break;
        }
        [[fallthrough]];
      default:
        EXPECT(batch->PutEntity(cf, key, columns).ok());
    }
  }

  void WriteABatch() {
    struct Entry {
      int cf;
      std::string key;
      int kind;
      std::string text;
    };
    std::vector<Entry> entries;
    for (int i = Draw(8) + 1; i > 0; --i) entries.push_back({Draw(2), AnyKey(), Draw(6), AnyText()});
    const WideColumns columns = AnyColumns();
    const bool calls_back = Draw(2) == 0;
    Do([&](Twin* twin) {
      WriteBatch batch;
      for (const Entry& entry : entries) {
        Add(&batch, twin->cfs[entry.cf], entry.key, entry.kind, columns, entry.text);
      }
      Quiet quiet;
      return calls_back ? twin->db->WriteWithCallback({}, &batch, &quiet)
                        : twin->db->Write({}, &batch);
    });
  }

  void IngestEntities(int cf) {
    Keys keys;
    for (int i = Draw(6) + 1; i > 0; --i) keys.push_back(AnyKey());
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    const WideColumns columns = AnyColumns();
    Do([&](Twin* twin) {
      const std::string path = twin->folder + ".sst";
      rocksdb::SstFileWriter writer{rocksdb::EnvOptions(), Options()};
      EXPECT(writer.Open(path).ok());
      for (const std::string& key : keys) EXPECT(writer.PutEntity(key, columns).ok());
      EXPECT(writer.Finish().ok());
      return twin->db->IngestExternalFile(twin->cfs[cf], {path}, {});
    });
  }

  // By a log that is replayed; and with no filters stored, as of a database that never had any.
  void Reopen(bool adopts) {
    for (Twin& twin : twins_) Close(&twin);
    if (adopts) {
      std::filesystem::remove_all(twins_[1].folder + "/sieve");
      // What is written without filters is in SSTs and in a log.
      for (Twin& twin : twins_) {
        const bool is_filtered = twin.is_filtered;
        twin.is_filtered = false;
        Open(&twin);
        twin.is_filtered = is_filtered;
      }
      const std::string flushed = AnyKey();
      const std::string logged = AnyKey();
      const WideColumns columns = AnyColumns();
      Do([&](Twin* twin) { return twin->db->PutEntity({}, twin->cfs[0], flushed, columns); });
      Do([&](Twin* twin) { return twin->db->Flush({}, twin->cfs[0]); });
      Do([&](Twin* twin) { return twin->db->PutEntity({}, twin->cfs[1], logged, columns); });
      for (Twin& twin : twins_) Close(&twin);
    }
    for (Twin& twin : twins_) Open(&twin);
    Compare();
    EXPECT(IsComplete(twins_[1].db.get()));
    Compare();
  }

  void Step() {
    const int cf = Draw(2);
    const std::string key = AnyKey();
    switch (Draw(20)) {
      case 0:
      case 1:
      case 2:
      case 3: {
        const WideColumns columns = AnyColumns();
        return Do([&](Twin* twin) { return twin->db->PutEntity({}, twin->cfs[cf], key, columns); });
      }
      case 4: {
        const WideColumns columns = AnyColumns();
        return Do([&](Twin* twin) {
          rocksdb::AttributeGroups groups;
          for (ColumnFamilyHandle* each : twin->cfs) groups.emplace_back(each, columns);
          return twin->db->PutEntity({}, key, groups);
        });
      }
      case 5: {
        const std::string text = AnyText();
        return Do([&](Twin* twin) { return twin->db->Put({}, twin->cfs[cf], key, text); });
      }
      case 6:
      case 7: {
        const std::string text = AnyText();
        return Do([&](Twin* twin) { return twin->db->Merge({}, twin->cfs[cf], key, text); });
      }
      case 8:
      case 9:
        return Do([&](Twin* twin) { return twin->db->Delete({}, twin->cfs[cf], key); });
      case 10:
        return Do([&](Twin* twin) {
          return twin->db->DeleteRange({}, twin->cfs[cf], key, key.substr(0, 3) + "~");
        });
      case 11:
      case 12:
      case 13:
        return WriteABatch();
      case 14:
      case 15:
        return Do([&](Twin* twin) { return twin->db->Flush({}, twin->cfs[cf]); });
      case 16:
        return Do([&](Twin* twin) {
          return twin->db->CompactRange({}, twin->cfs[cf], nullptr, nullptr);
        });
      case 17:
        return IngestEntities(cf);
      case 18:
        lsm_sieve_consolidate(lsm_sieve::Of(twins_[1].db.get()), nullptr);
        EXPECT(IsComplete(twins_[1].db.get()));
        return;
      default:
        return Reopen(Draw(2) == 0);
    }
  }

  const std::string folder_;
  std::mt19937 random_;
  bool has_prefixes_ = false;
  bool is_timed_ = false;
  bool has_blobs_ = false;
  Twin twins_[2];
  Keys keys_;
  std::vector<std::string> texts_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const char* const given = std::getenv("LSM_SIEVE_SEED");
  const uint32_t first = given == nullptr ? std::random_device()() : std::strtoul(given, nullptr, 0);
  const int histories = given == nullptr ? 12 : 1;
  for (int i = 0; i < histories; ++i) {
    const uint32_t seed = first + i;
    std::cerr << "LSM_SIEVE_SEED=" << seed << std::endl;
    const std::string folder = std::string(argv[1]) + "/" + std::to_string(seed);
    History(folder, seed).Run();
    std::filesystem::remove_all(folder);
  }
  std::cout << "all held\n";
}
