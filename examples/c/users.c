/* A database of users: opened with filters, used by RocksDB's own functions.
 *
 *   cc users.c $(pkg-config --cflags --libs lsm_sieve) -o users && ./users /tmp/users
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lsm_sieve.h"

static void check(char* error) {
  if (error == NULL) return;
  fprintf(stderr, "%s\n", error);
  exit(1);
}

int main(int argc, char** argv) {
  const char* path = argc > 1 ? argv[1] : "/tmp/users";
  char* error = NULL;

  rocksdb_options_t* options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  lsm_sieve_options_t* settings = lsm_sieve_options_create();
  lsm_sieve_options_set_false_positive_rate(settings, 0.001, &error);
  check(error);
  rocksdb_t* db = lsm_sieve_open(options, settings, path, &error);
  check(error);
  lsm_sieve_options_destroy(settings);
  rocksdb_options_destroy(options);

  rocksdb_writeoptions_t* writing = rocksdb_writeoptions_create();
  rocksdb_put(db, writing, "ada", 3, "1815", 4, &error);
  check(error);
  rocksdb_writeoptions_destroy(writing);
  lsm_sieve_t* filters = lsm_sieve_of(db);
  lsm_sieve_wait_until_complete(filters, 60000);

  rocksdb_readoptions_t* reading = rocksdb_readoptions_create();
  const char* names[] = {"ada", "charles"};
  for (int i = 0; i < 2; ++i) {
    size_t size = 0;
    char* value = rocksdb_get(db, reading, names[i], strlen(names[i]), &size, &error);
    check(error);
    printf("%s: %.*s\n", names[i], value ? (int)size : 6, value ? value : "absent");
    rocksdb_free(value);
  }
  rocksdb_readoptions_destroy(reading);
  printf("answered without the engine: %d\n", (int)lsm_sieve_stats(filters).absent);
  rocksdb_close(db);
  return 0;
}
