/* A program that was written for RocksDB alone. It prints what it reads and is refused; on stderr, for
 * each database, how many of its reads the filters answered, or that it has none.
 *
 *   instead FOLDER      a folder; with the databases of an earlier run it adds the same again
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"
#ifdef __GLIBC__
#include <malloc.h>
#endif

#define KEYS 200

static rocksdb_flushoptions_t* flushing;

static void must(int holds, int line) {
  if (holds && error == NULL) return;
  fprintf(stderr, "line %d: %s\n", line, error ? error : "does not hold");
  exit(1);
}
#define MUST(condition) must((condition) != 0, __LINE__)

/* Prints the error that the last call left, but for paths and numbers. */
static void print_error(const char* what) {
  const char* end = error == NULL ? NULL : strchr(error, ':');
  printf("%s: %.*s\n", what, end == NULL ? 4 : (int)(end - error), error == NULL ? "done" : error);
  rocksdb_free(error);
  error = NULL;
}

static const char* key(int i) {
  static _Thread_local char text[16];
  snprintf(text, sizeof(text), "key %04d", i);
  return text;
}
#define KEY(i) key(i), 8

static int is_value(char* value, size_t size, int i) {
  if (value == NULL) return 0;
  MUST(size == 8 && memcmp(value, key(i), 8) == 0);
  rocksdb_free(value);
  return 1;
}

/* How often the filters of a database said that a key is absent; waits until they know all keys. */
static uint64_t absent(rocksdb_t* db) {
  lsm_sieve_t* filters = lsm_sieve_of(db);
  if (filters == NULL) return UINT64_MAX;
  MUST(lsm_sieve_wait_until_complete(filters, LIMIT_MS));
  MUST(lsm_sieve_wait_for_maintenance(filters, LIMIT_MS));
  return lsm_sieve_stats(filters).absent;
}

static void print_absent(const char* name, rocksdb_t* db, uint64_t before) {
  if (before == UINT64_MAX) {
    fprintf(stderr, "%s: no filters\n", name);
  } else {
    const lsm_sieve_stats_t stats = lsm_sieve_stats(lsm_sieve_of(db));
    MUST(stats.false_negatives == 0);
    fprintf(stderr, "%s: %d\n", name, (int)(stats.absent - before));
  }
}

/* Writes each second key; the first half goes to an SST. */
static void fill(rocksdb_t* db, rocksdb_column_family_handle_t* cf) {
  for (int i = 0; i < KEYS; i += 2) {
    if (i == KEYS / 2) rocksdb_flush_cf(db, flushing, cf, &error);
    rocksdb_put_cf(db, writing, cf, KEY(i), KEY(i), &error);
    MUST(1);
  }
}

/* Prints what is there, by each way to read it. */
static void print_keys(const char* name, rocksdb_t* db, rocksdb_column_family_handle_t* cf) {
  const uint64_t before = absent(db);
  printf("%s: ", name);
  for (int i = 0; i < KEYS; ++i) {
    size_t size = 0;
    char* value = rocksdb_get_cf(db, reading, cf, KEY(i), &size, &error);
    const int is_there = is_value(value, size, i);
    rocksdb_pinnableslice_t* pinned = rocksdb_get_pinned_cf(db, reading, cf, KEY(i), &error);
    MUST((pinned != NULL) == is_there);
    rocksdb_pinnableslice_destroy(pinned);
    const char* keys[1] = {key(i)};
    const rocksdb_column_family_handle_t* cfs[1] = {cf};
    const size_t sizes[1] = {8};
    char* values[1] = {NULL};
    char* errors[1] = {NULL};
    rocksdb_multi_get_cf(db, reading, cfs, 1, keys, sizes, values, &size, errors);
    MUST(errors[0] == NULL && is_value(values[0], size, i) == is_there);
    printf("%d", is_there);
  }
  printf("\n");
  print_absent(name, db, before);
}

static rocksdb_column_family_handle_t* default_cf(rocksdb_t* db) {
  return rocksdb_get_default_column_family_handle(db);
}

