// RocksDB with filters, for C++. The settings and everything else are in lsm_sieve.h.
//
// These functions are those of `rocksdb::DB` and its kinds with settings: all calls of the database go
// through the filters, and so do those of its transactions that read single or several keys. The caller
// deletes the handles of column families, then the database. A null pointer for the settings means the
// defaults.
//
// An error of RocksDB comes as it is. `InvalidArgument` with a text that begins with "lsm-sieve: "
// says that the filters cannot be put in front of this database, and why.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lsm_sieve.h"
#include "rocksdb/db.h"
#include "rocksdb/utilities/db_ttl.h"
#include "rocksdb/utilities/optimistic_transaction_db.h"
#include "rocksdb/utilities/transaction_db.h"

namespace lsm_sieve {

rocksdb::Status Open(const rocksdb::Options& options, const lsm_sieve_options_t* settings,
                     const std::string& name, std::unique_ptr<rocksdb::DB>* db);

rocksdb::Status Open(const rocksdb::DBOptions& options, const lsm_sieve_options_t* settings,
                     const std::string& name,
                     const std::vector<rocksdb::ColumnFamilyDescriptor>& column_families,
                     std::vector<rocksdb::ColumnFamilyHandle*>* handles,
                     std::unique_ptr<rocksdb::DB>* db);

rocksdb::Status OpenForReadOnly(
    const rocksdb::DBOptions& options, const lsm_sieve_options_t* settings, const std::string& name,
    const std::vector<rocksdb::ColumnFamilyDescriptor>& column_families,
    std::vector<rocksdb::ColumnFamilyHandle*>* handles, std::unique_ptr<rocksdb::DB>* db,
    bool error_if_wal_file_exists = false);

rocksdb::Status OpenAsSecondary(
    const rocksdb::DBOptions& options, const lsm_sieve_options_t* settings, const std::string& name,
    const std::string& secondary_path,
    const std::vector<rocksdb::ColumnFamilyDescriptor>& column_families,
    std::vector<rocksdb::ColumnFamilyHandle*>* handles, std::unique_ptr<rocksdb::DB>* db);

rocksdb::Status OpenWithTTL(const rocksdb::DBOptions& options, const lsm_sieve_options_t* settings,
                            const std::string& name,
                            const std::vector<rocksdb::ColumnFamilyDescriptor>& column_families,
                            std::vector<rocksdb::ColumnFamilyHandle*>* handles,
                            rocksdb::DBWithTTL** db, const std::vector<int32_t>& ttls);

rocksdb::Status OpenTransactionDB(
    const rocksdb::DBOptions& options, const rocksdb::TransactionDBOptions& transactions,
    const lsm_sieve_options_t* settings, const std::string& name,
    const std::vector<rocksdb::ColumnFamilyDescriptor>& column_families,
    std::vector<rocksdb::ColumnFamilyHandle*>* handles, rocksdb::TransactionDB** db);

rocksdb::Status OpenTransactionDB(const rocksdb::Options& options,
                                  const rocksdb::TransactionDBOptions& transactions,
                                  const lsm_sieve_options_t* settings, const std::string& name,
                                  rocksdb::TransactionDB** db);

rocksdb::Status OpenOptimisticTransactionDB(
    const rocksdb::DBOptions& options, const rocksdb::OptimisticTransactionDBOptions& transactions,
    const lsm_sieve_options_t* settings, const std::string& name,
    const std::vector<rocksdb::ColumnFamilyDescriptor>& column_families,
    std::vector<rocksdb::ColumnFamilyHandle*>* handles, rocksdb::OptimisticTransactionDB** db);

rocksdb::Status OpenOptimisticTransactionDB(const rocksdb::Options& options,
                                            const lsm_sieve_options_t* settings,
                                            const std::string& name,
                                            rocksdb::OptimisticTransactionDB** db);

// The filters of an open database; null if it was opened without.
lsm_sieve_t* Of(rocksdb::DB* db);

}  // namespace lsm_sieve
