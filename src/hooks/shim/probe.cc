// Checks that a precompiled RocksDB matches the headers that the shim is compiled with.
// The build script links this program with that library and runs it. It prints a line for each
// difference, and fails if there is one.
//
// The version alone is not enough: macros change the layout of RocksDB's private classes, and a
// patched library may have other virtual functions.
//
//   sizes        of the objects that the library allocates, by their headers
//   fields       of options: set through the C API, read here
//   functions    of the library's tables of virtual functions, slot by slot
//   calls        of a listener: the shim derives from it, and no class of the library has its table

#include <dlfcn.h>
#include <link.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "db/arena_wrapped_db_iter.h"
#include "db/column_family.h"
#include "db/db_impl/db_impl.h"
#include "db/memtable.h"
#include "db/memtable_list.h"
#include "db/version_set.h"
#include "rocksdb/c.h"
#include "rocksdb/listener.h"
#include "rocksdb/memtablerep.h"
#include "rocksdb/version.h"
#include "table/block_based/filter_policy_internal.h"
#include "utilities/transactions/optimistic_transaction.h"
#include "utilities/transactions/optimistic_transaction_db_impl.h"
#include "utilities/transactions/pessimistic_transaction.h"
#include "utilities/transactions/pessimistic_transaction_db.h"

#include "shim.h"

namespace probe {
namespace {

using namespace ROCKSDB_NAMESPACE;

int differences = 0;

void Differs(const std::string& what) {
  std::printf("%s\n", what.c_str());
  ++differences;
}

// ---------------------------------------------------------------- sizes

constexpr size_t kMostBytes = 1 << 16;
bool is_allocated[kMostBytes];

void* Allocated(size_t size, void* memory) {
  if (memory == nullptr) std::abort();
  if (size < kMostBytes) is_allocated[size] = true;
  return memory;
}

template <typename T>
void IsAllocated(const char* name) {
  static_assert(sizeof(T) < kMostBytes);
  if (is_allocated[sizeof(T)]) return;
  Differs(std::string("it allocates no ") + name + " of " + std::to_string(sizeof(T)) +
          " bytes, the size in its headers: it was compiled with other macros, such as a debug build "
          "without NDEBUG, or has an allocator of its own");
}

// ---------------------------------------------------------------- virtual functions

// Two words and the functions of a class.
struct Table {
  const uintptr_t* words;
  size_t count;
};

Table TableAt(const void* address) {
  Dl_info info;
  void* symbol = nullptr;
  if (dladdr1(address, &info, &symbol, RTLD_DL_SYMENT) == 0 || symbol == nullptr) return {};
  const size_t bytes = static_cast<const ElfW(Sym)*>(symbol)->st_size;
  return {static_cast<const uintptr_t*>(info.dli_saddr), bytes / sizeof(uintptr_t)};
}

const char* NameOf(uintptr_t function) {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(function), &info) == 0) return "";
  return info.dli_sname == nullptr ? "" : info.dli_sname;
}

// There are two in each table, and the compiler may merge equal ones.
bool IsDestructor(const std::string& name) {
  const std::string end = name.size() < 4 ? "" : name.substr(name.size() - 4);
  return end == "D0Ev" || end == "D1Ev" || end == "D2Ev";
}

// Compares the library's table of a class with that of a class that is derived from it here, and
// overrides the destructor alone.
void HasFunctions(const char* name, const void* library, const void* derived) {
  const Table theirs = TableAt(library);
  const Table ours = TableAt(derived);
  if (theirs.count != ours.count) {
    return Differs(std::string(name) + " has " + std::to_string(theirs.count) +
                   " virtual functions, and " + std::to_string(ours.count) + " in its headers");
  }
  for (size_t slot = 2; slot < ours.count; ++slot) {
    const char* const is = NameOf(theirs.words[slot]);
    const char* const should = NameOf(ours.words[slot]);
    const bool same = theirs.words[slot] == ours.words[slot] || std::strcmp(is, should) == 0;
    if (!same && !(IsDestructor(is) && IsDestructor(should))) {
      return Differs(std::string(name) + " has the virtual function " + is + " where its headers have " + should);
    }
  }
}

// ---------------------------------------------------------------- calls

class Listener final : public EventListener {
 public:
  explicit Listener(std::string* calls) : calls_(calls) {}

  void OnFlushBegin(DB*, const FlushJobInfo& info) override {
    *calls_ += "flush of " + info.cf_name + " begins; ";
  }
  void OnFlushCompleted(DB*, const FlushJobInfo& info) override {
    *calls_ += "flush of " + info.cf_name + " ends; ";
  }
  void OnMemTableSealed(const MemTableInfo& info) override {
    *calls_ += "memtable of " + info.cf_name + " is sealed; ";
  }
  void OnColumnFamilyHandleDeletionStarted(ColumnFamilyHandle* cf) override {
    *calls_ += "handle of " + cf->GetName() + " goes; ";
  }
  void OnCompactionBegin(DB*, const CompactionJobInfo&) override { *calls_ += "compaction; "; }
  void OnTableFileDeleted(const TableFileDeletionInfo&) override { *calls_ += "deleted; "; }
  void OnExternalFileIngested(DB*, const ExternalFileIngestionInfo&) override {
    *calls_ += "ingested; ";
  }

