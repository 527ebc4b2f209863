/* What the programs of this folder that are in C share. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lsm_sieve.h"

#define EXPECT(condition)                                                             \
  do {                                                                                \
    if (!(condition)) {                                                               \
      fprintf(stderr, "%s:%d: %s; error: %s\n", __FILE__, __LINE__, #condition,      \
              error ? error : "none");                                                \
      exit(1);                                                                        \
    }                                                                                 \
  } while (0)

#define LIMIT_MS 60000

static const char* folder;
static _Thread_local char* error;
static rocksdb_options_t* options;
static rocksdb_readoptions_t* reading;
static rocksdb_writeoptions_t* writing;

/* The path of a file or database in the folder; one of several static texts. */
static inline const char* in_folder(const char* name) {
  static char paths[4][4096];
  static int next;
  char* path = paths[next++ % 4];
  snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
  return path;
}

/* Whether the last call left an error with this text in it; frees it. */
static inline int failed_with(const char* text) {
  const int is_there = error != NULL && strstr(error, text) != NULL;
  if (!is_there) return 0;
  rocksdb_free(error);
  error = NULL;
  return 1;
}

/* Makes the options of a program that was called with a folder. */
static inline void begin(int argc, char** argv) {
  if (argc != 2) exit(2);
  folder = argv[1];
  options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_create_missing_column_families(options, 1);
  reading = rocksdb_readoptions_create();
  writing = rocksdb_writeoptions_create();
}

static inline void end(void) {
  rocksdb_writeoptions_destroy(writing);
  rocksdb_readoptions_destroy(reading);
  rocksdb_options_destroy(options);
}