static void one_family(void) {
  rocksdb_t* db = rocksdb_open(options, in_folder("one"), &error);
  MUST(db != NULL);
  rocksdb_open(options, in_folder("one"), &error);
  print_error("opened again");
  rocksdb_column_family_handle_t* cf = default_cf(db);
  fill(db, cf);
  print_keys("one family", db, cf);
  rocksdb_column_family_handle_destroy(cf);
  rocksdb_close(db);

  /* Of one family, RocksDB does not look whether there is a log. */
  db = rocksdb_open_for_read_only(options, in_folder("one"), /* no log */ 1, &error);
  MUST(db != NULL);
  cf = default_cf(db);
  print_keys("one family, read only", db, cf);
  rocksdb_put(db, writing, KEY(1), KEY(1), &error);
  print_error("written");
  rocksdb_column_family_handle_destroy(cf);
  rocksdb_close(db);

  rocksdb_options_t* none = rocksdb_options_create();
  rocksdb_open(none, in_folder("missing"), &error);
  print_error("missing");
  rocksdb_options_destroy(none);
}

static void destroyed(void) {
  rocksdb_t* db = rocksdb_open(options, in_folder("destroyed"), &error);
  MUST(db != NULL);
  rocksdb_put(db, writing, KEY(1), KEY(1), &error);
  const int has_filters = lsm_sieve_of(db) != NULL;
  const int had_folder = access(in_folder("destroyed/sieve/identity"), F_OK) == 0;
  MUST(had_folder || !has_filters);
  rocksdb_destroy_db(options, in_folder("destroyed"), &error);
  print_error("destroyed while it is open");
  rocksdb_close(db);
  const char* const variable = getenv("LSM_SIEVE");
  char before[8] = "";
  if (variable != NULL) strncpy(before, variable, sizeof(before) - 1);
  setenv("LSM_SIEVE", "yes", 1);
  rocksdb_destroy_db(options, in_folder("destroyed"), &error);
  print_error("destroyed with a wrong variable");
  setenv("LSM_SIEVE", before, 1);
  /* A refusal destroys nothing. */
  MUST((access(in_folder("destroyed/sieve/identity"), F_OK) == 0) == had_folder);
  db = rocksdb_open(options, in_folder("destroyed"), &error);
  MUST(db != NULL);
  size_t size = 0;
  char* const value = rocksdb_get(db, reading, KEY(1), &size, &error);
  MUST(is_value(value, size, 1));
  rocksdb_close(db);
  /* Nothing of it is left, so that its path can be that of a checkpoint. */
  rocksdb_destroy_db(options, in_folder("destroyed"), &error);
  print_error("destroyed");
  printf("its folder: %d\n", access(in_folder("destroyed"), F_OK));

  /* A folder of that name that holds no filters is not ours. */
  MUST(mkdir(in_folder("own"), 0700) == 0 && mkdir(in_folder("own/sieve"), 0700) == 0);
  FILE* const own = fopen(in_folder("own/sieve/file"), "w");
  MUST(own != NULL && fclose(own) == 0);
  rocksdb_destroy_db(options, in_folder("own"), &error);
  print_error("destroyed beside a file of the program's");
  MUST(unlink(in_folder("own/sieve/file")) == 0);
  MUST(rmdir(in_folder("own/sieve")) == 0 && rmdir(in_folder("own")) == 0);
}

static const char* const NAMES[2] = {"default", "other"};

