// Keys with timestamps: each call is compared with that of a database without filters, the times that
// it stores too. Ends with exit code 0, or says which did not hold.
//
//   timestamps FOLDER      an empty folder

#include <optional>
#include <string>
#include <vector>

#include "rocksdb/comparator.h"
#include "support.hpp"

using rocksdb::DB;
using rocksdb::PinnableSlice;
using rocksdb::ReadOptions;
using rocksdb::Slice;
using rocksdb::Status;

namespace {

std::string Time(uint64_t time) {
  std::string encoded;
  for (int i = 0; i < 8; ++i) encoded.push_back(static_cast<char>(time >> (8 * i)));
  return encoded;
}

// What a read stores, and what it leaves.
struct Answer {
  std::string status;
  std::string value;
  std::string timestamp;

  bool operator==(const Answer&) const = default;
};

class Stamped {
 public:
  Stamped(const std::string& path, bool is_filtered) {
    rocksdb::Options options;
    options.create_if_missing = true;
    options.comparator = rocksdb::BytewiseComparatorWithU64Ts();
    const ExactSettings settings;
    const Status status = is_filtered ? lsm_sieve::Open(options, settings.raw, path, &db_)
                                      : DB::Open(options, path, &db_);
    EXPECT(status.ok());
  }
  DB* db() const { return db_.get(); }

  void Put(const std::string& key, uint64_t time) {
    EXPECT(db_->Put({}, key, Time(time), "of " + std::to_string(time)).ok());
  }
  void Delete(const std::string& key, uint64_t time) {
    EXPECT(db_->Delete({}, key, Time(time)).ok());
  }

  // By each way to read a key as of a time.
  std::vector<Answer> Read(const std::string& key, uint64_t time) const {
    const std::string of = Time(time);
    const Slice timestamp(of);
    ReadOptions options;
    options.timestamp = &timestamp;
    std::vector<Answer> all;
    {
      Answer answer{"", "old", "old"};
      answer.status = db_->Get(options, key, &answer.value, &answer.timestamp).ToString();
      if (answer.status != "OK") answer.value.clear();
      all.push_back(answer);
    }
    {
      std::string value;
      const Status status = db_->Get(options, key, &value);
      all.push_back({status.ToString(), value, ""});
    }
    {
      // With neighbours of which some are there and one is not: the first, so that the engine reads
      // the others in other places.
      std::vector<std::string> values, timestamps;
      const std::vector<Slice> batch = {"nobody", "anchor", key, "flushed"};
      const auto statuses = db_->MultiGet(options, batch, &values, &timestamps);
      for (size_t i = 0; i < batch.size(); ++i) {
        all.push_back({statuses[i].ToString(), values[i], timestamps[i]});
      }
    }
    {
      std::string value = "old", stored = "old";
      bool found = false;
      const bool may_exist = static_cast<DB*>(db_.get())->KeyMayExist(
          options, db_->DefaultColumnFamily(), key, &value, &stored, &found);
      all.push_back({may_exist ? "maybe" : "no", value, stored});
    }
    {
      rocksdb::PinnableWideColumns columns;
      const Status status = db_->GetEntity(options, db_->DefaultColumnFamily(), key, &columns);
      all.push_back({status.ToString(), "", ""});
    }
    return all;
  }

 private:
  std::unique_ptr<DB> db_;
};

// Whether each key reads the same in both at each time.
bool AreSame(const Stamped& plain, const Stamped& filtered) {
  EXPECT(IsComplete(filtered.db()));
  for (const char* key :
       {"anchor", "flushed", "deleted", "held", "never put", "deleted again", "absent", ""}) {
    for (uint64_t time = 1; time < 10; ++time) {
      const auto expected = plain.Read(key, time);
      const auto stored = filtered.Read(key, time);
      for (size_t way = 0; way < expected.size(); ++way) {
        if (expected[way] == stored[way]) continue;
        std::cerr << key << " at " << time << ", way " << way << ": " << expected[way].status << " "
                  << expected[way].value << ", with filters " << stored[way].status << " "
                  << stored[way].value << std::endl;
        return false;
      }
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  Stamped plain(folder + "/plain", false);
  Stamped filtered(folder + "/filtered", true);
  const auto both = [&](const auto& act) {
    act(plain);
    act(filtered);
  };
  both([](Stamped& db) {
    db.Put("anchor", 1);
    db.Put("flushed", 2);
    db.Put("deleted", 3);
    db.Delete("deleted", 5);
    db.Delete("never put", 4);
    EXPECT(db.db()->Flush({}).ok());
    db.Put("held", 6);
    db.Put("held", 8);
    db.Delete("deleted again", 7);
  });
  const auto compare = [&] { return AreSame(plain, filtered); };
  EXPECT(compare());
  const uint64_t absent = Stats(filtered.db()).absent;
  EXPECT(compare());
  EXPECT(Stats(filtered.db()).absent > absent + 50);
  char* error = nullptr;
  lsm_sieve_consolidate(lsm_sieve::Of(filtered.db()), &error);
  EXPECT(error == nullptr && compare());

  // An SST of deleted ranges alone has a key range without timestamps.
  both([](Stamped& db) {
    DB* const raw = db.db();
    auto* const cf = raw->DefaultColumnFamily();
    EXPECT(raw->Flush({}).ok());
    EXPECT(raw->DeleteRange({}, cf, "deleted", "flushed", Time(8)).ok());
    EXPECT(raw->DeleteRange({}, cf, "flushed", "held", Time(9)).ok());
    EXPECT(raw->Flush({}).ok());
  });
  EXPECT(compare());
  both([](Stamped& db) { EXPECT(db.db()->CompactRange({}, nullptr, nullptr).ok()); });
  EXPECT(compare());

  // Times whose versions may be gone are refused, of an absent key too.
  both([](Stamped& db) {
    EXPECT(db.db()->IncreaseFullHistoryTsLow(db.db()->DefaultColumnFamily(), Time(4)).ok());
    EXPECT(db.db()->Flush({}).ok());
  });
  EXPECT(compare());
  std::cout << "all held" << std::endl;
  return 0;
}
