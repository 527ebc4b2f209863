// An iterator of a database with filters. It checks them at each seek within one prefix or between
// two bounds. Unless they answer absent, it seeks RocksDB's own iterator.

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "rocksdb/iterator.h"

#include "sieve.h"
#include "versions.h"

namespace lsm_sieve {
namespace {

// An iterator that checks the filters at each seek within one prefix. If no key has the prefix, it
// is not valid at once. Otherwise it seeks RocksDB's own iterator, which builds the tree of
// iterators below it at the first seek.
//
// An iterator shows the moment at which it was created. The filters say what is absent now. If
// their view is still the one from before the creation, it was absent all along.
class FilteredIterator final : public Iterator {
 public:
  FilteredIterator(std::unique_ptr<Iterator> inner, const ReadOptions& options, bool is_bounded,
                   const std::atomic<bool>& has_extractor_changed, uint32_t cf, uint64_t edition,
                   uint32_t most_found, const Sieve& sieve)
      : inner_(std::move(inner)),
        lower_(is_bounded ? options.iterate_lower_bound : nullptr),
        upper_(is_bounded ? options.iterate_upper_bound : nullptr),
        same_prefix_(options.prefix_same_as_start),
        has_extractor_changed_(has_extractor_changed),
        cf_(cf),
        edition_(edition),
        most_found_(most_found),
        sieve_(sieve) {}

  void Seek(const Slice& target) override {
    is_empty_ = IsEmptyFrom(target);
    if (!is_empty_) inner_->Seek(target);
    Count();
  }
  void SeekForPrev(const Slice& target) override {
    is_empty_ = IsEmptyUpTo(target);
    if (!is_empty_) inner_->SeekForPrev(target);
    Count();
  }
  void SeekToFirst() override {
    is_empty_ = IsEmptyWithinBounds();
    if (!is_empty_) inner_->SeekToFirst();
  }
  void SeekToLast() override {
    is_empty_ = IsEmptyWithinBounds();
    if (!is_empty_) inner_->SeekToLast();
  }
  void Next() override {
    if (!is_empty_) inner_->Next();
  }
  void Prev() override {
    if (!is_empty_) inner_->Prev();
  }
  bool Valid() const override { return !is_empty_ && inner_->Valid(); }
  Status status() const override {
    FAULT(OldErrorKept, return inner_->status());
    return is_empty_ ? Status::OK() : inner_->status();
  }
  Slice key() const override { return inner_->key(); }
  Slice value() const override { return inner_->value(); }
  const WideColumns& columns() const override { return inner_->columns(); }
  Slice timestamp() const override { return inner_->timestamp(); }
  bool PrepareValue() override { return is_empty_ || inner_->PrepareValue(); }
  Status GetProperty(std::string name, std::string* value) override {
    return inner_->GetProperty(std::move(name), value);
  }
  using Iterator::Refresh;
  Status Refresh(const Snapshot* snapshot) override {
    uint64_t edition = 0;
    const bool has_prefixes = sieve_.Prefixes(cf_, &edition, &most_found_);
    const Status status = inner_->Refresh(snapshot);
    FAULT(RefreshedBeforeItsView, sieve_.Prefixes(cf_, &edition, &most_found_));
    FAULT(RefusedRefreshCounts, edition_ = edition);
    // An iterator of a database with a time to live refuses it, for example. The inner iterator
    // then stays at its last position and at its old moment.
    if (!status.ok()) return status;
    is_usable_ = is_usable_ && has_prefixes;
    FAULT(RefreshedIteratorAsksNothing, is_usable_ = false);
    edition_ = edition;
    is_empty_ = false;
    return status;
  }
  void Prepare(const ScanRanges& scans) override {
    is_usable_ = false;
    FAULT(PreparedScanAnswered, is_usable_ = true);
    inner_->Prepare(scans);
  }

 private:
  // Where nearly every seek finds something, the question is wasted time.
  void Count() { found_ = Valid() ? found_ + (found_ < most_found_) : 0; }
  bool Asks(Span span, const Slice& first, const Slice& last) const {
    return is_usable_ && found_ < most_found_ &&
           sieve_.IsEmpty(cf_, edition_, span, first, last);
  }
  // If no change of the extractor has begun, the inner iterator uses that of the open.
  bool IsOfAbsentPrefix(const Slice& target) const {
    return same_prefix_ && !has_extractor_changed_.load(std::memory_order_acquire) &&
           Asks(Span::kSamePrefix, target, target);
  }
  bool IsEmptyFrom(const Slice& target) const {
    return IsOfAbsentPrefix(target) ||
           (upper_ != nullptr && Asks(Span::kHalfOpen, target, *upper_));
  }
  bool IsEmptyUpTo(const Slice& target) const {
    return IsOfAbsentPrefix(target) || (lower_ != nullptr && Asks(SpanUpTo(), *lower_, target));
  }
  static Span SpanUpTo() {
    FAULT(LastOfSpanLeftOut, return Span::kHalfOpen);
    return Span::kClosed;
  }
  bool IsEmptyWithinBounds() const {
    return lower_ != nullptr && upper_ != nullptr && Asks(Span::kHalfOpen, *lower_, *upper_);
  }

  const std::unique_ptr<Iterator> inner_;
  const Slice* const lower_;
  const Slice* const upper_;
  const bool same_prefix_;
  const std::atomic<bool>& has_extractor_changed_;
  const uint32_t cf_;
  uint64_t edition_;
  uint32_t most_found_;
  uint32_t found_ = 0;  // seeks in a row
  const Sieve sieve_;
  bool is_usable_ = true;
  bool is_empty_ = false;
};

}  // namespace

Iterator* NewFilteredIterator(std::unique_ptr<Iterator> inner, const ReadOptions& options,
                              bool is_bounded, const std::atomic<bool>& has_extractor_changed,
                              uint32_t cf, uint64_t edition, uint32_t most_found,
                              const Sieve& sieve) {
  return new FilteredIterator(std::move(inner), options, is_bounded, has_extractor_changed, cf,
                              edition, most_found, sieve);
}

}  // namespace lsm_sieve