static void families(void) {
  const rocksdb_options_t* of_cfs[2] = {options, options};
  rocksdb_column_family_handle_t* cfs[2];
  rocksdb_t* db =
      rocksdb_open_column_families(options, in_folder("families"), 2, NAMES, of_cfs, cfs, &error);
  MUST(db != NULL);
  fill(db, cfs[1]);
  print_keys("default family", db, cfs[0]);
  print_keys("other family", db, cfs[1]);
  rocksdb_column_family_handle_t* late = rocksdb_create_column_family(db, options, "late", &error);
  MUST(late != NULL);
  fill(db, late);
  print_keys("late family", db, late);
  rocksdb_drop_column_family(db, late, &error);
  MUST(1);
  rocksdb_column_family_handle_destroy(late);

  rocksdb_options_t* following = rocksdb_options_create_copy(options);
  rocksdb_options_set_max_open_files(following, -1);
  rocksdb_column_family_handle_t* seen[2];
  rocksdb_t* secondary = rocksdb_open_as_secondary_column_families(
      following, in_folder("families"), in_folder("follower"), 2, NAMES, of_cfs, seen, &error);
  MUST(secondary != NULL);
  print_keys("secondary", secondary, seen[1]);
  rocksdb_put_cf(db, writing, cfs[1], KEY(1), KEY(1), &error);
  rocksdb_flush_cf(db, flushing, cfs[1], &error);
  rocksdb_try_catch_up_with_primary(secondary, &error);
  MUST(1);
  print_keys("secondary, later", secondary, seen[1]);
  rocksdb_column_family_handle_destroy(seen[0]);
  rocksdb_column_family_handle_destroy(seen[1]);
  rocksdb_close(secondary);
  secondary =
      rocksdb_open_as_secondary(following, in_folder("one"), in_folder("follower"), &error);
  MUST(secondary != NULL);
  rocksdb_column_family_handle_t* one = default_cf(secondary);
  print_keys("secondary of one family", secondary, one);
  rocksdb_column_family_handle_destroy(one);
  rocksdb_close(secondary);
  rocksdb_options_destroy(following);

  rocksdb_put_cf(db, writing, cfs[0], KEY(1), KEY(1), &error);
  MUST(1);
  rocksdb_column_family_handle_destroy(cfs[0]);
  rocksdb_column_family_handle_destroy(cfs[1]);
  rocksdb_close(db);
  db = rocksdb_open_for_read_only_column_families(options, in_folder("families"), 2, NAMES, of_cfs,
                                                  cfs, /* no log */ 1, &error);
  print_error("read only beside a log");
  MUST(db == NULL);
  db = rocksdb_open_for_read_only_column_families(options, in_folder("families"), 2, NAMES, of_cfs,
                                                  cfs, 0, &error);
  MUST(db != NULL);
  print_keys("families, read only", db, cfs[1]);
  rocksdb_column_family_handle_destroy(cfs[0]);
  rocksdb_column_family_handle_destroy(cfs[1]);
  rocksdb_close(db);
}

static void time_to_live(void) {
  /* A record of 2017: such a database has the time behind the value, four bytes in seconds. */
  rocksdb_t* db = rocksdb_open(options, in_folder("ttl"), &error);
  MUST(db != NULL);
  rocksdb_put(db, writing, KEY(1), "old\0\x2f\x68\x59", 7, &error);
  rocksdb_close(db);
  db = rocksdb_open_with_ttl(options, in_folder("ttl"), 3600, &error);
  MUST(db != NULL);
  rocksdb_compact_range(db, NULL, 0, NULL, 0);
  rocksdb_column_family_handle_t* cf = default_cf(db);
  fill(db, cf);
  print_keys("time to live", db, cf);
  rocksdb_column_family_handle_destroy(cf);
  rocksdb_close(db);

  const rocksdb_options_t* of_cfs[2] = {options, options};
  const int ttls[2] = {3600, 7200};
  rocksdb_column_family_handle_t* cfs[3];
  db = rocksdb_open_column_families_with_ttl(options, in_folder("ttls"), 2, NAMES, of_cfs, cfs,
                                             ttls, &error);
  MUST(db != NULL);
  cfs[2] = rocksdb_create_column_family_with_ttl(db, options, "late", 9, &error);
  MUST(cfs[2] != NULL);
  fill(db, cfs[1]);
  fill(db, cfs[2]);
  print_keys("families with a time to live", db, cfs[1]);
  print_keys("late family with a time to live", db, cfs[2]);
  rocksdb_drop_column_family(db, cfs[2], &error);
  MUST(1);
  for (int i = 0; i < 3; ++i) rocksdb_column_family_handle_destroy(cfs[i]);
  rocksdb_close(db);
}

/* Creates what is absent, as far as its number is divisible by four or odd, and prints what was there.
 * All ways to read must agree; keys that the transaction has itself written are there. */
