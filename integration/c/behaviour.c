/* What the header promises, from C. Ends with exit code 0, or says which line did not hold.
 *
 *   behaviour FOLDER      an empty folder
 */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>

#include "support.h"

static void put(rocksdb_t* db, rocksdb_column_family_handle_t* cf, const char* key) {
  if (cf == NULL) {
    rocksdb_put(db, writing, key, strlen(key), "value", 5, &error);
  } else {
    rocksdb_put_cf(db, writing, cf, key, strlen(key), "value", 5, &error);
  }
  EXPECT(error == NULL);
}

static void flush(rocksdb_t* db) {
  rocksdb_flushoptions_t* flushing = rocksdb_flushoptions_create();
  rocksdb_flush(db, flushing, &error);
  rocksdb_flushoptions_destroy(flushing);
  EXPECT(error == NULL);
}

static int has(rocksdb_t* db, rocksdb_column_family_handle_t* cf, const char* key) {
  size_t size = 0;
  char* value = cf == NULL
                    ? rocksdb_get(db, reading, key, strlen(key), &size, &error)
                    : rocksdb_get_cf(db, reading, cf, key, strlen(key), &size, &error);
  EXPECT(error == NULL);
  if (value == NULL) return 0;
  EXPECT(size == 5 && memcmp(value, "value", 5) == 0);
  rocksdb_free(value);
  return 1;
}

/* Waits until maintenance is at rest. Complete filters are not enough to count their answers: the run
 * that completes them goes on and publishes other views. An iterator that was created in between is
 * not answered, since it shows an earlier moment than the filters. */
static void wait_for_rest(lsm_sieve_t* filters) {
  EXPECT(lsm_sieve_wait_until_complete(filters, LIMIT_MS));
  EXPECT(lsm_sieve_wait_for_maintenance(filters, LIMIT_MS));
}

/* How many of 100 reads of absent keys the filters answer. */
static uint64_t absent_of_100(rocksdb_t* db, rocksdb_column_family_handle_t* cf) {
  lsm_sieve_t* filters = lsm_sieve_of(db);
  wait_for_rest(filters);
  const uint64_t before = lsm_sieve_stats(filters).absent;
  for (int i = 0; i < 100; ++i) {
    char key[32];
    snprintf(key, sizeof(key), "absent %d", i);
    EXPECT(!has(db, cf, key));
  }
  return lsm_sieve_stats(filters).absent - before;
}

static rocksdb_t* open_plainly(const char* name) {
  rocksdb_t* db = lsm_sieve_open(options, NULL, in_folder(name), &error);
  EXPECT(db != NULL && error == NULL);
  return db;
}

static void one_family(void) {
  rocksdb_t* db = open_plainly("one");
  put(db, NULL, "ada");
  EXPECT(has(db, NULL, "ada"));
  EXPECT(absent_of_100(db, NULL) >= 80);

  /* Nobody else opens it meanwhile, with filters or without. */
  EXPECT(lsm_sieve_open(options, NULL, in_folder("one"), &error) == NULL);
  EXPECT(failed_with("IO error: lock hold by current process"));
  EXPECT(rocksdb_open(options, in_folder("one"), &error) == NULL);
  EXPECT(failed_with("lock hold by current process"));

  const rocksdb_snapshot_t* snapshot = rocksdb_create_snapshot(db);
  rocksdb_iterator_t* iterator = rocksdb_create_iterator(db, reading);
  rocksdb_delete(db, writing, "ada", 3, &error);
  EXPECT(error == NULL && !has(db, NULL, "ada"));
  rocksdb_readoptions_set_snapshot(reading, snapshot);
  EXPECT(has(db, NULL, "ada"));
  rocksdb_readoptions_set_snapshot(reading, NULL);
  rocksdb_iter_seek_to_first(iterator);
  EXPECT(rocksdb_iter_valid(iterator));
  rocksdb_iter_destroy(iterator);
  rocksdb_release_snapshot(db, snapshot);
  rocksdb_close(db);

  db = open_plainly("one");
  EXPECT(!has(db, NULL, "ada"));
  put(db, NULL, "bob");
  rocksdb_close(db);

  /* RocksDB alone reads it, and what is read there has no filters. */
  db = rocksdb_open(options, in_folder("one"), &error);
  EXPECT(db != NULL && has(db, NULL, "bob"));
  EXPECT(lsm_sieve_of(db) == NULL);
  rocksdb_close(db);
}

