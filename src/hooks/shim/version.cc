// Prints the version of the RocksDB that this is linked with, and then that of the headers.

#include <cstdio>
#include <string>

#include "rocksdb/version.h"

int main() {
  std::printf("%s %d.%d.%d\n", ROCKSDB_NAMESPACE::GetRocksVersionAsString().c_str(), ROCKSDB_MAJOR,
              ROCKSDB_MINOR, ROCKSDB_PATCH);
}