static void create_if_absent(const char* name, rocksdb_transaction_t* transaction, rocksdb_t* base) {
  const uint64_t before = absent(base);
  printf("%s: ", name);
  for (int i = 0; i < KEYS; ++i) {
    size_t size = 0;
    char* value = rocksdb_transaction_get(transaction, reading, KEY(i), &size, &error);
    const int is_there = is_value(value, size, i);
    rocksdb_pinnableslice_t* pinned =
        rocksdb_transaction_get_pinned(transaction, reading, KEY(i), &error);
    MUST((pinned != NULL) == is_there);
    rocksdb_pinnableslice_destroy(pinned);
    const char* keys[1] = {key(i)};
    const size_t sizes[1] = {8};
    char* values[1] = {NULL};
    char* errors[1] = {NULL};
    rocksdb_transaction_multi_get(transaction, reading, 1, keys, sizes, values, &size, errors);
    MUST(errors[0] == NULL && is_value(values[0], size, i) == is_there);
    value = rocksdb_transaction_get_for_update(transaction, reading, KEY(i), &size, 1, &error);
    MUST(is_value(value, size, i) == is_there);
    pinned = rocksdb_transaction_get_pinned_for_update(transaction, reading, KEY(i), 1, &error);
    MUST((pinned != NULL) == is_there);
    rocksdb_pinnableslice_destroy(pinned);
    printf("%d", is_there);
    if (is_there || i % 4 == 3) continue;
    rocksdb_transaction_put(transaction, KEY(i), KEY(i), &error);
    value = rocksdb_transaction_get(transaction, reading, KEY(i), &size, &error);
    MUST(is_value(value, size, i));
    rocksdb_transaction_multi_get_for_update(transaction, reading, 1, keys, sizes, values, &size,
                                             errors);
    MUST(errors[0] == NULL && is_value(values[0], size, i));
  }
  printf("\n");
  print_absent(name, base, before);
}

#ifdef __GLIBC__
static size_t allocated(void) {
  const struct mallinfo2 all = mallinfo2();
  return all.uordblks + all.hblkhd;
}

/* A million locks are the default, and take more memory than all else of a small database. */
static void print_few_locks(const char* name, size_t before) {
  printf("%s: %d\n", name, allocated() < before + ((size_t)16 << 20));
}

static void few_locks(void) {
  rocksdb_optimistictransactiondb_options_t* few = rocksdb_optimistictransactiondb_options_create();
  rocksdb_optimistictransactiondb_options_set_occ_lock_buckets(few, 16);
  size_t before = allocated();
  rocksdb_optimistictransactiondb_t* db = rocksdb_optimistictransactiondb_open_with_otxn_db_options(
      options, few, in_folder("few locks"), &error);
  MUST(db != NULL);
  print_few_locks("few locks", before);
  rocksdb_optimistictransactiondb_close(db);

  const rocksdb_options_t* of_cfs[2] = {options, options};
  rocksdb_column_family_handle_t* cfs[2];
  before = allocated();
  db = rocksdb_optimistictransactiondb_open_column_families_with_otxn_db_options(
      options, few, in_folder("few locks of families"), 2, NAMES, of_cfs, cfs, &error);
  MUST(db != NULL);
  print_few_locks("families with few locks", before);
  rocksdb_column_family_handle_destroy(cfs[0]);
  rocksdb_column_family_handle_destroy(cfs[1]);
  rocksdb_optimistictransactiondb_close(db);
  rocksdb_optimistictransactiondb_options_destroy(few);
}
#else
static void few_locks(void) {}
#endif

/* Whether a transaction reads a key; with its snapshot, if it has one. */
static int reads(rocksdb_transaction_t* transaction, int i, int for_update) {
  const rocksdb_snapshot_t* snapshot = rocksdb_transaction_get_snapshot(transaction);
  rocksdb_readoptions_set_snapshot(reading, snapshot);
  size_t size = 0;
  char* value =
      for_update ? rocksdb_transaction_get_for_update(transaction, reading, KEY(i), &size, 1, &error)
                 : rocksdb_transaction_get(transaction, reading, KEY(i), &size, &error);
  rocksdb_readoptions_set_snapshot(reading, NULL);
  rocksdb_free((void*)snapshot);
  return is_value(value, size, i);
}

