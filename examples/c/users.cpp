// A database of users with a column family: opened with filters, used as any rocksdb::DB.
//
//   c++ -std=c++20 users.cpp $(pkg-config --cflags --libs lsm_sieve) -o users && ./users /tmp/users
#include <cstdlib>
#include <iostream>

#include "lsm_sieve.hpp"

namespace {

void Check(const rocksdb::Status& status) {
  if (status.ok()) return;
  std::cerr << status.ToString() << "\n";
  std::exit(1);
}

}  // namespace

int main(int argc, char** argv) {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  const std::vector<rocksdb::ColumnFamilyDescriptor> families{
      {rocksdb::kDefaultColumnFamilyName, {}}, {"mails", {}}};
  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  std::unique_ptr<rocksdb::DB> db;
  Check(lsm_sieve::Open(options, nullptr, argc > 1 ? argv[1] : "/tmp/users", families, &handles,
                        &db));

  Check(db->Put({}, handles[1], "ada", "ada@example.org"));
  lsm_sieve_t* filters = lsm_sieve::Of(db.get());
  lsm_sieve_wait_until_complete(filters, 60'000);
  for (const char* name : {"ada", "charles"}) {
    std::string value;
    const rocksdb::Status found = db->Get({}, handles[1], name, &value);
    if (!found.IsNotFound()) Check(found);
    std::cout << name << ": " << (found.ok() ? value : "absent") << "\n";
  }
  std::cout << "answered without the engine: " << lsm_sieve_stats(filters).absent << "\n";
  for (rocksdb::ColumnFamilyHandle* handle : handles) delete handle;
}
