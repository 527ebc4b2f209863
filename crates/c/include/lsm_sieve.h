// RocksDB with filters, for C and for all that calls C. cbindgen makes this file from src/; a test
// compares them.
//
// The functions are in RocksDB's manner. `settings`, `handles` and other arguments are the caller's,
// and options are only read. A function that can fail takes `errptr`: NULL, or the address of a
// pointer that is NULL or an older text. On failure a text is stored there, to be freed with
// `rocksdb_free`. Where NULL is not allowed, the text says so.
//
// All functions may be called from any thread; an lsm_sieve_options_t from one at a time. An opened
// rocksdb_t is used as any other. This header and the library must be of one version.

#ifndef LSM_SIEVE_H
#define LSM_SIEVE_H

#include <stdint.h>
#include "rocksdb/c.h"

// RocksDB 10 declares no such type.
typedef struct rocksdb_optimistictransactiondb_options_t rocksdb_optimistictransactiondb_options_t;

// What `lsm_sieve_open_by` opens a database for: reading and writing,
#define LSM_SIEVE_WRITE 0

// reading only,
#define LSM_SIEVE_READ_ONLY 1

// or following the process that writes.
#define LSM_SIEVE_SECONDARY 2

// The settings of the filters, for an open; each has a default. One thread at a time may use them.
typedef struct lsm_sieve_options_t lsm_sieve_options_t;

// The filters of an open database: valid until the database is closed.
typedef struct lsm_sieve_t lsm_sieve_t;

// What the filters did for the lookups since the open.
typedef struct {
  // Lookups that the filters answered absent: reads of the engine that were avoided.
  uint64_t absent;
  // Lookups that read the engine and found their key.
  uint64_t found;
  // Of these, lookups that did not check the filters, because hits were expected.
  uint64_t found_unchecked;
  // Lookups that read the engine and found nothing, although the filters knew all keys.
  uint64_t false_positives;
  // Lookups that read the engine and found nothing, while the filters did not know all keys.
  uint64_t uncovered;
  // Lookups of absent keys that did not check the filters, because hits were expected.
  uint64_t not_consulted;
  // Absent answers, also counted in `absent`, that were verified in the engine.
  uint64_t audited;
  // Verified answers that were wrong; from the first on, the filters are not checked any more.
  uint64_t false_negatives;
  // Questions for a prefix, of iterators, that the filters answered absent: seeks that were
  // avoided. Questions for prefixes are not among the lookups.
  uint64_t prefixes_absent;
} lsm_sieve_stats_t;

// The state of the filters of all column families.
typedef struct {
  // Keys of the summary filters.
  uint64_t keys;
  // Memory of the summary filters, in bytes.
  uint64_t summary_bytes;
  // Memory of the segment filters, in bytes.
  uint64_t segment_bytes;
  // Memory beside the filters, in bytes.
  uint64_t overhead_bytes;
  // The memory budget in bytes; UINT64_MAX if there is none.
  uint64_t budget_bytes;
  // SSTs that are known.
  uint64_t segments;
  // SSTs whose keys the summary filters do not all have yet; UINT64_MAX if that is not known.
  uint64_t uncovered;
  // The highest false-positive rate among the summary filters, computed from their keys.
  double predicted_rate;
  // 1 if an audit found a key that a filter had denied: no key is answered absent any more.
  uint8_t distrusted;
} lsm_sieve_health_t;

// What a verification checked and found.
typedef struct {
  // Files of filters of SSTs that were read and checked.
  uint64_t sidecars_checked;
  // Files of summary filters that were read and checked.
  uint64_t summaries_checked;
  // Files that cannot be used.
  uint64_t damaged;
  // SSTs without such a file yet.
  uint64_t missing;
  // Entries of SSTs that were checked against the filters; 0 unless `full`.
  uint64_t entries_checked;
  // Keys that exist but that a filter denies.
  uint64_t lost;
} lsm_sieve_verification_t;

// Opens RocksDB with exactly these options, in the order of the names that `lsm_sieve_open_by` was
// called with, and stores the handles of the column families. Returns NULL and a text that `malloc`
// allocated if it cannot. Must not throw.
typedef rocksdb_t *(*lsm_sieve_opener_t)(void *context,
                                         const rocksdb_options_t *options,
                                         const rocksdb_options_t *const *cf_options,
                                         rocksdb_column_family_handle_t **handles,
                                         char **errptr);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The filters behind the handle of an open database; NULL if it was opened without. No function
