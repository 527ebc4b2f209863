/* What the C API refuses: at once, before anything is created, and with the cause. Ends with exit
 * code 0, or says which line did not hold.
 *
 * Refusals used to come late or to name something else: an opener that ignored its options was
 * "RocksDB built from other sources", and a folder without a name "a disk to repair", once the
 * database was there.
 *
 *   refusals FOLDER      an empty folder
 */
#define _POSIX_C_SOURCE 200809L
#include <sys/stat.h>
#include <unistd.h>

#include "support.h"

static int exists(const char* path) {
  struct stat found;
  return lstat(path, &found) == 0;
}

static void put(rocksdb_t* db, const char* key) {
  rocksdb_put(db, writing, key, strlen(key), "value", 5, &error);
  EXPECT(error == NULL);
}

static int has(rocksdb_t* db, const char* key) {
  size_t size = 0;
  char* value = rocksdb_get(db, reading, key, strlen(key), &size, &error);
  EXPECT(error == NULL);
  rocksdb_free(value);
  return value != NULL;
}

/* A setter refuses what an open would refuse, and changes nothing. */
static void setters(void) {
  lsm_sieve_options_t* settings = lsm_sieve_options_create();
  lsm_sieve_options_set_folder(settings, "", &error);
  EXPECT(failed_with("Invalid argument: the folder has no name; give its path"));
  lsm_sieve_options_exclude_column_family(settings, "default", &error);
  EXPECT(failed_with("Invalid argument: the default column family cannot be left out"));
  lsm_sieve_options_exclude_column_family(settings, "\xff", &error);
  EXPECT(failed_with("is not UTF-8"));

  /* The largest numbers mean without limit. */
  lsm_sieve_options_set_memory_budget(settings, UINT64_MAX);
  lsm_sieve_options_set_scrub_seconds(settings, UINT64_MAX);
  lsm_sieve_options_set_audit(settings, UINT32_MAX);
  rocksdb_t* db = lsm_sieve_open(options, settings, in_folder("setters"), &error);
  EXPECT(db != NULL && error == NULL);
  EXPECT(exists(in_folder("setters/sieve/identity")));
  lsm_sieve_t* filters = lsm_sieve_of(db);
  EXPECT(lsm_sieve_health(filters).budget_bytes == UINT64_MAX);
  put(db, "ada");
  EXPECT(lsm_sieve_wait_for_maintenance(filters, UINT64_MAX));
  EXPECT(lsm_sieve_wait_until_complete(filters, UINT64_MAX));
  EXPECT(has(db, "ada") && !has(db, "bob") && lsm_sieve_stats(filters).absent == 1);
  rocksdb_close(db);
  lsm_sieve_options_destroy(settings);
}

/* Whether an open with this folder of filters is refused with this text, before the database is
 * created. */
static int refuses_folder(const char* name, const char* text) {
  lsm_sieve_options_t* settings = lsm_sieve_options_create();
  lsm_sieve_options_set_folder(settings, name, &error);
  EXPECT(error == NULL);
  EXPECT(lsm_sieve_open(options, settings, in_folder("none"), &error) == NULL);
  lsm_sieve_options_destroy(settings);
  return !exists(in_folder("none")) && strstr(error, "Invalid argument: ") == error &&
         failed_with(text);
}

static void open_with_folder(const char* path, const char* name) {
  for (int run = 0; run < 2; ++run) {
    lsm_sieve_options_t* settings = lsm_sieve_options_create();
    lsm_sieve_options_set_folder(settings, name, &error);
    rocksdb_t* db = lsm_sieve_open(options, settings, path, &error);
    EXPECT(db != NULL && error == NULL);
    lsm_sieve_options_destroy(settings);
    EXPECT(run == 0 || has(db, "ada"));
    put(db, "ada");
    EXPECT(lsm_sieve_wait_until_complete(lsm_sieve_of(db), LIMIT_MS));
    EXPECT(has(db, "ada") && !has(db, "bob"));
    rocksdb_close(db);
  }
}

