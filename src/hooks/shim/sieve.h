// Calls from a database's handle to the Rust side. The Rust side answers "absent", or calls back to
// have the engine read, and gets the result. Operations that must be announced to the filters are
// run by the Rust side, which acts before and after them. If the Rust side does not answer, as
// after a panic, the engine is read.

#pragma once

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "db/column_family.h"
#include "test_util/sync_point.h"

#include "shim.h"

namespace lsm_sieve {

inline Found FoundBy(const Status& status) {
  if (status.ok()) return Found::kValue;
  return status.IsNotFound() ? Found::kNothing : Found::kError;
}

// With memory of its own, unless the engine pinned the value: so a value that is copied arrives in
// the string that the caller has named for it.
inline void MoveTo(PinnableSlice* to, PinnableSlice&& from) {
  to->Reset();
  if (from.IsPinned()) {
    *to = std::move(from);
  } else {
    to->PinSelf(from);
  }
}
inline void MoveTo(PinnableWideColumns* to, PinnableWideColumns&& from) { *to = std::move(from); }

// A read of several keys under way. `Engine` reads all of them, or some. `timestamps` may be null.
template <typename Value, typename Engine>
struct BatchedRead {
  const Engine& read;
  size_t count;
  ColumnFamilyHandle** cfs;
  const Slice* keys;
  Value* values;
  std::string* timestamps;
  Status* statuses;
  std::vector<bool> is_read;

  void Read(const size_t* at, size_t n, Found* found) {
    if (n == count) {
      ReadAll();
    } else {
      ReadSome(at, n);
    }
    for (size_t i = 0; i < n; ++i) {
      is_read[at[i]] = true;
      found[i] = FoundBy(statuses[at[i]]);
    }
  }

  void ReadAll() {
    for (size_t i = 0; i < count; ++i) {
      values[i].Reset();
      // This read is in place of the first, whose errors nobody gets.
      if (is_read[i] && !statuses[i].IsNotFound()) {
        IGNORE_STATUS_IF_ERROR(statuses[i]);
      }
    }
    read(count, cfs, keys, values, timestamps, statuses);
  }

  void ReadSome(const size_t* at, size_t n) {
    std::vector<ColumnFamilyHandle*> some_cfs(n);
    std::vector<Slice> some_keys(n);
    for (size_t i = 0; i < n; ++i) {
      some_cfs[i] = cfs[at[i]];
      some_keys[i] = keys[at[i]];
    }
    std::vector<Value> some_values(n);
    std::vector<std::string> some_timestamps(timestamps == nullptr ? 0 : n);
    std::vector<Status> some_statuses(n);
    read(n, some_cfs.data(), some_keys.data(), some_values.data(),
         timestamps == nullptr ? nullptr : some_timestamps.data(), some_statuses.data());
    for (size_t i = 0; i < n; ++i) {
      MoveTo(&values[at[i]], std::move(some_values[i]));
      if (timestamps != nullptr) timestamps[at[i]] = std::move(some_timestamps[i]);
      statuses[at[i]] = std::move(some_statuses[i]);
    }
  }

  // What was not read is absent.
  void ClearOthers() {
    for (size_t i = 0; i < count; ++i) {
      if (is_read[i]) continue;
      values[i].Reset();
      if (timestamps != nullptr) timestamps[i].clear();
      statuses[i] = Status::NotFound();
    }
  }
};

// The Rust side of one database. The database releases it.
class Sieve {
 public:
  static constexpr uint32_t kAllCfs = UINT32_MAX;
  // Of a column family that no filters know.
  static constexpr uint32_t kNoCf = UINT32_MAX;

  Sieve(rust::Sieve* raw, const Hooks* hooks) : raw_(raw), hooks_(hooks) {}

  const rust::Sieve* raw() const { return raw_; }
  void Close() const { hooks_->sieve_close(raw_); }
  void Release() const { hooks_->sieve_release(raw_); }

  // NotFound after `clear`, if the filters prove the key absent. Otherwise what `read` returns,
  // which is called at most once.
  template <typename Engine, typename Clear>
  Status Read(ColumnFamilyHandle* cf, const Slice& key, const Engine& read,
              const Clear& clear) const {
    struct Call {
      const Engine& read;
      std::optional<Status> status;
    };
    Call call{read, std::nullopt};
    const bool absent =
        hooks_->sieve_read(raw_, cf->GetID(), key, &call, [](void* context) noexcept {
          auto* call = static_cast<Call*>(context);
          call->status = call->read();
          return FoundBy(*call->status);
        });
    if (call.status) return *std::move(call.status);
    if (!absent) return read();
    FAULT(ResultsNotCleared, return Status::NotFound());
    clear();
    return Status::NotFound();
  }

  bool RulesOut(ColumnFamilyHandle* cf, const Slice& key) const {
    return hooks_->sieve_rules_out(raw_, cf->GetID(), key);
  }

