/* What a program in C sees if the library panics in each call: an error text where there is a place for
 * one, and nothing lost. It is run with the fault CallPanics.
 *
 *   panics FOLDER      an empty folder
 */
#include "support.h"

#define PANICKED() failed_with("lsm-sieve panicked: a fault was injected")

int main(int argc, char** argv) {
  begin(argc, argv);
  const char* names[] = {"default"};
  const rocksdb_options_t* of_names[] = {options};
  rocksdb_column_family_handle_t* handles[1];

  lsm_sieve_options_t* settings = lsm_sieve_options_create();
  lsm_sieve_options_set_false_positive_rate(settings, 0.01, &error);
  EXPECT(PANICKED());
  lsm_sieve_options_set_bits_per_key(settings, 10, &error);
  EXPECT(PANICKED());
  lsm_sieve_options_set_folder(settings, in_folder("filters"), &error);
  EXPECT(PANICKED());
  lsm_sieve_options_exclude_column_family(settings, "default", &error);
  EXPECT(PANICKED());
  /* Without a place for the text. */
  lsm_sieve_options_set_expected_keys(settings, 1000);
  lsm_sieve_options_set_folder(settings, in_folder("filters"), NULL);

  EXPECT(lsm_sieve_open(options, settings, in_folder("db"), &error) == NULL && PANICKED());
  EXPECT(lsm_sieve_open(options, NULL, in_folder("db"), NULL) == NULL);
  EXPECT(lsm_sieve_open_column_families(options, settings, in_folder("db"), 1, names, of_names,
                                        handles, &error) == NULL);
  EXPECT(PANICKED());
  /* An error that was there is replaced, and freed. */
  EXPECT(rocksdb_open(options, "/dev/null/db", &error) == NULL && error != NULL);
  EXPECT(lsm_sieve_open(options, settings, in_folder("db"), &error) == NULL && PANICKED());
  lsm_sieve_options_destroy(settings);

  /* RocksDB goes on. */
  rocksdb_t* db = rocksdb_open(options, in_folder("db"), &error);
  EXPECT(db != NULL && error == NULL);
  EXPECT(lsm_sieve_of(db) == NULL);
  rocksdb_put(db, writing, "key", 3, "value", 5, &error);
  EXPECT(error == NULL);
  rocksdb_close(db);

  end();
  puts("all held");
  return 0;
}