// frees them.
lsm_sieve_t *lsm_sieve_of(rocksdb_t *db);

// The counters of all column families. All are 0 if `filters` is NULL.
lsm_sieve_stats_t lsm_sieve_stats(lsm_sieve_t *filters);

// The state of all filters. It reads no filter and no SST, so it may be called every second. All is
// 0 if `filters` is NULL.
lsm_sieve_health_t lsm_sieve_health(lsm_sieve_t *filters);

// Waits at most this long until the filters of all SSTs are loaded or built; returns 1 if they are.
uint8_t lsm_sieve_wait_for_maintenance(lsm_sieve_t *filters, uint64_t limit_ms);

// Waits at most this long until the summary filters have the keys of all SSTs; returns 1 if they
// have. From then on absent keys are answered without the engine.
uint8_t lsm_sieve_wait_until_complete(lsm_sieve_t *filters, uint64_t limit_ms);

// Rebuilds each summary filter at the right size. Blocks until done; reads and writes go on.
void lsm_sieve_consolidate(lsm_sieve_t *filters, char **errptr);

// Changes the false-positive rate of all filters, which lies between 0 and 1. They are rebuilt in
// the background; `lsm_sieve_consolidate` waits for that.
void lsm_sieve_set_false_positive_rate(lsm_sieve_t *filters, double rate, char **errptr);

// Changes the memory budget; UINT64_MAX removes it. What exceeds a smaller one is dropped at once.
void lsm_sieve_set_memory_budget(lsm_sieve_t *filters, uint64_t bytes, char **errptr);

// Checks the files of all filters. With `full` it also checks the filters for every key of every
// SST. If something is damaged or lost, the counts say how much and `errptr` what; damaged files
// are rebuilt at the next open.
lsm_sieve_verification_t lsm_sieve_verify(lsm_sieve_t *filters, uint8_t full, char **errptr);

// `rocksdb_open` with filters. The options are only read, and copied. `settings` may be NULL: the
// defaults. Close the database with `rocksdb_close`.
rocksdb_t *lsm_sieve_open(const rocksdb_options_t *options,
                          const lsm_sieve_options_t *settings,
                          const char *path,
                          char **errptr);

// `rocksdb_open_column_families` with filters. The caller destroys the handles before the close.
rocksdb_t *lsm_sieve_open_column_families(const rocksdb_options_t *options,
                                          const lsm_sieve_options_t *settings,
                                          const char *path,
                                          int n,
                                          const char *const *names,
                                          const rocksdb_options_t *const *cf_options,
                                          rocksdb_column_family_handle_t **handles,
                                          char **errptr);

// `rocksdb_open_for_read_only_column_families` with filters, which are only read too.
rocksdb_t *lsm_sieve_open_for_read_only_column_families(const rocksdb_options_t *options,
                                                        const lsm_sieve_options_t *settings,
                                                        const char *path,
                                                        int n,
                                                        const char *const *names,
                                                        const rocksdb_options_t *const *cf_options,
                                                        rocksdb_column_family_handle_t **handles,
                                                        uint8_t error_if_wal_file_exists,
                                                        char **errptr);

// `rocksdb_open_as_secondary_column_families` with filters, which are continued in memory.
rocksdb_t *lsm_sieve_open_as_secondary_column_families(const rocksdb_options_t *options,
                                                       const lsm_sieve_options_t *settings,
                                                       const char *path,
                                                       const char *secondary_path,
                                                       int n,
                                                       const char *const *names,
                                                       const rocksdb_options_t *const *cf_options,
                                                       rocksdb_column_family_handle_t **handles,
                                                       char **errptr);

// `rocksdb_open_column_families_with_ttl` with filters. Expired entries count as keys until RocksDB
// drops them.
rocksdb_t *lsm_sieve_open_column_families_with_ttl(const rocksdb_options_t *options,
                                                   const lsm_sieve_options_t *settings,
                                                   const char *path,
                                                   int n,
                                                   const char *const *names,
                                                   const rocksdb_options_t *const *cf_options,
                                                   rocksdb_column_family_handle_t **handles,
                                                   const int *ttls,
                                                   char **errptr);

