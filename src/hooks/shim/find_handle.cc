// Pointers to RocksDB's objects that `rocksdb` does not give out in all its versions and thread modes: the
// C handle of a database, and options. They are searched among the words of the binding's objects.

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "shim.h"

namespace lsm_sieve {
namespace {

// Reads memory that may not be mapped: the kernel copies it, and says so if it cannot.
class MemoryReader {
 public:
  MemoryReader() : is_open_(pipe(ends_) == 0), has_failed_(!is_open_) {}
  ~MemoryReader() {
    if (!is_open_) return;
    close(ends_[0]);
    close(ends_[1]);
  }
  MemoryReader(const MemoryReader&) = delete;
  MemoryReader& operator=(const MemoryReader&) = delete;

  bool ReadWord(uintptr_t address, uintptr_t* word) {
    return address % sizeof(*word) == 0 && Read(address, word, sizeof(*word));
  }

  bool Read(uintptr_t address, void* to, ssize_t size) {
    if (has_failed_) return false;
    const ssize_t written = write(ends_[1], reinterpret_cast<const void*>(address), size);
    if (written < 0 && errno == EFAULT) return false;
    // What stays in the pipe would be taken for the next value.
    has_failed_ = written != size || read(ends_[0], to, size) != size;
    return !has_failed_;
  }

  // Whether the kernel failed otherwise: nothing that was read counts.
  bool HasFailed() const { return has_failed_; }

 private:
  int ends_[2] = {-1, -1};
  const bool is_open_;
  bool has_failed_;
};

// Whether this is the engine, or one that passes its calls on: a `StackableDB` has what it wraps
// behind its table of virtual functions. The filters and a time to live are one each.
bool IsEngine(uintptr_t candidate, uintptr_t engine, MemoryReader& memory) {
  for (int wrappers = 0; candidate != engine; ++wrappers) {
    if (wrappers == 2 || !memory.ReadWord(candidate + sizeof(uintptr_t), &candidate)) return false;
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
  MemoryReader memory;
  uintptr_t handle = 0;
  size_t matches = 0;
  for (size_t at = 0; at + sizeof(uintptr_t) <= size; at += sizeof(uintptr_t)) {
    uintptr_t word = 0;
    std::memcpy(&word, static_cast<const char*>(object) + at, sizeof(word));
    uintptr_t rep = 0;
    if (word != 0 && memory.ReadWord(word, &rep) && IsEngine(rep, engine, memory)) {
      handle = word;
      ++matches;
    }
  }
  FAULT(AnyHandleTaken, matches = 1);
  if (memory.HasFailed()) return nullptr;
  return matches == 1 ? reinterpret_cast<rocksdb_t*>(handle) : nullptr;
}

// Where an object of the binding has its pointer to options that allow this many background jobs: the
// place of the one word that points to such options. `size` if there is none, or several.
size_t lsm_sieve_find_options(const void* object, size_t size, int jobs) noexcept {
  const auto of_jobs = [](uintptr_t options) {
    return reinterpret_cast<uintptr_t>(
        &reinterpret_cast<const rocksdb_options_t*>(options)->rep.max_background_jobs);
  };
  MemoryReader memory;
  size_t found = size;
  size_t matches = 0;
  for (size_t at = 0; at + sizeof(uintptr_t) <= size; at += sizeof(uintptr_t)) {
    uintptr_t word = 0;
    std::memcpy(&word, static_cast<const char*>(object) + at, sizeof(word));
    int value = 0;
    if (word != 0 && memory.Read(of_jobs(word), &value, sizeof(value)) && value == jobs) {
      found = at;
      ++matches;
    }
  }
  FAULT(AnyOptionsTaken, matches = 1);
  return matches == 1 && !memory.HasFailed() ? found : size;
}

}  // extern "C"
}  // namespace lsm_sieve
