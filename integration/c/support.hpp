// What the programs of this folder share.

#pragma once

#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>

#include "lsm_sieve.hpp"

#define EXPECT(condition)                                                          \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::cerr << __FILE__ << ":" << __LINE__ << ": " << #condition << std::endl; \
      std::_Exit(1);                                                               \
    }                                                                              \
  } while (false)

inline constexpr uint64_t kLimitMs = 60'000;

// The settings that an open takes, which are freed right after it.
struct Settings {
  Settings() : raw(lsm_sieve_options_create()) {}
  ~Settings() { lsm_sieve_options_destroy(raw); }
  Settings(const Settings&) = delete;
  Settings& operator=(const Settings&) = delete;

  lsm_sieve_options_t* const raw;
};

// Each lookup that the filters can answer is answered by them, and counted.
struct ExactSettings : Settings {
  ExactSettings() {
    lsm_sieve_options_set_audit(raw, 0);
    lsm_sieve_options_set_adaptive_hits(raw, 0);
  }
};

inline lsm_sieve_stats_t Stats(rocksdb::DB* db) { return lsm_sieve_stats(lsm_sieve::Of(db)); }

inline bool IsComplete(rocksdb::DB* db) {
  lsm_sieve_t* const filters = lsm_sieve::Of(db);
  return lsm_sieve_wait_until_complete(filters, kLimitMs) == 1 &&
         lsm_sieve_wait_for_maintenance(filters, kLimitMs) == 1;
}