static void families(void) {
  const char* names[] = {"default", "users"};
  const rocksdb_options_t* of_cfs[] = {options, options};
  rocksdb_column_family_handle_t* cfs[2];
  rocksdb_t* db = lsm_sieve_open_column_families(options, NULL, in_folder("families"), 2, names,
                                                 of_cfs, cfs, &error);
  EXPECT(db != NULL && error == NULL);
  put(db, cfs[1], "ada");
  EXPECT(has(db, cfs[1], "ada") && !has(db, cfs[0], "ada") && !has(db, NULL, "ada"));
  EXPECT(absent_of_100(db, cfs[1]) >= 80);

  /* Made and dropped by RocksDB's own functions. */
  rocksdb_column_family_handle_t* made = rocksdb_create_column_family(db, options, "made", &error);
  EXPECT(made != NULL && error == NULL);
  put(db, made, "bob");
  EXPECT(has(db, made, "bob"));
  EXPECT(absent_of_100(db, made) >= 80);
  EXPECT(lsm_sieve_health(lsm_sieve_of(db)).keys >= 2);
  rocksdb_drop_column_family(db, made, &error);
  EXPECT(error == NULL && has(db, made, "bob"));
  rocksdb_column_family_handle_destroy(made);
  made = rocksdb_create_column_family(db, options, "made", &error);
  EXPECT(made != NULL && !has(db, made, "bob"));
  put(db, made, "eve");

  /* Several at once. */
  const char* more[] = {"first", "second", "third"};
  size_t number = 0;
  rocksdb_column_family_handle_t** all =
      rocksdb_create_column_families(db, options, 3, more, &number, &error);
  EXPECT(error == NULL && number == 3);
  for (size_t i = 0; i < number; ++i) {
    put(db, all[i], more[i]);
    EXPECT(has(db, all[i], more[i]) && !has(db, all[i], more[(i + 1) % 3]));
    EXPECT(absent_of_100(db, all[i]) >= 80);
    rocksdb_column_family_handle_destroy(all[i]);
  }
  rocksdb_create_column_families_destroy(all);

  rocksdb_column_family_handle_destroy(cfs[0]);
  put(db, NULL, "in the default one");
  rocksdb_column_family_handle_destroy(made);
  rocksdb_column_family_handle_destroy(cfs[1]);
  rocksdb_close(db);

  /* RocksDB's refusals as they are. */
  EXPECT(lsm_sieve_open(options, NULL, in_folder("families"), &error) == NULL);
  EXPECT(failed_with("Invalid argument: Column families not opened: "));
  EXPECT(lsm_sieve_open_column_families(options, NULL, in_folder("families"), 1, names + 1, of_cfs,
                                        cfs, &error) == NULL);
  EXPECT(failed_with("Default column family not specified"));
}

/* A comparator that calls no two keys equal that differ. But it is not RocksDB's. */
static void nothing_to_free(void* state) { (void)state; }
static const char* name_of_comparator(void* state) {
  (void)state;
  return "behaviour.backwards";
}
static int compare(void* state, const char* a, size_t a_size, const char* b, size_t b_size) {
  (void)state;
  const int order = memcmp(b, a, a_size < b_size ? a_size : b_size);
  return order != 0 ? order : (int)b_size - (int)a_size;
}

