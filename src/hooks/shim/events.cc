// The events of a database: they wake maintenance.

#include <algorithm>
#include <memory>
#include <string>

#include "rocksdb/listener.h"

#include "shim.h"

namespace lsm_sieve {
namespace {

// Callbacks may come late, out of order or never. Those of flush and compaction only wake
// maintenance. That of an ingestion also withdraws coverage, for one that bypassed the handle and so
// was not announced. One listener serves all column families: RocksDB copies the list of listeners
// into each, and accepts none for a column family that is created later.
class WakeupListener : public EventListener {
 public:
  WakeupListener(rust::Listener* listener, const Hooks* hooks)
      : listener_(listener), hooks_(hooks) {}
  ~WakeupListener() override { hooks_->listener_release(listener_); }
  WakeupListener(const WakeupListener&) = delete;
  WakeupListener& operator=(const WakeupListener&) = delete;

  static constexpr char kName[] = "lsm-sieve";
  const char* Name() const override { return kName; }
  void OnFlushCompleted(DB*, const FlushJobInfo&) override {
    FAULT(NoWakeAfterFlush, return);
    hooks_->engine_changed(listener_);
  }
  void OnCompactionCompleted(DB*, const CompactionJobInfo&) override {
    FAULT(NoWakeAfterCompaction, return);
    hooks_->engine_changed(listener_);
  }
  void OnExternalFileIngested(DB*, const ExternalFileIngestionInfo& info) override {
    hooks_->keys_ingested(listener_, info.cf_name);
  }

 private:
  rust::Listener* const listener_;
  const Hooks* const hooks_;
};

}  // namespace

extern "C" {

// Takes over `listener`, which receives the events of the database that is opened with these
// options.
void lsm_sieve_listen(rocksdb_options_t* options, rust::Listener* listener,
                      const Hooks* hooks) noexcept {
  options->rep.listeners.push_back(std::make_shared<WakeupListener>(listener, hooks));
}

// Whether the engine of this column family has such a listener.
bool lsm_sieve_is_listened_to(rocksdb_column_family_handle_t* cf) noexcept {
  const auto listeners = EngineOf(cf)->GetDBOptions().listeners;
  return std::any_of(listeners.begin(), listeners.end(), [](const auto& listener) {
    return listener->Name() == std::string(WakeupListener::kName);
  });
}

}  // extern "C"
}  // namespace lsm_sieve
