// Histories of concurrent transactions, with filters in front, against a serial model.
//
// A register is a version, which only grows, and a datum, which also goes away:
//
//   "v 000007" -> "12"     the register's 12th write; absent before its first
//   "d 000007" -> "12"     what that write put; absent if it deleted
//
// A transaction reads both for update, and may write version v+1. What is committed is exact if
//
//   1. the committed writes of each register are 1, 2, .. n: a write after a stale answer, or after none
//      that was watched, is a version that comes twice;
//   2. each committed read of version v found the datum that write v left: 0 versions and no datum are
//      what an absent answer says;
//   3. there is a serial order. The versions order writers and readers of each register, and a
//      transaction that began after another had been committed follows it; the order exists if this
//      graph has no cycle. So no key is absent after the commit that created it;
//   4. the end of the history is the last version of each register.
//
// Readers of a snapshot are transactions too, at the moment at which the snapshot was made. Ingested
// files are as well: they create registers, to which others write only later.
//
//   histories FOLDER      an empty folder; LSM_SIEVE_TRANSACTIONS is how many, LSM_SIEVE_SEED the seed
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "rocksdb/sst_file_writer.h"
#include "rocksdb/wide_columns.h"
#include "support.hpp"

namespace {

using rocksdb::ColumnFamilyDescriptor;
using rocksdb::ColumnFamilyHandle;
using rocksdb::PinnableSlice;
using rocksdb::ReadOptions;
using rocksdb::Slice;
using rocksdb::Status;
using rocksdb::Transaction;

constexpr int kThreads = 4;
// Registers that live as long as the history, those that the transactions of each round create, and those
// that each epoch ingests for the next.
constexpr uint32_t kOld = 12, kFresh = 10, kIngested = 6;
constexpr uint32_t kRound = 40, kEpoch = 400;

// What a transaction did to a register.
struct Access {
  uint32_t reg;
  uint32_t version, datum;
  bool writes = false, leaves_datum = false;
};

struct Node {
  uint64_t begin, end;
  std::vector<Access> accesses;
};

// ---------------------------------------------------------------- the serial model

class Model {
 public:
  // `last` is what each register holds in the end. Returns the number of differences.
  static size_t Differences(const std::vector<Node>& nodes,
                            const std::map<uint32_t, std::pair<uint32_t, uint32_t>>& last) {
    Model model;
    return model.Check(nodes, last);
  }

 private:
  struct Write {
    uint32_t version, node;
    bool leaves_datum;
  };

  size_t Check(const std::vector<Node>& nodes,
               const std::map<uint32_t, std::pair<uint32_t, uint32_t>>& last) {
    std::map<uint32_t, std::vector<Write>> writes;
    for (uint32_t i = 0; i < nodes.size(); ++i) {
      for (const Access& access : nodes[i].accesses) {
        auto& of_register = writes[access.reg];
        if (access.writes) of_register.push_back({access.version + 1, i, access.leaves_datum});
      }
    }
    for (auto& [reg, of_register] : writes) {
      std::sort(of_register.begin(), of_register.end(),
                [](const Write& a, const Write& b) { return a.version < b.version; });
      for (uint32_t i = 0; i < of_register.size(); ++i) {
        if (of_register[i].version != i + 1) Differs("version", reg, of_register[i].version);
      }
      const auto found = last.find(reg);
      const uint32_t n = of_register.size();
      const uint32_t datum = n > 0 && of_register[n - 1].leaves_datum ? n : 0;
      if (found == last.end() || found->second != std::pair(n, datum)) Differs("end", reg, n);
    }
    if (differences_ > 0) return differences_;
    for (uint32_t i = 0; i < nodes.size(); ++i) {
      for (const Access& access : nodes[i].accesses) {
        const auto& of_register = writes[access.reg];
        const uint32_t v = access.version;
        if (v > of_register.size()) {
          Differs("a version that nobody committed", access.reg, v);
          continue;
        }
        const bool has_datum = v > 0 && of_register[v - 1].leaves_datum;
        if (access.datum != (has_datum ? v : 0)) Differs("datum", access.reg, v);
        if (v > 0) edges_.emplace_back(of_register[v - 1].node, i);
        if (v < of_register.size() && of_register[v].node != i) {
          edges_.emplace_back(i, of_register[v].node);
        }
      }
    }
    OrderByTime(nodes);
    return differences_ + InCycles();
  }