static void optimistic(void) {
  const rocksdb_options_t* of_cfs[2] = {options, options};
  rocksdb_column_family_handle_t* cfs[2];
  rocksdb_optimistictransactiondb_t* db = rocksdb_optimistictransactiondb_open_column_families(
      options, in_folder("optimistic"), 2, NAMES, of_cfs, cfs, &error);
  MUST(db != NULL);
  rocksdb_t* base = rocksdb_optimistictransactiondb_get_base_db(db);
  fill(base, cfs[0]);
  fill(base, cfs[1]);
  rocksdb_optimistictransaction_options_t* of_one = rocksdb_optimistictransaction_options_create();
  rocksdb_transaction_t* transaction =
      rocksdb_optimistictransaction_begin(db, writing, of_one, NULL);
  create_if_absent("optimistic", transaction, base);
  rocksdb_transaction_commit(transaction, &error);
  print_error("committed");
  print_keys("after the commit", base, cfs[0]);
  print_keys("other family", base, cfs[1]);

  /* What a transaction found absent is written meanwhile. Each time the next absent key. */
  for (int i = 3; i < 8; i += 4) {
    const int with_snapshot = i == 7;
    rocksdb_optimistictransaction_options_set_set_snapshot(of_one, (unsigned char)with_snapshot);
    rocksdb_optimistictransaction_begin(db, writing, of_one, transaction);
    if (with_snapshot) rocksdb_put(base, writing, KEY(i), KEY(i), &error);
    printf("watched: %d %d\n", reads(transaction, i, 0), reads(transaction, i, 1));
    if (!with_snapshot) rocksdb_put(base, writing, KEY(i), KEY(i), &error);
    MUST(1);
    rocksdb_transaction_put(transaction, "result", 6, "1", 1, &error);
    rocksdb_transaction_commit(transaction, &error);
    print_error("committed");
    rocksdb_transaction_rollback(transaction, &error);
    MUST(1);
    rocksdb_delete(base, writing, KEY(i), &error);
  }
  rocksdb_transaction_destroy(transaction);
  rocksdb_optimistictransaction_options_destroy(of_one);
  rocksdb_column_family_handle_destroy(cfs[0]);
  rocksdb_column_family_handle_destroy(cfs[1]);
  rocksdb_optimistictransactiondb_close_base_db(base);
  rocksdb_optimistictransactiondb_close(db);
}

static rocksdb_transaction_t* begun(rocksdb_transactiondb_t* db, int in_snapshot, int bypasses) {
  rocksdb_transaction_options_t* of_one = rocksdb_transaction_options_create();
  rocksdb_transaction_options_set_set_snapshot(of_one, (unsigned char)in_snapshot);
  rocksdb_transaction_options_set_commit_bypass_memtable(of_one, (unsigned char)bypasses);
  rocksdb_transaction_options_set_lock_timeout(of_one, 1);
  rocksdb_transaction_t* transaction = rocksdb_transaction_begin(db, writing, of_one, NULL);
  rocksdb_transaction_options_destroy(of_one);
  return transaction;
}

static rocksdb_transactiondb_t* with_locks(const char* name, int policy) {
  rocksdb_transactiondb_options_t* locks = rocksdb_transactiondb_options_create();
  rocksdb_transactiondb_options_set_default_lock_timeout(locks, 1);
  rocksdb_transactiondb_options_set_write_policy(locks, policy);
  rocksdb_transactiondb_t* db = rocksdb_transactiondb_open(options, locks, in_folder(name), &error);
  MUST(db != NULL);
  rocksdb_transactiondb_options_destroy(locks);
  return db;
}

static void print_transactiondb(const char* name, rocksdb_transactiondb_t* db) {
  rocksdb_t* base = rocksdb_transactiondb_get_base_db(db);
  rocksdb_column_family_handle_t* cf = default_cf(base);
  print_keys(name, base, cf);
  const uint64_t before = absent(base);
  int there = 0;
  for (int i = 0; i < KEYS; ++i) {
    size_t size = 0;
    char* value = rocksdb_transactiondb_get(db, reading, KEY(i), &size, &error);
    there += is_value(value, size, i);
  }
  char by_itself[64];
  snprintf(by_itself, sizeof(by_itself), "%s, by itself", name);
  printf("%s: %d\n", by_itself, there);
  print_absent(by_itself, base, before);
  rocksdb_column_family_handle_destroy(cf);
  rocksdb_transactiondb_close_base_db(base);
}

