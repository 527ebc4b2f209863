// Calls of rocksdb::DB that bring keys past the memtables are announced for as long as they last: the
// list of src/tests/announcements.rs, through C++ and with what only C++ has. No consolidation
// waits for a call that flushes.
//
//   announced FOLDER      an empty folder
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include "rocksdb/merge_operator.h"
#include "rocksdb/metadata.h"
#include "rocksdb/sst_file_writer.h"
#include "rocksdb/utilities/checkpoint.h"
#include "support.hpp"

namespace {

using rocksdb::ColumnFamilyDescriptor;
using rocksdb::ColumnFamilyHandle;
using rocksdb::DB;
using rocksdb::Status;

using Cfs = std::vector<ColumnFamilyHandle*>;
using Files = std::vector<std::string>;

// A flush merges the operands of a key. This one waits there until it is released.
class HeldMerge : public rocksdb::AssociativeMergeOperator {
 public:
  const char* Name() const override { return "held"; }
  bool Merge(const rocksdb::Slice&, const rocksdb::Slice*, const rocksdb::Slice&,
             std::string* value, rocksdb::Logger*) const override {
    if (!has_begun_.exchange(true)) begun_.set_value();
    released_.wait();
    *value = "merged";
    return true;
  }
  bool Wait() const {
    return begun_.get_future().wait_for(std::chrono::milliseconds(kLimitMs)) ==
           std::future_status::ready;
  }
  void Release() { release_.set_value(); }

 private:
  mutable std::atomic<bool> has_begun_{false};
  mutable std::promise<void> begun_;
  std::promise<void> release_;
  std::shared_future<void> released_ = release_.get_future().share();
};

struct World {
  explicit World(const std::string& path) : folder(path) {
    EXPECT(rocksdb::Env::Default()->CreateDirIfMissing(folder).ok());
    rocksdb::DBOptions options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    rocksdb::ColumnFamilyOptions of_cf;
    of_cf.merge_operator = held;
    const std::vector<ColumnFamilyDescriptor> descriptors{
        {"default", of_cf}, {"one", of_cf}, {"two", of_cf}};
    ExactSettings settings;
    EXPECT(lsm_sieve::Open(options, settings.raw, folder + "/db", descriptors, &cfs, &db).ok());
    EXPECT(IsComplete(db.get()));
  }
  ~World() {
    DeleteHandles();
    if (db != nullptr) EXPECT(db->Close().ok());
  }
  void DeleteHandles() {
    for (ColumnFamilyHandle* cf : cfs) delete cf;
    cfs.clear();
  }

  // The entry at which the next flush of the column family is held.
  void Hold(ColumnFamilyHandle* cf) {
    EXPECT(db->Put({}, cf, "held", "value").ok() && db->Merge({}, cf, "held", "operand").ok());
  }

  // An SST with a key on either side of that entry.
  std::string Sst(const std::string& name) {
    const std::string path = folder + "/" + name + ".sst";
    rocksdb::SstFileWriter writer{rocksdb::EnvOptions(), rocksdb::Options()};
    EXPECT(writer.Open(path).ok());
    EXPECT(writer.Put("a", "ingested").ok() && writer.Put("z", "ingested").ok());
    EXPECT(writer.Finish().ok());
    return path;
  }

  bool Has(ColumnFamilyHandle* cf, const std::string& key) {
    std::string value;
    const Status status = db->Get({}, cf, key, &value);
    EXPECT(status.ok() || status.IsNotFound());
    return status.ok();
  }

  // Whether the filters answer for a key that is not there.
  bool IsRuledOut(ColumnFamilyHandle* cf, const std::string& key) {
    const uint64_t before = Stats(db.get()).absent;
    EXPECT(!Has(cf, key));
    return Stats(db.get()).absent > before;
  }

  std::string AbsentKey(ColumnFamilyHandle* cf) {
    for (int i = 0; i < 100; ++i) {
      const std::string key = "never " + std::to_string(i);
      if (IsRuledOut(cf, key)) return key;
    }
    EXPECT(!"the filters rule something out");
    return "";
  }