  // The ends in their order are nodes too, so that each beginning needs one edge.
  void OrderByTime(const std::vector<Node>& nodes) {
    std::vector<std::pair<uint64_t, uint32_t>> ends;
    for (uint32_t i = 0; i < nodes.size(); ++i) ends.emplace_back(nodes[i].end, i);
    std::sort(ends.begin(), ends.end());
    const uint32_t first = nodes.size();
    count_ = first + ends.size();
    for (uint32_t at = 0; at < ends.size(); ++at) {
      edges_.emplace_back(ends[at].second, first + at);
      if (at > 0) edges_.emplace_back(first + at - 1, first + at);
    }
    for (uint32_t i = 0; i < nodes.size(); ++i) {
      const auto before = std::lower_bound(ends.begin(), ends.end(), std::pair(nodes[i].begin, 0u));
      if (before != ends.begin()) edges_.emplace_back(first + (before - ends.begin()) - 1, i);
    }
  }

  // How many nodes no order can hold.
  size_t InCycles() {
    std::sort(edges_.begin(), edges_.end());
    std::vector<uint32_t> incoming(count_), ready;
    for (const auto& [from, to] : edges_) ++incoming[to];
    for (uint32_t i = 0; i < count_; ++i) {
      if (incoming[i] == 0) ready.push_back(i);
    }
    size_t ordered = 0;
    for (; ordered < ready.size(); ++ordered) {
      const std::pair start(ready[ordered], 0u);
      for (auto edge = std::lower_bound(edges_.begin(), edges_.end(), start);
           edge != edges_.end() && edge->first == start.first; ++edge) {
        if (--incoming[edge->second] == 0) ready.push_back(edge->second);
      }
    }
    return count_ - ordered;
  }

  void Differs(const char* what, uint32_t reg, uint32_t version) {
    if (++differences_ <= 5) std::cerr << what << ": " << reg << " " << version << std::endl;
  }

  std::vector<std::pair<uint32_t, uint32_t>> edges_;
  uint32_t count_ = 0;
  size_t differences_ = 0;
};

// ---------------------------------------------------------------- the databases

enum class Kind { kLocks, kParallel, kSerial };

class Database {
 public:
  Database(Kind kind, const std::string& folder) : kind_(kind), folder_(folder) {
    ExactSettings settings;
    rocksdb::Options options;
    options.create_if_missing = true;
    options.create_missing_column_families = true;
    options.write_buffer_size = 64 << 10;
    options.level0_file_num_compaction_trigger = 3;
    const std::vector<ColumnFamilyDescriptor> cfs{{"default", options}, {"data", options}};
    if (kind == Kind::kLocks) {
      EXPECT(lsm_sieve::OpenTransactionDB(options, {}, settings.raw, folder, cfs, &cfs_, &locks_).ok());
      db_.reset(locks_);
    } else {
      rocksdb::OptimisticTransactionDBOptions of_all;
      of_all.validate_policy = kind == Kind::kSerial
                                   ? rocksdb::OccValidationPolicy::kValidateSerial
                                   : rocksdb::OccValidationPolicy::kValidateParallel;
      EXPECT(lsm_sieve::OpenOptimisticTransactionDB(options, of_all, settings.raw, folder, cfs, &cfs_,
                                                    &optimistic_)
                 .ok());
      db_.reset(optimistic_);
    }
  }
  ~Database() {
    for (ColumnFamilyHandle* cf : cfs_) delete cf;
  }

  Transaction* Begin(bool in_snapshot, bool detects, Transaction* old) {
    if (kind_ != Kind::kLocks) {
      rocksdb::OptimisticTransactionOptions options;
      options.set_snapshot = in_snapshot;
      return optimistic_->BeginTransaction({}, options, old);
    }
    rocksdb::TransactionOptions options;
    options.set_snapshot = in_snapshot;
    options.deadlock_detect = detects;
    options.lock_timeout = 2;
    return locks_->BeginTransaction({}, options, old);
  }

