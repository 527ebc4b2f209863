// The C handle of a database that `rocksdb` opened, which does not give it out in each thread mode: it
// is searched among the words of the database object.

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
    if (has_failed_ || address % sizeof(word) != 0) return false;
    const void* from = reinterpret_cast<const void*>(address);
    const ssize_t written = write(ends_[1], from, sizeof(*word));
    if (written < 0 && errno == EFAULT) return false;
    // A word that stays in the pipe would be taken for the next one.
    has_failed_ = written != sizeof(*word) || read(ends_[0], word, sizeof(*word)) != sizeof(*word);
    return !has_failed_;
  }

  // Whether the kernel failed otherwise: nothing that was read counts.
  bool HasFailed() const { return has_failed_; }

 private:
  int ends_[2] = {-1, -1};
  const bool is_open_;
  bool has_failed_;
};

// Whether this is the engine, or a `DBWithTTL` whose engine it is: a `StackableDB` has the engine
// behind its table of virtual functions.
bool IsEngine(uintptr_t candidate, uintptr_t engine, MemoryReader& memory) {
  uintptr_t base = 0;
  return candidate == engine ||
         (memory.ReadWord(candidate + sizeof(uintptr_t), &base) && base == engine);
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

}  // extern "C"
}  // namespace lsm_sieve