static void refused(void) {
  rocksdb_options_t* existing = rocksdb_options_create();
  EXPECT(lsm_sieve_open(existing, NULL, in_folder("nowhere"), &error) == NULL);
  EXPECT(failed_with("does not exist (create_if_missing is false)"));
  rocksdb_options_destroy(existing);

  fclose(fopen(in_folder("file"), "w"));
  EXPECT(lsm_sieve_open(options, NULL, in_folder("file"), &error) == NULL);
  EXPECT(failed_with("it is a file; give the folder of a database"));

  rocksdb_comparator_t* comparator =
      rocksdb_comparator_create(NULL, nothing_to_free, compare, name_of_comparator);
  rocksdb_options_t* ordered = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(ordered, 1);
  rocksdb_options_set_comparator(ordered, comparator);
  EXPECT(lsm_sieve_open(ordered, NULL, in_folder("ordered"), &error) == NULL);
  EXPECT(failed_with("the comparator behaviour.backwards"));

  /* With the user's promise it is taken. */
  lsm_sieve_options_t* promise = lsm_sieve_options_create();
  lsm_sieve_options_comparator_is_injective(promise, "behaviour.backwards", &error);
  rocksdb_t* backwards = lsm_sieve_open(ordered, promise, in_folder("backwards"), &error);
  EXPECT(backwards != NULL && error == NULL);
  put(backwards, NULL, "ada");
  EXPECT(lsm_sieve_wait_until_complete(lsm_sieve_of(backwards), 60000) == 1);
  EXPECT(has(backwards, NULL, "ada") && absent_of_100(backwards, NULL) >= 80);
  rocksdb_close(backwards);
  lsm_sieve_options_destroy(promise);

  /* Of one column family: it may be left out. */
  const char* names[] = {"default", "ordered"};
  const rocksdb_options_t* of_cfs[] = {options, ordered};
  rocksdb_column_family_handle_t* cfs[2];
  EXPECT(lsm_sieve_open_column_families(options, NULL, in_folder("ordered"), 2, names, of_cfs, cfs,
                                        &error) == NULL);
  EXPECT(failed_with("column family \"ordered\" cannot have filters"));
  lsm_sieve_options_t* settings = lsm_sieve_options_create();
  lsm_sieve_options_exclude_column_family(settings, "ordered", &error);
  rocksdb_t* db = lsm_sieve_open_column_families(options, settings, in_folder("ordered"), 2, names,
                                                 of_cfs, cfs, &error);
  EXPECT(db != NULL && error == NULL);
  put(db, cfs[1], "ada");
  EXPECT(has(db, cfs[1], "ada") && absent_of_100(db, cfs[1]) == 0);
  EXPECT(rocksdb_create_column_family(db, ordered, "another", &error) == NULL);
  EXPECT(failed_with("Not implemented: "));
  const char* more[] = {"another", "ordered too"};
  size_t number = 0;
  rocksdb_column_family_handle_t** none =
      rocksdb_create_column_families(db, ordered, 2, more, &number, &error);
  EXPECT(number == 0 && failed_with("Not implemented: "));
  rocksdb_create_column_families_destroy(none);
  for (int i = 0; i < 2; ++i) rocksdb_column_family_handle_destroy(cfs[i]);
  rocksdb_close(db);
  rocksdb_options_destroy(ordered);
  rocksdb_comparator_destroy(comparator);

  /* RocksDB is open by then, and is closed again. */
  lsm_sieve_options_set_folder(settings, in_folder("file"), &error);
  EXPECT(error == NULL);
  EXPECT(lsm_sieve_open(options, settings, in_folder("closed"), &error) == NULL);
  EXPECT(failed_with("Invalid argument: "));
  lsm_sieve_options_destroy(settings);
  rocksdb_close(open_plainly("closed"));
}