  // Creates registers, each at version 1 with a datum.
  void Ingest(uint32_t first, uint32_t n) {
    for (size_t cf = 0; cf < cfs_.size(); ++cf) {
      const std::string file = folder_ + "/ingested " + std::to_string(first) + std::to_string(cf);
      rocksdb::SstFileWriter writer(rocksdb::EnvOptions(), rocksdb::Options(), cfs_[cf]);
      EXPECT(writer.Open(file).ok());
      for (uint32_t reg = first; reg < first + n; ++reg) {
        EXPECT(writer.Put(Key(cf, reg), "1").ok());
      }
      EXPECT(writer.Finish().ok());
      files_[cf].column_family = cfs_[cf];
      files_[cf].external_files = {file};
      files_[cf].options.move_files = true;
    }
    EXPECT(db_->IngestExternalFiles({files_[0], files_[1]}).ok());
  }

  // What comes beside transactions.
  void Maintain(std::mt19937_64& random) {
    char* error = nullptr;
    switch (random() % 4) {
      case 0:
        EXPECT(db_->Flush({}, cfs_).ok());
        break;
      case 1:
        EXPECT(db_->CompactRange({}, cfs_[random() % 2], nullptr, nullptr).ok());
        break;
      default:
        lsm_sieve_consolidate(lsm_sieve::Of(db_.get()), &error);
        // An ingestion may end one.
        EXPECT(error == nullptr || std::strstr(error, "external writes happened meanwhile") != nullptr);
        rocksdb_free(error);
    }
  }

  static std::string Key(size_t cf, uint32_t reg) {
    char text[16];
    std::snprintf(text, sizeof text, "%c %06u", "vd"[cf], reg);
    return text;
  }

  rocksdb::DB* db() const { return db_.get(); }
  ColumnFamilyHandle* cf(size_t i) const { return cfs_[i]; }

 private:
  const Kind kind_;
  const std::string folder_;
  std::vector<ColumnFamilyHandle*> cfs_;
  rocksdb::IngestExternalFileArg files_[2];
  rocksdb::TransactionDB* locks_ = nullptr;
  rocksdb::OptimisticTransactionDB* optimistic_ = nullptr;
  std::unique_ptr<rocksdb::DB> db_;
};

// ---------------------------------------------------------------- reads

uint32_t Number(const Status& status, const Slice& text) {
  EXPECT(status.ok() || status.IsNotFound());
  return status.ok() ? std::stoul(text.ToString()) : 0;
}

uint32_t Number(const Status& status, const rocksdb::PinnableWideColumns& columns) {
  return Number(status, status.ok() ? columns.columns()[0].value() : Slice());
}

using Keys = std::vector<std::string>;
using Numbers = std::vector<uint32_t>;

// The numbers at these keys, 0 if absent, by one of the ways to read them.
Numbers Read(Transaction* transaction, const ReadOptions& options, ColumnFamilyHandle* cf,
             const Keys& keys, unsigned way) {
  const size_t n = keys.size();
  const std::vector<Slice> slices(keys.begin(), keys.end());
  std::vector<Status> statuses(n);
  Numbers numbers;
  const auto add = [&](const auto& values) {
    for (size_t i = 0; i < n; ++i) numbers.push_back(Number(statuses[i], values[i]));
  };
  switch (way % 6) {
    case 0: {
      std::vector<PinnableSlice> values(n);
      transaction->MultiGet(options, cf, n, slices.data(), values.data(), statuses.data());
      add(values);
      break;
    }
    case 1: {
      std::vector<rocksdb::PinnableWideColumns> values(n);
      transaction->MultiGetEntity(options, cf, n, slices.data(), values.data(), statuses.data());
      add(values);
      break;
    }
    case 2: {
      std::vector<std::string> values;
      statuses = transaction->MultiGet(options, std::vector<ColumnFamilyHandle*>(n, cf), slices, &values);
      add(values);
      break;
    }
    case 3: {
      std::vector<rocksdb::PinnableWideColumns> values(n);
      for (size_t i = 0; i < n; ++i) {
        statuses[i] = transaction->GetEntity(options, cf, slices[i], &values[i]);
      }
      add(values);
      break;
    }
    case 4: {
      const std::unique_ptr<rocksdb::Iterator> entries(transaction->GetIterator(options, cf));
      for (size_t i = 0; i < n; ++i) {
        entries->Seek(slices[i]);
        const bool found = entries->Valid() && entries->key() == slices[i];
        EXPECT(entries->status().ok());
        numbers.push_back(found ? Number(Status::OK(), entries->value()) : 0);
      }
      break;
    }
    default: {
      std::vector<std::string> values(n);
      for (size_t i = 0; i < n; ++i) {
        statuses[i] = transaction->Get(options, cf, slices[i], &values[i]);
      }
      add(values);
    }
  }
  return numbers;
}

// The number at a key, which is locked or watched from here on.
Status ReadForUpdate(Transaction* transaction, ColumnFamilyHandle* cf, const Slice& key,
                     bool exclusive, unsigned way, uint32_t* number) {
  Status status;
  std::string text;
  PinnableSlice pinned;
  rocksdb::PinnableWideColumns columns;
  std::vector<std::string> texts;
  switch (way % 4) {
    case 0:
      status = transaction->GetForUpdate({}, cf, key, &text, exclusive);
      break;
    case 1:
      status = transaction->GetForUpdate({}, cf, key, &pinned, exclusive);
      if (status.ok()) text = pinned.ToString();
      break;
    case 2:
      status = transaction->GetEntityForUpdate({}, cf, key, &columns, exclusive);
      if (status.ok()) text = columns.columns()[0].value().ToString();
      break;
    default:
      status = transaction->MultiGetForUpdate({}, {cf}, {key}, &texts)[0];
      if (status.ok()) text = texts[0];
  }
  if (!status.ok() && !status.IsNotFound()) return status;
  *number = Number(status, text);
  return Status::OK();
}

// ---------------------------------------------------------------- a history

class History {
 public:
  History(Kind kind, const std::string& folder, uint64_t transactions, uint64_t seed)
      : database_(kind, folder), transactions_(transactions), seed_(seed), ingested_(Epochs() + 1) {}