static void folders(void) {
  fclose(fopen(in_folder("file"), "w"));
  EXPECT(refuses_folder(in_folder("file"), "a part of the path is a file: use another path: not a directory"));
  EXPECT(refuses_folder(in_folder("file/filters"),
                        "a part of the path is a file: use another path: Not a directory (os error 20)"));
  EXPECT(refuses_folder(in_folder("missing/filters"), "create the folder that it is in"));
  EXPECT(mkdir(in_folder("open to all"), 0700) == 0);
  EXPECT(chmod(in_folder("open to all"), 0777) == 0);
  EXPECT(refuses_folder(in_folder("open to all"), "set its mode to 0700"));
  EXPECT(symlink(in_folder("open to all"), in_folder("link")) == 0);
  EXPECT(refuses_folder(in_folder("link"), "a part of the path is a file: use another path: not a directory"));
  char name[301];
  memset(name, 'a', 300);
  name[300] = 0;
  EXPECT(refuses_folder(in_folder(name), "use a shorter path: File name too long"));

  open_with_folder(in_folder("odd"), in_folder("\xff"));
  EXPECT(exists(in_folder("\xff/identity")));
  EXPECT(chdir(folder) == 0);
  open_with_folder("related", "relative");
  EXPECT(exists(in_folder("relative/identity")) && exists(in_folder("related/CURRENT")));
  open_with_folder(in_folder("its own"), in_folder("its own"));
  open_with_folder(in_folder("its own"), in_folder("its own/deep"));
}

/* The reason for which an open of this path fails, as it is without filters. */
static void fails_as_without(const char* path, const char* reason) {
  EXPECT(rocksdb_open(options, path, &error) == NULL);
  EXPECT(strstr(error, "IO error: ") == error && failed_with(reason));
  EXPECT(lsm_sieve_open(options, NULL, path, &error) == NULL);
  EXPECT(strstr(error, "IO error: ") == error && failed_with(reason));
}

static void paths(void) {
  static char path[6001];
  memset(path, 'a', 6000);
  for (int i = 0; i < 6000; i += 100) path[i] = '/';
  fails_as_without(path, "File name too long");
  memset(path, 'a', 6000);
  fails_as_without(path, "File name too long");
  fails_as_without(in_folder("file/db"), "Not a directory");
  fails_as_without("", "No such file or directory");
  EXPECT(!exists("sieve"));
}

/* What an opener does otherwise than it is told. */
enum wrong {
  NOTHING,
  DATABASE_OPTIONS,
  CF_OPTIONS,
  OPTIONS_OF_ONE,
  OPTIONS_SWAPPED,
  HANDLES_SWAPPED,
  HANDLE_FORGOTTEN,
  SECONDARY,
  WRITER
};

struct call {
  const char* path;
  enum wrong wrong;
};

static const char* const names[] = {"default", "users"};

static rocksdb_t* opener(void* context, const rocksdb_options_t* hooked,
                         const rocksdb_options_t* const* of_cfs,
                         rocksdb_column_family_handle_t** handles, char** errptr) {
  const struct call* call = context;
  const rocksdb_options_t* given[] = {of_cfs[0], of_cfs[1]};
  rocksdb_column_family_handle_t* opened[2] = {NULL, NULL};
  switch (call->wrong) {
    case DATABASE_OPTIONS:
      hooked = options;
      break;
    case CF_OPTIONS:
      given[0] = options; /* fallthrough */
    case OPTIONS_OF_ONE:
      given[1] = options;
      break;
    case OPTIONS_SWAPPED:
      given[0] = of_cfs[1];
      given[1] = of_cfs[0];
      break;
    default:
      break;
  }
  rocksdb_t* db = call->wrong == SECONDARY
                      ? rocksdb_open_as_secondary_column_families(
                            hooked, call->path, in_folder("messages"), 2, names, given, opened, errptr)
                      : rocksdb_open_column_families(hooked, call->path, 2, names, given, opened,
                                                     errptr);
  if (db == NULL) return NULL;
  handles[0] = opened[call->wrong == HANDLES_SWAPPED ? 1 : 0];
  handles[1] = opened[call->wrong == HANDLES_SWAPPED ? 0 : 1];
  if (call->wrong == HANDLE_FORGOTTEN) {
    rocksdb_column_family_handle_destroy(handles[1]);
    handles[1] = NULL;
  }
  return db;
}