static void arguments(void) {
  EXPECT(lsm_sieve_open(NULL, NULL, in_folder("null"), &error) == NULL);
  EXPECT(failed_with("Invalid argument: the options object is NULL"));
  EXPECT(lsm_sieve_open(options, NULL, NULL, &error) == NULL);
  EXPECT(failed_with("the path is NULL"));
  EXPECT(lsm_sieve_open(NULL, NULL, NULL, NULL) == NULL);
  const char* names[] = {"default", NULL};
  const rocksdb_options_t* of_cfs[] = {options, NULL};
  rocksdb_column_family_handle_t* cfs[2];
  const char* path = in_folder("null");
  EXPECT(lsm_sieve_open_column_families(options, NULL, path, 1, NULL, of_cfs, cfs, &error) == NULL);
  EXPECT(failed_with("the array of names is NULL"));
  EXPECT(lsm_sieve_open_column_families(options, NULL, path, 1, names, NULL, cfs, &error) == NULL);
  EXPECT(failed_with("the array of options is NULL"));
  EXPECT(lsm_sieve_open_column_families(options, NULL, path, 1, names, of_cfs, NULL, &error) ==
         NULL);
  EXPECT(failed_with("the array of handles is NULL"));
  EXPECT(lsm_sieve_open_column_families(options, NULL, path, -1, names, of_cfs, cfs, &error) ==
         NULL);
  EXPECT(failed_with("negative"));
  EXPECT(lsm_sieve_open_column_families(options, NULL, path, 2, names, of_cfs, cfs, &error) ==
         NULL);
  EXPECT(failed_with("the name of a column family is NULL"));
  names[1] = "users";
  EXPECT(lsm_sieve_open_column_families(options, NULL, path, 2, names, of_cfs, cfs, &error) ==
         NULL);
  EXPECT(failed_with("the options object of a column family is NULL"));
  names[1] = "\xff";
  EXPECT(lsm_sieve_open_column_families(options, NULL, path, 2, names, of_cfs, cfs, &error) ==
         NULL);
  EXPECT(failed_with("is not UTF-8"));
  EXPECT(lsm_sieve_open_by(NULL, NULL, LSM_SIEVE_WRITE, options, NULL, path, 1, names, of_cfs, cfs,
                           &error) == NULL);
  EXPECT(failed_with("the opener is NULL"));
  struct stat found;
  EXPECT(stat(path, &found) != 0);

  EXPECT(lsm_sieve_of(NULL) == NULL);
  EXPECT(lsm_sieve_stats(NULL).absent == 0 && lsm_sieve_health(NULL).budget_bytes == 0);
  EXPECT(!lsm_sieve_wait_for_maintenance(NULL, 1) && !lsm_sieve_wait_until_complete(NULL, 1));
  lsm_sieve_consolidate(NULL, &error);
  EXPECT(failed_with("the filters object is NULL"));
  lsm_sieve_verify(NULL, 1, NULL);

  /* Settings out of range change nothing. A newer error takes the place of an older one. */
  lsm_sieve_options_t* settings = lsm_sieve_options_create();
  const double rates[] = {0.0, 1.0, -0.5, 1e300 * 1e300};
  for (int i = 0; i < 4; ++i) {
    lsm_sieve_options_set_false_positive_rate(settings, rates[i], &error);
    EXPECT(error != NULL && strstr(error, "Invalid argument: ") == error);
  }
  lsm_sieve_options_set_bits_per_key(settings, -1.0, &error);
  EXPECT(failed_with("Invalid argument: "));
  lsm_sieve_options_set_false_positive_rate(NULL, 0.01, &error);
  EXPECT(failed_with("the settings object is NULL"));
  lsm_sieve_options_set_folder(settings, NULL, &error);
  EXPECT(failed_with("the folder is NULL"));
  lsm_sieve_options_set_audit(NULL, 1);
  lsm_sieve_options_destroy(settings);
  lsm_sieve_options_destroy(NULL);
}