  // Returns the number of differences.
  size_t Run(const char* name) {
    std::vector<std::thread> threads;
    for (int i = 0; i < kThreads; ++i) threads.emplace_back([this, i] { Work(i); });
    std::thread beside([this] {
      std::mt19937_64 random(seed_ + 1000);
      while (!is_done_) {
        database_.Maintain(random);
        std::this_thread::sleep_for(std::chrono::milliseconds(random() % 20));
      }
    });
    for (std::thread& thread : threads) thread.join();
    is_done_ = true;
    beside.join();
    std::map<uint32_t, std::pair<uint32_t, uint32_t>> last;
    for (uint32_t reg = 0; reg < Ingested(Epochs() + 1); ++reg) {
      uint32_t numbers[2];
      for (size_t cf = 0; cf < 2; ++cf) {
        std::string value;
        const Status status =
            database_.db()->Get({}, database_.cf(cf), Database::Key(cf, reg), &value);
        numbers[cf] = Number(status, value);
      }
      last[reg] = {numbers[0], numbers[1]};
    }
    const lsm_sieve_stats_t stats = Stats(database_.db());
    const size_t differences = Model::Differences(nodes_, last);
    std::cerr << name << ": " << committed_ << " committed, " << nodes_.size() - committed_
              << " snapshots and ingestions, " << refused_ << " refused, " << undone_
              << " rolled back; absent by filters: " << stats.absent << ", by the engine: "
              << stats.false_positives << "; differences: " << differences + torn_ << std::endl;
    EXPECT(stats.false_negatives == 0 && stats.absent > transactions_ / 10 && refused_ > 0);
    return differences + torn_;
  }

 private:
  uint32_t Epochs() const { return transactions_ / kEpoch + 1; }
  // The first register of a round, and of an epoch.
  static uint32_t Fresh(uint32_t round) { return kOld + round * kFresh; }
  uint32_t Ingested(uint32_t epoch) const {
    return Fresh(transactions_ / kRound + 2) + epoch * kIngested;
  }

