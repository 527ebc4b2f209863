// The C++ functions: RocksDB opens between the two halves of `lsm_sieve_open_by`, so that its status
// comes to the caller as it is.

#include "lsm_sieve.hpp"

#include <cstring>
#include <utility>

#include "shim.h"

namespace lsm_sieve {
namespace {

using rocksdb::ColumnFamilyDescriptor;
using rocksdb::ColumnFamilyHandle;
using rocksdb::ColumnFamilyOptions;
using rocksdb::DB;
using rocksdb::DBOptions;
using rocksdb::Options;
using rocksdb::Status;

// What `lsm_sieve_open_by` says if RocksDB has not failed.
Status StatusOf(const rocksdb::Slice& error) {
  constexpr char kOfSystem[] = "IO error: ";
  rocksdb::Slice text = error;
  if (!text.starts_with(kOfSystem)) {
    return Status::InvalidArgument("lsm-sieve: " + text.ToString());
  }
  text.remove_prefix(sizeof(kOfSystem) - 1);
  return Status::IOError(text);
}

// `open` is called with the options and column families that have hooks.
template <typename Engine>
Status OpenBy(uint32_t access, const DBOptions& options, const lsm_sieve_options_t* settings,
              const std::string& name, const std::vector<ColumnFamilyDescriptor>& cfs,
              std::vector<ColumnFamilyHandle*>* handles, std::unique_ptr<DB>* db,
              const Engine& open) {
  struct Call {
    const Engine& open;
    const std::vector<ColumnFamilyDescriptor>& cfs;
    std::vector<ColumnFamilyHandle*>* handles;
    Status status;
  };
  handles->clear();
  db->reset();
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
  rocksdb_t* const opened = lsm_sieve_open_by(
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
      &call, access, &database, settings, name.c_str(), static_cast<int>(cfs.size()), names.data(),
      cf_options.data(), c_handles.data(), &error);
  if (opened == nullptr) {
    handles->clear();
    if (call.status.ok()) call.status = StatusOf(error);
    free(error);
    return std::move(call.status);
  }
  db->reset(opened->rep);
  FAULT(HandlesNotFreed, return Status::OK());
  for (rocksdb_column_family_handle_t* handle : c_handles) delete handle;
  delete opened;
  return Status::OK();
}

}  // namespace

Status Open(const DBOptions& options, const lsm_sieve_options_t* settings, const std::string& name,
            const std::vector<ColumnFamilyDescriptor>& cfs,
            std::vector<ColumnFamilyHandle*>* handles, std::unique_ptr<DB>* db) {
  return OpenBy(LSM_SIEVE_WRITE, options, settings, name, cfs, handles, db,
                [&](const DBOptions& hooked, const auto& cfs, auto* handles, auto* engine) {
                  return DB::Open(hooked, name, cfs, handles, engine);
                });
}

Status Open(const Options& options, const lsm_sieve_options_t* settings, const std::string& name,
            std::unique_ptr<DB>* db) {
  const std::vector<ColumnFamilyDescriptor> cfs{
      {rocksdb::kDefaultColumnFamilyName, ColumnFamilyOptions(options)}};
  std::vector<ColumnFamilyHandle*> handles;
  const Status status = Open(DBOptions(options), settings, name, cfs, &handles, db);
  for (ColumnFamilyHandle* handle : handles) delete handle;
  return status;
}

Status OpenForReadOnly(const DBOptions& options, const lsm_sieve_options_t* settings,
                       const std::string& name, const std::vector<ColumnFamilyDescriptor>& cfs,
                       std::vector<ColumnFamilyHandle*>* handles, std::unique_ptr<DB>* db,
                       bool error_if_wal_file_exists) {
  return OpenBy(LSM_SIEVE_READ_ONLY, options, settings, name, cfs, handles, db,
                [&](const DBOptions& hooked, const auto& cfs, auto* handles, auto* engine) {
                  return DB::OpenForReadOnly(hooked, name, cfs, handles, engine,
                                             error_if_wal_file_exists);
                });
}

Status OpenAsSecondary(const DBOptions& options, const lsm_sieve_options_t* settings,
                       const std::string& name, const std::string& secondary_path,
                       const std::vector<ColumnFamilyDescriptor>& cfs,
                       std::vector<ColumnFamilyHandle*>* handles, std::unique_ptr<DB>* db) {
  return OpenBy(LSM_SIEVE_SECONDARY, options, settings, name, cfs, handles, db,
                [&](const DBOptions& hooked, const auto& cfs, auto* handles, auto* engine) {
                  return DB::OpenAsSecondary(hooked, name, secondary_path, cfs, handles, engine);
                });
}

lsm_sieve_t* Of(DB* db) {
  rocksdb_t handle{db};
  return lsm_sieve_of(&handle);
}

}  // namespace lsm_sieve