static void all_settings(void) {
  lsm_sieve_options_t* settings = lsm_sieve_options_create();
  lsm_sieve_options_set_false_positive_rate(settings, 0.001, &error);
  lsm_sieve_options_set_bits_per_key(settings, 14.0, &error);
  lsm_sieve_options_set_speed_over_memory(settings, 1);
  lsm_sieve_options_set_expected_keys(settings, 100000);
  lsm_sieve_options_set_memory_budget(settings, 1 << 20);
  lsm_sieve_options_set_folder(settings, in_folder("elsewhere"), &error);
  lsm_sieve_options_set_audit(settings, 2);
  lsm_sieve_options_set_scrub_seconds(settings, 0);
  lsm_sieve_options_set_adaptive_hits(settings, 0);
  lsm_sieve_options_disable_segment_filters(settings);
  EXPECT(error == NULL);
  rocksdb_t* db = lsm_sieve_open(options, settings, in_folder("settings"), &error);
  EXPECT(db != NULL && error == NULL);
  lsm_sieve_options_destroy(settings);
  struct stat found;
  EXPECT(stat(in_folder("elsewhere"), &found) == 0 && stat(in_folder("settings/sieve"), &found) != 0);
  lsm_sieve_t* filters = lsm_sieve_of(db);
  const lsm_sieve_health_t health = lsm_sieve_health(filters);
  /* One that expects 100,000 keys has room for them from the start. */
  EXPECT(health.budget_bytes == 1 << 20 && health.summary_bytes >= 100000 * 13 / 8);
  EXPECT(health.distrusted == 0 && health.keys == 0);
  put(db, NULL, "ada");
  EXPECT(absent_of_100(db, NULL) >= 80);
  EXPECT(lsm_sieve_stats(filters).audited >= 40);
  rocksdb_close(db);
}

/* Changes a byte in the middle of each file with this ending. */
static void damage(const char* of, const char* ending) {
  char path[4096];
  DIR* const files = opendir(of);
  EXPECT(files != NULL);
  for (const struct dirent* file = readdir(files); file != NULL; file = readdir(files)) {
    if (strstr(file->d_name, ending) == NULL) continue;
    snprintf(path, sizeof(path), "%s/%s", of, file->d_name);
    FILE* const stored = fopen(path, "r+");
    EXPECT(stored != NULL && fseek(stored, 0, SEEK_END) == 0);
    const long middle = ftell(stored) / 2;
    EXPECT(fseek(stored, middle, SEEK_SET) == 0);
    const int byte = fgetc(stored);
    EXPECT(fseek(stored, middle, SEEK_SET) == 0 && fputc(~byte & 0xff, stored) != EOF);
    EXPECT(fclose(stored) == 0);
  }
  closedir(files);
}

static void operations(void) {
  rocksdb_t* db = open_plainly("operations");
  lsm_sieve_t* filters = lsm_sieve_of(db);
  for (int sst = 0; sst < 2; ++sst) {
    for (int i = 0; i < 1000; ++i) {
      char key[32];
      snprintf(key, sizeof(key), "%d of %d", i, sst);
      put(db, NULL, key);
    }
    flush(db);
  }
  lsm_sieve_consolidate(filters, &error);
  EXPECT(error == NULL);
  EXPECT(lsm_sieve_wait_for_maintenance(filters, LIMIT_MS));
  const lsm_sieve_health_t health = lsm_sieve_health(filters);
  EXPECT(health.keys == 2000 && health.segments == 2 && health.uncovered == 0);
  EXPECT(health.predicted_rate > 0.0 && health.predicted_rate <= 0.0101);
  EXPECT(health.budget_bytes == UINT64_MAX && health.segment_bytes > 0 && health.overhead_bytes > 0);
  EXPECT(absent_of_100(db, NULL) >= 80);

  lsm_sieve_verification_t checked = lsm_sieve_verify(filters, 1, &error);
  EXPECT(error == NULL && checked.entries_checked == 2000 && checked.lost == 0);
  EXPECT(checked.sidecars_checked == 2 && checked.damaged == 0 && checked.missing == 0);
  EXPECT(lsm_sieve_verify(filters, 0, &error).entries_checked == 0 && error == NULL);

  damage(in_folder("operations/sieve"), ".sieve");
  checked = lsm_sieve_verify(filters, 0, &error);
  EXPECT(checked.damaged >= 2 && failed_with("Corruption: "));

  lsm_sieve_set_false_positive_rate(filters, 2.0, &error);
  EXPECT(failed_with("Invalid argument: "));
  lsm_sieve_set_false_positive_rate(filters, 0.0001, &error);
  lsm_sieve_consolidate(filters, &error);
  EXPECT(error == NULL && lsm_sieve_health(filters).predicted_rate <= 0.000101);
  lsm_sieve_set_memory_budget(filters, 0, &error);
  EXPECT(error == NULL && lsm_sieve_health(filters).budget_bytes == 0);
  EXPECT(has(db, NULL, "0 of 1") && !has(db, NULL, "0 of 2"));
  lsm_sieve_set_memory_budget(filters, UINT64_MAX, &error);
  EXPECT(error == NULL && lsm_sieve_health(filters).budget_bytes == UINT64_MAX);
  rocksdb_close(db);
}

