// Segment filters, from the SST's keys to the probe. While RocksDB writes an SST, a filter builder
// and a properties collector see its keys and entries. While RocksDB reads it, a filter reader
// probes the segment filter that the SST's filter block names. The filter itself is on the Rust
// side.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include "rocksdb/filter_policy.h"
#include "rocksdb/table.h"
#include "rocksdb/table_properties.h"
#include "table/block_based/filter_policy_internal.h"
#include "util/coding.h"

#include "shim.h"
#include "versions.h"

namespace lsm_sieve {
namespace {

// A filter block of ours: the segment's id, then a trailer as long as RocksDB's own. Its marker
// byte is none of RocksDB's, so a RocksDB without the plugin answers "may match".
//
//   id, 16 bytes | trailer "SIV1"                                                whole keys alone
//   id, 16 bytes | name of an extractor | its version, 4 bytes | trailer "SIV2"  its prefixes too
//   id, 16 bytes | name of an extractor | its version, 4 bytes | trailer "SIV3"  the same, but
//                                                 without us the SST would have no filter
//
// RocksDB probes with keys and with prefixes and does not say with which. So a segment filter
// without the prefixes of the extractor that the block names must not answer either. And where
// RocksDB would have no filter, its scans show more than one prefix: see `ExactRead`.
constexpr char kTrailer[] = {static_cast<char>(0xFB), 'S', 'I', 'V', '1'};
constexpr char kPrefixTrailer[] = {static_cast<char>(0xFB), 'S', 'I', 'V', '2'};
constexpr char kUnaskedTrailer[] = {static_cast<char>(0xFB), 'S', 'I', 'V', '3'};
constexpr size_t kTrailerSize = sizeof(kTrailer);
constexpr size_t kBlockSize = kIdSize + kTrailerSize;

bool EndsWith(const Slice& contents, const char (&trailer)[kTrailerSize]) {
  return contents.size() >= kBlockSize &&
         std::memcmp(contents.data() + contents.size() - kTrailerSize, trailer, kTrailerSize) == 0;
}

TableOrigin OriginOf(TableFileCreationReason reason) {
  switch (reason) {
    case TableFileCreationReason::kFlush:
    case TableFileCreationReason::kRecovery:
      return TableOrigin::kMemtables;
    case TableFileCreationReason::kCompaction:
      FAULT(CompactionIsFlush, return TableOrigin::kMemtables);
      return TableOrigin::kTables;
    default:
      return TableOrigin::kUnknown;
  }
}

// Whether an SST is written into the last level of a leveled tree. While that tree has fewer levels
// than it may have, this is not known before the SST is listed.
bool IsInLastLevel(const FilterBuildingContext& context) {
  return context.compaction_style == kCompactionStyleLevel && context.is_bottommost &&
         context.level_at_creation > 0 && context.level_at_creation == context.num_levels - 1;
}

// The filter of an SST under construction. It is shared by the two objects that RocksDB creates for
// the SST: the filter builder sees each key and writes the block that names the segment; the
// collector counts the entries and writes the segment's id into the SST's properties.
class TableCapture {
 public:
  // `is_asked_for`: without us, the SST would have a filter of RocksDB's. `collects`: the collector
  // adds the keys, and no builder does.
  TableCapture(CfFilterPtr cf_filter, TableOrigin origin, bool is_in_last_level, bool is_asked_for,
               bool collects)
      : cf_filter_(std::move(cf_filter)),
        is_asked_for_(is_asked_for),
        collects_(collects),
        table_(cf_filter_->hooks()->table_begin(cf_filter_->raw(), origin, is_in_last_level)) {}
  ~TableCapture() {
    if (table_ != nullptr) cf_filter_->hooks()->table_release(table_);
  }
  TableCapture(const TableCapture&) = delete;
  TableCapture& operator=(const TableCapture&) = delete;