 private:
  std::string* const calls_;
};

}  // namespace

// Global names, for their symbols.
#define DERIVED(Class)                      \
  struct Derived##Class : Class {           \
    using Class::Class;                     \
    ~Derived##Class() override;             \
  };                                        \
  Derived##Class::~Derived##Class() = default;

DERIVED(DBImpl)
DERIVED(ColumnFamilyHandleImpl)
DERIVED(ArenaWrappedDBIter)
DERIVED(PessimisticTransactionDB)
DERIVED(OptimisticTransactionDBImpl)
DERIVED(PessimisticTransaction)
DERIVED(OptimisticTransaction)
DERIVED(SkipListFactory)
DERIVED(BloomFilterPolicy)

}  // namespace probe

void* operator new(size_t size) { return probe::Allocated(size, std::malloc(size)); }
void* operator new(size_t size, std::align_val_t align) {
  const size_t step = static_cast<size_t>(align);
  return probe::Allocated(size, std::aligned_alloc(step, (size + step - 1) / step * step));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

// The table of a class, and that of the class derived from it, by their symbols.
#define COMPARE(Class, length, derived_length)                                                  \
  do {                                                                                          \
    extern const uintptr_t of_##Class[] __asm__("_ZTVN7rocksdb" #length #Class "E");            \
    extern const uintptr_t of_Derived##Class[] __asm__("_ZTVN5probe" #derived_length "Derived" #Class "E"); \
    HasFunctions(#Class, of_##Class, of_Derived##Class);                                        \
  } while (false)

namespace probe {

void Fields() {
  rocksdb_options_t* const options = rocksdb_options_create();
  const Options& rep = options->rep;
  rocksdb_options_set_write_buffer_size(options, 1001);
  rocksdb_options_set_num_levels(options, 1002);
  rocksdb_options_set_max_write_buffer_number(options, 1003);
  rocksdb_options_set_max_background_jobs(options, 1004);
  rocksdb_options_set_max_open_files(options, 1005);
  rocksdb_options_set_bytes_per_sync(options, 1006);
  rocksdb_options_set_unordered_write(options, 1);
  rocksdb_options_set_atomic_flush(options, 1);
  rocksdb_options_set_min_blob_size(options, 1007);
  rocksdb_options_set_experimental_mempurge_threshold(options, 1008);
  rocksdb_options_set_max_write_buffer_size_to_maintain(options, 1009);
  if (rep.write_buffer_size != 1001 || rep.num_levels != 1002 ||
      rep.max_write_buffer_number != 1003 || rep.max_background_jobs != 1004 ||
      rep.max_open_files != 1005 || rep.bytes_per_sync != 1006 || !rep.unordered_write ||
      !rep.atomic_flush || rep.min_blob_size != 1007 ||
      rep.experimental_mempurge_threshold != 1008 ||
      rep.max_write_buffer_size_to_maintain != 1009) {
    Differs("it stores options in other places than its headers say");
  }
  rocksdb_options_destroy(options);
}

void Calls(rocksdb_options_t* options) {
  std::string calls;
  options->rep.listeners.push_back(std::make_shared<Listener>(&calls));
  char* error = nullptr;
  rocksdb_t* const db = rocksdb_open(options, "/probe", &error);
  if (error != nullptr) return Differs(std::string("it cannot open a database: ") + error);
  rocksdb_writeoptions_t* const write = rocksdb_writeoptions_create();
  rocksdb_put(db, write, "key", 3, "value", 5, &error);
  rocksdb_flushoptions_t* const flush = rocksdb_flushoptions_create();
  if (error == nullptr) rocksdb_flush(db, flush, &error);
  if (error != nullptr) Differs(std::string("it cannot write: ") + error);
  IsAllocated<DBImpl>("DBImpl");
  IsAllocated<ColumnFamilyData>("ColumnFamilyData");
  IsAllocated<ColumnFamilyHandleImpl>("ColumnFamilyHandleImpl");
  IsAllocated<MemTable>("MemTable");
  IsAllocated<SuperVersion>("SuperVersion");
  IsAllocated<VersionSet>("VersionSet");
  IsAllocated<Version>("Version");
  rocksdb_close(db);
  const char* const expected =
      "memtable of default is sealed; flush of default begins; flush of default ends; ";
  if (calls.find(expected) == std::string::npos) Differs("it calls other functions of listeners: " + calls);
}

}  // namespace probe

int main() {
  using namespace probe;
  COMPARE(DBImpl, 6, 13);
  COMPARE(ColumnFamilyHandleImpl, 22, 29);
  COMPARE(ArenaWrappedDBIter, 18, 25);
  COMPARE(PessimisticTransactionDB, 24, 31);
  COMPARE(OptimisticTransactionDBImpl, 27, 34);
  COMPARE(PessimisticTransaction, 22, 29);
  COMPARE(OptimisticTransaction, 21, 28);
  COMPARE(SkipListFactory, 15, 22);
  COMPARE(BloomFilterPolicy, 17, 24);
  Fields();
  rocksdb_options_t* const options = rocksdb_options_create();
  rocksdb_options_set_create_if_missing(options, 1);
  rocksdb_options_set_env(options, rocksdb_create_mem_env());
  rocksdb_options_set_compression(options, rocksdb_no_compression);
  Calls(options);
  return differences == 0 ? 0 : 1;
}