// `rocksdb_transactiondb_open_column_families` with filters. Close it with
// `rocksdb_transactiondb_close`.
rocksdb_transactiondb_t *lsm_sieve_transactiondb_open_column_families(const rocksdb_options_t *options,
                                                                      const rocksdb_transactiondb_options_t *transactions,
                                                                      const lsm_sieve_options_t *settings,
                                                                      const char *path,
                                                                      int n,
                                                                      const char *const *names,
                                                                      const rocksdb_options_t *const *cf_options,
                                                                      rocksdb_column_family_handle_t **handles,
                                                                      char **errptr);

// `rocksdb_optimistictransactiondb_open_column_families` with filters. The options of transactions
// may be NULL. Close it with `rocksdb_optimistictransactiondb_close`.
rocksdb_optimistictransactiondb_t *lsm_sieve_optimistictransactiondb_open_column_families(const rocksdb_options_t *options,
                                                                                          const rocksdb_optimistictransactiondb_options_t *transactions,
                                                                                          const lsm_sieve_options_t *settings,
                                                                                          const char *path,
                                                                                          int n,
                                                                                          const char *const *names,
                                                                                          const rocksdb_options_t *const *cf_options,
                                                                                          rocksdb_column_family_handle_t **handles,
                                                                                          char **errptr);

// Opens a database by whatever means: `opener` gets copies of the options that have hooks, and opens
// RocksDB with them. `access` says for what. Transactions do not work this way.
rocksdb_t *lsm_sieve_open_by(lsm_sieve_opener_t opener,
                             void *context,
                             uint32_t access,
                             const rocksdb_options_t *options,
                             const lsm_sieve_options_t *settings,
                             const char *path,
                             int n,
                             const char *const *names,
                             const rocksdb_options_t *const *cf_options,
                             rocksdb_column_family_handle_t **handles,
                             char **errptr);

// One percent false positives, no memory budget. Free them with `lsm_sieve_options_destroy`, also
// right after an open.
lsm_sieve_options_t *lsm_sieve_options_create(void);

// Nothing happens if `settings` is NULL.
void lsm_sieve_options_destroy(lsm_sieve_options_t *settings);

// The false-positive rate, which lies between 0 and 1. 0.01 takes 12 bits per key, and 12 more for
// the filters of the SSTs.
void lsm_sieve_options_set_false_positive_rate(lsm_sieve_options_t *settings,
                                               double rate,
                                               char **errptr);

// The size of the filters instead of their rate: bits per key for the summary filter, and as many
// for the filters of the SSTs.
void lsm_sieve_options_set_bits_per_key(lsm_sieve_options_t *settings, double bits, char **errptr);

// Builds no filters of SSTs, and leaves RocksDB's own in place.
void lsm_sieve_options_disable_segment_filters(lsm_sieve_options_t *settings);

// Whether speed comes before memory: 24 bits per key instead of 12, and 5 ns less for a miss. Off
// by default.
void lsm_sieve_options_set_speed_over_memory(lsm_sieve_options_t *settings, uint8_t speed);

// How many keys each column family will hold; not known by default.
void lsm_sieve_options_set_expected_keys(lsm_sieve_options_t *settings, uint64_t keys);

// The most memory that all filters may take; unlimited by default. Over it, filters are dropped.
void lsm_sieve_options_set_memory_budget(lsm_sieve_options_t *settings, uint64_t bytes);

// The folder of the filters; by default `sieve` inside the database's own.
void lsm_sieve_options_set_folder(lsm_sieve_options_t *settings, const char *folder, char **errptr);

// Leaves a column family without filters. The default one cannot be left out.
void lsm_sieve_options_exclude_column_family(lsm_sieve_options_t *settings,
                                             const char *name,
                                             char **errptr);

// Promises that the comparator with this name calls no two keys equal whose bytes differ. Column
// families that use it can then have filters. If it does, lookups lose keys.
void lsm_sieve_options_comparator_is_injective(lsm_sieve_options_t *settings,
                                               const char *name,
                                               char **errptr);

// Verifies one absent answer in `one_in` in the engine; 0 verifies none. By default one in 8,192,
// and at most one percent of the time.
void lsm_sieve_options_set_audit(lsm_sieve_options_t *settings, uint32_t one_in);

// How often the filters in memory are checked for flipped bits; 0 never. By default each hour.
void lsm_sieve_options_set_scrub_seconds(lsm_sieve_options_t *settings, uint64_t seconds);

// Whether reads may skip the filters while keys are likely to be found. On by default.
void lsm_sieve_options_set_adaptive_hits(lsm_sieve_options_t *settings, uint8_t adaptive);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* LSM_SIEVE_H */