static void locking(void) {
  rocksdb_transactiondb_t* db = with_locks("locking", rocksdb_txndb_write_policy_write_committed);
  rocksdb_t* base = rocksdb_transactiondb_get_base_db(db);
  rocksdb_column_family_handle_t* cf = default_cf(base);
  fill(base, cf);
  rocksdb_column_family_handle_destroy(cf);
  rocksdb_transaction_t* transaction = begun(db, 0, 0);
  create_if_absent("locking", transaction, base);

  /* A key that is denied is locked. */
  rocksdb_transactiondb_put(db, writing, KEY(3), KEY(3), &error);
  print_error("written by another");
  rocksdb_transaction_t* other = begun(db, 0, 0);
  printf("read by another: %d\n", reads(other, 3, 0));
  printf("locked by another: %d\n", reads(other, 3, 1));
  print_error("locked by another");
  rocksdb_transaction_destroy(other);
  rocksdb_transaction_commit(transaction, &error);
  print_error("committed");
  rocksdb_transaction_destroy(transaction);
  print_transactiondb("after the commit of locks", db);

  /* Of what was written since its snapshot, a transaction locks nothing. */
  transaction = begun(db, 1, 0);
  rocksdb_transactiondb_put(db, writing, KEY(3), KEY(3), &error);
  MUST(1);
  printf("in the snapshot: %d\n", reads(transaction, 3, 0));
  printf("since the snapshot: %d\n", reads(transaction, 3, 1));
  print_error("since the snapshot");
  rocksdb_transaction_destroy(transaction);
  rocksdb_transactiondb_delete(db, writing, KEY(3), &error);

  /* Two phases, with a commit that wants to pass the memtable. */
  transaction = begun(db, 0, 1);
  rocksdb_transaction_set_name(transaction, "first", 5, &error);
  for (int i = 3; i < KEYS; i += 8) rocksdb_transaction_put(transaction, KEY(i), KEY(i), &error);
  rocksdb_transaction_prepare(transaction, &error);
  MUST(1);
  print_transactiondb("prepared", db);
  rocksdb_transaction_commit(transaction, &error);
  print_error("committed");
  rocksdb_transaction_destroy(transaction);
  print_transactiondb("committed in two phases", db);

  /* A family that comes later has locks and filters. */
  rocksdb_column_family_handle_t* late =
      rocksdb_transactiondb_create_column_family(db, options, "late", &error);
  MUST(late != NULL);
  transaction = begun(db, 0, 0);
  for (int i = 0; i < KEYS; i += 2) {
    rocksdb_transaction_put_cf(transaction, late, KEY(i), KEY(i), &error);
  }
  rocksdb_transactiondb_put_cf(db, writing, late, KEY(0), KEY(0), &error);
  print_error("written by another");
  rocksdb_transaction_commit(transaction, &error);
  print_error("committed");
  rocksdb_transaction_destroy(transaction);
  print_keys("late family with locks", base, late);
  rocksdb_drop_column_family(base, late, &error);
  MUST(1);
  rocksdb_column_family_handle_destroy(late);

  /* Prepared and left so. */
  transaction = begun(db, 0, 0);
  rocksdb_transaction_set_name(transaction, "second", 6, &error);
  for (int i = 7; i < KEYS; i += 8) rocksdb_transaction_put(transaction, KEY(i), KEY(i), &error);
  rocksdb_transaction_prepare(transaction, &error);
  MUST(1);
  rocksdb_transaction_destroy(transaction);
  rocksdb_transactiondb_close_base_db(base);
  rocksdb_transactiondb_close(db);
  db = with_locks("locking", rocksdb_txndb_write_policy_write_committed);
  print_transactiondb("with a prepared one", db);
  size_t prepared = 0;
  rocksdb_transaction_t** left = rocksdb_transactiondb_get_prepared_transactions(db, &prepared);
  printf("prepared: %d\n", (int)prepared);
  for (size_t i = 0; i < prepared; ++i) {
    rocksdb_transaction_commit(left[i], &error);
    print_error("committed");
    rocksdb_transaction_destroy(left[i]);
  }
  rocksdb_free(left);
  rocksdb_transactiondb_close(db);
  db = with_locks("locking", rocksdb_txndb_write_policy_write_committed);
  print_transactiondb("after the prepared one", db);
  for (int i = 1; i < KEYS; i += 2) rocksdb_transactiondb_delete(db, writing, KEY(i), &error);
  MUST(1);
  rocksdb_transactiondb_close(db);

  db = with_locks("policy", rocksdb_txndb_write_policy_write_prepared);
  rocksdb_transactiondb_put(db, writing, KEY(0), KEY(0), &error);
  print_transactiondb("another write policy", db);
  rocksdb_transactiondb_close(db);
}

