// Puts filters in front of each database that a program opens by `DB::Open`, `DB::OpenForReadOnly`
// or `DB::OpenAsSecondary`. `DestroyDB` removes the filters too. The linker directs the calls of
// these functions here (`--wrap`, in lsm_sieve.mk), so a program needs no change. At run time,
// filters are asked for by
//
//   LSM_SIEVE_FRONT=1        in the environment: a database that cannot have filters opens without
//   LSM_SIEVE_FRONT=strict   the same, but such a database is refused
//   --fs_uri=lsm-sieve://    a file system that does nothing but ask for filters
//
// The file that LSM_SIEVE_FRONT_LOG names gets a line for each open.
//
// Transactions have no filters: `TransactionDB` opens its engine another way, and
// `OptimisticTransactionDB` takes what `DB::Open` returns for the engine itself.

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "lsm_sieve.hpp"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/utilities/object_registry.h"
#include "rocksdb/utilities/optimistic_transaction_db.h"

namespace lsm_sieve {

using namespace ROCKSDB_NAMESPACE;

using Cfs = std::vector<ColumnFamilyDescriptor>;
using Handles = std::vector<ColumnFamilyHandle*>;

// `Real` functions are RocksDB's, `Wrapped` ones what its callers get. Those with an `Options` open
// the default column family.
#define STRING_ "RKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
#define CFS_ \
  "RKSt6vectorINS_22ColumnFamilyDescriptorESaISD_EEPSC_IPNS_18ColumnFamilyHandleESaISJ_EE"
#define CFS_WITH_ \
  "RKSt6vectorINS_22ColumnFamilyDescriptorESaISG_EEPSF_IPNS_18ColumnFamilyHandleESaISM_EE"
#define DB_ "PSt10unique_ptrIS0_St14default_deleteIS0_EE"
#define WRAPPED(name, mangled, ...)                                      \
  Status Real##name(__VA_ARGS__) __asm__("__real__ZN7rocksdb" mangled);  \
  Status Wrapped##name(__VA_ARGS__) __asm__("__wrap__ZN7rocksdb" mangled)

WRAPPED(Open, "2DB4OpenERKNS_7OptionsE" STRING_ DB_, const Options& options, const std::string& path,
        std::unique_ptr<DB>* db);
WRAPPED(OpenCfs, "2DB4OpenERKNS_9DBOptionsE" STRING_ CFS_ DB_, const DBOptions& options,
        const std::string& path, const Cfs& cfs, Handles* handles, std::unique_ptr<DB>* db);
WRAPPED(ReadOnly, "2DB15OpenForReadOnlyERKNS_7OptionsE" STRING_ DB_ "b", const Options& options,
        const std::string& path, std::unique_ptr<DB>* db, bool error_if_wal_file_exists);
WRAPPED(ReadOnlyCfs, "2DB15OpenForReadOnlyERKNS_9DBOptionsE" STRING_ CFS_ DB_ "b",
        const DBOptions& options, const std::string& path, const Cfs& cfs, Handles* handles,
        std::unique_ptr<DB>* db, bool error_if_wal_file_exists);
WRAPPED(Secondary, "2DB15OpenAsSecondaryERKNS_7OptionsE" STRING_ "SB_" DB_, const Options& options,
        const std::string& path, const std::string& secondary_path, std::unique_ptr<DB>* db);
WRAPPED(SecondaryCfs, "2DB15OpenAsSecondaryERKNS_9DBOptionsE" STRING_ "SB_" CFS_ DB_,
        const DBOptions& options, const std::string& path, const std::string& secondary_path,
        const Cfs& cfs, Handles* handles, std::unique_ptr<DB>* db);
WRAPPED(Optimistic, "23OptimisticTransactionDB4OpenERKNS_7OptionsE" STRING_ "PPS0_",
        const Options& options, const std::string& path, OptimisticTransactionDB** db);
WRAPPED(OptimisticCfs, "23OptimisticTransactionDB4OpenERKNS_9DBOptionsE" STRING_ CFS_ "PPS0_",
        const DBOptions& options, const std::string& path, const Cfs& cfs, Handles* handles,
        OptimisticTransactionDB** db);
WRAPPED(OptimisticWith,
        "23OptimisticTransactionDB4OpenERKNS_9DBOptionsERKNS_30OptimisticTransactionDBOptionsE" STRING_
        CFS_WITH_ "PPS0_",
        const DBOptions& options, const OptimisticTransactionDBOptions& settings,
        const std::string& path, const Cfs& cfs, Handles* handles, OptimisticTransactionDB** db);

WRAPPED(Destroy,
        "9DestroyDBE" STRING_ "RKNS_7OptionsERKSt6vectorINS_22ColumnFamilyDescriptorESaISC_EE",
        const std::string& path, const Options& options, const Cfs& cfs);

#undef STRING_
#undef CFS_
#undef CFS_WITH_
#undef DB_
#undef WRAPPED

namespace {

constexpr char kUri[] = "lsm-sieve://";
constexpr char kRefusal[] = "lsm-sieve: ";

// The file system that `kUri` names.
class AskingFileSystem : public FileSystemWrapper {
 public:
  using FileSystemWrapper::FileSystemWrapper;
  static const char* kClassName() { return "lsm-sieve"; }
  const char* Name() const override { return kClassName(); }
};

const char* AskedByEnvironment() {
  static const char* const value = std::getenv("LSM_SIEVE_FRONT");
  return value == nullptr || std::strcmp(value, "0") == 0 ? nullptr : value;
}

// Set while this thread opens a database with filters: the engine below it, and the database of the
// self-check, are RocksDB's own.
thread_local bool opens_engine = false;

bool IsAskedFor(const DBOptions& options) {
  if (opens_engine) return false;
  return AskedByEnvironment() != nullptr ||
         (options.env != nullptr &&
          options.env->GetFileSystem()->CheckedCast<AskingFileSystem>() != nullptr);
}

void Log(const std::string& text) {
  static const char* const path = std::getenv("LSM_SIEVE_FRONT_LOG");
  if (path == nullptr) return;
  const int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return;
  const std::string line = text + "\n";
  // One write, since other processes may write to the file.
  [[maybe_unused]] const ssize_t written = write(file, line.data(), line.size());
  close(file);
}

// Opens by `filtered` if filters are asked for, otherwise by `real`.
template <typename Filtered, typename Real>
Status OpenBy(const DBOptions& options, const Filtered& filtered, const Real& real) {
  if (!IsAskedFor(options)) return real();
  opens_engine = true;
  Status status = filtered();
  opens_engine = false;
  const std::string text = status.ToString();
  const bool is_refused = text.find(kRefusal) != std::string::npos;
  Log(status.ok() ? "filtered" : (is_refused ? "refused: " : "not opened: ") + text);
  const char* const asked = AskedByEnvironment();
  const bool is_strict = asked != nullptr && std::strcmp(asked, "strict") == 0;
  return is_refused && !is_strict ? real() : status;
}

// `open` opens an engine for transactions.
template <typename Open>
Status OpenEngine(const DBOptions& options, const Open& open) {
  if (!IsAskedFor(options)) return open();
  Log("refused: transactions take the database for the engine itself");
  opens_engine = true;
  Status status = open();
  opens_engine = false;
  return status;
}

// `open` opens the default column family.
template <typename Open>
Status OpenDefault(const Options& options, const Open& open) {
  const Cfs cfs{{kDefaultColumnFamilyName, ColumnFamilyOptions(options)}};
  Handles handles;
  const Status status = open(cfs, &handles);
  if (status.ok()) delete handles.front();
  return status;
}

}  // namespace

Status WrappedOpenCfs(const DBOptions& options, const std::string& path, const Cfs& cfs,
                      Handles* handles, std::unique_ptr<DB>* db) {
  return OpenBy(
      options, [&] { return lsm_sieve::Open(options, nullptr, path, cfs, handles, db); },
      [&] { return RealOpenCfs(options, path, cfs, handles, db); });
}

Status WrappedOpen(const Options& options, const std::string& path, std::unique_ptr<DB>* db) {
  if (!IsAskedFor(options)) return RealOpen(options, path, db);
  if (options.persist_stats_to_disk) {
    // RocksDB opens a second column family for them.
    Log("refused: persist_stats_to_disk needs an open with column families");
    return RealOpen(options, path, db);
  }
  return OpenDefault(options, [&](const Cfs& cfs, Handles* handles) {
    return WrappedOpenCfs(options, path, cfs, handles, db);
  });
}

Status WrappedReadOnlyCfs(const DBOptions& options, const std::string& path, const Cfs& cfs,
                          Handles* handles, std::unique_ptr<DB>* db,
                          bool error_if_wal_file_exists) {
  return OpenBy(
      options,
      [&] {
        return OpenForReadOnly(options, nullptr, path, cfs, handles, db, error_if_wal_file_exists);
      },
      [&] { return RealReadOnlyCfs(options, path, cfs, handles, db, error_if_wal_file_exists); });
}

Status WrappedReadOnly(const Options& options, const std::string& path, std::unique_ptr<DB>* db,
                       bool error_if_wal_file_exists) {
  if (!IsAskedFor(options)) return RealReadOnly(options, path, db, error_if_wal_file_exists);
  return OpenDefault(options, [&](const Cfs& cfs, Handles* handles) {
    return WrappedReadOnlyCfs(options, path, cfs, handles, db, error_if_wal_file_exists);
  });
}

Status WrappedSecondaryCfs(const DBOptions& options, const std::string& path,
                           const std::string& secondary_path, const Cfs& cfs, Handles* handles,
                           std::unique_ptr<DB>* db) {
  return OpenBy(
      options,
      [&] { return OpenAsSecondary(options, nullptr, path, secondary_path, cfs, handles, db); },
      [&] { return RealSecondaryCfs(options, path, secondary_path, cfs, handles, db); });
}

Status WrappedSecondary(const Options& options, const std::string& path,
                        const std::string& secondary_path, std::unique_ptr<DB>* db) {
  if (!IsAskedFor(options)) return RealSecondary(options, path, secondary_path, db);
  return OpenDefault(options, [&](const Cfs& cfs, Handles* handles) {
    return WrappedSecondaryCfs(options, path, secondary_path, cfs, handles, db);
  });
}

Status WrappedOptimistic(const Options& options, const std::string& path,
                         OptimisticTransactionDB** db) {
  return OpenEngine(options, [&] { return RealOptimistic(options, path, db); });
}

Status WrappedOptimisticCfs(const DBOptions& options, const std::string& path, const Cfs& cfs,
                            Handles* handles, OptimisticTransactionDB** db) {
  return OpenEngine(options, [&] { return RealOptimisticCfs(options, path, cfs, handles, db); });
}

Status WrappedOptimisticWith(const DBOptions& options,
                             const OptimisticTransactionDBOptions& settings,
                             const std::string& path, const Cfs& cfs, Handles* handles,
                             OptimisticTransactionDB** db) {
  return OpenEngine(options, [&] {
    return RealOptimisticWith(options, settings, path, cfs, handles, db);
  });
}

Status WrappedDestroy(const std::string& path, const Options& options, const Cfs& cfs) {
  const Status status = RealDestroy(path, options, cfs);
  if (!status.ok() || !IsAskedFor(options)) return status;
  const std::string folder = path + "/sieve";
  std::error_code failed;
  for (const auto& file : std::filesystem::directory_iterator(folder, failed)) {
    const std::string name = file.path().filename();
    if (name.find(".sieve") != name.npos || name.find("identity") == 0) unlink(file.path().c_str());
  }
  // As RocksDB does: a folder in which there is something else stays.
  if (rmdir(folder.c_str()) == 0) rmdir(path.c_str());
  return status;
}

}  // namespace lsm_sieve

// RocksDB's registry of plugins calls it.
extern "C" int RegisterLsmSieve(ROCKSDB_NAMESPACE::ObjectLibrary& library, const std::string&) {
  using lsm_sieve::AskingFileSystem;
  using ROCKSDB_NAMESPACE::FileSystem;
  library.AddFactory<FileSystem>(
      lsm_sieve::kUri,
      [](const std::string&, std::unique_ptr<FileSystem>* guard, std::string*) {
        guard->reset(new AskingFileSystem(FileSystem::Default()));
        return guard->get();
      });
  return 1;
}