/* A wait that closes the database ends maintenance first, which reads its column families. */
static void wait_that_closes(void) {
  rocksdb_t* db = open_plainly("waited");
  put(db, NULL, "ada");
  rocksdb_wait_for_compact_options_t* closing = rocksdb_wait_for_compact_options_create();
  rocksdb_wait_for_compact(db, closing, &error);
  EXPECT(error == NULL && has(db, NULL, "ada"));
  rocksdb_wait_for_compact_options_set_close_db(closing, 1);
  rocksdb_wait_for_compact(db, closing, &error);
  EXPECT(error == NULL);
  rocksdb_wait_for_compact_options_destroy(closing);
  lsm_sieve_consolidate(lsm_sieve_of(db), &error);
  EXPECT(failed_with("closed"));
  rocksdb_close(db);
  db = open_plainly("waited");
  EXPECT(has(db, NULL, "ada"));
  rocksdb_close(db);
}

/* RocksDB's own extractor says which prefixes the filters have. */
static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

/* The filters lack the keys of an SST that cannot be read. */
static void wait_that_ends_with_its_limit(void) {
  rocksdb_t* db = rocksdb_open(options, in_folder("damaged"), &error);
  EXPECT(db != NULL);
  for (int i = 0; i < 1000; ++i) {
    char key[32];
    snprintf(key, sizeof(key), "%d", i);
    put(db, NULL, key);
  }
  flush(db);
  rocksdb_close(db);
  damage(in_folder("damaged"), ".sst");
  db = open_plainly("damaged");
  const double began = seconds();
  EXPECT(!lsm_sieve_wait_until_complete(lsm_sieve_of(db), 200));
  const double waited = seconds() - began;
  EXPECT(waited >= .2 && waited < 20);
  rocksdb_close(db);
}

static void prefixes(void) {
  rocksdb_options_t* extracting = rocksdb_options_create_copy(options);
  rocksdb_options_set_prefix_extractor(extracting, rocksdb_slicetransform_create_fixed_prefix(5));
  rocksdb_t* db = lsm_sieve_open(extracting, NULL, in_folder("prefixes"), &error);
  EXPECT(db != NULL && error == NULL);
  rocksdb_options_destroy(extracting);
  lsm_sieve_t* filters = lsm_sieve_of(db);
  char key[32];
  for (int i = 0; i < 100; i += 2) {
    snprintf(key, sizeof(key), "%05d/ada", i);
    put(db, NULL, key);
  }
  wait_for_rest(filters);
  rocksdb_readoptions_t* within_prefix = rocksdb_readoptions_create();
  rocksdb_readoptions_set_prefix_same_as_start(within_prefix, 1);
  rocksdb_iterator_t* iterator = rocksdb_create_iterator(db, within_prefix);
  for (int i = 0; i < 100; ++i) {
    snprintf(key, sizeof(key), "%05d", i);
    rocksdb_iter_seek(iterator, key, strlen(key));
    EXPECT(rocksdb_iter_valid(iterator) == (i % 2 == 0));
  }
  rocksdb_iter_get_error(iterator, &error);
  EXPECT(error == NULL && lsm_sieve_stats(filters).prefixes_absent >= 40);
  EXPECT(lsm_sieve_stats(filters).absent == 0);
  rocksdb_iter_destroy(iterator);
  rocksdb_readoptions_destroy(within_prefix);
  rocksdb_close(db);
}

