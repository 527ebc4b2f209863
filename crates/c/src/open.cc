// The C++ functions: RocksDB opens between the two halves of `lsm_sieve_open_by`, or of one like it
// that puts transactions over the filters, so that its status comes to the caller as it is.

#include "lsm_sieve.hpp"

#include <cstring>
#include <utility>

#include "transactions.h"

// open.rs
extern "C" {
rocksdb_transactiondb_t* lsm_sieve_transactiondb_open_by(
    lsm_sieve_opener_t opener, void* context, const rocksdb_transactiondb_options_t* transactions,
    const rocksdb_options_t* options, const lsm_sieve_options_t* settings, const char* path, int n,
    const char* const* names, const rocksdb_options_t* const* cf_options,
    rocksdb_column_family_handle_t** handles, char** errptr);
rocksdb_optimistictransactiondb_t* lsm_sieve_optimistictransactiondb_open_by(
    lsm_sieve_opener_t opener, void* context,
    const rocksdb_optimistictransactiondb_options_t* transactions,
    const rocksdb_options_t* options, const lsm_sieve_options_t* settings, const char* path, int n,
    const char* const* names, const rocksdb_options_t* const* cf_options,
    rocksdb_column_family_handle_t** handles, char** errptr);
}

namespace lsm_sieve {
namespace {

using rocksdb::ColumnFamilyDescriptor;
using rocksdb::ColumnFamilyHandle;
using rocksdb::ColumnFamilyOptions;
using rocksdb::DB;
using rocksdb::DBOptions;
using rocksdb::DBWithTTL;
using rocksdb::OptimisticTransactionDB;
using rocksdb::OptimisticTransactionDBOptions;
using rocksdb::Options;
using rocksdb::Status;
using rocksdb::TransactionDB;
using rocksdb::TransactionDBOptions;

// What `lsm_sieve_open_by` says if RocksDB has not failed.
Status StatusOf(rocksdb::Slice text) {
  const auto remove = [&](const rocksdb::Slice& prefix) {
    const bool begins = text.starts_with(prefix);
    if (begins) text.remove_prefix(prefix.size());
    return begins;
  };
  if (remove("IO error: ")) return Status::IOError(text);
  remove("Invalid argument: ");
  return Status::InvalidArgument("lsm-sieve: " + text.ToString());
}

// `open_by` is `lsm_sieve_open_by`, or one like it, and `kind` what it takes after the opener and its
// context. `open` is called with the options and column families that have hooks.
template <typename OpenBy, typename Kind, typename Database, typename Engine>
Status OpenAs(const OpenBy& open_by, Kind kind, const DBOptions& options,
              const lsm_sieve_options_t* settings, const std::string& name,
              const std::vector<ColumnFamilyDescriptor>& cfs,
              std::vector<ColumnFamilyHandle*>* handles, Database** db, const Engine& open) {
  struct Call {
    const Engine& open;
    const std::vector<ColumnFamilyDescriptor>& cfs;
    std::vector<ColumnFamilyHandle*>* handles;
    Status status;
  };
  handles->clear();
  *db = nullptr;
  for (const ColumnFamilyDescriptor& cf : cfs) {
    if (cf.name.find('\0') == std::string::npos) continue;
    return Status::NotSupported("lsm-sieve: a column family's name contains a zero byte");
  }
  const rocksdb_options_t database{Options(options, ColumnFamilyOptions())};
  std::vector<rocksdb_options_t> of_cfs;
  for (const ColumnFamilyDescriptor& cf : cfs) of_cfs.push_back({Options(options, cf.options)});
  std::vector<const rocksdb_options_t*> cf_options;
  for (const rocksdb_options_t& of_cf : of_cfs) cf_options.push_back(&of_cf);
  std::vector<const char*> names;
  for (const ColumnFamilyDescriptor& cf : cfs) names.push_back(cf.name.c_str());
  std::vector<rocksdb_column_family_handle_t*> c_handles(cfs.size());

  Call call{open, cfs, handles, Status::OK()};
  char* error = nullptr;
  auto* const opened = open_by(
      [](void* context, const rocksdb_options_t* hooked, const rocksdb_options_t* const* of_cfs,
         rocksdb_column_family_handle_t** c_handles, char** errptr) noexcept -> rocksdb_t* {
        auto* call = static_cast<Call*>(context);
        std::vector<ColumnFamilyDescriptor> cfs;
        for (size_t i = 0; i < call->cfs.size(); ++i) {
          cfs.emplace_back(call->cfs[i].name, ColumnFamilyOptions(of_cfs[i]->rep));
        }
        std::unique_ptr<DB> engine;
        call->status = call->open(DBOptions(hooked->rep), cfs, call->handles, &engine);
        if (!call->status.ok()) {
          *errptr = strdup(call->status.ToString().c_str());
          return nullptr;
        }
        for (size_t i = 0; i < cfs.size(); ++i) {
          c_handles[i] = new rocksdb_column_family_handle_t{(*call->handles)[i], false};
        }
        return new rocksdb_t{engine.release()};
      },
      &call, kind, &database, settings, name.c_str(), static_cast<int>(cfs.size()), names.data(),
      cf_options.data(), c_handles.data(), &error);
  if (opened == nullptr) {
    handles->clear();
    if (call.status.ok()) call.status = StatusOf(error);
    free(error);
    return std::move(call.status);
  }
  *db = opened->rep;
  FAULT(HandlesNotFreed, return Status::OK());
  for (rocksdb_column_family_handle_t* handle : c_handles) delete handle;
  delete opened;
  return Status::OK();
}

template <typename Engine>
Status OpenDB(uint32_t access, const DBOptions& options, const lsm_sieve_options_t* settings,
              const std::string& name, const std::vector<ColumnFamilyDescriptor>& cfs,
              std::vector<ColumnFamilyHandle*>* handles, std::unique_ptr<DB>* db,
              const Engine& open) {
  db->reset();
  DB* opened = nullptr;
  const Status status =
      OpenAs(lsm_sieve_open_by, access, options, settings, name, cfs, handles, &opened, open);
  db->reset(opened);
  return status;
}

// Opens the default column family with the database's options. The caller gets no handle.
template <typename Opens>
Status OpenOne(const Options& options, const Opens& open) {
  const std::vector<ColumnFamilyDescriptor> cfs{
      {rocksdb::kDefaultColumnFamilyName, ColumnFamilyOptions(options)}};
  std::vector<ColumnFamilyHandle*> handles;
  const Status status = open(DBOptions(options), cfs, &handles);
  for (ColumnFamilyHandle* handle : handles) delete handle;
  return status;
}

auto Plainly(const std::string& name) {
  return [&](const DBOptions& hooked, const auto& cfs, auto* handles, auto* engine) {
    return DB::Open(hooked, name, cfs, handles, engine);
  };
}

}  // namespace

Status Open(const DBOptions& options, const lsm_sieve_options_t* settings, const std::string& name,
            const std::vector<ColumnFamilyDescriptor>& cfs,
            std::vector<ColumnFamilyHandle*>* handles, std::unique_ptr<DB>* db) {
  return OpenDB(LSM_SIEVE_WRITE, options, settings, name, cfs, handles, db, Plainly(name));
}

Status Open(const Options& options, const lsm_sieve_options_t* settings, const std::string& name,
            std::unique_ptr<DB>* db) {
  return OpenOne(options, [&](const DBOptions& options, const auto& cfs, auto* handles) {
    return Open(options, settings, name, cfs, handles, db);
  });
}

Status OpenForReadOnly(const DBOptions& options, const lsm_sieve_options_t* settings,
                       const std::string& name, const std::vector<ColumnFamilyDescriptor>& cfs,
                       std::vector<ColumnFamilyHandle*>* handles, std::unique_ptr<DB>* db,
                       bool error_if_wal_file_exists) {
  return OpenDB(LSM_SIEVE_READ_ONLY, options, settings, name, cfs, handles, db,
                [&](const DBOptions& hooked, const auto& cfs, auto* handles, auto* engine) {
                  return DB::OpenForReadOnly(hooked, name, cfs, handles, engine,
                                             error_if_wal_file_exists);
                });
}

Status OpenAsSecondary(const DBOptions& options, const lsm_sieve_options_t* settings,
                       const std::string& name, const std::string& secondary_path,
                       const std::vector<ColumnFamilyDescriptor>& cfs,
                       std::vector<ColumnFamilyHandle*>* handles, std::unique_ptr<DB>* db) {
  return OpenDB(LSM_SIEVE_SECONDARY, options, settings, name, cfs, handles, db,
                [&](const DBOptions& hooked, const auto& cfs, auto* handles, auto* engine) {
                  return DB::OpenAsSecondary(hooked, name, secondary_path, cfs, handles, engine);
                });
}

Status OpenWithTTL(const DBOptions& options, const lsm_sieve_options_t* settings,
                   const std::string& name, const std::vector<ColumnFamilyDescriptor>& cfs,
                   std::vector<ColumnFamilyHandle*>* handles, DBWithTTL** db,
                   const std::vector<int32_t>& ttls) {
  DB* opened = nullptr;
  const Status status =
      OpenAs(lsm_sieve_open_by, LSM_SIEVE_WRITE, options, settings, name, cfs, handles, &opened,
             [&](const DBOptions& hooked, const auto& cfs, auto* handles, auto* engine) {
               DBWithTTL* with_ttl = nullptr;
               Status status = DBWithTTL::Open(hooked, name, cfs, handles, &with_ttl, ttls);
               engine->reset(with_ttl);
               return status;
             });
  // What has the filters passes the calls of a `DBWithTTL` on.
  *db = static_cast<DBWithTTL*>(opened);
  return status;
}

Status OpenTransactionDB(const DBOptions& options, const TransactionDBOptions& transactions,
                         const lsm_sieve_options_t* settings, const std::string& name,
                         const std::vector<ColumnFamilyDescriptor>& cfs,
                         std::vector<ColumnFamilyHandle*>* handles, TransactionDB** db) {
  const rocksdb_transactiondb_options_t locks{transactions};
  return OpenAs(lsm_sieve_transactiondb_open_by, &locks, options, settings, name, cfs, handles, db,
                Plainly(name));
}

Status OpenTransactionDB(const Options& options, const TransactionDBOptions& transactions,
                         const lsm_sieve_options_t* settings, const std::string& name,
                         TransactionDB** db) {
  return OpenOne(options, [&](const DBOptions& options, const auto& cfs, auto* handles) {
    return OpenTransactionDB(options, transactions, settings, name, cfs, handles, db);
  });
}

Status OpenOptimisticTransactionDB(const DBOptions& options,
                                   const OptimisticTransactionDBOptions& transactions,
                                   const lsm_sieve_options_t* settings, const std::string& name,
                                   const std::vector<ColumnFamilyDescriptor>& cfs,
                                   std::vector<ColumnFamilyHandle*>* handles,
                                   OptimisticTransactionDB** db) {
  const rocksdb_optimistictransactiondb_options_t optimism{transactions};
  return OpenAs(lsm_sieve_optimistictransactiondb_open_by, &optimism, options, settings, name, cfs,
                handles, db, Plainly(name));
}

Status OpenOptimisticTransactionDB(const Options& options, const lsm_sieve_options_t* settings,
                                   const std::string& name, OptimisticTransactionDB** db) {
  return OpenOne(options, [&](const DBOptions& options, const auto& cfs, auto* handles) {
    return OpenOptimisticTransactionDB(options, {}, settings, name, cfs, handles, db);
  });
}

lsm_sieve_t* Of(DB* db) {
  rocksdb_t handle{db};
  return lsm_sieve_of(&handle);
}

}  // namespace lsm_sieve