  const CfFilter* cf_filter() const { return cf_filter_.get(); }
  bool wanted() const { return table_ != nullptr; }
  bool is_asked_for() const { return is_asked_for_; }
  bool collects() const { return collects_; }
  void Add(const Slice& key) {
    if (table_ != nullptr) cf_filter_->hooks()->table_add(table_, key);
  }
  // Whether this is the prefix that the filter takes for the key.
  bool TakesPrefix(const Slice& key, const Slice& prefix) const {
    return table_ == nullptr || cf_filter_->hooks()->table_takes_prefix(table_, key, prefix);
  }
  // Appends the name and version of the extractor whose prefixes the filter has; false if none.
  bool AppendExtractor(std::string* block) const {
    if (table_ == nullptr) return false;
    const size_t before = block->size();
    cf_filter_->hooks()->table_extractor(
        table_, block, [](void* context, Slice name, uint32_t version) {
          auto* block = static_cast<std::string*>(context);
          block->append(name.data(), name.size());
          PutFixed32(block, version);
        });
    return block->size() > before;
  }
  bool Id(uint8_t id[kIdSize]) const {
    return table_ != nullptr && cf_filter_->hooks()->table_id(table_, id);
  }
  bool Finish(uint64_t entries) {
    return table_ != nullptr && cf_filter_->hooks()->table_finish(table_, entries);
  }

 private:
  const CfFilterPtr cf_filter_;
  const bool is_asked_for_;
  const bool collects_;
  rust::SegmentFilterBuild* const table_;  // null: no segment filter is configured, or a hook failed
};

// The capture whose collector is not created yet. The constructor of a table builder creates its
// filter builder and then its collectors, on one thread, with no other SST in between. If it did not,
// a capture of another column family would not be taken, and one of another SST would get no filter:
// its keys would not be as many as the entries.
thread_local std::shared_ptr<TableCapture> pending_capture;

// With partitioned filters, it finishes a block for each partition, and gets some prefixes as keys, for
// seeks that end in the partition before or behind. All blocks name the one segment filter.
class CapturingBuilder : public FilterBitsBuilder {
 public:
  explicit CapturingBuilder(std::shared_ptr<TableCapture> capture) : capture_(std::move(capture)) {}

  void AddKey(const Slice& key) override {
    ++added_;
    FAULT(PartitionPrefixesAdded, return capture_->Add(key));
    if (!capture_->collects()) capture_->Add(key);
  }
  // If the extractor was set on the running engine, the filter lacks its prefixes, with which
  // RocksDB will probe. So the block names no segment, nor does a later one.
  void AddKeyAndAlt(const Slice& key, const Slice& prefix) override {
    AddKey(key);
    if (!capture_->TakesPrefix(key, prefix)) without_id_ = true;
    FAULT(PrefixBlockHasSegmentId, without_id_ = false);
  }
  // Those since the last block.
  size_t EstimateEntriesAdded() override { return added_; }
  Slice Finish(std::unique_ptr<const char[]>* buf) override {
    added_ = 0;
    std::string block(kIdSize, '\0');
    if (!without_id_) capture_->Id(reinterpret_cast<uint8_t*>(block.data()));
    bool has_prefixes = capture_->AppendExtractor(&block);
    FAULT(PrefixBlockNamesNoExtractor, {
      block.resize(kIdSize);
      has_prefixes = false;
    });
    const char* const with_prefixes = capture_->is_asked_for() ? kPrefixTrailer : kUnaskedTrailer;
    block.append(has_prefixes ? with_prefixes : kTrailer, kTrailerSize);
    auto bytes = std::make_unique<char[]>(block.size());
    std::memcpy(bytes.get(), block.data(), block.size());
    *buf = std::move(bytes);
    return Slice(buf->get(), block.size());
  }
  using FilterBitsBuilder::Finish;
  size_t ApproximateNumEntries(size_t) override { return std::numeric_limits<uint32_t>::max(); }
#if SIEVE_FILTERS_ESTIMATE
  size_t CalculateSpace(size_t) override { return kBlockSize; }
  double EstimatedFpRate(size_t, size_t) override { return 0.01; }
#endif

 private:
  const std::shared_ptr<TableCapture> capture_;
  size_t added_ = 0;
  bool without_id_ = false;
};

class SegmentReader : public FilterBitsReader {
 public:
  SegmentReader(CfFilterPtr cf_filter, rust::Segment* segment, rust::PrefixId* extractor)
      : cf_filter_(std::move(cf_filter)), segment_(segment), extractor_(extractor) {}
  ~SegmentReader() override {
    if (segment_ != nullptr) cf_filter_->hooks()->segment_release(segment_, extractor_);
  }
  bool MayMatch(const Slice& key) override {
    return segment_ == nullptr ||
           cf_filter_->hooks()->segment_may_contain(segment_, extractor_, key);
  }
  void MayMatch(int num_keys, Slice** keys, bool* may_match) override {
    constexpr int kBatch = 32;
    Slice batch[kBatch];
    for (int begin = 0; begin < num_keys; begin += kBatch) {
      const int count = std::min(kBatch, num_keys - begin);
      for (int i = 0; i < count; ++i) {
        batch[i] = *keys[begin + i];
        may_match[begin + i] = true;
      }
      if (segment_ != nullptr) {
        cf_filter_->hooks()->segment_may_contain_many(
            segment_, extractor_, static_cast<size_t>(count), batch, may_match + begin);
      }
    }
  }