  void Work(int thread) {
    std::mt19937_64 random(seed_ * kThreads + thread);
    std::unique_ptr<Transaction> transaction;
    std::vector<Node> nodes;
    uint64_t committed = 0;
    for (uint64_t ticket; (ticket = tickets_++) < transactions_;) {
      if (ticket % kEpoch == 0) nodes.push_back(Ingest(ticket / kEpoch + 1));
      if (random() % 4 == 0) {
        nodes.push_back(ReadSnapshot(ticket, random, &transaction));
      } else {
        Node node;
        if (Update(ticket, random, &transaction, &node)) {
          nodes.push_back(std::move(node));
          ++committed;
        }
      }
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    committed_ += committed;
    nodes_.insert(nodes_.end(), std::make_move_iterator(nodes.begin()),
                  std::make_move_iterator(nodes.end()));
  }

  Node Ingest(uint32_t epoch) {
    Node node{clock_++, 0, {}};
    const uint32_t first = Ingested(epoch);
    {
      const std::lock_guard<std::mutex> lock(ingesting_);
      database_.Ingest(first, kIngested);
    }
    node.end = clock_++;
    for (uint32_t i = 0; i < kIngested; ++i) node.accesses.push_back({first + i, 0, 0, true, true});
    ingested_[epoch] = true;
    return node;
  }

  // The beginning and the end are those of the snapshot: what comes later must not be seen.
  Node ReadSnapshot(uint64_t ticket, std::mt19937_64& random, std::unique_ptr<Transaction>* to) {
    to->reset(database_.Begin(false, false, to->release()));
    Node node{clock_++, 0, {}};
    (*to)->SetSnapshot();
    node.end = clock_++;
    if (random() % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(random() % 30));
    ReadOptions options;
    options.snapshot = (*to)->GetSnapshot();
    std::vector<uint32_t> registers(1 + random() % 4);
    for (uint32_t& reg : registers) {
      const unsigned draw = random() % 6;
      reg = draw == 0  ? random() % kOld
            : draw < 3 ? Ingested(ticket / kEpoch + random() % 2) + random() % kIngested
                       : Fresh(ticket / kRound + random() % 2) + random() % kFresh;
    }
    std::sort(registers.begin(), registers.end());
    registers.erase(std::unique(registers.begin(), registers.end()), registers.end());
    const auto numbers = ReadAll(to->get(), options, registers, random);
    for (size_t i = 0; i < registers.size(); ++i) {
      node.accesses.push_back({registers[i], numbers[0][i], numbers[1][i]});
    }
    EXPECT((*to)->Rollback().ok());
    return node;
  }

  std::vector<Numbers> ReadAll(Transaction* transaction, const ReadOptions& options,
                               const std::vector<uint32_t>& registers, std::mt19937_64& random) {
    std::vector<Numbers> numbers;
    for (size_t cf = 0; cf < 2; ++cf) {
      Keys keys;
      for (const uint32_t reg : registers) keys.push_back(Database::Key(cf, reg));
      numbers.push_back(Read(transaction, options, database_.cf(cf), keys, random()));
    }
    return numbers;
  }

  // Whether the transaction was committed; `node` is what it did then.
  bool Update(uint64_t ticket, std::mt19937_64& random, std::unique_ptr<Transaction>* to,
              Node* node) {
    node->begin = clock_++;
    to->reset(database_.Begin(random() % 4 == 0, random() % 2 == 0, to->release()));
    Transaction* const transaction = to->get();
    std::vector<Access>& accesses = node->accesses;
    bool is_torn = false;
    const unsigned steps = 1 + random() % 4;
    for (unsigned step = 0; step < steps; ++step) {
      const std::vector<Access> before = accesses;
      const bool saves = random() % 5 == 0;
      if (saves) transaction->SetSavePoint();
      if (!Touch(ticket, random, transaction, &accesses)) {
        ++refused_;
        EXPECT(transaction->Rollback().ok());
        return false;
      }
      if (saves && random() % 2 == 0) {
        EXPECT(transaction->RollbackToSavePoint().ok());
        accesses = before;
      }
      if (random() % 3 == 0) is_torn |= !IsReadAgain(transaction, accesses, random);
    }
    if (random() % 10 == 0) {
      ++undone_;
      EXPECT(transaction->Rollback().ok());
      return false;
    }
    const Status status = transaction->Commit();
    node->end = clock_++;
    if (status.ok()) {
      torn_ += is_torn;
      return true;
    }
    EXPECT(status.IsBusy() || status.IsTryAgain());
    ++refused_;
    EXPECT(transaction->Rollback().ok());
    return false;
  }

  // Reads a register for update, and perhaps writes to it. False if that was refused.
  bool Touch(uint64_t ticket, std::mt19937_64& random, Transaction* transaction,
             std::vector<Access>* accesses) {
    const unsigned draw = random() % 10;
    const uint32_t epoch = ticket / kEpoch;
    uint32_t reg = random() % kOld;
    if (draw < 2 && ingested_[epoch]) reg = Ingested(epoch) + random() % kIngested;
    if (draw >= 4) reg = Fresh(ticket / kRound) + random() % kFresh;
    auto access = std::find_if(accesses->begin(), accesses->end(),
                               [&](const Access& access) { return access.reg == reg; });
    // It reads its own write then.
    if (access != accesses->end() && access->writes) return true;
    const bool writes = random() % 3 != 0;
    const bool exclusive = writes || random() % 2 == 0;
    uint32_t numbers[2];
    const size_t first = random() % 2;
    for (const size_t cf : {first, 1 - first}) {
      const Status status = ReadForUpdate(transaction, database_.cf(cf), Database::Key(cf, reg),
                                          exclusive, random(), &numbers[cf]);
      EXPECT(status.ok() || status.IsTimedOut() || status.IsBusy());
      if (!status.ok()) return false;
    }
    if (access == accesses->end()) {
      access = accesses->insert(access, {reg, numbers[0], numbers[1]});
    }
    if (!writes) return true;
    access->writes = true;
    access->leaves_datum = random() % 3 != 0;
    const std::string version = std::to_string(access->version + 1);
    Status status = transaction->Put(database_.cf(0), Database::Key(0, reg), version);
    if (status.ok()) {
      const std::string key = Database::Key(1, reg);
      status = access->leaves_datum ? transaction->Put(database_.cf(1), key, version)
                                    : transaction->Delete(database_.cf(1), key);
    }
    EXPECT(status.ok() || status.IsTimedOut() || status.IsBusy());
    return status.ok();
  }

  // Whether the transaction reads what it read and wrote before. One that is optimistic may not, but is
  // not committed then.
  bool IsReadAgain(Transaction* transaction, const std::vector<Access>& accesses,
                   std::mt19937_64& random) {
    std::vector<uint32_t> registers;
    for (const Access& access : accesses) registers.push_back(access.reg);
    const auto numbers = ReadAll(transaction, {}, registers, random);
    for (size_t i = 0; i < accesses.size(); ++i) {
      const Access& access = accesses[i];
      const uint32_t version = access.version + access.writes;
      const uint32_t datum = access.writes ? (access.leaves_datum ? version : 0) : access.datum;
      if (numbers[0][i] != version || numbers[1][i] != datum) return false;
    }
    return true;
  }

  Database database_;
  const uint64_t transactions_, seed_;
  std::atomic<uint64_t> tickets_{0}, clock_{0}, refused_{0}, undone_{0}, torn_{0};
  std::vector<std::atomic<bool>> ingested_;
  std::atomic<bool> is_done_{false};
  std::mutex mutex_, ingesting_;
  uint64_t committed_ = 0;
  std::vector<Node> nodes_;
};

uint64_t Given(const char* variable, uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const uint64_t transactions = Given("LSM_SIEVE_TRANSACTIONS", 30'000) / 3;
  const uint64_t seed = Given("LSM_SIEVE_SEED", 1);
  size_t differences = 0;
  for (const auto& [kind, name] : {std::pair(Kind::kLocks, "locks"),
                                   std::pair(Kind::kParallel, "optimistic, validated in parallel"),
                                   std::pair(Kind::kSerial, "optimistic, validated serially")}) {
    const std::string folder = std::string(argv[1]) + "/" + name;
    differences += History(kind, folder, transactions, seed).Run(name);
    std::filesystem::remove_all(folder);
  }
  EXPECT(differences == 0);
  std::cout << "all held\n";
}
