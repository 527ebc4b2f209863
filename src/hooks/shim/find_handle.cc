// Pointers to RocksDB's objects that `rocksdb` does not give out in all its versions and thread modes: the
// C handle of a database, and options. They are searched among the words of the binding's objects.

#include <csignal>
#ifdef __linux__
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <cerrno>
#include <cstring>

#include "shim.h"

namespace lsm_sieve {
namespace {

// Whether this word can be read. The kernel copies a set of signals before it refuses what to do with
// it, and says so if it cannot. It needs no descriptor, of which a process may have none left.
bool IsReadable(uintptr_t word) {
  const int nothing = -1;
  errno = 0;
#ifdef __linux__
  // By number: C libraries read the set themselves.
  syscall(SYS_rt_sigprocmask, nothing, word, nullptr, sizeof(word));
#else
  sigprocmask(nothing, reinterpret_cast<const sigset_t*>(word), nullptr);
#endif
  return errno != EFAULT;
}

// Reads a value that may not be mapped.
template <typename T>
bool ReadIfMapped(uintptr_t address, T* value) {
  if (address % sizeof(T) != 0 || !IsReadable(address - address % sizeof(uintptr_t))) return false;
  std::memcpy(value, reinterpret_cast<const void*>(address), sizeof(T));
  return true;
}

// Whether this is the engine, or one that passes its calls on: a `StackableDB` has what it wraps
// behind its table of virtual functions. The filters and a time to live are one each.
bool IsEngine(uintptr_t candidate, uintptr_t engine) {
  for (int wrappers = 0; candidate != engine; ++wrappers) {
    if (wrappers == 2 || !ReadIfMapped(candidate + sizeof(uintptr_t), &candidate)) return false;
  }
  return true;
}

}  // namespace

extern "C" {

// The handle of the engine that this column family belongs to. It is the one pointer among the
// words of a database object of `rocksdb` that points to a pointer to the engine. Null if there is
// none, or if there are several different ones.
rocksdb_t* lsm_sieve_find_handle(const void* object, size_t size,
                                 rocksdb_column_family_handle_t* cf) noexcept {
  const auto engine = reinterpret_cast<uintptr_t>(EngineOf(cf));
  uintptr_t handle = 0;
  size_t matches = 0;
  for (size_t at = 0; at + sizeof(uintptr_t) <= size; at += sizeof(uintptr_t)) {
    uintptr_t word = 0;
    std::memcpy(&word, static_cast<const char*>(object) + at, sizeof(word));
    uintptr_t rep = 0;
    if (word != 0 && ReadIfMapped(word, &rep) && IsEngine(rep, engine)) {
      handle = word;
      ++matches;
    }
  }
  FAULT(AnyHandleTaken, matches = 1);
  return matches == 1 ? reinterpret_cast<rocksdb_t*>(handle) : nullptr;
}

// Where an object of the binding has its pointer to options that allow this many background jobs: the
// place of the one word that points to such options. `size` if there is none, or several.
size_t lsm_sieve_find_options(const void* object, size_t size, int jobs) noexcept {
  const auto of_jobs = [](uintptr_t options) {
    return reinterpret_cast<uintptr_t>(
        &reinterpret_cast<const rocksdb_options_t*>(options)->rep.max_background_jobs);
  };
  size_t found = size;
  size_t matches = 0;
  for (size_t at = 0; at + sizeof(uintptr_t) <= size; at += sizeof(uintptr_t)) {
    uintptr_t word = 0;
    std::memcpy(&word, static_cast<const char*>(object) + at, sizeof(word));
    int value = 0;
    if (word != 0 && ReadIfMapped(of_jobs(word), &value) && value == jobs) {
      found = at;
      ++matches;
    }
  }
  FAULT(AnyOptionsTaken, matches = 1);
  return matches == 1 ? found : size;
}

}  // extern "C"
}  // namespace lsm_sieve