static void openers(void) {
  const struct {
    enum wrong wrong;
    uint32_t access;
    const char* text;
  } all[] = {
      {NOTHING, LSM_SIEVE_WRITE, NULL},
      {DATABASE_OPTIONS, LSM_SIEVE_WRITE, "did not use the options of the database"},
      {CF_OPTIONS, LSM_SIEVE_WRITE, "did not use the options of the column families"},
      {OPTIONS_OF_ONE, LSM_SIEVE_WRITE, "did not use the options of the column families"},
      {OPTIONS_SWAPPED, LSM_SIEVE_WRITE, "took the options of one column family for another"},
      {HANDLES_SWAPPED, LSM_SIEVE_WRITE, "\"users\" in the place of \"default\""},
      {HANDLE_FORGOTTEN, LSM_SIEVE_WRITE, "did not store the handle of column family \"users\""},
      {SECONDARY, LSM_SIEVE_WRITE, "opened it for another access"},
      {SECONDARY, LSM_SIEVE_READ_ONLY, "opened it for another access"},
      {WRITER, LSM_SIEVE_SECONDARY, "opened it for another access"},
      {NOTHING, LSM_SIEVE_WRITE, NULL},
      {SECONDARY, LSM_SIEVE_SECONDARY, NULL},
  };
  const char* path = in_folder("opener");
  const rocksdb_options_t* of_cfs[] = {options, options};
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i) {
    struct call call = {path, all[i].wrong};
    rocksdb_column_family_handle_t* cfs[2];
    rocksdb_t* db = lsm_sieve_open_by(opener, &call, all[i].access, options, NULL, path, 2, names,
                                      of_cfs, cfs, &error);
    if (all[i].text != NULL) {
      EXPECT(db == NULL && strstr(error, "other sources") == NULL && failed_with(all[i].text));
      continue;
    }
    EXPECT(db != NULL && error == NULL);
    if (all[i].wrong == NOTHING) put(db, "ada");
    EXPECT(has(db, "ada"));
    for (int cf = 0; cf < 2; ++cf) rocksdb_column_family_handle_destroy(cfs[cf]);
    rocksdb_close(db);
  }
}

/* What RocksDB stores at the places that it is given. */
struct stored {
  unsigned char may_exist, value_found;
  size_t size;
  char value[8];
};

static struct stored may_exist(rocksdb_t* db, const char* key, unsigned char before) {
  struct stored stored = {0, before, 7, ""};
  char* value = NULL;
  stored.may_exist = rocksdb_key_may_exist(db, reading, key, strlen(key), &value, &stored.size,
                                           NULL, 0, &stored.value_found);
  if (value != NULL) memcpy(stored.value, value, stored.size);
  rocksdb_free(value);
  EXPECT(rocksdb_key_may_exist(db, reading, key, strlen(key), NULL, NULL, NULL, 0, NULL) ==
         stored.may_exist);
  return stored;
}