 private:
  const CfFilterPtr cf_filter_;
  rust::Segment* const segment_;     // null: nothing is known of this SST, every key is maybe
  rust::PrefixId* const extractor_;  // null: probed with keys alone
};

// Whether any column family of this process got another prefix extractor while it was open. No SST
// is then known to be probed with keys alone.
std::atomic<bool> has_extractor_changed{false};

// Answers where RocksDB would have no filter: exact reads, and all if it probes with keys alone.
class ExactReadsReader : public FilterBitsReader {
 public:
  ExactReadsReader(std::unique_ptr<FilterBitsReader> reader, bool has_extractor)
      : reader_(std::move(reader)), has_extractor_(has_extractor) {}

  bool MayMatch(const Slice& entry) override { return !Answers() || reader_->MayMatch(entry); }
  // Only MultiGet probes with several.
  void MayMatch(int num_keys, Slice** keys, bool* may_match) override {
    reader_->MayMatch(num_keys, keys, may_match);
  }

 private:
  bool Answers() const {
    FAULT(ScanAnsweredWithoutPolicy, return true);
    FAULT(PointReadUnanswered, return false);
    return ExactRead::IsUnderWay() ||
           !(has_extractor_ || has_extractor_changed.load(std::memory_order_acquire));
  }

  const std::unique_ptr<FilterBitsReader> reader_;
  const bool has_extractor_;
};

bool IsSegmentBlock(const Slice& contents) {
  return contents.size() == kBlockSize && EndsWith(contents, kTrailer);
}

// A block that names an extractor too.
bool IsPrefixBlock(const Slice& contents) {
  return contents.size() > kBlockSize + sizeof(uint32_t) &&
         (EndsWith(contents, kPrefixTrailer) || EndsWith(contents, kUnaskedTrailer));
}

bool IsNull(const char* id) {
  static constexpr char kNull[kIdSize] = {};
  return std::memcmp(id, kNull, kIdSize) == 0;
}

// Names the segment in each SST that is built, and calls the Rust side when it is probed. RocksDB's
// own filter blocks are read by RocksDB's own reader.
class SegmentPolicy : public FilterPolicy {
 public:
  SegmentPolicy(std::shared_ptr<const FilterPolicy> inner, CfFilterPtr cf_filter,
                bool has_extractor)
      : inner_(std::move(inner)),
        cf_filter_(std::move(cf_filter)),
        has_extractor_(has_extractor) {}

  // The names are as without the plugin, so that the OPTIONS file loads anywhere.
  const char* Name() const override { return inner_ ? inner_->Name() : BuiltinName(); }
  std::string GetId() const override { return inner_ ? inner_->GetId() : BuiltinName(); }
  bool IsInstanceOf(const std::string&) const override { return false; }
  const Customizable* Inner() const override { return inner_.get(); }
  const char* CompatibilityName() const override { return BuiltinName(); }

  FilterBitsBuilder* GetBuilderWithContext(const FilterBuildingContext& context) const override {
    std::unique_ptr<FilterBitsBuilder> own(
        inner_ ? inner_->GetBuilderWithContext(context) : nullptr);
    // Changed on the running engine. A filter of ours would be built from prefixes and probed with
    // them.
    if (!context.table_options.whole_key_filtering) return own.release();
    bool is_asked_for = own != nullptr;
    FAULT(SstsWithoutOwnFilterUnmarked, is_asked_for = true);
    auto capture = std::make_shared<TableCapture>(cf_filter_, OriginOf(context.reason),
                                                  IsInLastLevel(context), is_asked_for,
                                                  context.table_options.partition_filters);
    // No segment filter of ours is configured: RocksDB builds its own.
    if (!capture->wanted()) return own.release();
    pending_capture = std::move(capture);
    return new CapturingBuilder(pending_capture);
  }

