/* What a program in C pays that loads librocksdb.so, with LSM_SIEVE unset or set: nanoseconds of a miss
 * and of a hit, or of a transaction that creates a record if it is absent. `benches/instead` runs it.
 *
 *   instead FOLDER KEYS RUNS get|optimistic|locking fill|ask
 *
 * KEYS keys are in as many sorted runs, with Bloom filters of 10 bits per key and a block cache that
 * holds all. Of the keys that transactions ask for, half are there. The time is that of the thread,
 * since nothing waits for a disk.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lsm_sieve.h"

#define LOOKUPS 300000

static char* error;
static rocksdb_readoptions_t* reading;
static rocksdb_writeoptions_t* writing;
static char value[100];

static void must(int holds, int line) {
  if (holds && error == NULL) return;
  fprintf(stderr, "line %d: %s\n", line, error ? error : "does not hold");
  exit(1);
}
#define MUST(condition) must((condition) != 0, __LINE__)

/* The key of a number, in no order. */
static const char* key(uint64_t i) {
  static char bytes[16];
  uint64_t mixed = (i + 1) * 0x9e3779b97f4a7c15u;
  mixed ^= mixed >> 32;
  mixed *= 0xd6e8feb86659fd93u;
  memcpy(bytes, &mixed, 8);
  memcpy(bytes + 8, &i, 8);
  return bytes;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static uint64_t drawn(uint64_t below) {
  static uint64_t state = 7;
  state ^= state << 13;
  state ^= state >> 7;
  state ^= state << 17;
  return state % below;
}

/* The numbers below `keys` that are there have this parity; the others are absent. */
static void fill(rocksdb_t* db, uint64_t keys, int runs, rocksdb_flushoptions_t* flushing) {
  for (int run = 0; run < runs; ++run) {
    for (uint64_t i = (uint64_t)run; i < keys; i += (uint64_t)runs) {
      rocksdb_put(db, writing, key(2 * i), 16, value, sizeof(value), &error);
    }
    rocksdb_flush(db, flushing, &error);
    MUST(1);
  }
  if (runs == 1) rocksdb_compact_range(db, NULL, 0, NULL, 0);
  lsm_sieve_t* filters = lsm_sieve_of(db);
  if (filters != NULL) lsm_sieve_consolidate(filters, &error);
  MUST(1);
}

static void wait_for_filters(rocksdb_t* db) {
  lsm_sieve_t* filters = lsm_sieve_of(db);
  if (filters == NULL) return;
  MUST(lsm_sieve_wait_until_complete(filters, 600000));
  MUST(lsm_sieve_wait_for_maintenance(filters, 600000));
}

static double lookups(rocksdb_t* db, uint64_t keys, uint64_t odd) {
  const double start = now();
  for (int i = 0; i < LOOKUPS; ++i) {
    size_t size = 0;
    char* found = rocksdb_get(db, reading, key(2 * drawn(keys) + odd), 16, &size, &error);
    MUST((found == NULL) == (odd == 1));
    rocksdb_free(found);
  }
  return (now() - start) / LOOKUPS;
}

static void create(rocksdb_transaction_t* transaction, uint64_t i) {
  size_t size = 0;
  char* found =
      rocksdb_transaction_get_for_update(transaction, reading, key(i), 16, &size, 1, &error);
  if (found == NULL) rocksdb_transaction_put(transaction, key(i), 16, value, sizeof(value), &error);
  rocksdb_free(found);
  rocksdb_transaction_commit(transaction, &error);
  MUST(1);
}

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const int runs = atoi(argv[3]);
  const int fills = strcmp(argv[5], "fill") == 0;
  const uint64_t keys = strtoull(argv[2], NULL, 10);
  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_write_buffer_size(options, (size_t)1 << 30);
  rocksdb_options_set_level0_file_num_compaction_trigger(options, 100);
  rocksdb_options_set_compression(options, rocksdb_no_compression);
  rocksdb_block_based_table_options_t* table = rocksdb_block_based_options_create();
  rocksdb_block_based_options_set_filter_policy(table, rocksdb_filterpolicy_create_bloom_full(10));
  rocksdb_block_based_options_set_block_cache(table, rocksdb_cache_create_lru((size_t)2 << 30));
  rocksdb_options_set_block_based_table_factory(options, table);
  reading = rocksdb_readoptions_create();
  writing = rocksdb_writeoptions_create();
  rocksdb_flushoptions_t* flushing = rocksdb_flushoptions_create();

  if (strcmp(argv[4], "get") == 0) {
    rocksdb_t* db = rocksdb_open(options, argv[1], &error);
    MUST(db != NULL);
    if (fills) {
      fill(db, keys, runs, flushing);
    } else {
      wait_for_filters(db);
      lookups(db, keys, 0);
      const double miss = lookups(db, keys, 1);
      printf("%.1f %.1f\n", miss, lookups(db, keys, 0));
    }
    rocksdb_close(db);
    return 0;
  }
  rocksdb_transaction_t* transaction = NULL;
  const int is_optimistic = strcmp(argv[4], "optimistic") == 0;
  rocksdb_optimistictransactiondb_t* optimistic = NULL;
  rocksdb_transactiondb_t* locking = NULL;
  rocksdb_t* base;
  rocksdb_optimistictransaction_options_t* of_optimistic =
      rocksdb_optimistictransaction_options_create();
  rocksdb_transaction_options_t* of_locking = rocksdb_transaction_options_create();
  if (is_optimistic) {
    optimistic = rocksdb_optimistictransactiondb_open(options, argv[1], &error);
    MUST(optimistic != NULL);
    base = rocksdb_optimistictransactiondb_get_base_db(optimistic);
  } else {
    locking =
        rocksdb_transactiondb_open(options, rocksdb_transactiondb_options_create(), argv[1], &error);
    MUST(locking != NULL);
    base = rocksdb_transactiondb_get_base_db(locking);
  }
  if (fills) {
    fill(base, keys, runs, flushing);
  } else {
    wait_for_filters(base);
    lookups(base, keys, 0);
  }
  const double start = now();
  for (uint64_t i = 0; i < (fills ? 0 : LOOKUPS); ++i) {
    const uint64_t number = 2 * drawn(keys) + i % 2;
    transaction = is_optimistic ? rocksdb_optimistictransaction_begin(optimistic, writing,
                                                                      of_optimistic, transaction)
                                : rocksdb_transaction_begin(locking, writing, of_locking, transaction);
    create(transaction, number);
  }
  if (!fills) {
    printf("%.1f\n", (now() - start) / LOOKUPS);
    rocksdb_transaction_destroy(transaction);
  }
  if (is_optimistic) {
    rocksdb_optimistictransactiondb_close_base_db(base);
    rocksdb_optimistictransactiondb_close(optimistic);
  } else {
    rocksdb_transactiondb_close_base_db(base);
    rocksdb_transactiondb_close(locking);
  }
  return 0;
}