/* That a key is absent, the filters say with what RocksDB says it with. */
static void places(void) {
  const char* paths_of[] = {in_folder("with"), in_folder("without")};
  const char* keys[] = {"ada", "ada lovelace", "zuse", ""};
  rocksdb_flushoptions_t* flushing = rocksdb_flushoptions_create();
  for (unsigned char before = 0; before < 2; ++before) {
    struct stored stored[2][4];
    for (int of = 0; of < 2; ++of) {
      rocksdb_t* db = of == 0 ? lsm_sieve_open(options, NULL, paths_of[of], &error)
                              : rocksdb_open(options, paths_of[of], &error);
      EXPECT(db != NULL && error == NULL);
      put(db, "ada");
      /* Maintenance may flush it at any time, and then its value is read from the cache. */
      rocksdb_flush(db, flushing, &error);
      EXPECT(error == NULL && has(db, "ada"));
      if (of == 0) EXPECT(lsm_sieve_wait_until_complete(lsm_sieve_of(db), LIMIT_MS));
      for (int key = 0; key < 4; ++key) stored[of][key] = may_exist(db, keys[key], before);
      if (of == 0) EXPECT(lsm_sieve_stats(lsm_sieve_of(db)).absent == 6);
      rocksdb_close(db);
    }
    for (int key = 0; key < 4; ++key) {
      const struct stored* with = &stored[0][key];
      const struct stored* without = &stored[1][key];
      EXPECT(with->may_exist == without->may_exist && with->value_found == without->value_found);
      EXPECT(with->size == without->size && memcmp(with->value, without->value, 8) == 0);
    }
  }
  rocksdb_flushoptions_destroy(flushing);
}

/* Each count of lookups, and each alone. */
static void counts(void) {
  rocksdb_options_t* extracting = rocksdb_options_create_copy(options);
  rocksdb_options_set_prefix_extractor(extracting, rocksdb_slicetransform_create_fixed_prefix(3));
  lsm_sieve_options_t* settings = lsm_sieve_options_create();
  lsm_sieve_options_set_audit(settings, 0);
  rocksdb_t* db = lsm_sieve_open(extracting, settings, in_folder("counts"), &error);
  EXPECT(db != NULL && error == NULL);
  rocksdb_options_destroy(extracting);
  lsm_sieve_options_destroy(settings);
  put(db, "ada");
  lsm_sieve_t* filters = lsm_sieve_of(db);
  EXPECT(lsm_sieve_wait_until_complete(filters, LIMIT_MS));
  EXPECT(lsm_sieve_wait_for_maintenance(filters, LIMIT_MS));
  lsm_sieve_stats_t expected = {0};
#define EXPECT_COUNTS()                                               \
  do {                                                                \
    const lsm_sieve_stats_t counted = lsm_sieve_stats(filters);       \
    EXPECT(memcmp(&counted, &expected, sizeof(counted)) == 0);        \
  } while (0)
  EXPECT_COUNTS();
  for (int i = 0; i < 3; ++i) EXPECT(!has(db, "charles"));
  expected.absent = 3;
  EXPECT_COUNTS();
  for (int i = 0; i < 32; ++i) EXPECT(has(db, "ada"));
  expected.found = 32;
  EXPECT_COUNTS();
  for (int i = 0; i < 5; ++i) EXPECT(has(db, "ada"));
  expected.found = 37;
  expected.found_unchecked = 5;
  EXPECT_COUNTS();
  EXPECT(!has(db, "charles"));
  expected.not_consulted = 1;
  EXPECT_COUNTS();
  rocksdb_readoptions_t* within = rocksdb_readoptions_create();
  rocksdb_readoptions_set_prefix_same_as_start(within, 1);
  rocksdb_iterator_t* iterator = rocksdb_create_iterator(db, within);
  for (int i = 0; i < 7; ++i) rocksdb_iter_seek(iterator, "bobby", 5);
  EXPECT(!rocksdb_iter_valid(iterator));
  rocksdb_iter_destroy(iterator);
  rocksdb_readoptions_destroy(within);
  expected.prefixes_absent = 7;
  EXPECT_COUNTS();
  rocksdb_close(db);
}

int main(int argc, char** argv) {
  begin(argc, argv);

  setters();
  folders();
  paths();
  openers();
  places();
  counts();

  end();
  puts("all held");
  return 0;
}
