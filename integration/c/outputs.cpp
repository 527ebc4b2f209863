// What RocksDB stores at the places that it is given, it stores through the filters too: each call is
// compared with that of a database without. Ends with exit code 0, or says which did not hold.
//
//   outputs FOLDER      an empty folder

#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "lsm_sieve.hpp"

using rocksdb::DB;
using rocksdb::Options;
using rocksdb::ReadOptions;
using rocksdb::Slice;

namespace {

#define EXPECT(condition)                                                 \
  do {                                                                    \
    if (!(condition)) {                                                   \
      std::cerr << "line " << __LINE__ << ": " << #condition << std::endl; \
      exit(1);                                                            \
    }                                                                     \
  } while (0)

// An answer, the value and its flag; `"untouched"` where the caller gave no place.
using Stored = std::tuple<bool, std::string, std::string>;

// Whether a key may exist, by each of the overloads, with each kind of place: a null pointer, or a
// value and a flag of an earlier call.
std::map<std::string, Stored> MayExist(DB* db, const Slice& key) {
  std::map<std::string, Stored> all;
  for (int places = 0; places < 12; ++places) {
    const bool has_value = places % 2 == 1;
    const int flag = places / 2 % 3;
    const bool has_timestamp = places >= 6;
    for (int overload = 0; overload < 4; ++overload) {
      std::string value = "old";
      std::string timestamp = "old";
      bool found = flag == 2;
      std::string* const to = has_value ? &value : nullptr;
      std::string* const time = has_timestamp ? &timestamp : nullptr;
      bool* const is_found = flag > 0 ? &found : nullptr;
      const ReadOptions options;
      DB* const base = db;
      auto* const cf = db->DefaultColumnFamily();
      bool answer = false;
      switch (overload) {
        case 0: answer = base->KeyMayExist(options, cf, key, to, is_found); break;
        case 1: answer = base->KeyMayExist(options, key, to, is_found); break;
        case 2: answer = base->KeyMayExist(options, cf, key, to, time, is_found); break;
        default: answer = base->KeyMayExist(options, key, to, time, is_found); break;
      }
      const std::string name =
          std::to_string(overload) + " with places " + std::to_string(places);
      all[name] = {answer, value, std::string(found ? "found, " : "not found, ") + timestamp};
    }
  }
  return all;
}

std::unique_ptr<DB> Opened(const std::string& path, bool is_filtered) {
  Options options;
  options.create_if_missing = true;
  options.avoid_flush_during_shutdown = true;
  std::unique_ptr<DB> db;
  const auto status = is_filtered ? lsm_sieve::Open(options, nullptr, path, &db)
                                  : DB::Open(options, path, &db);
  EXPECT(status.ok());
  EXPECT(db->Put({}, "flushed", "value of an SST").ok());
  EXPECT(db->Put({}, "deleted", "value").ok());
  EXPECT(db->Flush({}).ok());
  EXPECT(db->Put({}, "held", "value of a memtable").ok());
  EXPECT(db->Put({}, "empty", "").ok());
  EXPECT(db->Delete({}, "deleted").ok());
  if (is_filtered) EXPECT(lsm_sieve_wait_until_complete(lsm_sieve::Of(db.get()), 60000));
  // The SST's blocks are in the cache: RocksDB itself knows what it has.
  std::string value;
  EXPECT(db->Get({}, "flushed", &value).ok());
  EXPECT(db->Get({}, "flushed too", &value).IsNotFound());
  return db;
}

// A key that a filter denied used to leave the value of an earlier call, and to change the flag.
void KeyMayExist(const std::string& folder) {
  const auto plain = Opened(folder + "/plain", false);
  const auto filtered = Opened(folder + "/filtered", true);
  auto* const filters = lsm_sieve::Of(filtered.get());
  for (const char* key : {"flushed", "held", "empty", "deleted", "absent", "zuse", ""}) {
    const uint64_t before = lsm_sieve_stats(filters).absent;
    const auto expected = MayExist(plain.get(), key);
    const auto stored = MayExist(filtered.get(), key);
    for (const auto& [name, as] : expected) {
      if (stored.at(name) == as) continue;
      std::cerr << "overload " << name << " of \"" << key << "\": " << std::get<0>(as) << " \""
                << std::get<1>(as) << "\" " << std::get<2>(as) << " and with filters "
                << std::get<0>(stored.at(name)) << " \"" << std::get<1>(stored.at(name)) << "\" "
                << std::get<2>(stored.at(name)) << std::endl;
      exit(1);
    }
    const bool is_absent = std::get<0>(expected.begin()->second) == false;
    EXPECT(!is_absent || key == Slice("deleted") || lsm_sieve_stats(filters).absent >= before + 30);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  KeyMayExist(argv[1]);
  std::cout << "all held" << std::endl;
  return 0;
}
