// What lsm_sieve.hpp promises. Ends with exit code 0, or says which line did not hold.
//
//   behaviour FOLDER      an empty folder
#include <cstdlib>
#include <iostream>

#include "lsm_sieve.hpp"
#include "rocksdb/comparator.h"
#include "rocksdb/utilities/checkpoint.h"
#include "rocksdb/utilities/stackable_db.h"

#define EXPECT(condition)                                              \
  do {                                                                 \
    if (!(condition)) {                                                \
      std::cerr << "line " << __LINE__ << ": " << #condition << "\n"; \
      std::exit(1);                                                    \
    }                                                                  \
  } while (false)

namespace {

using rocksdb::ColumnFamilyDescriptor;
using rocksdb::ColumnFamilyHandle;
using rocksdb::DB;
using rocksdb::Status;

// It orders as RocksDB's own, but has another name.
class OtherComparator : public rocksdb::Comparator {
 public:
  const char* Name() const override { return "behaviour.other"; }
  int Compare(const rocksdb::Slice& a, const rocksdb::Slice& b) const override {
    return a.compare(b);
  }
  void FindShortestSeparator(std::string*, const rocksdb::Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}
};

bool Has(DB* db, ColumnFamilyHandle* cf, const std::string& key) {
  std::string value;
  const Status status = db->Get({}, cf, key, &value);
  EXPECT(status.ok() || status.IsNotFound());
  return status.ok();
}

uint64_t AbsentOf100(DB* db, ColumnFamilyHandle* cf) {
  lsm_sieve_t* filters = lsm_sieve::Of(db);
  EXPECT(lsm_sieve_wait_until_complete(filters, 60'000));
  const uint64_t before = lsm_sieve_stats(filters).absent;
  for (int i = 0; i < 100; ++i) EXPECT(!Has(db, cf, "absent " + std::to_string(i)));
  return lsm_sieve_stats(filters).absent - before;
}

void Families(const std::string& path) {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  options.create_missing_column_families = true;
  std::vector<ColumnFamilyDescriptor> cfs{{"default", {}}, {"users", {}}};
  std::vector<ColumnFamilyHandle*> handles;
  std::unique_ptr<DB> db;
  EXPECT(lsm_sieve::Open(options, nullptr, path, cfs, &handles, &db).ok());
  EXPECT(handles.size() == 2 && handles[1]->GetName() == "users");
  EXPECT(db->Put({}, handles[1], "ada", "1815").ok());
  EXPECT(Has(db.get(), handles[1], "ada") && AbsentOf100(db.get(), handles[1]) >= 80);

  ColumnFamilyHandle* made = nullptr;
  EXPECT(db->CreateColumnFamily({}, "made", &made).ok());
  EXPECT(db->Put({}, made, "bob", "value").ok());
  EXPECT(Has(db.get(), made, "bob") && AbsentOf100(db.get(), made) >= 80);
  EXPECT(db->DropColumnFamily(made).ok());
  delete made;

  rocksdb::Checkpoint* checkpoint = nullptr;
  EXPECT(rocksdb::Checkpoint::Create(db.get(), &checkpoint).ok());
  EXPECT(checkpoint->CreateCheckpoint(path + " copy").ok());
  delete checkpoint;

  // A lock error comes as RocksDB's own, and leaves nothing in the results.
  std::unique_ptr<DB> again;
  std::vector<ColumnFamilyHandle*> none;
  EXPECT(lsm_sieve::Open(options, nullptr, path, cfs, &none, &again).IsIOError());
  EXPECT(again == nullptr && none.empty());
  std::unique_ptr<DB> secondary;
  std::vector<ColumnFamilyHandle*> read;
  EXPECT(lsm_sieve::OpenAsSecondary(options, nullptr, path, path + " messages", cfs, &read,
                                    &secondary)
             .ok());
  EXPECT(Has(secondary.get(), read[1], "ada"));
  for (ColumnFamilyHandle* handle : read) delete handle;
  secondary.reset();
  EXPECT(db->Put({}, "late", "value").ok());  // It is in the log alone.
  delete handles[1];
  delete handles[0];
  EXPECT(db->Close().ok());
  db.reset();

  EXPECT(!lsm_sieve::OpenForReadOnly(options, nullptr, path, cfs, &handles, &db,
                                     /* error_if_wal_file_exists */ true)
              .ok());
  EXPECT(db == nullptr && handles.empty());
  EXPECT(lsm_sieve::OpenForReadOnly(options, nullptr, path + " copy", cfs, &handles, &db).ok());
  EXPECT(Has(db.get(), handles[1], "ada"));
  EXPECT(db->Put({}, "ada", "value").IsNotSupported());
  for (ColumnFamilyHandle* handle : handles) delete handle;
}

// Column families that are created and dropped by one call.
void FamiliesAtOnce(const std::string& path) {
  rocksdb::DBOptions options;
  options.create_if_missing = true;
  lsm_sieve_options_t* settings = lsm_sieve_options_create();
  char* error = nullptr;
  lsm_sieve_options_exclude_column_family(settings, "excluded", &error);
  std::vector<ColumnFamilyHandle*> opened, made;
  std::unique_ptr<DB> db;
  EXPECT(lsm_sieve::Open(options, settings, path, {{"default", {}}}, &opened, &db).ok());
  lsm_sieve_options_destroy(settings);

  EXPECT(db->CreateColumnFamilies({}, {}, &made).ok() && made.empty());
  EXPECT(db->CreateColumnFamilies({}, {"ada", "excluded", "bob"}, &made).ok() && made.size() == 3);
  for (ColumnFamilyHandle* cf : made) {
    EXPECT(db->Put({}, cf, cf->GetName(), "value").ok() && Has(db.get(), cf, cf->GetName()));
    const uint64_t absent = AbsentOf100(db.get(), cf);
    EXPECT(cf->GetName() == "excluded" ? absent == 0 : absent >= 80);
  }

  // RocksDB creates those before the one that it refuses.
  std::vector<ColumnFamilyHandle*> before;
  EXPECT(db->CreateColumnFamilies({}, {"eve", "ada", "mallory"}, &before).IsInvalidArgument());
  EXPECT(before.size() == 1 && before[0]->GetName() == "eve");
  EXPECT(db->Put({}, before[0], "key", "value").ok() && Has(db.get(), before[0], "key"));
  EXPECT(AbsentOf100(db.get(), before[0]) >= 80);

  // What filters refuse is refused before.
  OtherComparator comparator;
  rocksdb::ColumnFamilyOptions ordered;
  ordered.comparator = &comparator;
  std::vector<ColumnFamilyHandle*> none;
  EXPECT(db->CreateColumnFamilies({{"good", {}}, {"ordered", ordered}}, &none).IsNotSupported());
  EXPECT(none.empty());
  ColumnFamilyHandle* good = nullptr;
  EXPECT(db->CreateColumnFamily({}, "good", &good).ok());

  // Again, the rest is not dropped. Dropped ones are still read.
  EXPECT(db->DropColumnFamilies({}).ok());
  EXPECT(!db->DropColumnFamilies({made[0], made[1], made[0], made[2]}).ok());
  for (ColumnFamilyHandle* cf : made) EXPECT(Has(db.get(), cf, cf->GetName()));
  EXPECT(AbsentOf100(db.get(), made[0]) == 0 && AbsentOf100(db.get(), made[2]) >= 80);
  EXPECT(db->DropColumnFamilies({made[2], before[0]}).ok());
  for (ColumnFamilyHandle* cf : made) delete cf;
  delete before[0];
  delete good;
  delete opened[0];
  EXPECT(db->Close().ok());
}

void Refusals(const std::string& path) {
  std::unique_ptr<DB> db;
  EXPECT(lsm_sieve::Open(rocksdb::Options(), nullptr, path, &db).IsInvalidArgument());
  rocksdb::Options options;
  options.create_if_missing = true;
  OtherComparator comparator;
  options.comparator = &comparator;
  const Status refused = lsm_sieve::Open(options, nullptr, path, &db);
  EXPECT(refused.IsInvalidArgument() && db == nullptr);
  EXPECT(refused.ToString().find("lsm-sieve: ") != std::string::npos);
  EXPECT(refused.ToString().find("behaviour.other") != std::string::npos);
  std::vector<ColumnFamilyHandle*> handles;
  const std::string name("with\0zero", 9);
  EXPECT(lsm_sieve::Open({}, nullptr, path, {{"default", {}}, {name, {}}}, &handles, &db)
             .IsNotSupported());
}

// Stacked on the database of ours, as a program may have it.
void Stacked(const std::string& path) {
  rocksdb::Options options;
  options.create_if_missing = true;
  lsm_sieve_options_t* settings = lsm_sieve_options_create();
  lsm_sieve_options_set_audit(settings, 1);
  std::unique_ptr<DB> db;
  EXPECT(lsm_sieve::Open(options, settings, path, &db).ok());
  lsm_sieve_options_destroy(settings);
  rocksdb::StackableDB stacked(db.release());
  EXPECT(stacked.Put({}, "ada", "1815").ok());
  EXPECT(AbsentOf100(&stacked, stacked.DefaultColumnFamily()) >= 80);
  EXPECT(lsm_sieve_stats(lsm_sieve::Of(&stacked)).audited >= 80);

  std::unique_ptr<DB> plain;
  EXPECT(DB::Open(options, path + " plain", &plain).ok());
  EXPECT(lsm_sieve::Of(plain.get()) == nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  Families(folder + "/families");
  FamiliesAtOnce(folder + "/at once");
  Refusals(folder + "/refused");
  Stacked(folder + "/stacked");
  std::cout << "all held\n";
}