  // Reads the values of several keys, all of one moment. `read` reads from the engine the keys that
  // the Rust side selects: those that pass the filters, or all. It reads each for which `is_read` says
  // so, of its index.
  template <typename Value, typename Engine, typename IsRead = bool (*)(size_t)>
  void ReadMany(
      size_t count, ColumnFamilyHandle** cfs, const Slice* keys, Value* values,
      std::string* timestamps, Status* statuses, const Engine& read,
      const IsRead& is_read = [](size_t) { return false; }) const {
    using Call = BatchedRead<Value, Engine>;
    std::vector<uint32_t> ids(count);
    for (size_t i = 0; i < count; ++i) ids[i] = is_read(i) ? kNoCf : cfs[i]->GetID();
    Call call{read, count, cfs, keys, values, timestamps, statuses, std::vector<bool>(count)};
    const bool answered = hooks_->sieve_read_many(
        raw_, count, ids.data(), keys, &call,
        [](void* context, const size_t* at, size_t n, Found* found) noexcept {
          static_cast<Call*>(context)->Read(at, n, found);
        });
    if (!answered) return read(count, cfs, keys, values, timestamps, statuses);
    call.ClearOthers();
  }

  bool Prefixes(uint32_t cf, uint64_t* edition, uint32_t* most_found) const {
    return hooks_->sieve_prefixes(raw_, cf, edition, most_found);
  }
  bool IsEmpty(uint32_t cf, uint64_t edition, Span span, const Slice& first,
               const Slice& last) const {
    return hooks_->sieve_is_empty(raw_, cf, edition, span, first, last);
  }
  void ExtractorChanges() const { hooks_->sieve_extractor_changes(raw_); }

  // Runs `act` exactly once.
  template <typename Act>
  Status External(uint32_t cf, const Act& act) const {
    struct Call {
      const Act& act;
      std::optional<Status> status;
    };
    Call call{act, std::nullopt};
    hooks_->sieve_external_writes(raw_, cf, &call, [](void* context) noexcept {
      auto* call = static_cast<Call*>(context);
      call->status = call->act();
    });
    return call.status ? *std::move(call.status) : act();
  }

  // `create` gets these column families with hooks in their options, and sets their ids. `locks`
  // may be null.
  template <typename Engine>
  Status Create(const std::vector<ColumnFamilyDescriptor>& cfs, DB* locks,
                const Engine& create) const {
    struct Call {
      const Engine& create;
      const std::vector<ColumnFamilyDescriptor>& cfs;
      DB* locks;
      std::vector<rocksdb_options_t> hooked;
      Status status = Status::Aborted("the filters could not be created");
    };
    Call call{create, cfs, locks, {}};
    std::vector<Slice> names;
    for (const ColumnFamilyDescriptor& cf : cfs) {
      names.emplace_back(cf.name);
      call.hooked.push_back({Options(DBOptions(), cf.options)});
    }
    std::vector<rocksdb_options_t*> options;
    for (rocksdb_options_t& hooked : call.hooked) options.push_back(&hooked);
    hooks_->sieve_create_cfs(
        raw_, cfs.size(), names.data(), options.data(), &call,
        [](void* context, Slice reason) noexcept {
          static_cast<Call*>(context)->status = Status::NotSupported(reason);
        },
        [](void* context, int64_t* ids) noexcept {
          auto* call = static_cast<Call*>(context);
          std::vector<ColumnFamilyDescriptor> hooked;
          for (size_t i = 0; i < call->cfs.size(); ++i) {
            hooked.emplace_back(call->cfs[i].name, ColumnFamilyOptions(call->hooked[i].rep));
          }
          if (call->locks != nullptr) ExtendLocks(call->locks, hooked.size());
          call->status = call->create(hooked, ids);
        });
    return call.status;
  }

  // Runs `drop` exactly once.
  template <typename Engine>
  Status Drop(const std::vector<ColumnFamilyHandle*>& cfs, const Engine& drop) const {
    struct Call {
      const std::vector<ColumnFamilyHandle*>& cfs;
      const Engine& drop;
      std::optional<Status> status;
    };
    Call call{cfs, drop, std::nullopt};
    std::vector<uint32_t> ids;
    for (ColumnFamilyHandle* cf : cfs) ids.push_back(cf->GetID());
    hooks_->sieve_drop_cfs(raw_, cfs.size(), ids.data(), &call,
                           [](void* context, bool* dropped) noexcept {
                             auto* call = static_cast<Call*>(context);
                             call->status = call->drop();
                             for (ColumnFamilyHandle* cf : call->cfs) *dropped++ = IsDropped(cf);
                           });
    return call.status ? *std::move(call.status) : drop();
  }

 private:
  static bool IsDropped(ColumnFamilyHandle* cf) {
    return static_cast_with_check<ColumnFamilyHandleImpl>(cf)->cfd()->IsDropped();
  }

  rust::Sieve* const raw_;
  const Hooks* const hooks_;
};

// database.cc: what the reads of a database with filters behind its handle ask, until it is deleted.
const Sieve& SieveOf(DB* filtered);

// iterator.cc: an iterator that checks the filters, over `inner`; for what lies between its bounds if
// `is_bounded`. `has_extractor_changed` outlives it.
Iterator* NewFilteredIterator(std::unique_ptr<Iterator> inner, const ReadOptions& options,
                              bool is_bounded, const std::atomic<bool>& has_extractor_changed, uint32_t cf,
                              uint64_t edition, uint32_t most_found, const Sieve& sieve);

}  // namespace lsm_sieve