static void readers(void) {
  rocksdb_t* db = open_plainly("written");
  put(db, NULL, "ada");
  const char* name = "default";
  const rocksdb_options_t* of_cf = options;
  rocksdb_column_family_handle_t* cf;
  char path[4096];
  snprintf(path, sizeof(path), "%s", in_folder("written"));
  EXPECT(lsm_sieve_open_as_secondary_column_families(options, NULL, path, NULL, 1, &name, &of_cf,
                                                     &cf, &error) == NULL);
  EXPECT(failed_with("the path of the secondary is NULL"));
  rocksdb_t* secondary = lsm_sieve_open_as_secondary_column_families(
      options, NULL, path, in_folder("secondary"), 1, &name, &of_cf, &cf, &error);
  EXPECT(secondary != NULL && error == NULL && has(secondary, cf, "ada"));
  put(db, NULL, "bob");
  rocksdb_try_catch_up_with_primary(secondary, &error);
  EXPECT(error == NULL && has(secondary, cf, "bob") && absent_of_100(secondary, cf) >= 80);
  rocksdb_put(secondary, writing, "eve", 3, "value", 5, &error);
  EXPECT(failed_with("Not implemented: "));
  rocksdb_column_family_handle_destroy(cf);
  rocksdb_close(secondary);
  rocksdb_close(db);

  EXPECT(lsm_sieve_open_for_read_only_column_families(options, NULL, path, 1, &name, &of_cf, &cf, 1,
                                                      &error) == NULL);
  EXPECT(error != NULL);
  rocksdb_free(error);
  error = NULL;
  db = lsm_sieve_open_for_read_only_column_families(options, NULL, path, 1, &name, &of_cf, &cf, 0,
                                                    &error);
  EXPECT(db != NULL && error == NULL && has(db, cf, "ada"));
  rocksdb_put(db, writing, "eve", 3, "value", 5, &error);
  EXPECT(failed_with("Not implemented: "));
  rocksdb_column_family_handle_destroy(cf);
  rocksdb_close(db);

  /* Filters that nobody builds are never complete. */
  db = rocksdb_open(options, in_folder("without filters"), &error);
  EXPECT(db != NULL);
  put(db, NULL, "ada");
  flush(db);
  rocksdb_close(db);
  db = lsm_sieve_open_for_read_only_column_families(options, NULL, in_folder("without filters"), 1,
                                                    &name, &of_cf, &cf, 0, &error);
  EXPECT(db != NULL && error == NULL && has(db, cf, "ada"));
  EXPECT(lsm_sieve_wait_for_maintenance(lsm_sieve_of(db), LIMIT_MS));
  EXPECT(!lsm_sieve_wait_until_complete(lsm_sieve_of(db), 100));
  EXPECT(lsm_sieve_health(lsm_sieve_of(db)).uncovered == 1);
  rocksdb_column_family_handle_destroy(cf);
  rocksdb_close(db);
}

/* An open of the caller's own. */
struct call {
  const char* path;
  const char* refusal;
  /* Options without hooks, which it must not use. */
  const rocksdb_options_t* instead;
  int calls;
};

static rocksdb_t* opener(void* context, const rocksdb_options_t* hooked,
                         const rocksdb_options_t* const* of_cfs,
                         rocksdb_column_family_handle_t** handles, char** errptr) {
  struct call* call = context;
  const char* name = "default";
  ++call->calls;
  if (call->refusal != NULL) *errptr = strdup(call->refusal);
  if (call->path == NULL) return NULL;
  if (call->instead != NULL) of_cfs = &call->instead;
  return rocksdb_open_column_families(hooked, call->path, 1, &name, of_cfs, handles, errptr);
}

