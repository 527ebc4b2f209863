// Transactions of a program in C++ that create a record if it is absent, half of which are there: RocksDB
// alone and with filters, in turns. Each round copies the database, opens the copy, and reads all keys once.
//
//   c++ -std=c++20 -O2 benches/create_if_absent.cpp $(pkg-config --cflags --libs lsm_sieve) -o create_if_absent
//   create_if_absent FOLDER [KEYS [TRANSACTIONS [ROUNDS]]]      1000000, 1000000, 5
//
// KEYS keys are in as many sorted runs as each line says, with Bloom filters of 10 bits per key and a block
// cache that holds all. Nothing waits for a disk, so the nanoseconds are those of the thread; in brackets
// those of the clock.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "lsm_sieve.hpp"
#include "rocksdb/cache.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/table.h"

namespace {

const std::string kValue(100, 'v');

void Must(const rocksdb::Status& status) {
  if (status.ok()) return;
  std::cerr << status.ToString() << std::endl;
  std::exit(1);
}

// The key of a number, in no order.
std::string Key(uint64_t i) {
  uint64_t mixed = (i + 1) * 0x9e3779b97f4a7c15u;
  mixed = (mixed ^ mixed >> 32) * 0xd6e8feb86659fd93u;
  return std::string(reinterpret_cast<const char*>(&mixed), 8).append(reinterpret_cast<const char*>(&i), 8);
}

rocksdb::Options OptionsOf() {
  rocksdb::Options options;
  options.create_if_missing = true;
  options.write_buffer_size = size_t{1} << 30;
  options.level0_file_num_compaction_trigger = 100;
  options.compression = rocksdb::kNoCompression;
  rocksdb::BlockBasedTableOptions table;
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.block_cache = rocksdb::NewLRUCache(size_t{2} << 30);
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

struct Locks {
  using Database = rocksdb::TransactionDB;
  static constexpr char kName[] = "locks";
  static Database* Open(bool filtered, const std::string& path) {
    Database* db = nullptr;
    Must(filtered ? lsm_sieve::OpenTransactionDB(OptionsOf(), {}, nullptr, path, &db)
                  : Database::Open(OptionsOf(), {}, path, &db));
    return db;
  }
};

struct Optimistic {
  using Database = rocksdb::OptimisticTransactionDB;
  static constexpr char kName[] = "optimistic";
  static Database* Open(bool filtered, const std::string& path) {
    Database* db = nullptr;
    Must(filtered ? lsm_sieve::OpenOptimisticTransactionDB(OptionsOf(), nullptr, path, &db)
                  : Database::Open(OptionsOf(), path, &db));
    return db;
  }
};

void Fill(rocksdb::DB* db, uint64_t keys, uint64_t runs) {
  for (uint64_t run = 0; run < runs; ++run) {
    for (uint64_t i = run; i < keys; i += runs) Must(db->Put({}, Key(2 * i), kValue));
    Must(db->Flush({}));
  }
  if (runs == 1) Must(db->CompactRange({}, nullptr, nullptr));
  char* error = nullptr;
  if (lsm_sieve_t* filters = lsm_sieve::Of(db)) lsm_sieve_consolidate(filters, &error);
  if (error != nullptr) Must(rocksdb::Status::Aborted(error));
}

struct Times {
  double cpu, wall;
};

Times Now() {
  timespec cpu;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu);
  const auto wall = std::chrono::steady_clock::now().time_since_epoch();
  return {cpu.tv_sec * 1e9 + cpu.tv_nsec, std::chrono::duration<double, std::nano>(wall).count()};
}

// Nanoseconds of one transaction.
template <typename Kind>
Times Create(bool filtered, const std::string& path, uint64_t keys, uint64_t transactions) {
  const std::unique_ptr<typename Kind::Database> db(Kind::Open(filtered, path));
  if (lsm_sieve_t* filters = lsm_sieve::Of(db.get())) {
    lsm_sieve_wait_until_complete(filters, 600'000);
    lsm_sieve_wait_for_maintenance(filters, 600'000);
  }
  std::string value;
  for (uint64_t i = 0; i < keys; ++i) Must(db->Get({}, Key(2 * i), &value));
  std::unique_ptr<rocksdb::Transaction> transaction;
  uint64_t state = 7, created = 0;
  const Times start = Now();
  for (uint64_t i = 0; i < transactions; ++i) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    const std::string key = Key(i % 2 == 0 ? 2 * (state % keys) : 2 * i + 1);
    transaction.reset(db->BeginTransaction({}, {}, transaction.release()));
    const rocksdb::Status found = transaction->GetForUpdate({}, key, &value);
    if (found.IsNotFound()) {
      Must(transaction->Put(key, kValue));
      ++created;
    } else {
      Must(found);
    }
    Must(transaction->Commit());
  }
  const Times end = Now();
  if (created != transactions / 2) Must(rocksdb::Status::Aborted("not half of the keys were there"));
  return {(end.cpu - start.cpu) / transactions, (end.wall - start.wall) / transactions};
}

double Median(std::vector<double> of) {
  std::sort(of.begin(), of.end());
  return of[of.size() / 2];
}

template <typename Kind>
void Compare(const std::string& folder, uint64_t runs, uint64_t keys, uint64_t transactions, int rounds) {
  const std::string filled[]{folder + "/alone", folder + "/filtered"}, copy = folder + "/copy";
  std::vector<double> cpu[2], wall[2];
  for (const bool filtered : {false, true}) {
    const std::unique_ptr<rocksdb::DB> db(Kind::Open(filtered, filled[filtered]));
    Fill(db.get(), keys, runs);
  }
  for (int round = 0; round < rounds; ++round) {
    for (const bool filtered : {false, true}) {
      std::filesystem::copy(filled[filtered], copy, std::filesystem::copy_options::recursive);
      const Times times = Create<Kind>(filtered, copy, keys, transactions);
      std::filesystem::remove_all(copy);
      cpu[filtered].push_back(times.cpu);
      wall[filtered].push_back(times.wall);
    }
  }
  std::printf("%s, %d sorted runs: RocksDB alone %.0f ns (%.0f), with filters %.0f ns (%.0f): %.2f (%.2f) "
              "times as fast\n",
              Kind::kName, static_cast<int>(runs), Median(cpu[0]), Median(wall[0]), Median(cpu[1]),
              Median(wall[1]), Median(cpu[0]) / Median(cpu[1]), Median(wall[0]) / Median(wall[1]));
  std::fflush(stdout);
  for (const std::string& path : filled) std::filesystem::remove_all(path);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const auto given = [&](int i, uint64_t otherwise) {
    return argc > i ? std::strtoull(argv[i], nullptr, 10) : otherwise;
  };
  const uint64_t keys = given(2, 1'000'000), transactions = given(3, 1'000'000);
  const int rounds = static_cast<int>(given(4, 5));
  std::filesystem::create_directories(argv[1]);
  for (const uint64_t runs : {1, 8}) {
    Compare<Locks>(argv[1], runs, keys, transactions, rounds);
    Compare<Optimistic>(argv[1], runs, keys, transactions, rounds);
  }
}