  // Without a policy, RocksDB reads no filter. A block without prefixes may be that of an SST whose
  // extractor was set on the running engine and gave no key a prefix.
  FilterBitsReader* GetFilterBitsReader(const Slice& contents) const override {
    std::unique_ptr<FilterBitsReader> reader(ReaderOf(contents));
    if (inner_ != nullptr && !IsSegmentBlock(contents) && !EndsWith(contents, kUnaskedTrailer)) {
      return reader.release();
    }
    return new ExactReadsReader(std::move(reader), has_extractor_);
  }

 private:
  static const char* BuiltinName() { return ReadOnlyBuiltinFilterPolicy::kClassName(); }

  FilterBitsReader* ReaderOf(const Slice& contents) const {
    const bool has_prefixes = IsPrefixBlock(contents);
    if (!has_prefixes && !IsSegmentBlock(contents)) {
      return BuiltinFilterPolicy::GetBuiltinFilterBitsReader(contents);
    }
    Slice name;
    uint32_t version = 0;
    if (has_prefixes) {
      name = Slice(contents.data() + kIdSize, contents.size() - kBlockSize - sizeof(version));
      version = DecodeFixed32(name.data() + name.size());
    }
    rust::Segment* segment = nullptr;
    rust::PrefixId* extractor = nullptr;
    if (!IsNull(contents.data())) {
      const auto* id = reinterpret_cast<const uint8_t*>(contents.data());
      segment = cf_filter_->hooks()->segment_open(cf_filter_->raw(), id, name, version, &extractor);
    }
    return new SegmentReader(cf_filter_, segment, extractor);
  }

  const std::shared_ptr<const FilterPolicy> inner_;
  const CfFilterPtr cf_filter_;
  // At the open.
  const bool has_extractor_;
};

class Collector : public TablePropertiesCollector {
 public:
  explicit Collector(std::shared_ptr<TableCapture> capture) : capture_(std::move(capture)) {}

  const char* Name() const override { return "lsm-sieve"; }
  Status AddUserKey(const Slice& stored, const Slice&, EntryType type, SequenceNumber,
                    uint64_t) override {
    if (type != kEntryRangeDeletion) {
      ++entries_;
      Slice key = WithoutTimestamp(stored, capture_->cf_filter()->timestamp_size());
      FAULT(TimestampAddedToSegmentKey, key = stored);
      if (capture_->collects()) capture_->Add(key);
    }
    return Status::OK();
  }
  Status Finish(UserCollectedProperties* properties) override {
    uint8_t id[kIdSize];
    if (capture_->Finish(entries_) && capture_->Id(id)) {
      properties->insert({kSegmentIdProperty, std::string(reinterpret_cast<char*>(id), kIdSize)});
    }
    return Status::OK();
  }
  UserCollectedProperties GetReadableProperties() const override { return {}; }

 private:
  const std::shared_ptr<TableCapture> capture_;
  uint64_t entries_ = 0;
};

class CollectorFactory : public TablePropertiesCollectorFactory {
 public:
  explicit CollectorFactory(CfFilterPtr cf_filter) : cf_filter_(std::move(cf_filter)) {}

  const char* Name() const override { return "lsm-sieve"; }
  TablePropertiesCollector* CreateTablePropertiesCollector(Context) override {
    std::shared_ptr<TableCapture> begun = std::move(pending_capture);
    pending_capture.reset();
    if (begun != nullptr && begun->cf_filter() == cf_filter_.get()) {
      return new Collector(std::move(begun));
    }
    auto capture =
        std::make_shared<TableCapture>(cf_filter_, TableOrigin::kUnknown, false, false, true);
    return new Collector(std::move(capture));
  }

 private:
  const CfFilterPtr cf_filter_;
};

}  // namespace

std::shared_ptr<TablePropertiesCollectorFactory> CollectSegmentIds(CfFilterPtr cf_filter) {
  return std::make_shared<CollectorFactory>(std::move(cf_filter));
}

std::shared_ptr<const FilterPolicy> UseSegmentFilters(std::shared_ptr<const FilterPolicy> inner,
                                                      CfFilterPtr cf_filter, bool has_extractor) {
  return std::make_shared<SegmentPolicy>(std::move(inner), std::move(cf_filter), has_extractor);
}

void ExtractorChanges() { has_extractor_changed.store(true, std::memory_order_release); }

}  // namespace lsm_sieve