static void openers(void) {
  const char* name = "default";
  const rocksdb_options_t* of_cf = options;
  rocksdb_column_family_handle_t* cf;
  char path[4096];
  snprintf(path, sizeof(path), "%s", in_folder("opener"));
  struct call refuses = {NULL, "Busy: not now", NULL, 0};
  EXPECT(lsm_sieve_open_by(opener, &refuses, LSM_SIEVE_WRITE, options, NULL, path, 1, &name, &of_cf,
                           &cf, &error) == NULL);
  EXPECT(failed_with("Busy: not now") && refuses.calls == 1);
  struct call is_silent = {NULL, NULL, NULL, 0};
  EXPECT(lsm_sieve_open_by(opener, &is_silent, LSM_SIEVE_WRITE, options, NULL, path, 1, &name,
                           &of_cf, &cf, &error) == NULL);
  EXPECT(failed_with("an error without a text"));
  EXPECT(lsm_sieve_open_by(opener, &is_silent, 3, options, NULL, path, 1, &name, &of_cf, &cf,
                           &error) == NULL);
  EXPECT(failed_with("there is no such access") && is_silent.calls == 1);
  struct call is_wrong = {path, NULL, options, 0};
  EXPECT(lsm_sieve_open_by(opener, &is_wrong, LSM_SIEVE_WRITE, options, NULL, path, 1, &name,
                           &of_cf, &cf, &error) == NULL);
  EXPECT(failed_with("did not use the options of the column families"));
  struct call opens = {path, NULL, NULL, 0};
  rocksdb_t* db = lsm_sieve_open_by(opener, &opens, LSM_SIEVE_WRITE, options, NULL, path, 1, &name,
                                    &of_cf, &cf, &error);
  EXPECT(db != NULL && error == NULL);
  put(db, cf, "ada");
  EXPECT(has(db, NULL, "ada") && absent_of_100(db, cf) >= 80);
  rocksdb_column_family_handle_destroy(cf);
  rocksdb_close(db);
}

/* Each thread reads what it wrote, in a column family that all share. */
struct writer {
  rocksdb_t* db;
  rocksdb_column_family_handle_t* cf;
  int number;
};

static void* write_and_read(void* argument) {
  const struct writer* writer = argument;
  for (int i = 0; i < 2000; ++i) {
    char key[32];
    char* failure = NULL;
    size_t size = 0;
    snprintf(key, sizeof(key), "%d of %d", i, writer->number);
    rocksdb_put_cf(writer->db, writing, writer->cf, key, strlen(key), "value", 5, &failure);
    char* value =
        rocksdb_get_cf(writer->db, reading, writer->cf, key, strlen(key), &size, &failure);
    if (failure != NULL || value == NULL) return "a write was lost";
    rocksdb_free(value);
  }
  return NULL;
}

static void threads(void) {
  rocksdb_t* db = open_plainly("threads");
  rocksdb_column_family_handle_t* cf = rocksdb_create_column_family(db, options, "shared", &error);
  EXPECT(cf != NULL && error == NULL);
  pthread_t all[4];
  struct writer writers[4];
  for (int i = 0; i < 4; ++i) {
    writers[i] = (struct writer){db, cf, i};
    EXPECT(pthread_create(&all[i], NULL, write_and_read, &writers[i]) == 0);
  }
  lsm_sieve_consolidate(lsm_sieve_of(db), &error);
  EXPECT(error == NULL);
  for (int i = 0; i < 4; ++i) {
    void* failure = NULL;
    pthread_join(all[i], &failure);
    EXPECT(failure == NULL);
  }
  rocksdb_column_family_handle_destroy(cf);
  rocksdb_close(db);
}

int main(int argc, char** argv) {
  begin(argc, argv);

  one_family();
  families();
  refused();
  arguments();
  all_settings();
  operations();
  wait_that_closes();
  wait_that_ends_with_its_limit();
  prefixes();
  readers();
  openers();
  threads();

  end();
  puts("all held");
  return 0;
}
