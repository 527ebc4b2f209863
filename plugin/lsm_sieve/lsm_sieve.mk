# Included by RocksDB's Makefile with ROCKSDB_PLUGINS=lsm_sieve; see README.md.

comma := ,

lsm_sieve_SOURCES = front.cc c/open.cc c/transactions.cc $(addprefix shim/,$(addsuffix .cc, \
    database engine errors events find_handle iterator memtables options segment_filters tables \
    transactions))
lsm_sieve_CXXFLAGS = -Iplugin/lsm_sieve/c -Iplugin/lsm_sieve/shim -Wno-shadow
ifeq ($(LSM_SIEVE_FAULTS),1)
lsm_sieve_CXXFLAGS += -DLSM_SIEVE_FAULTS
endif
lsm_sieve_FUNC = RegisterLsmSieve

# The Rust half.
LSM_SIEVE_LIB ?= plugin/lsm_sieve/liblsm_sieve.a

# What only the Rust half uses of RocksDB's library, one function of each object: the library comes
# before it.
lsm_sieve_USED = rocksdb_free lsm_sieve_engine lsm_sieve_filter_handle lsm_sieve_find_handle \
    lsm_sieve_free lsm_sieve_listen lsm_sieve_live_tables lsm_sieve_refusal lsm_sieve_transactions \
    lsm_sieve_warn

# Calls of these functions go to front.cc.
lsm_sieve_STRING = RKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE
lsm_sieve_CFS = RKSt6vectorINS_22ColumnFamilyDescriptorESaISD_EEPSC_IPNS_18ColumnFamilyHandleESaISJ_EE
# The same after one parameter more.
lsm_sieve_CFS_WITH = RKSt6vectorINS_22ColumnFamilyDescriptorESaISG_EEPSF_IPNS_18ColumnFamilyHandleESaISM_EE
lsm_sieve_DB = PSt10unique_ptrIS0_St14default_deleteIS0_EE
lsm_sieve_OPTIONS = RKNS_7OptionsE$(lsm_sieve_STRING)
lsm_sieve_DB_OPTIONS = RKNS_9DBOptionsE$(lsm_sieve_STRING)
lsm_sieve_WRAPPED = $(addprefix _ZN7rocksdb2DB, \
    4OpenE$(lsm_sieve_OPTIONS)$(lsm_sieve_DB) \
    4OpenE$(lsm_sieve_DB_OPTIONS)$(lsm_sieve_CFS)$(lsm_sieve_DB) \
    15OpenForReadOnlyE$(lsm_sieve_OPTIONS)$(lsm_sieve_DB)b \
    15OpenForReadOnlyE$(lsm_sieve_DB_OPTIONS)$(lsm_sieve_CFS)$(lsm_sieve_DB)b \
    15OpenAsSecondaryE$(lsm_sieve_OPTIONS)SB_$(lsm_sieve_DB) \
    15OpenAsSecondaryE$(lsm_sieve_DB_OPTIONS)SB_$(lsm_sieve_CFS)$(lsm_sieve_DB)) \
    $(addprefix _ZN7rocksdb23OptimisticTransactionDB4OpenE, \
    $(lsm_sieve_OPTIONS)PPS0_ \
    $(lsm_sieve_DB_OPTIONS)$(lsm_sieve_CFS)PPS0_ \
    RKNS_9DBOptionsERKNS_30OptimisticTransactionDBOptionsE$(lsm_sieve_STRING)$(lsm_sieve_CFS_WITH)PPS0_) \
    _ZN7rocksdb9DestroyDBE$(lsm_sieve_STRING)RKNS_7OptionsERKSt6vectorINS_22ColumnFamilyDescriptorESaISC_EE

lsm_sieve_LDFLAGS = $(addprefix -Wl$(comma)-u$(comma),$(lsm_sieve_USED)) \
    $(addprefix -Wl$(comma)--wrap=,$(lsm_sieve_WRAPPED)) $(LSM_SIEVE_LIB) -lpthread -ldl -lm