  const std::string folder;
  const std::shared_ptr<HeldMerge> held = std::make_shared<HeldMerge>();
  Cfs cfs;
  std::unique_ptr<DB> db;
};

// ---------------------------------------------------------------- external writes

using Ingest = std::function<Status(World&, const Cfs&)>;

rocksdb::IngestExternalFileArg Arg(World& world, ColumnFamilyHandle* cf) {
  rocksdb::IngestExternalFileArg arg;
  arg.column_family = cf;
  arg.external_files = {world.Sst(cf->GetName())};
  return arg;
}

std::vector<rocksdb::IngestExternalFileArg> Args(World& world, const Cfs& cfs) {
  std::vector<rocksdb::IngestExternalFileArg> args;
  for (ColumnFamilyHandle* cf : cfs) args.push_back(Arg(world, cf));
  return args;
}

using Handle = std::unique_ptr<rocksdb::FileIngestionHandle>;

// Into these column families, by their index.
const std::vector<std::pair<std::vector<size_t>, Ingest>> kIngests{
    {{0}, [](World& world, const Cfs&) {
       return world.db->IngestExternalFile({world.Sst("default")}, {});
     }},
    {{0}, [](World& world, const Cfs& cfs) {
       return world.db->IngestExternalFile(cfs[0], {world.Sst("default")}, {});
     }},
    {{1}, [](World& world, const Cfs& cfs) {
       return world.db->IngestExternalFile(cfs[0], {world.Sst("one")}, {});
     }},
    {{2}, [](World& world, const Cfs& cfs) {
       return world.db->IngestExternalFiles(Args(world, cfs));
     }},
    {{0, 1, 2}, [](World& world, const Cfs& cfs) {
       return world.db->IngestExternalFiles(Args(world, cfs));
     }},
    {{1}, [](World& world, const Cfs& cfs) {
       Handle prepared;
       const rocksdb::IngestExternalFileArg arg = Arg(world, cfs[0]);
       const Status status =
           world.db->PrepareFileIngestion(cfs[0], arg.external_files, {}, &prepared);
       return status.ok() ? world.db->CommitFileIngestionHandle(std::move(prepared)) : status;
     }},
    {{1, 2}, [](World& world, const Cfs& cfs) {
       Handle prepared;
       const Status status = world.db->PrepareFileIngestion(Args(world, cfs), &prepared);
       return status.ok() ? world.db->CommitFileIngestionHandle(std::move(prepared)) : status;
     }},
    {{0, 2}, [](World& world, const Cfs& cfs) {
       std::vector<Handle> all(2);
       for (size_t i = 0; i < 2; ++i) {
         const Status status = world.db->PrepareFileIngestion({Arg(world, cfs[i])}, &all[i]);
         if (!status.ok()) return status;
       }
       return world.db->CommitFileIngestionHandles(std::move(all));
     }},
};

void IngestionIsAnnouncedUntilItsEnd(const std::string& folder, const std::vector<size_t>& into,
                                     const Ingest& ingest) {
  World world(folder);
  Cfs cfs;
  std::vector<std::string> absent;
  for (const size_t at : into) cfs.push_back(world.cfs[at]);
  for (ColumnFamilyHandle* cf : cfs) absent.push_back(world.AbsentKey(cf));
  for (ColumnFamilyHandle* cf : cfs) world.Hold(cf);
  std::thread ingesting([&] { EXPECT(ingest(world, cfs).ok()); });
  EXPECT(world.held->Wait());
  for (int look = 0; look < 2; ++look) {
    for (size_t i = 0; i < cfs.size(); ++i) EXPECT(!world.IsRuledOut(cfs[i], absent[i]));
    // The same once maintenance has looked at the SSTs.
    EXPECT(lsm_sieve_wait_for_maintenance(lsm_sieve::Of(world.db.get()), kLimitMs) == 1);
  }
  world.held->Release();
  ingesting.join();
  for (ColumnFamilyHandle* cf : cfs) EXPECT(world.Has(cf, "a") && world.Has(cf, "z"));
  EXPECT(IsComplete(world.db.get()));
  for (size_t i = 0; i < cfs.size(); ++i) {
    EXPECT(world.IsRuledOut(cfs[i], absent[i]));
    EXPECT(world.Has(cfs[i], "a") && world.Has(cfs[i], "z"));
  }
}

// Between the two steps nothing has come, and after an abort nothing has changed.
void PreparedFilesAreNoKeysYet(const std::string& folder) {
  World world(folder);
  ColumnFamilyHandle* const cf = world.cfs[1];
  Handle prepared;
  EXPECT(world.db->PrepareFileIngestion({Arg(world, cf)}, &prepared).ok());
  EXPECT(IsComplete(world.db.get()) && !world.Has(cf, "a"));
  EXPECT(prepared->Abort().ok());
  prepared.reset();
  EXPECT(IsComplete(world.db.get()) && !world.Has(cf, "a"));
  EXPECT(world.db->PrepareFileIngestion({Arg(world, cf)}, &prepared).ok());
  // Keys that come between the steps are found, and so are those of the commit.
  EXPECT(world.db->Put({}, cf, "between", "value").ok());
  EXPECT(IsComplete(world.db.get()));
  EXPECT(world.db->CommitFileIngestionHandle(std::move(prepared)).ok());
  EXPECT(world.Has(cf, "a") && world.Has(cf, "between") && world.Has(cf, "z"));
}

// A column family that comes with its SSTs, from one export or from two.
void ImportedFamiliesAreFound(const std::string& folder) {
  World world(folder);
  rocksdb::Checkpoint* raw = nullptr;
  EXPECT(rocksdb::Checkpoint::Create(world.db.get(), &raw).ok());
  const std::unique_ptr<rocksdb::Checkpoint> checkpoint(raw);
  std::vector<std::unique_ptr<rocksdb::ExportImportFilesMetaData>> exports;
  for (size_t at : {1, 2}) {
    ColumnFamilyHandle* const cf = world.cfs[at];
    for (int i = 0; i < 100; ++i) {
      EXPECT(world.db->Put({}, cf, std::to_string(at) + " " + std::to_string(i), "value").ok());
    }
    rocksdb::ExportImportFilesMetaData* files = nullptr;
    EXPECT(checkpoint->ExportColumnFamily(cf, folder + "/export" + std::to_string(at), &files).ok());
    exports.emplace_back(files);
  }
  ColumnFamilyHandle* one = nullptr;
  ColumnFamilyHandle* both = nullptr;
  EXPECT(world.db->CreateColumnFamilyWithImport({}, "of one", {}, *exports[0], &one).ok());
  EXPECT(world.db
             ->CreateColumnFamilyWithImport({}, "of both", {}, {exports[0].get(), exports[1].get()},
                                            &both)
             .ok());
  for (int look = 0; look < 2; ++look) {
    for (int i = 0; i < 100; ++i) {
      EXPECT(world.Has(one, "1 " + std::to_string(i)) && world.Has(both, "1 " + std::to_string(i)));
      EXPECT(world.Has(both, "2 " + std::to_string(i)) && !world.Has(one, "2 " + std::to_string(i)));
    }
    EXPECT(IsComplete(world.db.get()));
  }
  world.AbsentKey(one);
  world.AbsentKey(both);
  delete one;
  delete both;
}

// ---------------------------------------------------------------- flushes

using Flush = std::function<Status(World&)>;

const std::vector<std::pair<const char*, Flush>> kFlushes{
    {"Flush", [](World& world) { return world.db->Flush({}, world.cfs); }},
    {"GetLiveFiles", [](World& world) {
       Files files;
       uint64_t size = 0;
       return world.db->GetLiveFiles(files, &size, true);
     }},
    {"GetLiveFilesStorageInfo", [](World& world) {
       std::vector<rocksdb::LiveFileStorageInfo> files;
       return world.db->GetLiveFilesStorageInfo({}, &files);
     }},
    {"Checkpoint", [](World& world) {
       rocksdb::Checkpoint* raw = nullptr;
       EXPECT(rocksdb::Checkpoint::Create(world.db.get(), &raw).ok());
       return std::unique_ptr<rocksdb::Checkpoint>(raw)->CreateCheckpoint(world.folder + "/copy");
     }},
    {"WaitForCompact", [](World& world) {
       rocksdb::WaitForCompactOptions options;
       options.flush = true;
       return world.db->WaitForCompact(options);
     }},
};

// A consolidation flushes nothing, and waits for no flush: it reads the memtables.
void ConsolidationWaitsForNoFlush(const std::string& folder, const Flush& flush) {
  World world(folder);
  world.Hold(world.cfs[0]);
  for (ColumnFamilyHandle* cf : world.cfs) EXPECT(world.db->Put({}, cf, "key", "value").ok());
  std::thread flushing([&] { EXPECT(flush(world).ok()); });
  EXPECT(world.held->Wait());
  std::future<bool> consolidating = std::async(std::launch::async, [&] {
    char* error = nullptr;
    lsm_sieve_consolidate(lsm_sieve::Of(world.db.get()), &error);
    const bool is_done = error == nullptr;
    free(error);
    return is_done;
  });
  EXPECT(consolidating.wait_for(std::chrono::milliseconds(kLimitMs)) == std::future_status::ready);
  EXPECT(consolidating.get());
  for (ColumnFamilyHandle* cf : world.cfs) EXPECT(world.Has(cf, "key"));
  world.held->Release();
  flushing.join();
  EXPECT(world.Has(world.cfs[0], "held"));
  for (ColumnFamilyHandle* cf : world.cfs) world.AbsentKey(cf);
}

// Each way to close ends maintenance first.
void ClosesBesideAConsolidation(const std::string& folder,
                                const std::function<void(World&)>& close) {
  World world(folder);
  const auto key = [](int i) { return "key " + std::to_string(i); };
  for (int i = 0; i < 2'000; ++i) {
    EXPECT(world.db->Put({}, world.cfs[0], key(i), "value").ok());
  }
  lsm_sieve_set_false_positive_rate(lsm_sieve::Of(world.db.get()), 0.001, nullptr);
  world.DeleteHandles();
  close(world);
  world.db.reset();
  World again(folder);
  for (int i = 0; i < 2'000; ++i) EXPECT(again.Has(again.cfs[0], key(i)));
  again.AbsentKey(again.cfs[0]);
}

const std::vector<std::pair<const char*, std::function<void(World&)>>> kCloses{
    {"Close", [](World& world) { EXPECT(world.db->Close().ok()); }},
    {"WaitForCompact", [](World& world) {
       rocksdb::WaitForCompactOptions options;
       options.close_db = true;
       EXPECT(world.db->WaitForCompact(options).ok());
     }},
    {"delete", [](World& world) { world.db.reset(); }},
};

// ---------------------------------------------------------------- families within a budget

// Column families of one call share what the budget leaves, as those of several calls do.
void FamiliesOfOneCallShareTheBudget(const std::string& folder) {
  constexpr uint64_t kBudget = 4 << 20;
  constexpr int kFamilies = 12;
  uint64_t taken[2] = {};
  for (const bool at_once : {false, true}) {
    rocksdb::Options options;
    options.create_if_missing = true;
    ExactSettings settings;
    lsm_sieve_options_set_memory_budget(settings.raw, kBudget);
    lsm_sieve_options_set_expected_keys(settings.raw, 1'000'000);
    std::unique_ptr<DB> db;
    const std::string path = folder + (at_once ? " at once" : " each");
    EXPECT(lsm_sieve::Open(options, settings.raw, path, &db).ok());
    Files names;
    for (int i = 0; i < kFamilies; ++i) names.push_back("family " + std::to_string(i));
    Cfs made;
    if (at_once) {
      EXPECT(db->CreateColumnFamilies({}, names, &made).ok());
    } else {
      for (const std::string& name : names) {
        made.push_back(nullptr);
        EXPECT(db->CreateColumnFamily({}, name, &made.back()).ok());
      }
    }
    const lsm_sieve_health_t health = lsm_sieve_health(lsm_sieve::Of(db.get()));
    EXPECT(health.budget_bytes == kBudget);
    EXPECT(health.summary_bytes + health.segment_bytes <= kBudget);
    taken[at_once] = health.summary_bytes;
    for (ColumnFamilyHandle* cf : made) {
      EXPECT(db->Put({}, cf, "key", "value").ok());
      std::string value;
      EXPECT(db->Get({}, cf, "key", &value).ok());
      delete cf;
    }
    EXPECT(db->Close().ok());
  }
  EXPECT(taken[0] > 0 && taken[1] > 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  std::vector<std::function<void()>> cases{
      [&] { PreparedFilesAreNoKeysYet(folder + "/prepared"); },
      [&] { ImportedFamiliesAreFound(folder + "/imported"); },
      [&] { FamiliesOfOneCallShareTheBudget(folder + "/budget"); },
  };
  for (size_t i = 0; i < kIngests.size(); ++i) {
    cases.push_back([&folder, i] {
      IngestionIsAnnouncedUntilItsEnd(folder + "/ingestion " + std::to_string(i), kIngests[i].first,
                                      kIngests[i].second);
    });
  }
  for (const auto& [name, flush] : kFlushes) {
    cases.push_back([&folder, name = name, &flush = flush] {
      ConsolidationWaitsForNoFlush(folder + "/flush by " + name, flush);
    });
  }
  for (const auto& [name, close] : kCloses) {
    cases.push_back([&folder, name = name, &close = close] {
      ClosesBesideAConsolidation(folder + "/closed by " + name, close);
    });
  }
  // All databases of a process share the threads that flush, and one that is held keeps its thread.
  std::vector<pid_t> children;
  for (const auto& each : cases) {
    children.push_back(fork());
    EXPECT(children.back() >= 0);
    if (children.back() > 0) continue;
    each();
    std::_Exit(0);
  }
  for (const pid_t child : children) {
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  std::cout << "all held\n";
}