/* One of the two. */
struct race {
  rocksdb_transactiondb_t* locking;
  rocksdb_optimistictransactiondb_t* optimistic;
  rocksdb_optimistictransaction_options_t* of_one;
};

/* Creates one key if it is absent; 0 if it is there, -1 if another transaction is in the way. */
static int create(const struct race* race, int i) {
  rocksdb_transaction_t* transaction =
      race->locking != NULL
          ? begun(race->locking, 0, 0)
          : rocksdb_optimistictransaction_begin(race->optimistic, writing, race->of_one, NULL);
  size_t size = 0;
  char* value = rocksdb_transaction_get_for_update(transaction, reading, KEY(i), &size, 1, &error);
  const int is_there = error == NULL && is_value(value, size, i);
  if (error == NULL && !is_there) rocksdb_transaction_put(transaction, KEY(i), KEY(i), &error);
  if (error == NULL) rocksdb_transaction_commit(transaction, &error);
  rocksdb_transaction_destroy(transaction);
  if (error == NULL) return !is_there;
  rocksdb_free(error);
  error = NULL;
  return -1;
}

static void* create_all(void* race) {
  intptr_t created = 0;
  for (int i = 0; i < KEYS; ++i) {
    int done = create(race, i);
    while (done < 0) done = create(race, i);
    created += done;
  }
  return (void*)created;
}

/* Each key is created by one of four threads that find it absent. */
static void print_race(const char* name, struct race* race) {
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) MUST(pthread_create(&threads[i], NULL, create_all, race) == 0);
  intptr_t all = 0;
  for (int i = 0; i < 4; ++i) {
    void* created = NULL;
    MUST(pthread_join(threads[i], &created) == 0);
    all += (intptr_t)created;
  }
  printf("%s: %d\n", name, (int)all);
}

static void races(void) {
  struct race race = {NULL, NULL, NULL};
  race.locking = with_locks("race with locks", rocksdb_txndb_write_policy_write_committed);
  print_race("race with locks", &race);
  rocksdb_transactiondb_close(race.locking);
  race.locking = NULL;
  race.of_one = rocksdb_optimistictransaction_options_create();
  race.optimistic =
      rocksdb_optimistictransactiondb_open(options, in_folder("optimistic race"), &error);
  MUST(race.optimistic != NULL);
  print_race("optimistic race", &race);
  rocksdb_optimistictransactiondb_close(race.optimistic);
  rocksdb_optimistictransaction_options_destroy(race.of_one);
}

static void refused(void) {
  rocksdb_options_t* linked = rocksdb_options_create_copy(options);
  rocksdb_options_set_hash_link_list_rep(linked, 16);
  rocksdb_options_set_allow_concurrent_memtable_write(linked, 0);
  rocksdb_t* db = rocksdb_open(linked, in_folder("refused"), &error);
  MUST(db != NULL);
  rocksdb_column_family_handle_t* cf = default_cf(db);
  fill(db, cf);
  print_keys("refused", db, cf);
  rocksdb_column_family_handle_destroy(cf);
  rocksdb_close(db);
  rocksdb_options_destroy(linked);
}

int main(int argc, char** argv) {
  begin(argc, argv);
  /* A secondary that has not yet read a new SST could not, once a compaction has removed it. */
  rocksdb_options_set_disable_auto_compactions(options, 1);
  flushing = rocksdb_flushoptions_create();
  one_family();
  destroyed();
  families();
  time_to_live();
  few_locks();
  optimistic();
  locking();
  races();
  refused();
  rocksdb_flushoptions_destroy(flushing);
  end();
  return 0;
}
