// Errors as C strings that the Rust side frees.

#include <cstdlib>
#include <cstring>
#include <string>

#include "rocksdb/status.h"

#include "shim.h"

namespace lsm_sieve {
namespace {

// Returned if the text cannot be allocated: a null text would mean success.
char kNoMemoryForText[] = "an error; no memory for its text";

}  // namespace

char* CopyString(const std::string& text) {
  char* copy = static_cast<char*>(malloc(text.size() + 1));
  if (copy == nullptr) return kNoMemoryForText;
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

char* ErrorOf(const Status& status) {
  return status.ok() ? nullptr : CopyString(status.ToString());
}

extern "C" {

void lsm_sieve_free(char* text) noexcept {
  if (text != kNoMemoryForText) free(text);
}

}  // extern "C"
}  // namespace lsm_sieve
